"""The writer: one thread that takes payloads from a bounded backlog to disk, many to a batch.

A disk that cannot be written (full, read-only, gone) never stops the store: what waits stays in the backlog,
the oldest is dropped when the backlog is full, and writing resumes by itself when the disk takes it again.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection

from miton_engine.memory.disk import DiskTier
from miton_engine.memory.payload import Payload

log = logging.getLogger(__name__)

BACKLOG_BYTES = 256 << 20
_BATCH_BYTES = 32 << 20
_RETRY_SECONDS = (1.0, 30.0)  # first wait after a failure, and the longest; doubled in between
_TOUCH_SECONDS = 10.0  # uses are noted on disk this often, for the order of eviction


class WriteBack:
    """Thread-safe. `pinned` gives the keys that eviction on disk must spare."""

    def __init__(
        self, disk: DiskTier, pinned: Callable[[], Collection[str]], limit: int = BACKLOG_BYTES
    ) -> None:
        self._disk, self._pinned, self._limit = disk, pinned, limit
        self._backlog: OrderedDict[str, tuple[Payload, float]] = OrderedDict()
        self._used: dict[str, float] = {}
        self._wake = threading.Condition()
        self._disk_lock = threading.Lock()  # taken before `_wake`
        self._closing = False
        self._attempt = self._failed_attempt = 0
        self._retry_at, self._retry_wait = 0.0, _RETRY_SECONDS[0]
        self.bytes = 0
        self.written = self.dropped = 0
        self.problem: str | None = None
        """Why the disk cannot be written now, in words; None while it can."""
        self._try_disk(disk.open)
        self._thread = threading.Thread(target=self._run, name="chunk-store-writer", daemon=True)
        self._thread.start()

    def put(self, payload: Payload) -> None:
        """Queue a payload. Returns at once; if the backlog is full its oldest payload is dropped."""
        with self._wake:
            self._discard(payload.key)
            self._backlog[payload.key] = payload, time.time()
            self.bytes += payload.nbytes
            while self.bytes > self._limit and len(self._backlog) > 1:
                self._discard(next(iter(self._backlog)))
                self.dropped += 1
            self._wake.notify_all()

    def get(self, key: str) -> Payload | None:
        """A payload that waits to be written."""
        with self._wake:
            return self._backlog[key][0] if key in self._backlog else None

    def remove(self, key: str) -> bool:
        """Forget a payload, waiting or on disk. True if there was one. Raises OSError, sqlite3.Error."""
        with self._disk_lock:  # a batch that holds the key is either written by now, or will not write it
            with self._wake:
                waited = self._discard(key)
            return self._disk.remove(key) or waited

    def touch(self, key: str) -> None:
        """Note that a chunk was used now."""
        with self._wake:
            self._used[key] = time.time()

    def keys(self) -> set[str]:
        with self._wake:
            return set(self._backlog)

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all that was put is on disk. False if it cannot be written, or at the timeout (s)."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._wake:
            first = self._attempt + 1
            while self._backlog:
                if self._failed_attempt < first:
                    self._retry_at = 0.0  # do not sit out the wait after an earlier failure
                    self._wake.notify_all()
                left = None if deadline is None else deadline - time.monotonic()
                if self._failed_attempt >= first or not self._thread.is_alive() or (left or 1.0) <= 0:
                    return False
                self._wake.wait(left)
            return True

    def close(self) -> None:
        """Write what waits, note the last uses, end the thread."""
        self.flush()
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        self._thread.join()
        if self._backlog:
            log.warning("%d chunks were not written to disk: %s", len(self._backlog), self.problem)
        self._note_uses()
        self._disk.close()

    def _discard(self, key: str) -> bool:
        payload, _ = self._backlog.pop(key, (None, 0.0))
        self.bytes -= payload.nbytes if payload else 0
        return payload is not None

    def _waits(self, payload: Payload) -> bool:
        return payload.key in self._backlog and self._backlog[payload.key][0] is payload

    def _run(self) -> None:
        noted = time.monotonic()
        while True:
            with self._wake:
                while not self._closing and not (self._backlog and time.monotonic() >= self._retry_at):
                    waited = time.monotonic() - noted
                    if self._used and waited >= _TOUCH_SECONDS:
                        break
                    until_retry = self._retry_at - time.monotonic() if self._backlog else _TOUCH_SECONDS
                    self._wake.wait(max(0.01, min(until_retry, _TOUCH_SECONDS)))
                if self._closing:
                    return
                batch = self._take_batch() if time.monotonic() >= self._retry_at else []
            if time.monotonic() - noted >= _TOUCH_SECONDS:
                noted = time.monotonic()
                self._note_uses()
            if batch:
                self._write(batch)

    def _take_batch(self) -> list[tuple[Payload, float]]:
        """The oldest that wait (they stay in the backlog until written); one alone while the disk fails."""
        self._attempt += 1
        batch: list[tuple[Payload, float]] = []
        size = 0
        for item in self._backlog.values():
            if batch and (self.problem is not None or size + item[0].nbytes > _BATCH_BYTES):
                break
            batch.append(item)
            size += item[0].nbytes
        return batch

    def _write(self, batch: list[tuple[Payload, float]]) -> None:
        with self._disk_lock:
            with self._wake:
                batch = [item for item in batch if self._waits(item[0])]  # without what was removed since
            written = self._try_disk(lambda: self._disk.write(batch, self._pinned()))
        with self._wake:
            if written:
                for payload, _ in batch:
                    if self._waits(payload):
                        self._discard(payload.key)
                self.written += len(batch)
                if not self._backlog and self.problem is not None:
                    log.warning("chunk KV is written to %s again", self._disk.directory)
                    self.problem = None
            elif len(batch) == 1 and batch[0][0].key in self._backlog:
                self._backlog.move_to_end(batch[0][0].key)  # what fails by itself must not hold up the rest
            self._wake.notify_all()

    def _note_uses(self) -> None:
        with self._wake:
            used, self._used = self._used, {}
        if used:
            self._try_disk(lambda: self._disk.touch(used))

    def _try_disk(self, action: Callable[[], object]) -> bool:
        try:
            action()
        except (OSError, sqlite3.Error) as error:
            with self._wake:
                if self.problem is None:
                    log.warning(
                        "cannot write chunk KV to %s: %s. Chunks stay in memory only; "
                        "writing resumes by itself when the disk can be written.",
                        self._disk.directory,
                        error,
                    )
                self.problem = str(error)
                self._failed_attempt = self._attempt
                self._retry_at = time.monotonic() + self._retry_wait
                self._retry_wait = min(2 * self._retry_wait, _RETRY_SECONDS[1])
            return False
        with self._wake:
            self._retry_wait = _RETRY_SECONDS[0]
        return True
