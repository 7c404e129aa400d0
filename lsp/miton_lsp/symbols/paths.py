"""The workspace's file names as import resolution needs them: exact, by ending, by folder."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator


class PathIndex:
    """A set of paths that also finds those that end in given path components."""

    def __init__(self, paths: Iterable[str] = ()) -> None:
        self._by_name: dict[str, set[str]] = {}
        self._paths: set[str] = set()
        self._folders: dict[str, set[str]] = {}
        self.aliases: list[tuple[str, str, list[str]]] = []  # folder, pattern, targets (tsconfig paths)
        self.go_modules: dict[str, str] = {}  # folder of a go.mod -> module path
        for path in paths:
            self.add(path)

    def add(self, path: str) -> None:
        self._paths.add(path)
        self._by_name.setdefault(posixpath.basename(path), set()).add(path)
        self._folders.setdefault(parent(path), set()).add(path)

    def remove(self, path: str) -> None:
        self._paths.discard(path)
        for table, key in ((self._by_name, posixpath.basename(path)), (self._folders, parent(path))):
            members = table.get(key, set())
            members.discard(path)
            if not members:
                table.pop(key, None)

    def __contains__(self, path: str) -> bool:
        return path in self._paths

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def ending_with(self, tail: str) -> list[str]:
        """Paths whose last components are those of `tail`, nearest to the root first."""
        found = self._by_name.get(posixpath.basename(tail), ())
        ends = [path for path in found if path == tail or path.endswith("/" + tail)]
        return sorted(ends, key=lambda path: (path.count("/"), path))

    def folders_ending_with(self, tail: str) -> list[str]:
        """Folders that hold files and whose last components are those of `tail`, nearest to the root first."""
        ends = [name for name in self._folders if name == tail or name.endswith("/" + tail)]
        return sorted(ends, key=lambda path: (path.count("/"), path))

    def in_folder(self, folder: str) -> list[str]:
        """Files directly in `folder`, sorted."""
        return sorted(self._folders.get(folder, ()))


def parent(path: str) -> str:
    """Folder of `path`, "" at the root."""
    return posixpath.dirname(path)


def join(*parts: str) -> str:
    """Joined and normalised; a path that would leave the root stays unmatchable ("../x")."""
    joined = posixpath.normpath(posixpath.join(*(part for part in parts if part))) if any(parts) else ""
    return "" if joined == "." else joined
