"""Where the user is: FILE:LINE:COL, the workspace a file belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from miton_service.errors import ServiceError

ROOT_MARKS = (".git", "pyproject.toml", "package.json", "Cargo.toml", "go.mod", "pom.xml", "CMakeLists.txt")


@dataclass(frozen=True)
class Place:
    """A position in a file, counted as the HTTP interface does: zero-based, UTF-16 code units."""

    file: Path
    line: int
    character: int
    text: str


def parse_place(text: str) -> Place:
    """A place from FILE:LINE[:COL] as compilers print it: line and column from 1, column in characters.

    Without a column it is the line's end. Raises `ServiceError` for a place that is not there.
    """
    match = re.fullmatch(r"(.+?):(\d+)(?::(\d+))?", text)
    if match is None:
        raise ServiceError(f"{text!r} is not a place; write FILE:LINE:COL, for example src/app.py:12:5.")
    file = Path(match[1]).expanduser()
    try:
        # newline="" keeps CRLF: the service restores it in what it writes.
        with file.open(encoding="utf-8-sig", newline="") as opened:
            content = opened.read()
    except UnicodeDecodeError:
        raise ServiceError(f"{file} is not UTF-8 text; convert it, or complete in another file.") from None
    except OSError as error:
        raise ServiceError(f"{file} cannot be read: {error.strerror}.") from None
    lines = content.replace("\r\n", "\n").split("\n")
    number = int(match[2])
    if not 1 <= number <= len(lines):
        raise ServiceError(f"{file} has {len(lines)} lines; line {number} is not one of them.")
    line = lines[number - 1]
    column = int(match[3]) if match[3] else len(line) + 1
    if not 1 <= column <= len(line) + 1:
        raise ServiceError(
            f"Line {number} of {file} has {len(line)} characters; column {column} is past its end."
        )
    units = len(line[: column - 1].encode("utf-16-le")) // 2
    return Place(file.resolve(), number - 1, units, content)


def containing(path: Path, roots: Iterable[str]) -> Path | None:
    """The innermost of `roots` that contains `path`."""
    inside = [Path(root) for root in roots if path.is_relative_to(root)]
    return max(inside, key=lambda root: len(root.parts), default=None)


def repository_of(path: Path) -> Path:
    """The nearest directory above a file that looks like a project's root, else the file's own directory."""
    start = path if path.is_dir() else path.parent
    for directory in (start, *start.parents):
        if any((directory / mark).exists() for mark in ROOT_MARKS):
            return directory
    return start
