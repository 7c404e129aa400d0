"""SHA-256 of large files, remembered by size and modification time so that a start need not read them."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from miton_engine.errors import ModelError

log = logging.getLogger(__name__)


class HashMemory:
    """SHA-256 of files; a small JSON file per path in `directory` says to which size and time it belongs."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def sha256(self, path: Path, *, again: bool = False) -> str:
        """SHA-256 (hex) of `path`; read anew if the file changed or `again`. Raises `ModelError`."""
        try:
            record, note = _describe(path), self._note(path)
            if not again and (known := _read(note)) and {**known, "sha256": ""} == {**record, "sha256": ""}:
                return str(known["sha256"])
            digest = read_sha256(path)
        except OSError as error:
            raise ModelError(f"The model file {path} cannot be read: {error}.") from error
        self._write(note, {**record, "sha256": digest})
        return digest

    def remember(self, path: Path, digest: str) -> None:
        """Take over the hash of a file that was just read."""
        self._write(self._note(path), {**_describe(path), "sha256": digest})

    def combined(self, paths: Sequence[Path], *, again: bool = False) -> str:
        """SHA-256 (hex) over names and contents of several files, whatever order they are given in."""
        digest = hashlib.sha256()
        for path in sorted(paths):
            digest.update(f"{path.name} {self.sha256(path, again=again)}\n".encode())
        return digest.hexdigest()

    def _note(self, path: Path) -> Path:
        name = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:24]
        return self._directory / f"{name}.json"

    def _write(self, note: Path, record: dict[str, Any]) -> None:
        fresh = note.with_suffix(f".{os.getpid()}.tmp")
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            fresh.write_text(json.dumps(record), "utf-8")
            os.replace(fresh, note)
        except OSError as error:  # a read-only cache costs time at the next start, nothing else
            log.warning("cannot remember the hash of %s: %s", record["path"], error)


def read_sha256(path: Path) -> str:
    """SHA-256 (hex) of a file, read through. Raises `OSError`."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _describe(path: Path) -> dict[str, Any]:
    stat = path.stat()
    return {"path": str(path.resolve()), "size": stat.st_size, "mtime_ns": stat.st_mtime_ns}


def _read(note: Path) -> dict[str, Any] | None:
    try:
        known = json.loads(note.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return known if isinstance(known, dict) and "sha256" in known else None
