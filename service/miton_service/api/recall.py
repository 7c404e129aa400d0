"""Between an editor's place in a file and the engine's request: recall, and the chunks it chose."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from miton_engine.runtime.requests import ChunkSource
from miton_service import context
from miton_service.api.schemas import AtCursor
from miton_service.errors import ApiError
from miton_service.request_log import ContextItem, LiveLines
from miton_service.security import confine
from miton_service.service import Service
from miton_service.workspace import chunk_source, chunk_sources

if TYPE_CHECKING:
    from miton_service.context import RankedChunk


COMPUTED_WHILE_ONE_WAITS = 256  # tokens: one piece of prefill, about half a second on two cores


@dataclass(frozen=True)
class Recalled:
    """What is attached: `sources` in the engine's order (most relevant last), `items` best first."""

    prefix: str = ""
    suffix: str = ""
    window: LiveLines | None = None
    crlf: bool = False
    sources: tuple[ChunkSource, ...] = ()
    items: tuple[ContextItem, ...] = ()
    recall_ms: float = 0.0
    document: str = ""
    path: str = ""
    workspace: str = field(default="")


async def recall_at_cursor(service: Service, body: AtCursor) -> Recalled:
    """Recall for a place in a file. Raises `ApiError` for a place that is not there."""
    for name in ("workspace", "path", "cursor"):
        if getattr(body, name) is None:
            raise ApiError(
                400,
                f"`{name}` is missing; a completion at a cursor needs workspace, path and cursor.",
                param=name,
            )
    assert body.workspace is not None
    assert body.path is not None
    assert body.cursor is not None
    workspace = service.workspace(body.workspace)
    path = Path(body.path).as_posix()
    await asyncio.to_thread(confine, workspace.root, path)
    if body.buffer is None:
        await asyncio.to_thread(workspace.drop_lent_buffer, path)
    selection = await asyncio.to_thread(
        context.select,
        workspace,
        path,
        context.Cursor(body.cursor.line, body.cursor.character),
        body.buffer,
        _budget(service, body.context_tokens),
    )
    ranked = await asyncio.to_thread(_affordable, service, selection.ranked)
    return Recalled(
        prefix=selection.window.prefix,
        suffix=selection.window.suffix,
        window=LiveLines(selection.window.first_line, selection.window.last_line),
        crlf=selection.crlf,
        sources=chunk_sources(item.chunk for item in reversed(ranked)),
        items=_items(ranked),
        recall_ms=selection.recall_ms,
        document=f"{workspace.root}\0{path}",
        path=path,
        workspace=str(workspace.root),
    )


async def recall_for_question(
    service: Service, root: str, question: str, context_tokens: int | None
) -> Recalled:
    """Recall for a question about a workspace."""
    workspace = service.workspace(root)
    selection = await asyncio.to_thread(
        context.select_for_question, workspace, question, _budget(service, context_tokens)
    )
    return Recalled(
        sources=chunk_sources(item.chunk for item in reversed(selection.ranked)),
        items=_items(selection.ranked),
        recall_ms=selection.recall_ms,
        workspace=str(workspace.root),
    )


def _affordable(service: Service, ranked: Sequence[RankedChunk]) -> list[RankedChunk]:
    """While a workspace is still being indexed: chunks in memory, and few others, for nobody waits seconds for a
    completion. What is left out is computed in the background, so that the next key finds it."""
    room, kept = COMPUTED_WHILE_ONE_WAITS, []
    for item in ranked:
        if not service.engine.is_memorised(chunk_source(item.chunk)):
            if item.tokens > room:
                service.engine.memorise(chunk_source(item.chunk))
                continue
            room -= item.tokens
        kept.append(item)
    return kept


def _budget(service: Service, asked: int | None) -> int:
    return service.settings.context_tokens if asked is None else asked


def _items(ranked: Iterable[RankedChunk]) -> tuple[ContextItem, ...]:
    return tuple(
        ContextItem(
            item.chunk.path, item.chunk.symbol, item.chunk.start_line, item.chunk.end_line,
            item.tokens, round(item.score, 4), tuple(item.reasons),
        )
        for item in ranked
    )  # fmt: skip
