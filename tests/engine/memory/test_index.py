"""A broken index is made again from the payloads, at the start and while in use."""

from __future__ import annotations

import sqlite3

import pytest
from deterministic_chunks import make_chunk, same

CHUNKS = [make_chunk(number) for number in range(12)]


def break_index(path, how: str) -> None:
    data = path.read_bytes()
    if how == "deleted":
        path.unlink()
    elif how == "another schema":
        path.unlink()
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE payloads (other TEXT)")
            connection.execute("PRAGMA user_version = 1")
        connection.close()
    elif how == "a later schema version":
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA user_version = 77")
        connection.close()
    else:
        middle = len(data) // 2
        path.write_bytes(
            {
                "garbage": b"\x93garbage" * 4000,
                "zero length": b"",
                "truncated": data[: middle + 100],
                "a page of noise": data[:4096] + bytes(range(256)) * 16 + data[8192:],
                "a broken header": b"x" * 100 + data[100:],
            }[how]
        )


WAYS = [
    "deleted",
    "another schema",
    "a later schema version",
    "garbage",
    "zero length",
    "truncated",
    "a page of noise",
    "a broken header",
]


@pytest.mark.parametrize("how", WAYS)
def test_a_broken_index_loses_nothing(open_store, tmp_path, how: str) -> None:
    store = open_store()
    for chunk in CHUNKS:
        store.put(chunk)
    store.close()
    break_index(tmp_path / "v1" / "index.sqlite3", how)
    store = open_store()
    assert store.stats()["disk"]["problem"] is None
    assert store.stats()["disk"]["entries"] == len(CHUNKS)
    assert all(same(store.get(chunk.key), chunk) for chunk in CHUNKS)
    with sqlite3.connect(tmp_path / "v1" / "index.sqlite3") as connection:
        assert connection.execute("SELECT count(*) FROM payloads").fetchone() == (len(CHUNKS),)
    connection.close()


@pytest.mark.parametrize("how", WAYS)
def test_an_index_broken_while_in_use_stops_nothing(open_store, tmp_path, how: str) -> None:
    store = open_store(memory_bytes=0)
    for chunk in CHUNKS[:6]:
        store.put(chunk)
    store.flush()
    break_index(tmp_path / "v1" / "index.sqlite3", how)
    for chunk in CHUNKS[6:]:
        store.put(chunk)
    assert store.flush()
    assert all(same(store.get(chunk.key), chunk) for chunk in CHUNKS)
    store.close()
    again = open_store()
    assert again.keys() == {chunk.key for chunk in CHUNKS}
    assert again.stats()["disk"]["entries"] == len(CHUNKS)
    assert again.stats()["disk"]["problem"] is None


def test_an_index_with_rows_of_missing_payloads_is_corrected(open_store, tmp_path) -> None:
    store = open_store()
    for chunk in CHUNKS:
        store.put(chunk)
    store.close()
    for path in list(tmp_path.glob("v1/payloads/*/*.safetensors"))[:5]:
        path.unlink()
    assert open_store().stats()["disk"]["entries"] == len(CHUNKS) - 5
