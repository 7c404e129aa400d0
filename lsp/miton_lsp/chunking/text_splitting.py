"""Cutting text that has no syntax tree, or none that helps: at paragraphs, then lines, then characters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Final

from .unit import merge

_PARAGRAPH: Final = re.compile(rb"\n(?:[ \t\r\f]*\n)+")
_BREAKS: Final = (b"\n", b";", b"}", b",", b">", b" ")


def split_text(
    source: bytes, start: int, end: int, maximum: int, count: Callable[[int, int], int]
) -> list[int]:
    """Starts of the pieces of source[start:end], each at most `maximum` tokens; the first is `start`."""
    starts: list[int] = []
    for first, last in _spans(start, end, (m.end() for m in _PARAGRAPH.finditer(source, start, end))):
        if count(first, last) <= maximum:
            starts.append(first)
            continue
        starts += split_lines(source, first, last, maximum, count)
    return merge(source, starts, end, maximum, count)


def split_lines(
    source: bytes, start: int, end: int, maximum: int, count: Callable[[int, int], int]
) -> list[int]:
    """Starts of all lines of source[start:end], and of the pieces of lines that exceed `maximum` tokens."""
    starts: list[int] = []
    for first, last in _spans(start, end, _line_starts(source, start, end)):
        if count(first, last) <= maximum:
            starts.append(first)
        else:
            starts += _split_line(source, first, last, maximum, count)
    return starts


def _spans(start: int, end: int, inner: Iterable[int]) -> list[tuple[int, int]]:
    return list(pairwise([start, *(cut for cut in inner if start < cut < end), end]))


def _line_starts(source: bytes, start: int, end: int) -> list[int]:
    starts = []
    position = source.find(b"\n", start, end) + 1
    while position:
        starts.append(position)
        position = source.find(b"\n", position, end) + 1
    return starts


def _split_line(
    source: bytes, start: int, end: int, maximum: int, count: Callable[[int, int], int]
) -> list[int]:
    """Cut one long line: windows that fit, ended after a separator where the second half has one."""
    starts = []
    window = 4 * maximum
    while start < end:
        starts.append(start)
        stop = _character(source, min(start + window, end), start)
        while count(start, stop) > maximum:
            half = _character(source, start + (stop - start) // 2, start)
            if half == stop:  # one character
                break
            stop = half
        if stop < end:
            middle = (start + stop) // 2
            after = (source.rfind(mark, middle, stop) + 1 for mark in _BREAKS)
            stop = next(
                (cut for cut in after if cut > middle), stop
            )  # all ASCII, so never inside a character
        start = stop
    return starts


def _character(source: bytes, position: int, floor: int) -> int:
    """`position` moved back to the start of a UTF-8 character, but forward where that would reach `floor`."""
    cut = position
    while cut > floor and cut < len(source) and source[cut] & 0xC0 == 0x80:
        cut -= 1
    if cut > floor:
        return cut
    cut = max(position, floor + 1)
    while cut < len(source) and source[cut] & 0xC0 == 0x80:
        cut += 1
    return cut
