"""The files of a workspace: what git would list, less what must not or need not be read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from miton_service.workspace.filters import reason_by_name, reason_by_size
from miton_service.workspace.ignore import IgnoreRules

ALWAYS_SKIPPED = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv"})
"""Directories never entered, also where no ignore file names them."""


@dataclass(frozen=True, slots=True)
class Found:
    """A file by its path relative to the root (posix), or why it is skipped."""

    path: str
    size: int
    modified_ns: int
    reason: str | None = None


def walk(root: Path) -> Iterator[Found]:
    """Every file below `root` that git would not ignore, sorted; links are followed only to files inside the root."""
    real_root = root.resolve()
    yield from _walk(real_root, real_root, IgnoreRules.for_root(real_root))


def is_listed(root: Path, path: str) -> bool:
    """Whether `walk` would list the file: its name is allowed and no directory on the way is ignored."""
    directory, rules = root, IgnoreRules.for_root(root)
    *parents, name = path.split("/")
    for part in parents:
        rules = rules.entering(directory)
        directory = directory / part
        if part in ALWAYS_SKIPPED or directory.is_symlink() or rules.ignores(directory, True):
            return False
    rules = rules.entering(directory)
    return not rules.ignores(directory / name, False)


def examine(root: Path, path: str) -> Found | None:
    """The file as `walk` would report it; None if it is gone or no regular file."""
    full = root / path
    try:
        if full.is_symlink() and not full.resolve().is_relative_to(root):
            return Found(path, 0, 0, "link that leads out of the workspace")
        stat = full.stat()
    except (OSError, RuntimeError):
        return None
    if not os.path.isfile(full):
        return None
    reason = reason_by_name(path) or reason_by_size(stat.st_size)
    return Found(path, stat.st_size, stat.st_mtime_ns, reason)


def _walk(root: Path, directory: Path, rules: IgnoreRules) -> Iterator[Found]:
    rules = rules.entering(directory)
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError as error:
        if directory != root:
            yield Found(directory.relative_to(root).as_posix(), 0, 0, f"unreadable: {error.strerror}")
            return
        raise
    for entry in entries:
        path = Path(entry.path)
        try:
            is_directory = entry.is_dir(follow_symlinks=False)
        except OSError:
            continue
        if is_directory:
            if entry.name not in ALWAYS_SKIPPED and not rules.ignores(path, True):
                yield from _walk(root, path, rules)
        elif not rules.ignores(path, False):
            found = examine(root, path.relative_to(root).as_posix())
            if found is not None:
                yield found
