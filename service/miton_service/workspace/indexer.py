"""The background thread of one workspace: scan, watch, re-read what changed, have chunks memorised by priority."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from typing import Protocol

from miton_engine.errors import EngineError
from miton_engine.runtime.requests import ChunkInfo, ChunkSource
from miton_lsp.chunking import Chunk
from watchfiles import Change, watch

from miton_service.workspace.walk import is_listed, walk
from miton_service.workspace.workspace import Workspace, chunk_source

log = logging.getLogger(__name__)

AHEAD = 32  # chunks handed to the engine at once: few, so that a newly opened file soon gets its turn
RATE_WINDOW_S = 30.0


class Memory(Protocol):
    """What the indexer needs of the engine."""

    def memorise(self, source: ChunkSource) -> Future[ChunkInfo]:
        """Have a chunk's KV computed and stored in the background."""


class Indexer:
    """Keeps one workspace's memory true until closed."""

    def __init__(self, workspace: Workspace, memory: Memory) -> None:
        self._workspace, self._memory = workspace, memory
        self._stop, self._wake = threading.Event(), threading.Event()
        self._finished: deque[tuple[float, int]] = deque()  # when, tokens computed
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

    def seconds_left(self, remaining_tokens: int) -> float | None:
        """Estimate from the last half minute; None while there is nothing to estimate from."""
        now = time.monotonic()
        while self._finished and self._finished[0][0] < now - RATE_WINDOW_S:
            self._finished.popleft()
        if remaining_tokens == 0:
            return 0.0
        if len(self._finished) < 2:
            return None
        span = max(now - self._finished[0][0], 1e-3)
        return remaining_tokens / (sum(tokens for _, tokens in self._finished) / span)

    def _run(self) -> None:
        workspace = self._workspace
        try:
            self._scan()
        except OSError as error:
            workspace.error = f"{workspace.root} cannot be read: {error.strerror}."
            return
        except Exception as error:
            log.exception("indexing %s failed", workspace.root)
            workspace.error = (
                f"Indexing failed ({type(error).__name__}: {error}); the service's log has more."
            )
            return
        while not self._stop.is_set():
            self._wake.clear()
            batch = workspace.chunks_by_priority()[:AHEAD]
            if not batch:
                self._wake.wait()
                continue
            self._memorise(batch)

    def _scan(self) -> None:
        workspace = self._workspace
        for found in walk(workspace.root):
            if self._stop.is_set():
                return
            if found.reason is not None:
                with workspace.lock:
                    workspace.skipped[found.path] = found.reason
            else:
                workspace.read(found.path)
        workspace.scanned = True

    def _memorise(self, batch: list[tuple[Chunk, int]]) -> None:
        try:
            futures = {self._memory.memorise(chunk_source(chunk)): (chunk, tokens) for chunk, tokens in batch}
        except EngineError:
            self._stop.set()  # the engine was closed
            return
        waiting = set(futures)
        while waiting and not self._stop.is_set():
            done, waiting = wait_for(waiting, timeout=0.5)
            for future in done:
                chunk, tokens = futures[future]
                if future.exception() is not None:
                    # Counted as done: one chunk that cannot be computed must not hold up the others for ever.
                    log.warning("a chunk of %s was not memorised: %s", chunk.path, future.exception())
                elif not future.result().reused:
                    self._finished.append((time.monotonic(), tokens))
                self._workspace.mark_indexed(chunk)
            if self._wake.is_set() and self._opened_meanwhile():
                break
        for future in waiting:
            future.cancel()

    def _opened_meanwhile(self) -> bool:
        """Whether an open document has chunks to compute, which come before what is in the queue."""
        first = self._workspace.chunks_by_priority()[:1]
        return bool(first) and first[0][0].path in self._workspace.documents

    def _watch(self) -> None:
        root = self._workspace.root
        try:
            for changes in watch(root, stop_event=self._stop, debounce=300, step=100, raise_interrupt=False):
                self._apply({(change, path) for change, path in changes})
        except (OSError, RuntimeError) as error:
            log.warning(
                "%s is not watched (%s); changes on disk are seen when a file is asked for", root, error
            )

    def _apply(self, changes: set[tuple[Change, str]]) -> None:
        workspace, root = self._workspace, self._workspace.root
        names = {path.rsplit("/", 1)[-1] for _, path in changes}
        if ".gitignore" in names or len(changes) > 500:  # rules changed, or a branch switch
            self._rescan()
            return
        for _, full in changes:
            path = full.removeprefix(f"{root}/")
            if path.startswith(".git/") or path == full:
                continue
            if (root / path).is_dir() or (not (root / path).exists() and path not in workspace.files):
                self._rescan()  # a directory came or went
                break
            if path in workspace.documents:
                continue
            if is_listed(root, path):
                workspace.read(path)
                with workspace.lock:
                    if path in workspace.files:
                        workspace.recent[path] = time.time()
            else:
                workspace.forget(path)
        self.wake()

    def _rescan(self) -> None:
        workspace = self._workspace
        known = set(workspace.files) | set(workspace.skipped)
        seen = set()
        for found in walk(workspace.root):
            seen.add(found.path)
            if found.reason is None:
                workspace.read(found.path)
            else:
                with workspace.lock:
                    workspace.skipped[found.path] = found.reason
        for path in known - seen - set(workspace.documents):
            workspace.forget(path)
        self.wake()
