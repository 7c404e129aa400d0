"""What a user wants attached always (a pin) or never (an exclusion), kept per workspace across restarts."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

from miton_lsp.chunking import Chunk
from miton_service.workspace.errors import WorkspaceError

log = logging.getLogger(__name__)

Kind = Literal["pin", "exclude"]
MAX_CHOICES = 1000


@dataclass(frozen=True, slots=True)
class Choice:
    """About a symbol of a file and what is inside it; with an empty `symbol` about the whole file."""

    path: str
    symbol: str
    kind: Kind

    def covers(self, chunk: Chunk) -> bool:
        if chunk.path != self.path:
            return False
        return not self.symbol or chunk.symbol == self.symbol or chunk.symbol.startswith(self.symbol + ".")


class Choices:
    """The choices of one workspace; safe to use from any thread. Without a `file` they end with the process."""

    def __init__(self, root: Path, directory: Path | None = None) -> None:
        """Read what was kept in `directory`. A damaged file is set aside, never overwritten."""
        self._root = root
        name = hashlib.sha256(str(root).encode("utf-8", "surrogateescape")).hexdigest()[:32] + ".json"
        self._file = None if directory is None else directory / name
        self._lock = threading.Lock()
        self._made: dict[tuple[str, str], Choice] = {}
        for choice in self._kept():
            self._made[choice.path, choice.symbol] = choice

    def all(self) -> list[Choice]:
        """In the order they were made."""
        with self._lock:
            return list(self._made.values())

    def kind_of(self, chunk: Chunk) -> Kind | None:
        """What was chosen for a chunk: what names its symbol most closely counts; None where nothing was."""
        if not self._made:  # recall asks for every candidate
            return None
        covering = [choice for choice in self.all() if choice.covers(chunk)]
        return max(covering, key=lambda choice: len(choice.symbol)).kind if covering else None

    def set(self, path: str, symbol: str, kind: Kind | None) -> None:
        """Choose, or with None take a choice back. Raises `WorkspaceError`, changing nothing, if it cannot be kept."""
        with self._lock:
            made = dict(self._made)
            made.pop((path, symbol), None)
            if kind is not None:
                made[path, symbol] = Choice(path, symbol, kind)
            if len(made) > MAX_CHOICES:
                raise WorkspaceError(f"{MAX_CHOICES} chunks are pinned or excluded; take some back first.")
            self._keep(made.values())
            self._made = made

    def _kept(self) -> list[Choice]:
        if self._file is None:
            return []
        try:
            data = json.loads(self._file.read_text(encoding="utf-8"))
            return [_choice(item) for item in data["choices"]]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError, KeyError) as error:
            log.warning("%s cannot be read (%s); pins and exclusions start empty", self._file, error)
            self._set_aside()
            return []

    def _set_aside(self) -> None:
        assert self._file is not None
        try:
            self._file.replace(self._file.with_suffix(".damaged"))
        except OSError as error:
            log.warning("%s cannot be set aside: %s", self._file, error)

    def _keep(self, choices: Iterable[Choice]) -> None:
        if self._file is None:
            return
        data = {"root": str(self._root), "choices": [asdict(choice) for choice in choices]}
        temporary = self._file.with_suffix(".new")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with temporary.open("w", encoding="utf-8") as file:
                json.dump(data, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._file)
        except OSError as error:
            raise WorkspaceError(f"{self._file} cannot be written ({error.strerror}).") from error


def _choice(item: dict[str, str]) -> Choice:
    path, symbol, kind = item["path"], item["symbol"], item["kind"]
    if not isinstance(path, str) or not isinstance(symbol, str) or kind not in get_args(Kind):
        raise ValueError(f"not a choice: {item!r}")
    return Choice(path, symbol, kind)  # type: ignore[arg-type]
