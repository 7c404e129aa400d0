"""Turns chunk sources into stored KV in the background, several chunks in one forward pass."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import torch

from miton_engine.errors import EngineClosed
from miton_engine.memory.chunk_kv import ChunkKV, chunk_key
from miton_engine.memory.chunk_prefill import ChunkPrefill
from miton_engine.memory.store import ChunkStore
from miton_engine.runtime.model_runner import PREFILL_PIECE
from miton_engine.runtime.prompts import PromptEncoder
from miton_engine.runtime.requests import ChunkInfo, ChunkSource
from miton_engine.runtime.scheduler import Priority, Scheduler, Task

NUMERICS_VERSION = "bf16-prefill-1"
"""Changes whenever the same chunk would get different KV; part of every content key."""


@dataclass(frozen=True, slots=True)
class _Pending:
    key: str
    token_ids: tuple[int, ...]
    future: Future[ChunkInfo]


class Memoriser:
    """Computes chunk KV that is not stored yet and stores it under its content key."""

    def __init__(
        self,
        prefill: ChunkPrefill,
        store: ChunkStore,
        encoder: PromptEncoder,
        fingerprint: str,
        scheduler: Scheduler,
    ) -> None:
        self._prefill, self._store, self._encoder = prefill, store, encoder
        self._scheduler = scheduler
        numerics = f"{NUMERICS_VERSION}/{prefill.sink_k.dtype}"
        self._key: Callable[[Sequence[int]], str] = lambda ids: chunk_key(
            fingerprint, numerics, prefill.sink_ids, ids
        )
        self._pending: deque[_Pending] = deque()
        self._futures: dict[str, Future[ChunkInfo]] = {}
        self._lock = threading.Lock()
        self._running = False
        self.computed_tokens = 0

    def identify(self, source: ChunkSource) -> tuple[str, tuple[int, ...]]:
        """Content key and token ids of a source."""
        token_ids = tuple(self._encoder.chunk(source))
        return self._key(token_ids), token_ids

    def submit(self, source: ChunkSource) -> Future[ChunkInfo]:
        """Memorise in the background; the same content asked for twice is computed once."""
        key, token_ids = self.identify(source)
        with self._lock:
            if (running := self._futures.get(key)) is not None:
                return running
            future: Future[ChunkInfo] = Future()
            if self._store.contains(key):
                future.set_result(ChunkInfo(key, len(token_ids), reused=True))
                return future
            self._futures[key] = future
            self._pending.append(_Pending(key, token_ids, future))
            start, self._running = not self._running, True
        if start:
            self._scheduler.submit(self._drain(), Priority.BACKGROUND)
        return future

    def require(self, sources: Sequence[ChunkSource]) -> Iterator[list[ChunkKV] | None]:
        """Chunk KV of `sources`, computing what is missing now; yields None between pieces, then the list."""
        identified = [self.identify(source) for source in sources]
        found: dict[str, ChunkKV] = {}
        missing: dict[str, tuple[int, ...]] = {}
        for key, token_ids in identified:
            chunk = self._store.get(key)
            if chunk is None:
                missing[key] = token_ids
            else:
                found[key] = chunk
        for batch in _batches(list(missing.items())):
            found.update((chunk.key, chunk) for chunk in self._compute(batch))
            yield None
        yield [found[key] for key, _ in identified]

    def close(self) -> None:
        """Fail what is still pending."""
        with self._lock:
            pending, self._pending = list(self._pending), deque()
        for item in pending:
            item.future.set_exception(EngineClosed("The engine was closed before this chunk was memorised."))

    def _drain(self) -> Task:
        while True:
            with self._lock:
                batch = self._take_batch()
                if not batch:
                    self._running = False
                    return
            try:
                self._compute([(item.key, item.token_ids) for item in batch])
            except Exception as error:  # a chunk that cannot be computed must not stop the others
                for item in batch:
                    self._finish(item, error)
            else:
                for item in batch:
                    self._finish(item, None)
            yield

    def _take_batch(self) -> list[_Pending]:
        batch: list[_Pending] = []
        tokens = 0
        while self._pending and (not batch or tokens + len(self._pending[0].token_ids) <= PREFILL_PIECE):
            item = self._pending.popleft()
            if item.future.set_running_or_notify_cancel():
                tokens += len(item.token_ids)
                batch.append(item)
            else:
                self._futures.pop(item.key, None)
        return batch

    def _finish(self, item: _Pending, error: Exception | None) -> None:
        with self._lock:
            self._futures.pop(item.key, None)
        if error is not None:
            item.future.set_exception(error)
        else:
            item.future.set_result(ChunkInfo(item.key, len(item.token_ids), reused=False))

    def _compute(self, batch: Sequence[tuple[str, tuple[int, ...]]]) -> list[ChunkKV]:
        chunks = []
        for (key, token_ids), (k, v) in zip(
            batch, self._prefill([token_ids for _, token_ids in batch]), strict=True
        ):
            chunk = ChunkKV(key=key, tokens=torch.tensor(token_ids, dtype=torch.int32), k=k, v=v)
            self._store.put(chunk)
            self.computed_tokens += len(token_ids)
            chunks.append(chunk)
        return chunks


def _batches(items: list[tuple[str, tuple[int, ...]]]) -> Iterator[list[tuple[str, tuple[int, ...]]]]:
    batch: list[tuple[str, tuple[int, ...]]] = []
    tokens = 0
    for item in items:
        if batch and tokens + len(item[1]) > PREFILL_PIECE:
            yield batch
            batch, tokens = [], 0
        batch.append(item)
        tokens += len(item[1])
    if batch:
        yield batch
