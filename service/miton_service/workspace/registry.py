"""All open workspaces of a service."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Protocol

from miton_lsp.chunking import ChunkOptions
from miton_service.workspace.choices import Choices
from miton_service.workspace.errors import WorkspaceError
from miton_service.workspace.indexer import Indexer, Memory
from miton_service.workspace.workspace import Workspace


class EngineForWorkspaces(Memory, Protocol):
    """What workspaces need of the engine."""

    def token_count(self, text: str) -> int:
        """Tokens of a text."""


class Workspaces:
    """Opens and closes workspaces; each has its own indexer over the shared engine."""

    def __init__(self, engine: EngineForWorkspaces, state_dir: Path | None = None) -> None:
        """Pins and exclusions are kept in `state_dir`; without one they end with the process."""
        self._engine = engine
        self._options = ChunkOptions(count_tokens=engine.token_count)
        self._choices_dir = None if state_dir is None else state_dir / "choices"
        self._lock = threading.Lock()
        self._open: dict[Path, tuple[Workspace, Indexer]] = {}

    def open(self, root: Path) -> Workspace:
        """Open a directory, or return it if it is open. Raises `WorkspaceError` for one that must not be."""
        real = root.expanduser()
        if not real.is_dir():
            raise WorkspaceError(f"{root} is no directory; open the root of a repository.")
        real = real.resolve()
        home = Path.home().resolve()
        if real == home or real in home.parents or real == Path(real.anchor):
            raise WorkspaceError(f"{real} is too much for one workspace; open a repository inside it.")
        with self._lock:
            if real not in self._open:
                workspace = Workspace(real, self._options, Choices(real, self._choices_dir))
                self._open[real] = (workspace, Indexer(workspace, self._engine))
            return self._open[real][0]

    def get(self, root: Path) -> Workspace | None:
        """The open workspace at `root`."""
        with self._lock:
            found = self._open.get(root.expanduser().resolve())
        return found[0] if found else None

    def list(self) -> list[Workspace]:
        """All open workspaces, in the order they were opened."""
        with self._lock:
            return [workspace for workspace, _ in self._open.values()]

    def close(self, root: Path) -> None:
        """Close a workspace; its KV stays stored."""
        with self._lock:
            found = self._open.pop(root.expanduser().resolve(), None)
        if found is not None:
            found[1].close()

    def shutdown(self) -> None:
        """Close all."""
        for workspace in self.list():
            self.close(workspace.root)

    def put_document(self, root: Path, path: str, text: str, version: int) -> None:
        """Push an editor's buffer; it wins over the disk until it is dropped."""
        workspace, indexer = self._find(root)
        workspace.put_document(path, text, version)
        indexer.wake()

    def drop_document(self, root: Path, path: str) -> None:
        """The editor closed the buffer."""
        workspace, indexer = self._find(root)
        workspace.drop_document(path)
        indexer.wake()

    def seconds_left(self, workspace: Workspace, remaining_tokens: int) -> float | None:
        """Estimated seconds until everything is memorised."""
        return workspace.progress.seconds_left(remaining_tokens)

    def _find(self, root: Path) -> tuple[Workspace, Indexer]:
        with self._lock:
            found = self._open.get(root.expanduser().resolve())
        if found is None:
            raise WorkspaceError(f"The workspace {root} is not open; open it with POST /v1/workspaces.")
        return found
