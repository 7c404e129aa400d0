"""Several processes on one directory, and processes killed at any moment."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
from deterministic_chunks import is_right
from store_processes import die_at_a_line, evict_until_killed, fill_until_killed, hammer

KILLS = int(os.environ.get("MITON_KILLS", "20"))


@pytest.mark.parametrize("disk_bytes", [1 << 30, 300_000], ids=["room for all", "evicting"])
def test_processes_hammering_one_directory_see_no_wrong_chunk(
    start, open_store, tmp_path: Path, disk_bytes: int
) -> None:
    running = [start(hammer, tmp_path, seed, 4.0, disk_bytes) for seed in range(3)]
    results = [answers.recv() for _, answers in running]
    for process, _ in running:
        process.join()
    assert [wrong for wrong, _, _ in results] == [0, 0, 0]
    for _, operations, stats in results:
        assert operations > 20
        assert stats["disk"]["damaged"] == 0
        assert stats["disk"]["problem"] is None
        assert stats["disk"]["index_rebuilds"] == 0
    store = open_store(disk_bytes=disk_bytes)
    assert store.verify().ok
    files = list(tmp_path.glob("v1/payloads/*/*.safetensors"))
    assert store.stats()["disk"]["entries"] == len(files)
    assert store.stats()["disk"]["bytes"] == sum(path.stat().st_size for path in files) <= disk_bytes
    assert list(tmp_path.glob("v1/temporary/*")) == []


@pytest.mark.slow
def test_kill_9_at_random_moments_loses_and_alters_nothing(start, open_store, tmp_path: Path) -> None:
    """MITON_KILLS sets how many (20). What `flush` promised is there, and every chunk is right."""
    draw = random.Random(KILLS)
    promised: set[str] = set()
    for kill in range(KILLS):
        filler, answers = start(fill_until_killed, tmp_path, kill)
        evictor, ready = start(evict_until_killed, tmp_path / "evicting", kill)
        answers.recv(), ready.recv()
        time.sleep(draw.uniform(0, 0.4))
        for process in (filler, evictor):
            os.kill(process.pid, signal.SIGKILL)
            process.join()
        try:
            while True:
                promised.update(answers.recv())
        except EOFError:
            pass
        for directory in (tmp_path, tmp_path / "evicting"):
            store = open_store(directory=directory, memory_bytes=0, disk_bytes=1 << 30)
            assert store.verify().ok
            assert store.stats()["disk"]["damaged"] == 0
            assert store.stats()["disk"]["index_rebuilds"] == 0
            assert list(directory.glob("v1/temporary/*")) == []
            keys = store.keys()
            assert store.stats()["disk"]["entries"] == len(keys)
            for key in keys if kill == KILLS - 1 else draw.sample(sorted(keys), min(20, len(keys))):
                chunk = store.get(key)
                assert chunk is not None
                assert is_right(chunk)
            store.close()
            if directory == tmp_path:
                assert promised <= keys
    assert len(promised) >= KILLS


@pytest.mark.slow
def test_kill_9_at_every_line_of_the_writer(start, open_store, tmp_path: Path) -> None:
    """Every 41st line by default, every line from MITON_KILLS=200 on."""
    step = 1 if KILLS >= 200 else 41
    line, done = 1, False
    while not done:
        child, answers = start(die_at_a_line, tmp_path, line)
        last = None
        try:
            while (answer := answers.recv()) != "done":
                last = answer
            done = True
        except EOFError:
            pass
        child.join()
        store = open_store(memory_bytes=0, disk_bytes=150_000)
        assert last is None or store.contains(last)
        assert all(is_right(store.get(key)) for key in sorted(store.keys()))
        assert store.stats()["disk"]["damaged"] == 0
        assert store.stats()["disk"]["index_rebuilds"] == 0
        assert store.stats()["disk"]["entries"] == len(store.keys())
        assert list(tmp_path.glob("v1/temporary/*")) == []
        store.close()
        line += step
    assert line > 300
