"""SHA-256 of large files, remembered by size and modification time so that a start need not read them."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path

from miton_engine.errors import ModelError

log = logging.getLogger(__name__)


class HashMemory:
    """SHA-256 of files; a small JSON file per path in `directory` says to which size and time it belongs."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def sha256(self, path: Path, *, again: bool = False) -> str:
        """SHA-256 (hex) of `path`; read anew if the file changed or `again`. Raises `ModelError`."""
        try:
            stat = path.stat()
            record = {"path": str(path.resolve()), "size": stat.st_size, "mtime_ns": stat.st_mtime_ns}
            note = self._note(path)
            if not again and (known := _read(note)) and {**known, "sha256": ""} == {**record, "sha256": ""}:
                return known["sha256"]
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise ModelError(f"Cannot read the model file {path}: {error}.") from error
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            fresh = note.with_suffix(f".{os.getpid()}.tmp")
            fresh.write_text(json.dumps({**record, "sha256": digest}), "utf-8")
            os.replace(fresh, note)
        except OSError as error:  # a read-only cache costs time at the next start, nothing else
            log.warning("cannot remember the hash of %s: %s", path, error)
        return digest

    def combined(self, paths: Sequence[Path], *, again: bool = False) -> str:
        """SHA-256 (hex) over names and contents of several files, whatever order they are given in."""
        digest = hashlib.sha256()
        for path in sorted(paths):
            digest.update(f"{path.name} {self.sha256(path, again=again)}\n".encode())
        return digest.hexdigest()

    def _note(self, path: Path) -> Path:
        name = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:24]
        return self._directory / f"{name}.json"


def _read(note: Path) -> dict[str, str] | None:
    try:
        known = json.loads(note.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return known if isinstance(known, dict) and "sha256" in known else None
