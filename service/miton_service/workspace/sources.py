"""Chunks as the engine memorises them."""

from __future__ import annotations

from collections.abc import Iterable

from miton_engine.runtime.requests import ChunkSource
from miton_lsp.chunking import Chunk


def chunk_source(chunk: Chunk) -> ChunkSource:
    """The chunk as the engine memorises it."""
    return ChunkSource(chunk.path, chunk.header, chunk.text)


def chunk_sources(chunks: Iterable[Chunk]) -> tuple[ChunkSource, ...]:
    """Several chunks, in the order given."""
    return tuple(chunk_source(chunk) for chunk in chunks)
