"""Which workspace folder a document belongs to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname


@dataclass(frozen=True)
class Place:
    """A file of a workspace folder: the folder, and the path in it with slashes."""

    root: Path
    path: str


class Roots:
    """The open workspace folders."""

    def __init__(self) -> None:
        self._roots: dict[Path, None] = {}

    def __iter__(self) -> Iterator[Path]:
        return iter(list(self._roots))

    def add(self, uri: str) -> Path | None:
        """The folder of a URI, or None if it is none on this machine."""
        path = local_path(uri)
        if path is None or not path.is_dir():
            return None
        self._roots[path] = None
        return path

    def remove(self, uri: str) -> None:
        path = local_path(uri)
        if path is not None:
            self._roots.pop(path, None)

    def place(self, uri: str) -> Place | None:
        """Where a document lies; in nested folders the innermost counts. None outside all of them."""
        path = local_path(uri)
        if path is None:
            return None
        bases = [(base, root) for root in self._roots for base in {root, Path(os.path.realpath(root))}]
        bases.sort(key=lambda pair: -len(pair[0].parts))
        for candidate in (path, Path(os.path.realpath(path))):
            for base, root in bases:
                if candidate != base and candidate.is_relative_to(base):
                    return Place(root, candidate.relative_to(base).as_posix())
        return None


def local_path(uri: str) -> Path | None:
    """The absolute, normalised path of a `file:` URI, or None for another."""
    # Not pygls' own conversion: it cuts `;` and what follows off a file's name.
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    path = url2pathname(parts.path)
    local = parts.scheme == "file" and parts.netloc.lower() in ("", "localhost")
    if not local or "\0" in path or not os.path.isabs(path):
        return None
    return Path(os.path.normpath(f"/{path.lstrip('/')}" if path.startswith("//") else path))
