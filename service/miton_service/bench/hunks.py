"""The diff between two releases as the edits a developer would make, hunk by hunk, in the order of files and lines."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Hunk:
    """Lines [start, end) of the file, as it is when its earlier hunks are applied, become `lines`."""

    path: str
    start: int
    end: int
    lines: tuple[str, ...]  # with their line ends

    def applied_to(self, text: str) -> str:
        """The file's text after this hunk."""
        before = split_lines(text)
        return "".join([*before[: self.start], *self.lines, *before[self.end :]])


@dataclass(frozen=True)
class Typing:
    """A moment within a hunk: the old lines are gone, the first new one is half written.

    `cursor` is (line, UTF-16 character); `expected` is the rest of that line.
    """

    buffer: str
    cursor: tuple[int, int]
    expected: str


def split_lines(text: str) -> list[str]:
    """Lines with their ends; only "\\n" ends a line, as in editors (str.splitlines knows a dozen others)."""
    *whole, rest = text.split("\n")
    return [*(line + "\n" for line in whole), *([rest] if rest else [])]


def hunks_between(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Hunk]:
    """All hunks that turn `before` into `after` (path -> text), for files that both have, and new files."""
    for path in sorted(after):
        old, new = (split_lines(texts.get(path, "")) for texts in (before, after))
        shift = 0
        for tag, start, end, new_start, new_end in difflib.SequenceMatcher(
            None, old, new, False
        ).get_opcodes():
            if tag == "equal":
                continue
            yield Hunk(path, start + shift, end + shift, tuple(new[new_start:new_end]))
            shift += (new_end - new_start) - (end - start)


def typing(hunk: Hunk, text: str) -> Typing | None:
    """The moment to ask for a completion; None for a hunk that writes nothing worth completing."""
    line = next((index for index, new in enumerate(hunk.lines) if len(new.strip()) >= 8), None)
    if line is None:
        return None
    whole = hunk.lines[line].rstrip("\n")
    indent = len(whole) - len(whole.lstrip())
    half = indent + (len(whole) - indent) // 2
    before = split_lines(text)
    head = [*before[: hunk.start], *hunk.lines[:line]]
    buffer = "".join([*head, whole[:half] + "\n", *before[hunk.end :]])
    character = len(whole[:half].encode("utf-16-le")) // 2
    return Typing(buffer, (len(head), character), whole[half:])
