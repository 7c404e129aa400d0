"""The default chunker: a chunk is a function with what belongs to it, a class header, or module-level code."""

from __future__ import annotations

from .chunk import ChunkOptions
from .document import Document
from .joining import bounded
from .outline import Outline
from .registry import register
from .unit import Unit


@register("function")
def function_chunks(document: Document, options: ChunkOptions) -> list[Unit]:
    """Function-aligned units; the whole text is one unit to be cut by lines where there is no tree."""
    if document.tree is None or document.syntax is None:
        units = [Unit(0, "text", "", "", whole=False)]
    else:
        outline = Outline(document.source, document.syntax, options.max_tokens, document.count)
        units = outline.read(document.tree.root_node)
    return bounded(units, document.source, options.max_tokens, options.min_tokens, document.count)
