"""Content keys: what differs gets another key."""

from __future__ import annotations

import hashlib
import struct

import pytest
from deterministic_chunks import make_chunk
from hypothesis import given
from hypothesis import strategies as st

from miton_engine.memory.chunk_kv import chunk_key

ids = st.lists(st.integers(0, 2**32 - 1), max_size=6)
fields = st.tuples(st.text(max_size=4), st.text(max_size=4), ids, ids)


def test_key_is_sha256_of_the_documented_bytes() -> None:
    data = b"miton chunk key 1\0" + struct.pack("<Q", 2) + "é".encode() + struct.pack("<Q", 1) + b"n"
    data += struct.pack("<QI", 1, 5) + struct.pack("<QII", 2, 6, 4_000_000_000)
    assert chunk_key("é", "n", [5], [6, 4_000_000_000]) == hashlib.sha256(data).hexdigest()


@given(fields, fields)
def test_different_inputs_have_different_keys(a: tuple, b: tuple) -> None:
    assert (chunk_key(*a) == chunk_key(*b)) == (a == b)


@given(ids, ids, st.integers(0, 6))
def test_moving_tokens_between_sink_and_chunk_changes_the_key(sink: list, chunk: list, cut: int) -> None:
    joined = sink + chunk
    moved = joined[:cut], joined[cut:]
    assert (chunk_key("m", "n", *moved) == chunk_key("m", "n", sink, chunk)) == (moved == (sink, chunk))


@pytest.mark.parametrize("bad", [[-1], [2**32], [1, 2, -5]])
def test_token_ids_out_of_range_are_refused(bad: list[int]) -> None:
    with pytest.raises(ValueError, match=r"0 \.\. 2\*\*32 - 1"):
        chunk_key("m", "n", [], bad)


def test_models_with_the_same_tokens_do_not_share_entries(open_store) -> None:
    store = open_store()
    a, b = make_chunk(1, "model a"), make_chunk(1, "model b")
    assert a.tokens.equal(b.tokens)
    assert a.key != b.key
    store.put(a)
    assert store.get(b.key) is None
