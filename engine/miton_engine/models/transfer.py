"""What every way of fetching a model shares: its errors, its progress, and room on the disk."""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from miton_engine.errors import ModelError

Progress = Callable[[int, int, float | None], None]
"""Called while a model is fetched: (bytes done, bytes in total, seconds left or None)."""

REPORT_SECONDS = 0.2
MARGIN_BYTES = 64 << 20  # left free for everything else


class SourceFailed(Exception):
    """This source cannot deliver the file now; the next one may."""


class DiskFull(ModelError):
    """The cache's disk has no room for the model."""


class ProgressMeter:
    """Reports to a `Progress` a few times per second; the rate counts only what this process fetched."""

    def __init__(self, progress: Progress | None, total: int, done: int = 0) -> None:
        self._progress, self._total = progress, total
        self._first = self._done = done
        self._started, self._reported = time.monotonic(), 0.0

    def update(self, done: int) -> None:
        """Say how many bytes of the file are there."""
        now = time.monotonic()
        done = self._done = min(max(done, self._done), self._total)
        if self._progress is None or (done < self._total and now - self._reported < REPORT_SECONDS):
            return
        self._reported = now
        fetched, seconds = done - self._first, now - self._started
        left = (self._total - done) * seconds / fetched if fetched > 0 and seconds > 0.5 else None
        self._progress(done, self._total, left)


def require_space(directory: Path, needed: int) -> None:
    """Raise `DiskFull` unless `needed` bytes fit, before anything is fetched in vain."""
    free = shutil.disk_usage(directory).free
    if free < needed + MARGIN_BYTES:
        raise disk_full(directory, needed)


def disk_full(directory: Path, needed: int) -> DiskFull:
    free = shutil.disk_usage(directory).free
    return DiskFull(
        f"The disk of {directory} is full: the model needs {needed / 1e6:,.0f} MB more, "
        f"{free / 1e6:,.0f} MB are free. Free some space, or set MITON_CACHE to a folder on "
        "another disk. What was fetched is kept."
    )


def is_disk_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)
