"""The content-addressed store of chunk KV: memory, then disk. Key in, the same bits out, or a miss.

What is stored can always be computed again, so the store never fails a request over its disk: a damaged
payload is dropped and is a miss, a full disk leaves chunks in memory, a broken index is made again.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from miton_engine.errors import StoreError
from miton_engine.memory.chunk_kv import ChunkKV
from miton_engine.memory.disk import DiskTier, VerifyReport
from miton_engine.memory.encoding import kv_encoding
from miton_engine.memory.memory_tier import MemoryTier
from miton_engine.memory.payload import Payload
from miton_engine.memory.write_back import BACKLOG_BYTES, WriteBack

_KEY = re.compile(r"[0-9a-f]{64}")


class ChunkStore:
    """Chunk KV by content key. Threads may share a store, processes may share its directory.

    `memory_bytes` bounds the tensors held in memory (pinned ones may exceed it), `disk_bytes` the payloads
    on disk (0: no disk); both evict the least recently used. `encoding` is "native" (bit for bit) or "int8"
    (half the size in both tiers; see encoding.py for the error). `backlog_bytes` bounds what waits to be
    written.

    A key is 64 lowercase hexadecimal digits (`chunk_key`); any other raises StoreError, and so does using a
    closed store.
    """

    def __init__(
        self,
        directory: Path,
        memory_bytes: int,
        disk_bytes: int,
        *,
        encoding: str = "native",
        backlog_bytes: int = BACKLOG_BYTES,
    ) -> None:
        self._encoding = kv_encoding(encoding)
        self._lock = threading.Lock()
        self._memory = MemoryTier(memory_bytes)
        self._disk = DiskTier(Path(directory), disk_bytes, encoding)
        self._writer = WriteBack(self._disk, self._pinned_keys, backlog_bytes) if disk_bytes > 0 else None
        self._hits = {"memory": 0, "disk": 0}
        self._misses = 0
        self._removals = 0
        self._closed = False

    def get(self, key: str) -> ChunkKV | None:
        """The chunk, or None if it is not stored (or no longer whole). Do not write to its tensors."""
        self._check(key)
        payload = self._load(key)
        if payload is None:
            return None
        return self._encoding.decode(key, payload.tensors)

    def put(self, chunk: ChunkKV) -> None:
        """Store a chunk. Returns at once: it is in memory now, and on disk after the next `flush`."""
        self._check(chunk.key)
        tensors = {name: _owned(tensor) for name, tensor in self._encoding.encode(chunk).items()}
        payload = Payload(chunk.key, self._encoding.name, tensors)
        with self._lock:
            self._memory.put(payload)
            if self._writer is not None:
                self._writer.put(payload)

    def contains(self, key: str) -> bool:
        """Whether the chunk is stored. Payloads on disk are not read, so it may still prove damaged."""
        self._check(key)
        with self._lock:
            if key in self._memory:
                return True
        return self._writer is not None and (self._writer.get(key) is not None or self._disk.contains(key))

    def keys(self) -> set[str]:
        """Every stored key, in either tier."""
        self._check()
        with self._lock:
            keys = set(self._memory)
        return keys if self._writer is None else keys | self._writer.keys() | self._disk.keys()

    def remove(self, key: str) -> bool:
        """Forget a chunk in both tiers, pinned or not. True if it was stored.

        Raises StoreError if its file cannot be deleted.
        """
        self._check(key)
        removed = False
        try:
            if self._writer is not None:
                removed = self._writer.remove(key)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"Cannot remove a chunk from {self._disk.directory}: {error}") from error
        finally:  # memory last, so that no `get` brings back what it read before the file was gone
            with self._lock:
                self._removals += 1
                removed |= self._memory.remove(key)
        return removed

    def pin(self, keys: Collection[str]) -> None:
        """Keep chunks from being evicted, until as many `unpin`. Those only on disk are read into memory.

        So neither this process nor another that shares the directory can take them away meanwhile.
        """
        for key in keys:
            self._check(key)
        with self._lock:
            self._memory.pin(keys)
        for key in keys:
            self._load(key)

    def unpin(self, keys: Iterable[str]) -> None:
        """Undo one `pin`. Raises StoreError for a key that is not pinned."""
        with self._lock:
            self._memory.unpin(keys)

    @contextmanager
    def pinned(self, keys: Collection[str]) -> Iterator[None]:
        """Pin for the length of a `with` block."""
        self.pin(keys)
        try:
            yield
        finally:
            self.unpin(keys)

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all chunks put before are on disk. False if it cannot be written, or at the timeout."""
        self._check()
        return self._writer is None or self._writer.flush(timeout)

    def verify(self, sample: int | None = None) -> VerifyReport:
        """Read `sample` chunks at random from disk (None: all) and check them, dropping the damaged ones."""
        self._check()
        return self._disk.verify(sample)

    def stats(self) -> dict[str, Any]:
        """Sizes, limits and counters of both tiers; `disk.problem` says why it cannot be written, if so."""
        with self._lock:
            memory = {
                "entries": len(self._memory),
                "bytes": self._memory.bytes,
                "limit_bytes": self._memory.limit,
                "evictions": self._memory.evictions,
                "pinned": len(self._memory.pinned),
                "hits": self._hits["memory"],
            }
            misses, disk_hits = self._misses, self._hits["disk"]
        stats: dict[str, Any] = {"encoding": self._encoding.name, "misses": misses, "memory": memory}
        if self._writer is not None:
            stats["disk"] = {
                "entries": self._disk.entries,
                "bytes": self._disk.bytes,
                "limit_bytes": self._disk.limit,
                "evictions": self._disk.evictions,
                "hits": disk_hits,
                "damaged": self._disk.damaged,
                "unreadable": self._disk.unreadable,
                "index_rebuilds": self._disk.index_rebuilds,
                "written": self._writer.written,
                "waiting_bytes": self._writer.bytes,
                "dropped_writes": self._writer.dropped,
                "problem": self._writer.problem,
            }
        return stats

    def close(self) -> None:
        """Write what waits and close the directory. May be called twice."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        if self._writer is not None:
            self._writer.close()

    def __enter__(self) -> ChunkStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _load(self, key: str) -> Payload | None:
        with self._lock:
            payload, tier = self._memory.get(key), "memory"
            if payload is None and self._writer is not None and (payload := self._writer.get(key)):
                self._memory.put(payload)  # evicted before it was written
            removals = self._removals
        if payload is None and self._writer is not None and (payload := self._disk.read(key)):
            tier = "disk"
            with self._lock:
                if removals == self._removals:  # what was removed meanwhile must not come back
                    self._memory.put(payload)
        with self._lock:
            if payload is None:
                self._misses += 1
                return None
            self._hits[tier] += 1
        if self._writer is not None:
            self._writer.touch(key)
        return payload

    def _pinned_keys(self) -> frozenset[str]:
        with self._lock:
            return self._memory.pinned

    def _check(self, *keys: str) -> None:
        if self._closed:
            raise StoreError("The chunk store is closed.")
        for key in keys:
            if _KEY.fullmatch(key) is None:
                raise StoreError(f"A chunk's key must be 64 hexadecimal digits (see chunk_key), got {key!r}.")


def _owned(tensor: Tensor) -> Tensor:
    """On the CPU, contiguous, and not a part of a larger storage that it would keep alive."""
    tensor = tensor.detach().to("cpu").contiguous()
    if tensor.untyped_storage().nbytes() > tensor.nbytes:
        tensor = tensor.clone(memory_format=torch.contiguous_format)
    return tensor
