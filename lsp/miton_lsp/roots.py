"""Which workspace folder a document belongs to."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pygls.uris import to_fs_path


@dataclass(frozen=True)
class Place:
    """A file of a workspace folder: the folder, and the path in it with slashes."""

    root: Path
    path: str


class Roots:
    """The open workspace folders."""

    def __init__(self) -> None:
        self._roots: dict[Path, None] = {}

    def __iter__(self) -> Iterable[Path]:
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
        for candidate in (path, Path(os.path.realpath(path))):
            for root in sorted(self._roots, key=lambda root: -len(root.parts)):
                for base in (root, Path(os.path.realpath(root))):
                    if candidate != base and candidate.is_relative_to(base):
                        return Place(root, candidate.relative_to(base).as_posix())
        return None


def local_path(uri: str) -> Path | None:
    """The absolute, normalised path of a `file:` URI, or None for another."""
    if not uri.lower().startswith("file:"):
        return None
    path = to_fs_path(uri)
    return Path(os.path.normpath(path)) if path and os.path.isabs(path) else None
