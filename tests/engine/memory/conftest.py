"""Stores in temporary directories, and processes that start quickly (torch is imported once, then forked)."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from miton_engine.memory.store import ChunkStore

MIB = 1 << 20


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Callable[..., ChunkStore]]:
    """Open stores on one directory; those still open are closed after the test."""
    stores: list[ChunkStore] = []

    def make(memory_bytes: int = MIB, disk_bytes: int = 64 * MIB, **options: Any) -> ChunkStore:
        stores.append(ChunkStore(options.pop("directory", tmp_path), memory_bytes, disk_bytes, **options))
        return stores[-1]

    yield make
    for store in stores:
        store.close()


@pytest.fixture
def start() -> Iterator[Callable[..., tuple[BaseProcess, Connection]]]:
    """Run a function of `store_processes` in another process; its last argument is a pipe to the test."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["miton_engine.memory.store"])
    processes: list[BaseProcess] = []

    def run(function: Callable[..., None], *arguments: object) -> tuple[BaseProcess, Connection]:
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=function, args=(*arguments, there))
        process.start()
        there.close()
        processes.append(process)
        return process, here

    yield run
    for process in processes:
        process.kill()
        process.join()
