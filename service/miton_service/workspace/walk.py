"""The files of a workspace: what git would list, less what must not or need not be read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from miton_service.workspace.filters import MAX_FILE_BYTES, is_secret_text, reason_by_name, reason_by_size
from miton_service.workspace.ignore import IgnoreRules

VERSION_CONTROL = frozenset({".git", ".hg", ".svn", ".jj"})
INSTALLED = frozenset({"node_modules", "__pycache__", ".venv", "site-packages", ".tox", ".nox"})
"""Directories never entered, also where no ignore file names them."""
NEVER_ENTERED = VERSION_CONTROL | INSTALLED


@dataclass(frozen=True, slots=True)
class Found:
    """A file by its path relative to the root (posix), or why it is skipped. `stamp` changes when the file does."""

    path: str
    stamp: tuple[int, ...] = ()
    reason: str | None = None


class Listing:
    """Answers `includes` for many paths with the ignore files read once; make a new one when they may have changed."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._rules = {self._root: IgnoreRules.for_root(root).with_own(self._root)}

    def includes(self, path: str) -> bool:
        """Whether `walk` would come to the file: no directory on the way is ignored, never entered or a link."""
        *parents, _ = path.split("/")
        directory = self._root
        rules = self._rules[directory]
        for part in parents:
            directory = f"{directory}/{part}"
            if part in NEVER_ENTERED or os.path.islink(directory) or rules.ignores(directory, True):
                return False
            if directory not in self._rules:
                self._rules[directory] = rules.inside(directory)
            rules = self._rules[directory]
        return not rules.ignores(f"{self._root}/{path}", False)


def walk(root: Path) -> Iterator[Found]:
    """Every file below the resolved `root` that git would not ignore, sorted by name; links are not followed.

    Raises `OSError` if the root itself cannot be read.
    """
    top = str(root)
    yield from _walk(top, top, IgnoreRules.for_root(root).with_own(top))


def examine(root: Path, path: str) -> Found | None:
    """The file as `walk` would report it; None if it is gone. Nothing of it is opened."""
    full = f"{root}/{path}"
    try:
        status = os.lstat(full)
        if os.path.realpath(full) != full:
            return Found(path, reason=_link_reason(str(root), full))
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode):
        return None if stat.S_ISDIR(status.st_mode) else Found(path, reason="not a regular file")
    stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
    return Found(path, stamp, reason_by_name(path) or reason_by_size(status.st_size))


def reason_of_buffer(root: Path, path: str, text: str) -> str | None:
    """Why an editor's text of a file is not taken, or None: what is never opened is not taken from a buffer either."""
    reason = reason_by_name(path) or reason_by_size(len(text))
    if reason is None and is_secret_text(text):
        reason = "secret file: it holds a private key"
    if reason is None and (found := examine(root, path)) is not None:
        reason = found.reason if found.reason is not None and not found.stamp else None
    return reason


def read_bytes(root: Path, path: str) -> bytes:
    """The file's bytes, at most one over the size limit. Raises `OSError`; does not follow a link put there since."""
    flags = (
        os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    )
    descriptor = os.open(f"{root}/{path}", flags)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(MAX_FILE_BYTES + 1)


def _walk(root: str, directory: str, rules: IgnoreRules) -> Iterator[Found]:
    try:
        with os.scandir(directory) as opened:
            entries = sorted(opened, key=lambda entry: entry.name)
    except OSError as error:
        if directory == root:
            raise
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            yield Found(directory[len(root) + 1 :], reason=f"unreadable: {error.strerror}")
        return
    for entry in entries:
        full = f"{directory}/{entry.name}"
        relative = full[len(root) + 1 :]
        try:
            is_directory = entry.is_dir(follow_symlinks=False)
        except OSError:
            continue
        if entry.name in VERSION_CONTROL or rules.ignores(full, is_directory):
            continue
        if is_directory:
            if entry.name in INSTALLED:
                yield Found(relative, reason="installed or cached code: never entered")
            else:
                yield from _walk(root, full, rules.inside(full))
        elif (found := examine(Path(root), relative)) is not None:
            yield found


def _link_reason(root: str, full: str) -> str:
    try:
        target = os.path.realpath(full, strict=True)
    except OSError:
        return "link that leads nowhere or to itself"
    if target.startswith(f"{root}/"):
        return f"link to {target[len(root) + 1 :]}, which is read where it lies"
    return "link that leads out of the workspace"
