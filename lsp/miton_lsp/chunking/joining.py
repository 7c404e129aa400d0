"""From units to chunks' bounds: what is still too large is cut as text, what is tiny joins a neighbour."""

from __future__ import annotations

from collections.abc import Callable

from .text_splitting import split_text
from .unit import Unit, is_content_cut


def bounded(
    units: list[Unit], source: bytes, maximum: int, minimum: int, count: Callable[[int, int], int]
) -> list[Unit]:
    """Units of at most `maximum` tokens, tiny neighbours of one scope joined; each begins a chunk.

    Which tiny neighbours join is decided by what is near, so an edit regroups its neighbourhood only.
    """
    sized: list[tuple[Unit, int]] = []
    ends = [unit.start for unit in units[1:]]
    ends.append(len(source))
    for unit, end in zip(units, ends, strict=True):
        tokens = count(unit.start, end)
        if tokens <= maximum:
            sized.append((unit, tokens))
            continue
        cuts = split_text(source, unit.start, end, maximum, count)
        for cut, stop in zip(cuts, [*cuts[1:], end], strict=True):
            piece = Unit(cut, unit.kind, unit.symbol, unit.header, unit.opens, whole=False)
            sized.append((piece, count(cut, stop)))
    return _join(sized, source, maximum, minimum)


def _join(sized: list[tuple[Unit, int]], source: bytes, maximum: int, minimum: int) -> list[Unit]:
    groups: list[list[tuple[Unit, int]]] = []
    size = 0
    for unit, tokens in sized:
        if groups:
            group = groups[-1]
            tiny = tokens < minimum and group[-1][1] < minimum
            start = unit.start
            wanted = size < minimum or (tiny and not is_content_cut(source[start : start + 64]))
            if wanted and size + tokens <= maximum and _together(group[0][0], group[-1][0], unit):
                group.append((unit, tokens))
                size += tokens
                continue
            _give_back(groups, size, maximum, minimum)
        groups.append([(unit, tokens)])
        size = tokens
    _give_back(groups, size, maximum, minimum)
    return [_as_one(group) for group in groups]


def _give_back(groups: list[list[tuple[Unit, int]]], size: int, maximum: int, minimum: int) -> None:
    """Join a closed group that stayed too small to the one before it."""
    if size >= minimum or len(groups) < 2:
        return
    before, last = groups[-2], groups[-1]
    if sum(tokens for _, tokens in before) + size <= maximum and _together(
        before[0][0], before[-1][0], last[0][0]
    ):
        before += last
        groups.pop()


def _together(first: Unit, last: Unit, unit: Unit) -> bool:
    """Whether `unit` may follow `first` ... `last` in one chunk: same scope, or a member of what it opens."""
    if not (first.whole and unit.whole):
        return False
    if unit.header == first.header:
        return True
    return bool(first.opens) and unit.header.startswith(first.opens) and last.header.startswith(first.header)


def _as_one(group: list[tuple[Unit, int]]) -> Unit:
    first = group[0][0]
    if len(group) == 1:
        return first
    main = first if first.opens else max(group, key=lambda item: item[1])[0]
    return Unit(first.start, main.kind, main.symbol, first.header, first.opens, first.whole)
