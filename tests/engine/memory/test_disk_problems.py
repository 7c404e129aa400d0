"""A disk that is full or may not be written: chunks stay in memory, it is said once, writing resumes."""

from __future__ import annotations

import logging
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from deterministic_chunks import make_chunk, same
from store_processes import write_as_nobody, write_past_a_limit

CHUNKS = [make_chunk(number, tokens=200) for number in range(40)]  # 77 KB each


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB."""
    point = tmp_path / "disk"
    point.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(point)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield point
    subprocess.run(["umount", "-l", str(point)], check=True)


def test_a_full_disk(small_disk: Path, open_store, caplog) -> None:
    caplog.set_level(logging.WARNING)
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1_800_000))
    store = open_store(directory=small_disk, memory_bytes=8 << 20)
    for chunk in CHUNKS[:8]:
        store.put(chunk)
    assert not store.flush()
    for chunk in CHUNKS[8:12]:
        store.put(chunk)
        assert not store.flush()
    assert all(same(store.get(chunk.key), chunk) for chunk in CHUNKS[:12])
    assert "No space left" in store.stats()["disk"]["problem"]
    assert caplog.text.count("cannot write chunk KV") == 1
    assert list(small_disk.glob("v1/temporary/*")) == []

    ballast.unlink()
    assert store.flush()
    assert store.stats()["disk"]["problem"] is None
    assert caplog.text.count("written to") == 1
    store.close()
    again = open_store(directory=small_disk)
    assert all(same(again.get(chunk.key), chunk) for chunk in CHUNKS[:12])


def test_a_disk_too_small_for_all_keeps_what_fits_whole(small_disk: Path, open_store) -> None:
    store = open_store(directory=small_disk, memory_bytes=8 << 20)
    for chunk in CHUNKS:
        store.put(chunk)
    for _ in range(30):
        store.flush()
    assert all(same(store.get(chunk.key), chunk) for chunk in CHUNKS)
    store.close()
    again = open_store(directory=small_disk)
    kept = [chunk for chunk in CHUNKS if again.contains(chunk.key)]
    assert len(kept) >= 5
    assert all(same(again.get(chunk.key), chunk) for chunk in kept)
    assert again.verify().ok


def test_files_that_may_not_grow(start, tmp_path: Path) -> None:
    _, answers = start(write_past_a_limit, tmp_path)
    flushed_full, served, problem, flushed_after, problem_after = answers.recv()
    assert not flushed_full
    assert served
    assert "too large" in problem
    assert flushed_after
    assert problem_after is None


def test_a_directory_that_may_be_read_but_not_written(start, open_store) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        store = open_store(directory=directory)
        store.put(make_chunk(1))
        store.close()
        for path in [directory, *directory.rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        _, answers = start(write_as_nobody, directory)
        flushed, served, problem = answers.recv()
        for path in [directory, *directory.rglob("*")]:
            path.chmod(0o755)
    assert not flushed
    assert served == (True, True)
    assert "Permission denied" in problem


def test_a_file_in_the_directorys_place(open_store, tmp_path: Path, caplog) -> None:
    place = tmp_path / "taken"
    place.write_text("mine")
    store = open_store(directory=place)
    store.put(CHUNKS[0])
    assert not store.flush()
    assert same(store.get(CHUNKS[0].key), CHUNKS[0])
    assert store.get(CHUNKS[1].key) is None
    assert store.keys() == {CHUNKS[0].key}
    assert caplog.text.count("cannot write chunk KV") == 1
    place.unlink()
    assert store.flush()
    assert store.stats()["disk"]["problem"] is None
    store.close()
    assert same(open_store(directory=place).get(CHUNKS[0].key), CHUNKS[0])


def test_an_entry_that_cannot_be_read_does_not_stop_the_others(open_store, tmp_path: Path) -> None:
    store = open_store()
    for chunk in CHUNKS[:3]:
        store.put(chunk)
    store.close()
    (path,) = (path for path in tmp_path.glob("v1/payloads/*/*") if path.name.startswith(CHUNKS[0].key))
    path.unlink()
    path.mkdir()  # reading it is an OSError, for every user
    (tmp_path / "v1" / "index.sqlite3").unlink()
    store = open_store()
    assert store.get(CHUNKS[0].key) is None
    assert same(store.get(CHUNKS[1].key), CHUNKS[1])
    store.put(CHUNKS[3])
    assert store.flush()
    assert store.stats()["disk"]["entries"] == 3
    assert store.stats()["disk"]["unreadable"] == 2


def test_only_the_user_may_look_inside(open_store, tmp_path: Path) -> None:
    open_store()
    assert (tmp_path / "v1").stat().st_mode & 0o777 == 0o700
