"""What the tests run in other processes: module-level functions, so that multiprocessing can start them."""

from __future__ import annotations

import os
import random
import resource
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any

from deterministic_chunks import is_right, make_chunk, same

from miton_engine.memory.encoding import kv_encoding
from miton_engine.memory.payload import Payload
from miton_engine.memory.store import ChunkStore
from miton_engine.memory.write_back import WriteBack

TraceFunction = Callable[[FrameType, str, Any], Any]

NUMBERS = 60


def hammer(directory: Path, seed: int, seconds: float, disk_bytes: int, answers: Connection) -> None:
    """Put, get, remove, flush, verify at random; answer with the wrong chunks seen and the counters."""
    draw = random.Random(seed)
    wrong = operations = 0
    with ChunkStore(directory, memory_bytes=60_000, disk_bytes=disk_bytes) as store:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            operations += 1
            expected = make_chunk(draw.randrange(NUMBERS))
            choice = draw.random()
            if choice < 0.4:
                store.put(expected)
            elif choice < 0.8:
                found = store.get(expected.key)
                wrong += found is not None and not same(found, expected)
            elif choice < 0.9:
                with store.pinned([expected.key]):
                    held = store.contains(expected.key)
                    store.put(make_chunk(draw.randrange(NUMBERS)))
                    wrong += held and not same(store.get(expected.key), expected)
            elif choice < 0.95:
                store.remove(expected.key)
            elif choice < 0.99:
                wrong += not store.flush()
            else:
                wrong += not store.verify(5).ok
        store.flush()
        answers.send((wrong, operations, store.stats()))


def fill_until_killed(directory: Path, seed: int, answers: Connection) -> None:
    """Put without end; send each batch of keys once `flush` has promised that they are safe."""
    draw = random.Random(seed)
    store = ChunkStore(directory, memory_bytes=100_000, disk_bytes=1 << 30)
    answers.send([])
    while True:
        sizes = [draw.choice((20, 200, 4000)) for _ in range(draw.randint(1, 6))]  # 4 KB to 0.8 MB
        chunks = [make_chunk(draw.randrange(1 << 20), tokens=size) for size in sizes]
        for chunk in chunks:
            store.put(chunk)
            found = store.get(chunk.key)
            if found is not None and not is_right(found):
                answers.send(["wrong: " + chunk.key])
        if store.flush():
            answers.send([chunk.key for chunk in chunks])


def evict_until_killed(directory: Path, seed: int, answers: Connection) -> None:
    """As above, with a quota that makes every batch evict, and removals."""
    draw = random.Random(seed)
    store = ChunkStore(directory, memory_bytes=50_000, disk_bytes=400_000)
    answers.send([])
    while True:
        for _ in range(draw.randint(1, 12)):
            store.put(make_chunk(draw.randrange(300)))
        store.remove(make_chunk(draw.randrange(300)).key)


def write_past_a_limit(directory: Path, answers: Connection) -> None:
    """Files may not grow past 4 KB for a while, as on a disk that is full; then they may again."""
    store = ChunkStore(directory, memory_bytes=10 << 20, disk_bytes=1 << 30)
    chunks = [make_chunk(number, tokens=100) for number in range(10)]
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    for chunk in chunks:
        store.put(chunk)
    flushed_full = store.flush()
    served = all(same(store.get(chunk.key), chunk) for chunk in chunks)
    problem = store.stats()["disk"]["problem"]
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    flushed_after = store.flush()
    answers.send((flushed_full, served, problem, flushed_after, store.stats()["disk"]["problem"]))
    store.close()


def write_as_nobody(directory: Path, answers: Connection) -> None:
    """Use a directory as a user who may read but not write it."""
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    with ChunkStore(directory, memory_bytes=10 << 20, disk_bytes=1 << 30) as store:
        old, new = make_chunk(1), make_chunk(2)
        store.put(new)
        served = same(store.get(old.key), old), same(store.get(new.key), new)
        answers.send((store.flush(), served, store.stats()["disk"]["problem"]))


def die_at_a_line(directory: Path, line: int, answers: Connection) -> None:
    """Put, evict, remove; kill -9 at the `line`-th line that the writer's thread executes. Answer if it lives."""

    remaining = line

    def trace(frame: FrameType, event: str, _: object) -> TraceFunction | None:
        nonlocal remaining
        if Path(frame.f_code.co_filename).name not in ("disk.py", "index.py", "write_back.py"):
            return None
        if event == "line":
            remaining -= 1
            if remaining == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    draw = random.Random(line)
    store = ChunkStore(directory, memory_bytes=0, disk_bytes=150_000)
    threading.settrace(trace)  # the threads started from here on
    writer = WriteBack(store._disk, frozenset)
    for _ in range(3):
        for _ in range(2):
            chunk = make_chunk(draw.randrange(1 << 20), tokens=100)
            writer.put(Payload(chunk.key, "native", kv_encoding("native").encode(chunk)))
        writer.flush()
        answers.send(chunk.key)
    answers.send("done")
