"""The text around a cursor that is sent as live document: a window whose ends do not move while one types.

It is all that is prefilled when one begins to write somewhere, so it begins at the start of a function near the
cursor; what stands above it is attached from chunk memory (`recall.just_above`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from miton_service.workspace.errors import WorkspaceError

# 800 and what stands above as chunks, against 3,000 as text: 290 live tokens for 730 and, over 104 lines of 8
# packages, -0.02 [-0.07, +0.03] nats of NLL on the rest of the line and the next; without the chunks +0.09.
FRESH_CHARACTERS = 800  # of the prefix, where a new window begins
PREFIX_CHARACTERS = 3000  # to which it may grow; 512 more with a line as long as a file
SUFFIX_CHARACTERS = 900
STEP_CHARACTERS = 512
STEP_LINES = 16  # the window's ends lie on multiples of this, so they move once in 16 new lines


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in a text: zero-based line, and character in UTF-16 code units, as in the LSP."""

    line: int
    character: int


@dataclass(frozen=True, slots=True)
class Window:
    """Prefix and suffix of the cursor, and the zero-based inclusive lines they cover."""

    prefix: str
    suffix: str
    first_line: int
    last_line: int


def window_at(
    text: str, cursor: Cursor, chunk_starts: Sequence[int] = (), kept_start: int | None = None
) -> Window:
    """The live window of LF-normalised `text`; `chunk_starts` are ascending lines, `kept_start` a line to keep.

    Raises `WorkspaceError` for a place that is not in the text.
    """
    lines = text.split("\n")
    if not 0 <= cursor.line < len(lines):
        raise WorkspaceError(
            f"The cursor's line is {cursor.line}, the file has {len(lines)} lines (0 to {len(lines) - 1})."
        )
    column = _from_utf16(lines[cursor.line], cursor.character)
    first = _start(lines, cursor.line, chunk_starts, kept_start)
    end = _end(lines, cursor.line)
    left, right = lines[cursor.line][:column], lines[cursor.line][column:]
    if (
        len(left) > PREFIX_CHARACTERS
    ):  # a line as long as a file: the cut is sticky like the window's first line
        first, left = (
            cursor.line,
            left[-(-(len(left) - PREFIX_CHARACTERS) // STEP_CHARACTERS) * STEP_CHARACTERS :],
        )
    if len(right) > SUFFIX_CHARACTERS:
        end, right = cursor.line + 1, right[:SUFFIX_CHARACTERS]
    before = "\n".join([*lines[first : cursor.line], left])
    after = "\n".join([right, *lines[cursor.line + 1 : end]])
    return Window(before, after, first, end - 1)


def _start(lines: list[str], line: int, chunk_starts: Sequence[int], kept_start: int | None) -> int:
    """The line to keep while the prefix fits; else the first chunk in FRESH_CHARACTERS, or the one around the
    cursor; else the smallest multiple of STEP_LINES from which the prefix fits."""
    lowest = _reach(lines, line, PREFIX_CHARACTERS)
    if kept_start is not None and lowest <= kept_start <= line:
        return kept_start
    fresh = _reach(lines, line, FRESH_CHARACTERS)
    above = [start for start in chunk_starts if lowest <= start <= line]
    if above:
        return next((start for start in above if start >= fresh), above[-1])
    return min(-(-lowest // STEP_LINES) * STEP_LINES, line)


def _reach(lines: list[str], line: int, room: int) -> int:
    """The first line from which the text up to `line` has at most `room` characters."""
    first = line
    while first > 0 and room >= len(lines[first - 1]) + 1:
        room -= len(lines[first - 1]) + 1
        first -= 1
    return first


def _end(lines: list[str], line: int) -> int:
    """Counted from the end of the file, so that a new line at the cursor does not move it."""
    room, end = SUFFIX_CHARACTERS, line + 1
    while end < len(lines) and room >= len(lines[end]) + 1:
        room -= len(lines[end]) + 1
        end += 1
    from_end = -(-(len(lines) - end) // STEP_LINES) * STEP_LINES
    return max(len(lines) - from_end, line + 1)


def _from_utf16(line: str, character: int) -> int:
    """Index into `line` of a UTF-16 column; past the end or inside a surrogate pair is an error."""
    units = 0
    for index, letter in enumerate(line):
        if units == character:
            return index
        units += 2 if ord(letter) > 0xFFFF else 1
    if units == character:
        return len(line)
    raise WorkspaceError(
        f"The cursor's character is {character}; its line has {units} UTF-16 units, and pairs are not split."
    )
