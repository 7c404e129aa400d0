"""Where recalled chunks come from: each source ranks chunks for a query; a registry names them with a weight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from miton_lsp.chunking import Chunk
from miton_service.context.query import Query
from miton_service.workspace.workspace import Workspace

Ranked = list[tuple[Chunk, str]]
"""Chunks, best first, each with the reason in plain words."""

CANDIDATES = 48


class Source(Protocol):
    """One way to find chunks that matter."""

    def __call__(self, workspace: Workspace, query: Query) -> Ranked:
        """Chunks for the query, best first. Called with the workspace's lock held."""


_SOURCES: dict[str, tuple[Source, float]] = {}


def source(name: str, weight: float) -> Callable[[Source], Source]:
    """Register a source under `name`; `weight` is its share in reciprocal rank fusion."""

    def add(function: Source) -> Source:
        _SOURCES[name] = (function, weight)
        return function

    return add


def sources() -> dict[str, tuple[Source, float]]:
    """All registered sources with their weights."""
    return dict(_SOURCES)


@source("symbols", weight=3.0)
def from_symbols(workspace: Workspace, query: Query) -> Ranked:
    """Definitions of the names near the cursor: imported ones first, then by how sure the meaning is."""
    ranked: Ranked = []
    for candidate in workspace.graph.scored_candidates(query.path, query.names)[: 4 * CANDIDATES]:
        chunk = chunk_with_line(workspace, candidate.path, candidate.definition.start_line)
        if chunk is not None:
            ranked.append((chunk, f"{candidate.definition.symbol}: {candidate.reason}"))
    return ranked


@source("lexical", weight=1.0)
def from_identifiers(workspace: Workspace, query: Query) -> Ranked:
    """BM25 on identifiers."""
    return [
        (chunk, f"shares names such as `{term}`")
        for chunk, _, term in workspace.bm25.rank(query.terms, CANDIDATES)
    ]


@source("recency", weight=0.3)
def from_recent_files(workspace: Workspace, query: Query) -> Ranked:
    """Chunks of open and recently edited files that share a name with the query."""
    wanted = {name.lower() for name in query.names}
    ranked: Ranked = []
    for path in sorted(workspace.recent, key=lambda path: -workspace.recent[path])[:8]:
        state = workspace.files.get(path)
        for chunk in state.chunks if state is not None and path != query.path else ():
            if chunk.symbol and chunk.symbol.rsplit(".", 1)[-1].lower() in wanted:
                ranked.append((chunk, "in a file you edited recently"))
    return ranked[:CANDIDATES]


@source("mentioned", weight=2.0)
def from_mentioned_files(workspace: Workspace, query: Query) -> Ranked:
    """Chunks of files that a question names."""
    ranked: Ranked = []
    for path in sorted(query.paths_mentioned):
        ranked += [(chunk, "in a file the question names") for chunk in workspace.files[path].chunks]
    return ranked[:CANDIDATES]


def chunk_with_line(workspace: Workspace, path: str, line: int) -> Chunk | None:
    """The chunk of a file that holds a line."""
    state = workspace.files.get(path)
    return state.chunk_at_line(line) if state is not None else None
