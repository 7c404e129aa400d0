"""Function-aligned chunks whose size follows the file: short files whole, long files in small chunks.

A short file is worth showing as one piece; in a long one a large chunk would take a budget for little. The
bound is max_tokens up to that many tokens of file, then falls with the fourth root of the file's length.
"""

from __future__ import annotations

from dataclasses import replace

from .chunk import ChunkOptions
from .document import Document
from .function_chunker import function_chunks
from .registry import register
from .unit import Unit


@register("length-adaptive")
def length_adaptive_chunks(document: Document, options: ChunkOptions) -> list[Unit]:
    """The function chunker with bounds made for this length."""
    total = document.count(0, len(document.source))
    if total <= options.max_tokens:
        return [Unit(0, document.syntax.loose if document.syntax else "text", "", "")]
    ratio = (total / options.max_tokens) ** 0.25
    maximum = max(int(options.max_tokens / ratio), options.min_tokens, 1)
    minimum = min(int(options.min_tokens * 2), maximum)
    return function_chunks(document, replace(options, max_tokens=maximum, min_tokens=minimum))
