"""Recall: rank chunks by several sources, fuse by reciprocal rank, keep what fits the budget.

Reciprocal rank fusion: Cormack, Clarke, Buettcher, SIGIR 2009. A selection is sticky: while one types at one place
the same chunks stay attached in the same order, so that their KV and the document's stay valid.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from miton_lsp.chunking import Chunk
from miton_service.context.query import STOP_NAMES, Query, query_at
from miton_service.context.sources import sources
from miton_service.context.window import Cursor, Window, window_at
from miton_service.workspace.identifiers import identifiers
from miton_service.workspace.workspace import Workspace

RRF_K = 8.0
TOKENS_PER_CHUNK = 170  # of the budget: a dozen chunks at the default 2,048, more only for who asks for more
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
    """What a request attaches: `ranked` best first; prefix and suffix are LF text around the cursor."""

    ranked: tuple[RankedChunk, ...]
    recall_ms: float
    prefix: str = ""
    suffix: str = ""
    crlf: bool = False


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
    window = window_at(text, cursor)
    query = query_at(path, window)
    with workspace.lock:
        workspace.recent[path] = time.time()
        ranked = rank(workspace, query)
        chosen = _within_budget(workspace, ranked, budget_tokens)
        chosen = _sticky(workspace, path, window, chosen, budget_tokens)
    elapsed = (time.perf_counter() - started) * 1e3
    return Selection(tuple(chosen), elapsed, window.prefix, window.suffix, crlf)


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
        ranked = rank(workspace, Query(names, paths_mentioned=mentioned))
        chosen = _within_budget(workspace, ranked, budget_tokens)
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
            if key in seen or _in_window(chunk, query):
                continue
            seen.add(key)
            chunks[key] = chunk
            scores[key] = scores.get(key, 0.0) + weight / (RRF_K + len(seen))
            if reason not in (why := reasons.setdefault(key, [])):  # two sources may say the same
                why.append(reason)
    order = sorted(scores, key=lambda key: (-scores[key], key))
    return [RankedChunk(chunks[key], scores[key], tuple(reasons[key]), 0) for key in order]


def _in_window(chunk: Chunk, query: Query) -> bool:
    return (
        chunk.path == query.path
        and chunk.start_line <= query.last_line
        and chunk.end_line >= query.first_line
    )


def _within_budget(workspace: Workspace, ranked: list[RankedChunk], budget: int) -> list[RankedChunk]:
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
    workspace: Workspace, path: str, window: Window, chosen: list[RankedChunk], budget: int
) -> list[RankedChunk]:
    """The previous selection for this place, if it still holds what matters most and none of it changed."""
    before = workspace.selections.get(path)
    workspace.selections[path] = (window.first_line, budget, chosen)
    if before is None or before[:2] != (window.first_line, budget):
        return chosen
    held = {item.chunk.content_hash for item in before[2]}
    current = {
        chunk.content_hash
        for item in before[2]
        if (state := workspace.files.get(item.chunk.path)) is not None
        for chunk in state.chunks
    }
    top = {item.chunk.content_hash for item in chosen[:STICKY_TOP]}
    if (
        not top <= held
        or not held <= current
        or any(_overlaps(item.chunk, path, window) for item in before[2])
    ):
        return chosen
    workspace.selections[path] = before
    return before[2]


def _overlaps(chunk: Chunk, path: str, window: Window) -> bool:
    return chunk.path == path and chunk.start_line <= window.last_line and chunk.end_line >= window.first_line
