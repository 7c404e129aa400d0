"""A small real memory with the engine's background interface: one worker computes, the same content once."""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Future

from miton_engine.errors import EngineClosed, StoreError
from miton_engine.runtime.requests import ChunkInfo, ChunkSource


class MemoryOfTokens:
    """Keeps the words of each chunk by its content. `gate` holds the worker back; `computed` is in its order."""

    def __init__(self) -> None:
        self.kept: dict[str, list[str]] = {}
        self.computed: list[ChunkSource] = []
        self.gate = threading.Event()
        self.gate.set()
        self.refuse = ""  # chunks that hold this text fail
        self.closed = False
        self._queue: queue.Queue[tuple[ChunkSource, Future[ChunkInfo]]] = queue.Queue()
        threading.Thread(target=self._work, daemon=True).start()

    def token_count(self, text: str) -> int:
        return len(text.split())

    def memorise(self, source: ChunkSource) -> Future[ChunkInfo]:
        if self.closed:
            raise EngineClosed("closed")
        future: Future[ChunkInfo] = Future()
        self._queue.put((source, future))
        return future

    def _work(self) -> None:
        while True:
            source, future = self._queue.get()
            self.gate.wait()
            if not future.set_running_or_notify_cancel():
                continue
            key = f"{source.path}\0{source.header}\0{source.text}"
            if self.refuse and self.refuse in source.text:
                future.set_exception(StoreError("The disk is full; free some space."))
                continue
            reused = key in self.kept
            if not reused:
                self.kept[key] = source.text.split()
                self.computed.append(source)
            future.set_result(ChunkInfo(key, len(self.kept[key]), reused=reused))
