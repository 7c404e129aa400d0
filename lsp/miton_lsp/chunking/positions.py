"""Editors' positions and bytes: (line, character) in UTF-8, UTF-16 or UTF-32 units <-> UTF-8 offset.

As the Language Server Protocol has it: lines are zero-based and end at \\n, \\r\\n or \\r; a character beyond
the line's end means its end. A position inside a character means its start.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final, Literal

PositionEncoding = Literal["utf-8", "utf-16", "utf-32"]

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")


class PositionError(ValueError):
    """A line or offset outside the text; the message says what there is."""


class LineIndex:
    """Line starts of one text, for conversions in both directions."""

    def __init__(self, text: str | bytes) -> None:
        self.source = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        self.starts = [0]
        self._ends: list[int] = []
        for match in _LINE_END.finditer(self.source):
            self._ends.append(match.start())
            self.starts.append(match.end())
        self._ends.append(len(self.source))

    def offset(self, line: int, character: int, encoding: PositionEncoding = "utf-16") -> int:
        """Byte offset of a position. The line after the last, at character 0, is the end of the text.

        Raises PositionError for a line that is not there and for negative values.
        """
        if line < 0 or character < 0 or line > len(self.starts):
            raise PositionError(
                f"no line {line}, character {character}: the text has {len(self.starts)} lines"
            )
        if line == len(self.starts):
            return len(self.source)
        start, end = self.starts[line], self._ends[line]
        if encoding == "utf-8":
            offset = min(start + character, end)
            while offset < end and self.source[offset] & 0xC0 == 0x80:
                offset -= 1
            return offset
        content = self.source[start:end]
        if content.isascii():
            return min(start + character, end)
        units = 0
        offset = start
        for letter in content.decode("utf-8", "surrogatepass"):
            units += 2 if encoding == "utf-16" and ord(letter) > 0xFFFF else 1
            if units > character:
                break
            offset += len(letter.encode("utf-8", "surrogatepass"))
        return offset

    def position(self, offset: int, encoding: PositionEncoding = "utf-16") -> tuple[int, int]:
        """(line, character) of a byte offset. Raises PositionError for an offset outside the text."""
        if not 0 <= offset <= len(self.source):
            raise PositionError(f"no byte {offset}: the text has {len(self.source)} bytes")
        while 0 < offset < len(self.source) and self.source[offset] & 0xC0 == 0x80:
            offset -= 1
        line = bisect_right(self.starts, offset) - 1
        before = self.source[self.starts[line] : min(offset, self._ends[line])]
        if encoding == "utf-8" or before.isascii():
            return line, len(before)
        text = before.decode("utf-8", "surrogatepass")
        wide = sum(ord(letter) > 0xFFFF for letter in text) if encoding == "utf-16" else 0
        return line, len(text) + wide


def length_in(text: str, encoding: PositionEncoding) -> int:
    """Length of `text` in the units of `encoding`."""
    if encoding == "utf-32":
        return len(text)
    if encoding == "utf-8":
        return len(text.encode("utf-8", "surrogatepass"))
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
