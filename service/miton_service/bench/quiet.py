"""Turns on one machine: two benchmarks at once would measure each other.

Most hold the machine from begin to end. One that takes hours shares it with its owner and holds it for one sample at
a time; `flock ~/.cache/miton/bench/measuring COMMAND` runs a command between two samples.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
from rich.console import Console

from miton_engine.models.sources import default_cache_dir

IDLE_SHARE = 0.1  # of all processors; a desktop at rest uses less
LOOK_S = 0.5
PATIENCE_S = 60.0


@contextmanager
def one_at_a_time(console: Console) -> Iterator[None]:
    """Hold the machine; waits, and says so, while another benchmark of this user holds it."""
    directory = default_cache_dir() / "bench"
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "measuring").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            console.print("Another benchmark is running; waiting for its turn to end ...")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def quiet_moment(console: Console, patience_s: float = PATIENCE_S) -> Iterator[bool]:
    """Hold the machine for one sample; yields whether it was idle within `patience_s` seconds."""
    with one_at_a_time(console):
        deadline = time.monotonic() + patience_s
        idle = False
        while not idle and time.monotonic() < deadline:
            idle = psutil.cpu_percent(interval=LOOK_S) <= 100 * IDLE_SHARE
        yield idle
