"""Function-aligned chunks of a text: pure, no I/O beyond the text it is given, no knowledge of the engine."""

from __future__ import annotations

from . import function_chunker as function_chunker
from .chunk import Chunk, ChunkOptions, estimate_tokens
from .incremental import ChunkedFile, chunk_file, rechunk
from .languages import language_of
from .registry import chunk_text, chunker_names

__all__ = [
    "Chunk",
    "ChunkOptions",
    "ChunkedFile",
    "chunk_file",
    "chunk_text",
    "rechunk",
    "chunker_names",
    "estimate_tokens",
    "language_of",
]
