"""Recall: rank chunks by several sources, fuse by reciprocal rank, keep what fits the budget.

Reciprocal rank fusion: Cormack, Clarke, Buettcher, SIGIR 2009. A selection is sticky: while one types at one place
the same chunks stay attached in the same order, so that their KV and the document's stay valid.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from miton_lsp.chunking import Chunk
from miton_service.context.query import STOP_NAMES, Query, query_at
from miton_service.context.sources import sources
from miton_service.context.window import Cursor, Window, window_at
from miton_service.workspace.identifiers import identifiers
from miton_service.workspace.workspace import Workspace

RRF_K = 8.0
TOKENS_PER_CHUNK = 170  # of the budget: a dozen chunks at the default 2,048, more only for who asks for more
ABOVE_CHARACTERS = 2200  # just above the live window, attached from memory in place of a longer window
NO_WINDOW = Window("", "", 0, -1)
CERTAIN_SCORE = 1.0  # of what is attached without being ranked; no fused score reaches it
NEARLY_EQUAL = 0.9
STICKY_TOP = 3  # while these are attached already, a selection stays


@dataclass(frozen=True, slots=True)
class RankedChunk:
    """A recalled chunk with its fused score, its tokens in memory, and why it was recalled."""

    chunk: Chunk
    score: float
    reasons: tuple[str, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class Selection:
    """What a request attaches: `ranked` best first; `window` is the LF text around the cursor."""

    ranked: tuple[RankedChunk, ...]
    recall_ms: float
    window: Window = NO_WINDOW
    crlf: bool = False


@dataclass(frozen=True, slots=True)
class Held:
    """The last selection of a file, to stay with while one types at a place. `opening` is the window's first line."""

    first_line: int
    opening: str
    budget: int
    recalled: list[RankedChunk]


def select(
    workspace: Workspace, path: str, cursor: Cursor, buffer: str | None, budget_tokens: int
) -> Selection:
    """Chunks for a completion at a cursor. `buffer` is the file's unsaved text, else the open document or disk.

    Raises `WorkspaceError` for a file that is not used or a place that is not in it.
    """
    started = time.perf_counter()
    if buffer is not None:
        workspace.lend_buffer(path, buffer)
    text, crlf = workspace.text_of(path)
    with workspace.lock:
        workspace.recent[path] = time.time()
        window = live_window(workspace, path, text, cursor)
        query = query_at(path, window)
        certain = _once([*just_above(workspace, path, window), *pinned(workspace, query)])
        chosen = within_budget(workspace, _once([*certain, *rank(workspace, query)]), budget_tokens)
        certain = [item for item in chosen if item.score >= CERTAIN_SCORE]
        recalled = _sticky(workspace, path, window, text, chosen[len(certain) :], budget_tokens)
        room = budget_tokens - sum(item.tokens for item in certain)
        if sum(item.tokens for item in recalled) <= room:
            chosen = [*certain, *recalled]
    elapsed = (time.perf_counter() - started) * 1e3
    return Selection(tuple(chosen), elapsed, window, crlf)


def live_window(workspace: Workspace, path: str, text: str, cursor: Cursor) -> Window:
    """The window at a cursor in `text`, the file's newest. The caller holds the workspace's lock.

    Raises `WorkspaceError` for a place that is not in the text.
    """
    state, held = workspace.files.get(path), workspace.selections.get(path)
    starts = [chunk.start_line for chunk in state.chunks] if state is not None and state.text == text else []
    kept = held.first_line if held is not None and _line(text, held.first_line) == held.opening else None
    return window_at(text, cursor, starts, kept)


def just_above(workspace: Workspace, path: str, window: Window) -> list[RankedChunk]:
    """The file's own chunks just above the live window, nearest first. The caller holds the workspace's lock."""
    state = workspace.files.get(path)
    found: list[RankedChunk] = []
    room = ABOVE_CHARACTERS
    for chunk in reversed(state.chunks if state is not None else ()):
        if chunk.end_line >= window.first_line or not chunk.text.strip() or _is_excluded(workspace, chunk):
            continue
        room -= len(chunk.text)
        if room < 0:
            break
        found.append(RankedChunk(chunk, CERTAIN_SCORE, ("just above the text around the cursor",), 0))
    return found


def select_for_question(workspace: Workspace, question: str, budget_tokens: int) -> Selection:
    """Chunks for a question in words: names it mentions, files it names."""
    started = time.perf_counter()
    names: dict[str, float] = {}
    for name in identifiers(question):
        if len(name) > 2 and name.lower() not in STOP_NAMES:
            is_code = "_" in name or any(letter.isupper() for letter in name[1:]) or f"`{name}" in question
            names[name] = 2.0 if is_code else 1.0
    with workspace.lock:
        mentioned = frozenset(
            path
            for path in workspace.files
            if path in question or path.rsplit("/", 1)[-1] in question.split()
        )
        query = Query(names, paths_mentioned=mentioned)
        ranked = _once([*pinned(workspace, query), *rank(workspace, query)])
        chosen = within_budget(workspace, ranked, budget_tokens)
    return Selection(tuple(chosen), (time.perf_counter() - started) * 1e3)


def rank(workspace: Workspace, query: Query) -> list[RankedChunk]:
    """All candidates, best first. The caller holds the workspace's lock."""
    scores: dict[tuple[str, str, int], float] = {}
    reasons: dict[tuple[str, str, int], list[str]] = {}
    chunks: dict[tuple[str, str, int], Chunk] = {}
    for find, weight in sources().values():
        seen: set[tuple[str, str, int]] = set()
        for chunk, reason in find(workspace, query):
            key = (chunk.path, chunk.content_hash, chunk.start_byte)
            if key in seen or _in_window(chunk, query) or _is_excluded(workspace, chunk):
                continue
            seen.add(key)
            chunks[key] = chunk
            scores[key] = scores.get(key, 0.0) + weight / (RRF_K + len(seen))
            if reason not in (why := reasons.setdefault(key, [])):  # two sources may say the same
                why.append(reason)
    order = sorted(scores, key=lambda key: (-scores[key], key))
    return [RankedChunk(chunks[key], scores[key], tuple(reasons[key]), 0) for key in order]


def pinned(workspace: Workspace, query: Query) -> list[RankedChunk]:
    """What the user pinned, as it is now, outside the live window. The caller holds the workspace's lock."""
    return [
        RankedChunk(chunk, CERTAIN_SCORE, ("pinned",), 0)
        for path in dict.fromkeys(choice.path for choice in workspace.choices.all() if choice.kind == "pin")
        if (state := workspace.files.get(path)) is not None
        for chunk in state.chunks
        if workspace.choices.kind_of(chunk) == "pin" and not _in_window(chunk, query)
    ]


def _once(items: Sequence[RankedChunk]) -> list[RankedChunk]:
    """Each chunk where it comes first."""
    kept: dict[tuple[str, int], RankedChunk] = {}
    for item in items:
        kept.setdefault((item.chunk.path, item.chunk.start_byte), item)
    return list(kept.values())


def _is_excluded(workspace: Workspace, chunk: Chunk) -> bool:
    return workspace.choices.kind_of(chunk) == "exclude"


def _in_window(chunk: Chunk, query: Query) -> bool:
    return (
        chunk.path == query.path
        and chunk.start_line <= query.last_line
        and chunk.end_line >= query.first_line
    )


def within_budget(workspace: Workspace, ranked: Sequence[RankedChunk], budget: int) -> list[RankedChunk]:
    """The first of `ranked` that fit, with their tokens; of near copies the first. The caller holds the lock."""
    chosen: list[RankedChunk] = []
    texts: list[frozenset[str]] = []
    used = 0
    for item in ranked:
        if len(chosen) >= max(1, budget // TOKENS_PER_CHUNK):
            break
        lines = frozenset(filter(None, map(str.strip, item.chunk.text.split("\n"))))
        tokens = workspace.files[item.chunk.path].tokens_of(item.chunk)
        if not lines or used + tokens > budget or any(_nearly_equal(lines, other) for other in texts):
            continue
        texts.append(lines)
        used += tokens
        chosen.append(RankedChunk(item.chunk, item.score, item.reasons, tokens))
    return chosen


def _nearly_equal(lines: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two chunks say the same: of all their lines, nine in ten are in both."""
    return len(lines & other) >= NEARLY_EQUAL * len(lines | other)


def _sticky(
    workspace: Workspace, path: str, window: Window, text: str, chosen: list[RankedChunk], budget: int
) -> list[RankedChunk]:
    """The previous selection for this place, if it still holds what matters most and none of it changed."""
    before: Held | None = workspace.selections.get(path)
    now = Held(window.first_line, _line(text, window.first_line), budget, chosen)
    workspace.selections[path] = now
    if before is None or (before.first_line, before.budget) != (now.first_line, now.budget):
        return chosen
    held = {item.chunk.content_hash for item in before.recalled}
    current = {
        chunk.content_hash
        for item in before.recalled
        if (state := workspace.files.get(item.chunk.path)) is not None
        for chunk in state.chunks
    }
    top = {item.chunk.content_hash for item in chosen[:STICKY_TOP]}
    if (
        not top <= held
        or not held <= current
        or any(_overlaps(item.chunk, path, window) for item in before.recalled)
    ):
        return chosen
    workspace.selections[path] = replace(now, recalled=before.recalled)
    return before.recalled


def _line(text: str, number: int) -> str:
    """A line of `text`, or "" past its end."""
    lines = text.split("\n", number + 1)
    return lines[number] if number < len(lines) else ""


def _overlaps(chunk: Chunk, path: str, window: Window) -> bool:
    return chunk.path == path and chunk.start_line <= window.last_line and chunk.end_line >= window.first_line
