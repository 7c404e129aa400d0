"""Chunks of a fixed size in tokens, cut at line ends, blind to syntax: the yardstick for the others."""

from __future__ import annotations

from itertools import pairwise

from .chunk import ChunkOptions
from .document import Document
from .registry import register
from .text_splitting import split_lines
from .unit import Unit


@register("fixed")
def fixed_chunks(document: Document, options: ChunkOptions) -> list[Unit]:
    """As many whole lines as fit; longer lines are cut by characters."""
    source, count = document.source, document.count
    starts = split_lines(source, 0, len(source), options.max_tokens, count)
    cuts = starts[:1]
    size = 0
    for start, end in pairwise([*starts, len(source)]):
        tokens = count(start, end)
        if size and size + tokens > options.max_tokens:
            cuts.append(start)
            size = 0
        size += tokens
    return [Unit(cut, "block", "", "") for cut in cuts]
