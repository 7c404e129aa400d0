"""A unit: where a chunk may start, and what starts there. The list of units of a file is its outline.

A unit extends to the start of the next one, so units cover the file by construction.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

RESYNC: Final = 4
"""Optional cuts fall at one in RESYNC places, chosen by content: an edit moves the cuts near it only."""


@dataclass(slots=True)
class Unit:
    """`header` is the text of the enclosing scopes, `opens` that of the scope this unit begins (or "")."""

    start: int
    kind: str
    symbol: str
    header: str
    opens: str = ""
    whole: bool = True  # False for a piece of something that was too large

    def moved(self, offset: int) -> Unit:
        return Unit(self.start + offset, self.kind, self.symbol, self.header, self.opens, self.whole)


def is_content_cut(line: bytes) -> bool:
    """Whether the text that starts with `line` is one of the places where an optional cut falls."""
    return zlib.crc32(line) % RESYNC == 0


def line_start(source: bytes, position: int) -> int:
    """Start of the line of `position` if only blanks precede it there, else `position` itself."""
    start = source.rfind(b"\n", 0, position) + 1
    return start if source[start:position].isspace() else position


def merge(
    source: bytes, starts: Iterable[int], end: int, maximum: int, count: Callable[[int, int], int]
) -> list[int]:
    """Choose among `starts` (ascending, the first is kept) those that begin a piece of at most `maximum`.

    Pieces end where full, or from half full on at content-chosen places. `count(start, end)` gives tokens.
    """
    bounds = [*starts, end]
    cuts = bounds[:1]
    size = 0
    for start, stop in pairwise(bounds):
        tokens = count(start, stop)
        if size and (
            size + tokens > maximum
            or (2 * size >= maximum and is_content_cut(source[start : min(start + 64, stop)]))
        ):
            cuts.append(start)
            size = 0
        size += tokens
    return cuts
