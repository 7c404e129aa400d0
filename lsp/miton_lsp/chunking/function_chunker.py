"""The default chunker: a chunk is a function with what belongs to it, a class header, or loose code."""

from __future__ import annotations

from .chunk import ChunkOptions
from .document import Document
from .embedding import embedded_units
from .joining import bounded
from .outline import Outline
from .registry import register
from .unit import Unit


@register("function")
def function_chunks(document: Document, options: ChunkOptions) -> list[Unit]:
    """Function-aligned units; the whole text is one unit to be cut by lines where there is no tree."""
    return bounded(
        outline_of(document, options),
        document.source,
        options.max_tokens,
        options.min_tokens,
        document.count,
    )


def outline_of(document: Document, options: ChunkOptions) -> list[Unit]:
    """Units of the document before tiny ones join and oversized text is cut."""
    syntax, source, count = document.syntax, document.source, document.count
    if document.tree is None or syntax is None:
        return [Unit(0, "text", "", "", whole=False)]
    embedded = embedded_units(source, syntax.embedded, options.max_tokens, count)
    outline = Outline(source, syntax, options.max_tokens, count, embedded, document.memo)
    units = outline.read(document.tree.root_node)
    if document.memo is not None:
        document.memo.clear()
        document.memo.update(outline.used)
    return units
