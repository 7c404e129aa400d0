"""The store's promises, one by one."""

from __future__ import annotations

import logging
import threading

import pytest
import torch
from deterministic_chunks import is_right, make_chunk, same

from miton_engine.errors import StoreError
from miton_engine.memory.chunk_kv import ChunkKV

CHUNKS = [make_chunk(number, tokens=50) for number in range(20)]
SIZE = CHUNKS[0].nbytes


def payload_files(directory):
    return sorted(directory.glob("v1/payloads/*/*.safetensors"))


def damage(path, how: str) -> None:
    data = path.read_bytes()
    if how == "missing":
        path.unlink()
    else:
        changed = bytearray(data)
        changed[len(data) * 2 // 3] ^= 4
        path.write_bytes(
            {
                "zero length": b"",
                "truncated": data[: len(data) // 2],
                "short by one": data[:-1],
                "flipped bit": bytes(changed),
                "zeroed tail": data[:-64] + bytes(64),
                "garbage": b"not a payload" * 100,
            }[how]
        )


DAMAGES = ["missing", "zero length", "truncated", "short by one", "flipped bit", "zeroed tail", "garbage"]


def test_what_was_put_is_found_after_reopening(open_store) -> None:
    store = open_store()
    chunk = ChunkKV(*vars(CHUNKS[0]).values())
    chunk.extras = {"prototypes": torch.randn(4, 3), "cluster": torch.arange(50, dtype=torch.uint8)}
    store.put(chunk)
    assert same(store.get(chunk.key), chunk)
    store.close()
    again = open_store()
    assert again.contains(chunk.key)
    assert same(again.get(chunk.key), chunk)
    assert again.keys() == {chunk.key}


def test_putting_more_extras_replaces_what_is_on_disk(open_store) -> None:
    store = open_store()
    store.put(CHUNKS[0])
    store.flush()
    richer = ChunkKV(CHUNKS[0].key, CHUNKS[0].tokens, CHUNKS[0].k, CHUNKS[0].v, {"summary": torch.ones(3)})
    store.put(richer)
    store.flush()
    assert same(open_store().get(richer.key), richer)


def test_putting_the_same_again_writes_no_file(open_store, tmp_path) -> None:
    store = open_store()
    store.put(CHUNKS[0])
    store.flush()
    (file,) = payload_files(tmp_path)
    inode = file.stat().st_ino
    store.put(CHUNKS[0])
    store.flush()
    assert file.stat().st_ino == inode


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_payload_is_a_miss_then_whole_again(open_store, tmp_path, how: str, caplog) -> None:
    store = open_store()
    for chunk in CHUNKS[:3]:
        store.put(chunk)
    store.close()
    store = open_store()  # nothing in memory
    (path,) = (path for path in payload_files(tmp_path) if path.name.startswith(CHUNKS[0].key))
    damage(path, how)
    assert store.get(CHUNKS[0].key) is None
    assert store.stats()["disk"]["damaged"] == (how != "missing")
    assert store.stats()["misses"] == 1
    assert not store.contains(CHUNKS[0].key)
    assert ("dropped the damaged chunk KV" in caplog.text) == (how != "missing")
    assert same(store.get(CHUNKS[1].key), CHUNKS[1])
    store.put(CHUNKS[0])
    assert store.flush()
    assert store.stats()["disk"]["entries"] == 3
    assert same(open_store().get(CHUNKS[0].key), CHUNKS[0])


@pytest.mark.parametrize("how", DAMAGES)
def test_damage_before_the_start_is_settled(open_store, tmp_path, how: str) -> None:
    store = open_store()
    for chunk in CHUNKS[:3]:
        store.put(chunk)
    store.close()
    damage(payload_files(tmp_path)[1], how)
    store = open_store()
    found = [store.get(chunk.key) for chunk in CHUNKS[:3]]
    assert sum(chunk is None for chunk in found) == 1
    assert all(is_right(chunk) for chunk in found if chunk)


def test_a_payload_under_another_chunks_name_is_dropped(open_store, tmp_path) -> None:
    store = open_store()
    for chunk in CHUNKS[:2]:
        store.put(chunk)
    store.close()
    first, second = payload_files(tmp_path)
    first.write_bytes(second.read_bytes())
    store = open_store()
    found = [store.get(chunk.key) for chunk in CHUNKS[:2]]
    assert sum(chunk is None for chunk in found) == 1
    assert all(is_right(chunk) for chunk in found if chunk)


def test_verify_finds_and_drops_damage(open_store, tmp_path) -> None:
    store = open_store()
    for chunk in CHUNKS[:5]:
        store.put(chunk)
    store.flush()
    assert store.verify().checked == 5
    bad = payload_files(tmp_path)[2]
    damage(bad, "flipped bit")
    report = store.verify()
    assert report.damaged == (bad.name[:64],)
    assert not report.ok
    assert not bad.exists()
    assert store.verify().ok
    assert store.verify(2).checked == 2


def test_an_unknown_payload_version_is_left_alone_and_a_miss(open_store, tmp_path) -> None:
    store = open_store()
    store.put(CHUNKS[0])
    store.close()
    (path,) = payload_files(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'"version":"1"', b'"version":"9"'))
    store = open_store()
    assert store.get(CHUNKS[0].key) is None
    assert path.exists()
    assert store.stats()["disk"]["damaged"] == 0


def test_another_versions_folder_is_left_alone(open_store, tmp_path) -> None:
    other = tmp_path / "v2" / "index.sqlite3"
    other.parent.mkdir()
    other.write_text("a later version's")
    store = open_store()
    store.put(CHUNKS[0])
    store.close()
    assert other.read_text() == "a later version's"


def test_memory_evicts_the_least_recently_used(open_store) -> None:
    store = open_store(memory_bytes=3 * SIZE, disk_bytes=0)
    for chunk in CHUNKS[:3]:
        store.put(chunk)
    store.get(CHUNKS[0].key)
    store.put(CHUNKS[3])
    assert store.keys() == {CHUNKS[0].key, CHUNKS[2].key, CHUNKS[3].key}
    assert store.stats()["memory"]["bytes"] == 3 * SIZE


def test_pinned_chunks_stay_in_memory_and_on_disk(open_store) -> None:
    store = open_store(memory_bytes=2 * SIZE, disk_bytes=5 * SIZE)
    pinned = [chunk.key for chunk in CHUNKS[:4]]
    with store.pinned(pinned):  # before they exist
        for chunk in CHUNKS:
            store.put(chunk)
            store.flush()
        assert all(same(store.get(chunk.key), chunk) for chunk in CHUNKS[:4])
        assert store.stats()["memory"]["bytes"] == 4 * SIZE
    assert store.stats()["memory"]["bytes"] <= 2 * SIZE
    assert set(pinned) <= open_store(disk_bytes=5 * SIZE).keys()


def test_a_pin_holds_against_another_process_that_evicts(open_store) -> None:
    writer = open_store()
    writer.put(CHUNKS[0])
    writer.close()
    reader, evictor = open_store(), open_store(disk_bytes=3 * SIZE)
    with reader.pinned([CHUNKS[0].key]):
        for chunk in CHUNKS[1:]:
            evictor.put(chunk)
        evictor.flush()
        assert not evictor.contains(CHUNKS[0].key)
        assert same(reader.get(CHUNKS[0].key), CHUNKS[0])


def test_pins_are_counted(open_store) -> None:
    store = open_store(memory_bytes=0, disk_bytes=0)
    key = CHUNKS[0].key
    store.pin([key])
    store.pin([key])
    store.put(CHUNKS[0])
    store.unpin([key])
    assert store.contains(key)
    store.unpin([key])
    assert not store.contains(key)
    with pytest.raises(StoreError, match="without pin"):
        store.unpin([key])


def test_disk_quota_evicts_the_least_recently_used(open_store, tmp_path) -> None:
    store = open_store(memory_bytes=0)
    for chunk in CHUNKS[:6]:
        store.put(chunk)
        store.flush()
    assert store.get(CHUNKS[0].key) is not None  # used last
    store.close()
    file_bytes = payload_files(tmp_path)[0].stat().st_size
    store = open_store(memory_bytes=0, disk_bytes=4 * file_bytes)
    store.put(CHUNKS[6])
    store.flush()
    assert store.keys() == {CHUNKS[number].key for number in (0, 4, 5, 6)}
    assert store.stats()["disk"]["bytes"] == 4 * file_bytes
    assert len(payload_files(tmp_path)) == 4


def test_a_chunk_larger_than_the_quota_is_kept_in_memory_only(open_store, tmp_path) -> None:
    store = open_store(disk_bytes=SIZE // 2)
    store.put(CHUNKS[0])
    assert store.flush()
    assert payload_files(tmp_path) == []
    assert same(store.get(CHUNKS[0].key), CHUNKS[0])


def test_removed_chunks_do_not_come_back(open_store) -> None:
    store = open_store()
    for chunk in CHUNKS[:3]:
        store.put(chunk)
    assert store.remove(CHUNKS[0].key)
    assert not store.remove(CHUNKS[0].key)
    store.flush()
    assert store.get(CHUNKS[0].key) is None
    assert open_store().keys() == {CHUNKS[1].key, CHUNKS[2].key}


def test_a_chunk_evicted_before_it_was_written_is_still_found(open_store) -> None:
    store = open_store(memory_bytes=0)
    for chunk in CHUNKS:
        store.put(chunk)
        assert same(store.get(chunk.key), chunk)


def test_a_put_view_does_not_keep_its_whole_storage_alive(open_store) -> None:
    store = open_store()
    wide = torch.randn(3, 2, 1000, 16).bfloat16()
    chunk = ChunkKV(CHUNKS[0].key, CHUNKS[0].tokens, wide[:, :, :50], wide[:, :, 50:100])
    store.put(chunk)
    assert store.get(chunk.key).k.untyped_storage().nbytes() == chunk.k.numel() * 2
    assert store.stats()["memory"]["bytes"] == SIZE


@pytest.mark.parametrize("key", ["", "abc", "../" * 21 + "x", "A" * 64, "0" * 63 + "\n", "0" * 65])
def test_a_malformed_key_is_refused(open_store, key: str) -> None:
    store = open_store()
    for use in (store.get, store.contains, store.remove, lambda key: store.pin([key])):
        with pytest.raises(StoreError, match="64 hexadecimal digits"):
            use(key)


def test_a_closed_store_says_so(open_store) -> None:
    store = open_store()
    store.close()
    store.close()
    for use in (lambda: store.get(CHUNKS[0].key), lambda: store.put(CHUNKS[0]), store.keys, store.flush):
        with pytest.raises(StoreError, match="closed"):
            use()


def test_what_a_dead_process_left_is_cleaned(open_store, tmp_path) -> None:
    store = open_store()
    store.put(CHUNKS[0])
    store.close()
    left = tmp_path / "v1" / "temporary" / "dead.tmp"
    left.write_bytes(b"half")
    moved = payload_files(tmp_path)[0]
    (tmp_path / "v1" / "index.sqlite3").unlink()  # the payload has no row now
    store = open_store()
    assert not left.exists()
    assert moved.exists()
    assert store.stats()["disk"]["entries"] == 1


def test_a_live_process_keeps_its_temporary_files(open_store, tmp_path) -> None:
    open_store()
    mine = tmp_path / "v1" / "temporary" / "alive.tmp"
    mine.write_bytes(b"half")
    open_store()
    assert mine.exists()


def test_a_directory_deleted_while_in_use_is_made_again(open_store, tmp_path) -> None:
    import shutil

    store = open_store()
    store.put(CHUNKS[0])
    store.flush()
    shutil.rmtree(tmp_path / "v1")
    assert same(store.get(CHUNKS[0].key), CHUNKS[0])
    store.put(CHUNKS[1])
    assert store.flush()
    assert same(open_store().get(CHUNKS[1].key), CHUNKS[1])


def test_a_full_backlog_drops_the_oldest_and_put_never_waits(open_store, monkeypatch) -> None:
    store = open_store(memory_bytes=0, backlog_bytes=3 * SIZE)
    gate = threading.Event()
    write = store._disk.write
    monkeypatch.setattr(store._disk, "write", lambda *arguments: (gate.wait(30), write(*arguments)))
    for chunk in CHUNKS:
        store.put(chunk)  # would never return if it waited for the gate
    assert store.stats()["disk"]["waiting_bytes"] <= 3 * SIZE
    assert store.stats()["disk"]["dropped_writes"] == len(CHUNKS) - 3
    gate.set()
    assert store.flush()
    assert {chunk.key for chunk in CHUNKS[-3:]} <= store.keys()


def test_threads_share_a_store(open_store) -> None:
    store = open_store(memory_bytes=4 * SIZE)
    wrong: list[str] = []

    def work(offset: int) -> None:
        for step in range(200):
            chunk = CHUNKS[(offset + step * 7) % len(CHUNKS)]
            found = store.get(chunk.key)
            if found is None:
                store.put(chunk)
            elif not same(found, chunk):
                wrong.append(chunk.key)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    store.flush()
    assert store.keys() == {chunk.key for chunk in CHUNKS}


def test_nothing_is_logged_in_ordinary_use(open_store, caplog) -> None:
    caplog.set_level(logging.INFO)
    store = open_store()
    store.put(CHUNKS[0])
    store.close()
    open_store().get(CHUNKS[0].key)
    assert caplog.text == ""


def test_removing_while_others_read_and_write_leaves_nothing_behind(open_store) -> None:
    store = open_store(memory_bytes=2 * SIZE)
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            for chunk in CHUNKS[:3]:
                store.get(chunk.key)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for step in range(60):
            chunk = CHUNKS[step % 3]
            store.put(chunk)
            if step % 2:
                store.flush()
            assert store.remove(chunk.key)
            assert store.get(chunk.key) is None
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert store.flush()
    assert store.keys() == set()
