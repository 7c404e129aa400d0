"""Chunks that end where the topic does: the lowest similarity of names on both sides, near the wanted size.

After TextTiling (Hearst 1997), with identifiers as the words and syntax as a bonus: a boundary before a
definition is preferred to one inside it. Unlike the function chunker it keeps related functions together.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from .chunk import ChunkOptions
from .document import Document
from .function_chunker import outline_of
from .joining import bounded
from .registry import register
from .unit import Unit

_WORD: Final = re.compile(rb"[A-Za-z_]\w{2,}")
_SCOPE_BONUS: Final = 0.25
"""What a change of class or file level is worth against full dissimilarity of names."""


@register("semantic-boundary")
def semantic_boundary_chunks(document: Document, options: ChunkOptions) -> list[Unit]:
    """Join neighbouring units up to the bound, cutting first where their names differ most."""
    source, count = document.source, document.count
    units = bounded(outline_of(document, options), source, options.max_tokens, 0, count)
    ends = [*(unit.start for unit in units[1:]), len(source)]
    sizes = [count(unit.start, end) for unit, end in zip(units, ends, strict=True)]
    words = [Counter(_WORD.findall(source, unit.start, end)) for unit, end in zip(units, ends, strict=True)]
    strength = [1.0] + [
        1
        - _similarity(words[i - 1], words[i])
        + (_SCOPE_BONUS if units[i].header != units[i - 1].header or units[i].opens else 0.0)
        for i in range(1, len(units))
    ]
    cuts = {0}
    pending = [(0, len(units))]
    while pending:
        first, last = pending.pop()
        total = sum(sizes[first:last])
        if total <= options.max_tokens or last - first < 2:
            continue
        cut = max(range(first + 1, last), key=lambda i: (strength[i], -abs(2 * i - first - last)))
        cuts.add(cut)
        pending += [(first, cut), (cut, last)]
    ordered = sorted(cuts)
    return [_group(units[a:b], sizes[a:b]) for a, b in zip(ordered, [*ordered[1:], len(units)], strict=True)]


def _similarity(one: Counter[bytes], other: Counter[bytes]) -> float:
    """Cosine of the name counts."""
    dot = sum(n * other[word] for word, n in one.items() if word in other)
    norm = (sum(n * n for n in one.values()) * sum(n * n for n in other.values())) ** 0.5
    return dot / norm if norm else 0.0


def _group(units: list[Unit], sizes: list[int]) -> Unit:
    first = units[0]
    main = max(zip(sizes, range(len(units)), strict=True), key=lambda item: (item[0], -item[1]))[1]
    return Unit(first.start, units[main].kind, units[main].symbol, first.header, first.opens)
