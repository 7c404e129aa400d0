"""The background threads of one workspace: scan, watch, re-read what changed, have chunks memorised by priority."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterable
from concurrent.futures import CancelledError, Future
from concurrent.futures import wait as wait_for
from typing import Protocol

from watchfiles import Change, watch

from miton_engine.errors import EngineError
from miton_engine.runtime.requests import ChunkInfo, ChunkSource
from miton_lsp.chunking import Chunk
from miton_service.workspace.sources import chunk_source
from miton_service.workspace.walk import NEVER_ENTERED, walk
from miton_service.workspace.workspace import Workspace

log = logging.getLogger(__name__)

AHEAD = 32  # chunks handed to the engine at once: few, so that a newly opened file soon gets its turn
MANY_CHANGES = 500  # a branch switch: one walk is cheaper than looking at each
TICK_S = 0.5
POLL_MS = 2000


class Memory(Protocol):
    """What the indexer needs of the engine."""

    def memorise(self, source: ChunkSource) -> Future[ChunkInfo]:
        """Have a chunk's KV computed and stored in the background."""


class Indexer:
    """Keeps one workspace's memory true until closed."""

    def __init__(self, workspace: Workspace, memory: Memory) -> None:
        self._workspace, self._memory = workspace, memory
        self._stop, self._wake = threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=self._run, name="miton-indexer", daemon=True),
            threading.Thread(target=self._watch, name="miton-watcher", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def wake(self) -> None:
        """Something changed: look for chunks to memorise again."""
        self._wake.set()

    def close(self) -> None:
        """Stop soon; a chunk in progress is finished by the engine."""
        self._stop.set()
        self._wake.set()
        for thread in self._threads:
            thread.join(timeout=5)

    def _run(self) -> None:
        workspace = self._workspace
        try:
            self._scan()
        except Exception as error:
            self._report(error)
            return
        workspace.scanned = True
        while not self._stop.is_set():
            self._wake.clear()
            try:
                workspace.expire_buffers()
                workspace.refresh_symbols()
                batch = workspace.next_chunks(AHEAD)
                if batch:
                    self._memorise(batch)
                else:
                    self._wake.wait(TICK_S)
            except EngineError:
                return  # the engine was closed
            except Exception as error:
                self._report(error)
                self._wake.wait(TICK_S)

    def _scan(self) -> None:
        """Read every file; forget those that are no longer listed."""
        workspace = self._workspace
        workspace.rules_changed()
        with workspace.lock:
            known = set(workspace.files) | set(workspace.skipped)
        seen = set()
        for found in walk(workspace.root):
            if self._stop.is_set():
                return
            seen.add(found.path)
            if found.reason is None:
                workspace.read(found.path)
            else:
                workspace.skip(found.path, found.reason)
        for path in known - seen:
            if path not in workspace.documents:
                workspace.forget(path)

    def _memorise(self, batch: list[tuple[Chunk, int]]) -> None:
        futures = {self._memory.memorise(chunk_source(chunk)): (chunk, tokens) for chunk, tokens in batch}
        # The same text twice is one future: the chunks of all are marked.
        waiting = set(futures)
        while waiting and not self._stop.is_set():
            done, waiting = wait_for(waiting, timeout=TICK_S)
            for future in done:
                self._finish(future, *futures[future])
            # A batch may take long; what is typed meanwhile must be known before it ends.
            self._workspace.expire_buffers()
            self._workspace.refresh_symbols()
            if self._wake.is_set():
                self._wake.clear()
                if self._workspace.has_urgent_chunks(chunk for chunk, _ in batch):
                    return  # what is under way stays in the engine's queue and is found done later

    def _finish(self, future: Future[ChunkInfo], chunk: Chunk, tokens: int) -> None:
        try:
            info = future.result()
        except CancelledError:
            return  # it stays to be done
        except Exception as error:
            log.warning("a chunk of %s was not memorised: %s", chunk.path, error)
            self._workspace.mark_failed(chunk, str(error) or type(error).__name__)
            return
        if not info.reused:
            self._workspace.progress.record(tokens)
        self._workspace.mark_indexed(chunk)

    def _watch(self) -> None:
        for polling in (None, True):
            try:
                for changes in watch(
                    self._workspace.root, watch_filter=self._matters, stop_event=self._stop, debounce=300, step=100,
                    raise_interrupt=False, ignore_permission_denied=True, force_polling=polling,
                    poll_delay_ms=POLL_MS,
                ):  # fmt: skip
                    self._apply({path for _, path in changes})
                return
            except (OSError, RuntimeError) as error:  # for example: the system's limit of watches is reached
                self._workspace.watch_error = str(error)
                log.warning("%s cannot be watched (%s)%s", self._workspace.root, error,
                            "" if polling else f"; it is polled every {POLL_MS / 1000:.0f} s instead")  # fmt: skip
                if self._stop.is_set():
                    return
                if polling is None:
                    self._workspace.watch_error = ""

    def _matters(self, change: Change, full: str) -> bool:
        path = os.path.relpath(full, self._workspace.root).replace(os.sep, "/")
        return path == ".git/info/exclude" or NEVER_ENTERED.isdisjoint(path.split("/"))

    def _apply(self, changed: Iterable[str]) -> None:
        workspace, root = self._workspace, self._workspace.root
        paths = sorted({os.path.relpath(full, root).replace(os.sep, "/") for full in changed})
        try:
            if not root.is_dir():
                workspace.error = f"{root} is gone; close the workspace, or bring it back and open it again."
            rules = any(path.endswith(".gitignore") or path == ".git/info/exclude" for path in paths)
            if rules or len(paths) > MANY_CHANGES or any(self._is_directory(path) for path in paths):
                self._scan()
            else:
                for path in paths:
                    if path not in workspace.documents and workspace.read(path) is not None:
                        with workspace.lock:
                            workspace.recent[path] = time.time()
        except Exception as error:
            self._report(error)
        self.wake()

    def _is_directory(self, path: str) -> bool:
        """Whether the path is a directory, or was one: files below it are known."""
        if (self._workspace.root / path).is_dir():
            return True
        with self._workspace.lock:
            return any(known.startswith(f"{path}/") for known in self._workspace.files)

    def _report(self, error: Exception) -> None:
        root = self._workspace.root
        if isinstance(error, OSError):
            self._workspace.error = f"{root} cannot be read: {error.strerror or error}."
            return
        log.error("indexing %s failed", root, exc_info=error)
        self._workspace.error = (
            f"Indexing failed ({type(error).__name__}: {error}); the service's log has more."
        )
