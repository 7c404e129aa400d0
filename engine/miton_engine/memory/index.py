"""The SQLite index beside the payloads: how large each is and when it was last used.

The payload files are the truth, the index only orders them: a chunk is found by its file's name, and an index
that is lost or damaged is made again from the payloads' headers. One transaction at a time over all processes
(BEGIN IMMEDIATE), which also serialises the renames and deletions done inside it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

SCHEMA_VERSION = 1

_SCHEMA = """
CREATE TABLE IF NOT EXISTS payloads (
    name TEXT PRIMARY KEY,     -- file name: <key>.<encoding>.safetensors
    bytes INTEGER NOT NULL,    -- length of the file
    last_used REAL NOT NULL    -- seconds since the epoch
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS payloads_by_use ON payloads (last_used);
"""
_BUSY_SECONDS = 30.0  # another process's batch holds the lock for one fsync of a few files


@dataclass(frozen=True, slots=True)
class IndexRow:
    """One payload file: its name, bytes, and when it was last used (seconds since the epoch)."""

    name: str
    bytes: int
    last_used: float


def is_damage(error: sqlite3.Error) -> bool:
    """Whether an error says that the database file is broken (and not full, locked or out of reach)."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return False
    damaged = {
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_FORMAT,
        sqlite3.SQLITE_ERROR,  # no such table or column: some other database
        sqlite3.SQLITE_SCHEMA,
        sqlite3.SQLITE_MISMATCH,
    }
    return (code & 0xFF) in damaged or code == sqlite3.SQLITE_IOERR_SHORT_READ


class Index:
    """A connection to the index file. Not thread-safe: its owner holds a lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._inode = -1

    def open(self) -> bool:
        """Connect, unless connected to the file that lies there now. True if the table was made just now.

        Raises sqlite3.Error.
        """
        if self._connection is not None and self._inode == self._current_inode():
            return False
        self.close()
        self._inode = self._current_inode()
        connection = sqlite3.connect(
            self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            (check,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if version not in (0, SCHEMA_VERSION) or check != "ok":
                damage = sqlite3.DatabaseError(f"schema version {version}, check: {check}")
                damage.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
                raise damage
            made = bool(version == 0)
            if made:
                connection.executescript(f"{_SCHEMA} PRAGMA user_version = {SCHEMA_VERSION};")
            connection.execute("SELECT name, bytes, last_used FROM payloads LIMIT 1").fetchone()
        except BaseException:
            connection.close()
            raise
        self._connection, self._inode = connection, self._current_inode()
        return made

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, and alone: one process at a time is inside one. Raises sqlite3.Error."""
        connection = self._open_connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise

    def record(self, rows: Iterable[IndexRow]) -> None:
        self._open_connection.executemany(
            "INSERT INTO payloads VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET "
            "bytes = excluded.bytes, last_used = max(last_used, excluded.last_used)",
            [(row.name, row.bytes, row.last_used) for row in rows],
        )

    def touch(self, last_used: Iterable[tuple[str, float]]) -> None:
        self._open_connection.executemany(
            "UPDATE payloads SET last_used = max(last_used, ?2) WHERE name = ?1", list(last_used)
        )

    def forget(self, names: Iterable[str]) -> None:
        self._open_connection.executemany("DELETE FROM payloads WHERE name = ?", [(name,) for name in names])

    def rows(self) -> Iterator[IndexRow]:
        """Every payload, the least recently used first."""
        for row in self._open_connection.execute(
            "SELECT name, bytes, last_used FROM payloads ORDER BY last_used"
        ):
            yield IndexRow(*row)

    def totals(self) -> tuple[int, int]:
        """How many payloads, and their bytes."""
        count, total = self._open_connection.execute(
            "SELECT count(*), coalesce(sum(bytes), 0) FROM payloads"
        ).fetchone()
        return count, total

    def delete_files(self) -> None:
        """Throw away the database last opened, unless another process has put a new one in its place."""
        self.close()
        replaced = self._inode not in (-1, self._current_inode())
        if not replaced:
            for suffix in ("", "-wal", "-shm"):
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)

    def close(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
        self._connection = None

    @property
    def _open_connection(self) -> sqlite3.Connection:
        if self._connection is None:
            raise sqlite3.ProgrammingError("the index is not open")
        return self._connection

    def _current_inode(self) -> int:
        try:
            return self.path.stat().st_ino
        except OSError:
            return -1
