"""Function-aligned chunks of a text: pure, no I/O beyond the text it is given, no knowledge of the engine."""

from __future__ import annotations

from . import fixed_chunker as fixed_chunker
from . import function_chunker as function_chunker
from . import length_adaptive_chunker as length_adaptive_chunker
from . import semantic_boundary_chunker as semantic_boundary_chunker
from .chunk import Chunk, ChunkOptions, estimate_tokens
from .generated import skip_reason
from .incremental import ChunkedFile, chunk_file, rechunk
from .languages import language_of
from .notebooks import notebook_code
from .positions import LineIndex, PositionError
from .registry import Chunker, chunk_text, chunker_names, register
from .text_hygiene import DecodedText, TextEncodingError, binary_reason, decode_text

__all__ = [
    "Chunk",
    "ChunkOptions",
    "ChunkedFile",
    "Chunker",
    "DecodedText",
    "LineIndex",
    "PositionError",
    "TextEncodingError",
    "binary_reason",
    "chunk_file",
    "chunk_text",
    "chunker_names",
    "decode_text",
    "estimate_tokens",
    "language_of",
    "notebook_code",
    "rechunk",
    "register",
    "skip_reason",
]
