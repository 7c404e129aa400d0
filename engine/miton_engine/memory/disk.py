"""The disk tier: one payload file per chunk and one index, in a directory that several processes share.

    DIRECTORY/v1/                                 the format's version; other versions' folders are left alone
      lock                                        held shared (flock) by every process that has the store open
      index.lock                                  held while an index is opened or made again
      index.sqlite3 (-wal, -shm)                  see index.py
      payloads/ab/<key>.<encoding>.safetensors    see payload.py; ab = the key's first two digits: 256 folders
                                                  of 40 files for 10,000 chunks, few folders to fsync a batch
      temporary/<random>.tmp                      payloads being written

A payload is written under a temporary name, fsynced, renamed, and its folder fsynced; only then is it in the
index. So whatever moment a process is killed at, a payload's name stands for all of its bytes or for nothing.
What is left over is settled by the next process to start: temporary files of the dead are deleted, payloads
without a row get one, rows without a payload are deleted.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import random
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from miton_engine.memory.index import Index, IndexRow, is_damage
from miton_engine.memory.payload import (
    DamagedPayload,
    Payload,
    UnknownVersion,
    read_header,
    read_payload,
    serialize,
)

log = logging.getLogger(__name__)

T = TypeVar("T")
SUFFIX = ".safetensors"
_STALE_SECONDS = 3600.0  # a temporary file this old is a dead process's, even while others are alive


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What `verify` read: payloads whole, and the keys of those that were damaged and are now dropped."""

    checked: int
    bytes: int
    seconds: float
    damaged: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.damaged


class DiskTier:
    """Payloads on disk. `read` and `contains` touch files only; all else takes the index, one at a time.

    Methods that change the disk raise OSError or sqlite3.Error when it cannot be written; nothing is left
    half done then, and the call may be repeated.
    """

    def __init__(self, directory: Path, limit: int, encoding: str) -> None:
        self.directory = directory / "v1"
        self.limit = limit
        self.encoding = encoding
        self.entries = self.bytes = 0
        self.evictions = self.index_rebuilds = self.damaged = self.unreadable = 0
        self._payloads = self.directory / "payloads"
        self._temporary = self.directory / "temporary"
        self._index = Index(self.directory / "index.sqlite3")
        self._lock = threading.RLock()
        self._process_lock: int | None = None
        self._dropped: set[str] = set()  # names whose rows the next transaction deletes

    # Reading: the file's name is the lookup, no lock is taken.

    def contains(self, key: str) -> bool:
        """Whether there is a payload for the key (it may still turn out damaged)."""
        return self._path(key).exists()

    def read(self, key: str) -> Payload | None:
        """The payload, every byte checked; a damaged one is dropped and counted. None if there is none."""
        path = self._path(key)
        try:
            payload = read_payload(path)
            if (payload.key, payload.encoding) != (key, self.encoding):
                raise DamagedPayload(f"it is the payload of {payload.key} ({payload.encoding})")
        except FileNotFoundError:
            return None
        except UnknownVersion as error:
            log.debug("%s is of the unknown version %s, left alone", path, error)
            return None
        except DamagedPayload as error:
            self.damaged += 1
            log.warning("dropped the damaged chunk KV %s: %s. It will be computed again.", path, error)
            self._unlink_quietly(path)
            self._dropped.add(path.name)
            return None
        except OSError as error:
            self.unreadable += 1
            log.warning("cannot read chunk KV, it will be computed again: %s", error)
            return None
        return payload

    def keys(self) -> set[str]:
        """The keys on disk in this tier's encoding."""
        ending = f".{self.encoding}{SUFFIX}"
        return {entry.name[: -len(ending)] for entry in self._scan() if entry.name.endswith(ending)}

    def verify(self, sample: int | None) -> VerifyReport:
        """Read `sample` payloads chosen at random (None: all), dropping the damaged ones."""
        started, size, damaged = time.perf_counter(), 0, []
        keys = sorted(self.keys())
        chosen = keys if sample is None else random.sample(keys, min(sample, len(keys)))
        for key in chosen:
            before = self.damaged
            payload = self.read(key)
            size += payload.nbytes if payload else 0
            if payload is None and self.damaged > before:
                damaged.append(key)
        return VerifyReport(len(chosen), size, time.perf_counter() - started, tuple(damaged))

    # Writing

    def open(self) -> None:
        """Make the directory and settle what killed processes left; nothing if it is open and in place."""
        with self._lock:
            if self._process_lock is None or not self._temporary.is_dir():
                self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)  # tokens are the user's code
                self._payloads.mkdir(exist_ok=True)
                self._temporary.mkdir(exist_ok=True)
                self._release_process_lock()
                descriptor = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
                self._process_lock = descriptor
                with contextlib.suppress(BlockingIOError):  # then another process is alive
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    self._delete_temporaries(0.0)
                fcntl.flock(descriptor, fcntl.LOCK_SH)
                self._delete_temporaries(_STALE_SECONDS)
                self._in_index(lambda: None, reconcile=True)
            else:
                self._in_index(lambda: None)

    def write(self, batch: Sequence[tuple[Payload, float]], pinned: Collection[str]) -> None:
        """Store payloads, each with its time of last use; then evict down to the quota, sparing `pinned`.

        When this returns, they survive a power failure.
        """
        self.open()
        staged: dict[Path, Path] = {}  # final name -> temporary name
        rows = []
        try:
            for payload, last_used in batch:
                path, size = self._path(payload.key), self._stage(payload, staged)
                if size <= self.limit:
                    rows.append(IndexRow(path.name, size, last_used))
            for temporary in staged.values():
                _fsync(temporary)

            def publish() -> None:
                folders = set()
                for path, temporary in list(staged.items()):
                    if not path.parent.is_dir():
                        path.parent.mkdir(parents=True, exist_ok=True)
                        _fsync(self._payloads)
                    temporary.replace(path)
                    del staged[path]
                    folders.add(path.parent)
                for folder in folders:
                    _fsync(folder)
                self._index.record(rows)
                self._evict(pinned)

            with self._lock:
                self._in_index(publish)
        finally:
            for temporary in staged.values():
                self._unlink_quietly(temporary)

    def touch(self, last_used: Mapping[str, float]) -> None:
        """Note when payloads were last used (seconds since the epoch), by key."""
        self.open()
        uses = [(self._path(key).name, when) for key, when in last_used.items()]
        with self._lock:
            self._in_index(lambda: self._index.touch(uses))

    def remove(self, key: str) -> bool:
        """Delete a payload. True if there was one."""
        self.open()

        def delete() -> bool:
            path = self._path(key)
            existed = path.exists()
            path.unlink(missing_ok=True)
            self._index.forget([path.name])
            return existed

        with self._lock:
            return self._in_index(delete)

    def close(self) -> None:
        with self._lock:
            self._index.close()
            self._release_process_lock()

    def _stage(self, payload: Payload, staged: dict[Path, Path]) -> int:
        """Write a temporary file, unless the same lies on disk already; the file's size."""
        header, head, rest = serialize(payload)
        size, path = len(head) + len(rest), self._path(payload.key)
        if size > self.limit:
            return size
        with contextlib.suppress(OSError, DamagedPayload, UnknownVersion):
            if read_header(path) == header:
                return size
        temporary = self._temporary / f"{secrets.token_hex(8)}.tmp"
        staged[path] = temporary
        with temporary.open("xb", buffering=0) as file:
            for part in (memoryview(head), rest):
                while part:  # a raw write may be cut by a signal or by the last free block
                    part = part[file.write(part) :]
        return size

    def _evict(self, pinned: Collection[str]) -> None:
        """Delete the least recently used payloads until the quota holds."""
        _, total = self._index.totals()
        if total <= self.limit:
            return
        gone = []
        for row in self._index.rows():
            if total <= self.limit:
                break
            if _key_of(row.name) in pinned:
                continue
            (self._payloads / row.name[:2] / row.name).unlink(missing_ok=True)
            gone.append(row.name)
            total -= row.bytes
        self._index.forget(gone)
        self.evictions += len(gone)

    def _reconcile(self) -> None:
        """Make index and payloads agree. Inside a transaction, so nobody renames or evicts meanwhile."""
        rows = {row.name: row for row in self._index.rows()}
        adopted, gone = [], []
        for entry in self._scan():
            row = rows.pop(entry.name, None)
            try:
                info = entry.stat()
                if row is not None and row.bytes == info.st_size:
                    continue
                read_header(Path(entry.path))
            except FileNotFoundError:  # dropped by a reader that found it damaged
                gone.append(entry.name)
            except UnknownVersion:
                continue
            except OSError as error:
                self.unreadable += 1
                log.warning("cannot read chunk KV: %s", error)
            except DamagedPayload as error:
                self.damaged += 1
                log.warning("dropped the damaged chunk KV %s: %s", entry.path, error)
                Path(entry.path).unlink(missing_ok=True)
                gone.append(entry.name)
            else:
                adopted.append(IndexRow(entry.name, info.st_size, info.st_mtime))
        self._index.record(adopted)
        self._index.forget([*rows, *gone])

    def _in_index(self, action: Callable[[], T], *, reconcile: bool = False) -> T:
        """Run `action` in a transaction on the index, which is opened, or made again, as needed."""
        try:
            return self._transact(action, reconcile)
        except sqlite3.Error as error:
            if not is_damage(error):
                raise
            log.warning("the chunk index %s is damaged (%s); making it again", self._index.path, error)
        self.index_rebuilds += 1
        with self._opening_index():
            self._index.delete_files()
        return self._transact(action, reconcile)

    def _transact(self, action: Callable[[], T], reconcile: bool) -> T:
        with self._opening_index():
            made = self._index.open()
        with self._index.transaction():
            if made or reconcile:
                self._reconcile()
            self._index.forget([self._dropped.pop() for _ in range(len(self._dropped))])
            result = action()
            self.entries, self.bytes = self._index.totals()
        return result

    @contextlib.contextmanager
    def _opening_index(self) -> Iterator[None]:
        """One process at a time opens, makes or deletes the index file."""
        descriptor = os.open(self.directory / "index.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _scan(self) -> Iterator[os.DirEntry[str]]:
        """Every payload file, of any encoding."""
        with (
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
            os.scandir(self._payloads) as folders,
        ):
            for folder in folders:
                with contextlib.suppress(NotADirectoryError), os.scandir(folder) as files:
                    for file in files:
                        if file.name.endswith(SUFFIX):
                            yield file

    def _delete_temporaries(self, age: float) -> None:
        """Delete temporary files that were last written at least `age` seconds ago."""
        for path in self._temporary.iterdir():
            with contextlib.suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime >= age:
                    path.unlink()

    def _release_process_lock(self) -> None:
        if self._process_lock is not None:
            os.close(self._process_lock)
            self._process_lock = None

    def _path(self, key: str) -> Path:
        return self._payloads / key[:2] / f"{key}.{self.encoding}{SUFFIX}"

    def _unlink_quietly(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            path.unlink()


def _key_of(name: str) -> str:
    return name.split(".", 1)[0]


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems cannot fsync a directory
            raise
    finally:
        os.close(descriptor)
