"""The store against a dict, under any sequence of operations."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path

from deterministic_chunks import make_chunk, same
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from miton_engine.memory.chunk_kv import ChunkKV
from miton_engine.memory.encoding import kv_encoding
from miton_engine.memory.store import ChunkStore

CHUNKS = [make_chunk(number, tokens=1 + number * 3) for number in range(12)]
numbers = st.integers(0, len(CHUNKS) - 1)


class StoreEqualsDict(RuleBasedStateMachine):
    """With room on disk the store is a dict, whatever memory evicts and however often it is reopened."""

    @initialize(
        encoding=st.sampled_from(["native", "int8"]),
        memory_bytes=st.sampled_from([0, 4_000, 20_000, 1 << 20]),
    )
    def open(self, encoding: str, memory_bytes: int) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.encoding, self.memory_bytes = encoding, memory_bytes
        self.model: dict[str, ChunkKV] = {}
        self.pins: Counter[str] = Counter()
        self.store = self.reopened()

    def reopened(self) -> ChunkStore:
        return ChunkStore(self.directory, self.memory_bytes, 1 << 30, encoding=self.encoding)

    def stored(self, chunk: ChunkKV) -> ChunkKV:
        encoding = kv_encoding(self.encoding)
        return encoding.decode(chunk.key, encoding.encode(chunk))

    @rule(number=numbers)
    def put(self, number: int) -> None:
        self.store.put(CHUNKS[number])
        self.model[CHUNKS[number].key] = self.stored(CHUNKS[number])

    @rule(number=numbers)
    def get(self, number: int) -> None:
        key = CHUNKS[number].key
        assert same(self.store.get(key), self.model.get(key))

    @rule(number=numbers)
    def contains(self, number: int) -> None:
        key = CHUNKS[number].key
        assert self.store.contains(key) == (key in self.model)

    @rule(number=numbers)
    def remove(self, number: int) -> None:
        key = CHUNKS[number].key
        assert self.store.remove(key) == (self.model.pop(key, None) is not None)

    @rule(chosen=st.sets(numbers, max_size=4))
    def pin(self, chosen: set[int]) -> None:
        keys = [CHUNKS[number].key for number in chosen]
        self.store.pin(keys)
        self.pins.update(keys)

    @precondition(lambda self: self.pins)
    @rule(data=st.data())
    def unpin(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.pins)))
        self.store.unpin([key])
        self.pins -= Counter([key])

    @rule()
    def flush(self) -> None:
        assert self.store.flush()

    @rule()
    def verify(self) -> None:
        assert self.store.verify().ok

    @rule()
    def close_and_reopen(self) -> None:
        self.store.close()
        self.store = self.reopened()
        self.pins.clear()

    @rule()
    def second_store_on_the_directory(self) -> None:
        assert self.store.flush()
        with self.reopened() as other:
            assert other.keys() == self.model.keys()

    @invariant()
    def keys_match_and_memory_is_bounded(self) -> None:
        assert self.store.keys() == self.model.keys()
        memory = self.store.stats()["memory"]
        pinned_bytes = sum(CHUNKS[n].nbytes for n in range(len(CHUNKS)) if CHUNKS[n].key in self.pins)
        assert memory["bytes"] <= max(self.memory_bytes, 0) + 2 * pinned_bytes

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.directory)


class StoreUnderQuota(RuleBasedStateMachine):
    """Two stores on one small directory: a chunk may be gone, but not wrong, nor while it is pinned."""

    @initialize()
    def open(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.stores = [ChunkStore(self.directory, 6_000, 25_000) for _ in range(2)]
        self.pins: list[set[str]] = [set(), set()]

    @rule(which=st.integers(0, 1), number=numbers)
    def put(self, which: int, number: int) -> None:
        self.stores[which].put(CHUNKS[number])
        assert self.stores[which].flush()
        assert self.stores[1]._disk.bytes <= 25_000 or self.pins[0] or self.pins[1]

    @rule(which=st.integers(0, 1), number=numbers)
    def get(self, which: int, number: int) -> None:
        found = self.stores[which].get(CHUNKS[number].key)
        assert found is None or same(found, CHUNKS[number])
        assert found is not None or CHUNKS[number].key not in self.pins[which]

    @rule(which=st.integers(0, 1), number=numbers)
    def pin_if_there(self, which: int, number: int) -> None:
        key = CHUNKS[number].key
        if key not in self.pins[which]:
            self.stores[which].pin([key])
            if self.stores[which].get(key) is not None:
                self.pins[which].add(key)
            else:
                self.stores[which].unpin([key])

    @rule(which=st.integers(0, 1))
    def unpin_all(self, which: int) -> None:
        self.stores[which].unpin(self.pins[which])
        self.pins[which].clear()

    @rule(which=st.integers(0, 1))
    def reopen(self, which: int) -> None:
        self.stores[which].close()
        self.pins[which].clear()
        self.stores[which] = ChunkStore(self.directory, 6_000, 25_000)

    def teardown(self) -> None:
        for store in getattr(self, "stores", []):
            store.close()
        if hasattr(self, "directory"):
            shutil.rmtree(self.directory)


StoreEqualsDict.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
StoreUnderQuota.TestCase.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
TestStoreEqualsDict = StoreEqualsDict.TestCase
TestStoreUnderQuota = StoreUnderQuota.TestCase
