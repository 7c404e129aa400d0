"""Payload files: the documented bytes, and no damage that passes for a chunk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import xxhash
from deterministic_chunks import make_chunk, same
from safetensors import safe_open

from miton_engine.memory.encoding import kv_encoding
from miton_engine.memory.payload import (
    DamagedPayload,
    Payload,
    UnknownVersion,
    read_header,
    read_payload,
    serialize,
)

CHUNK = make_chunk(5, tokens=2)


def file_bytes() -> bytes:
    _, head, rest = serialize(Payload(CHUNK.key, "native", kv_encoding("native").encode(CHUNK)))
    return head + bytes(rest)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "payload.safetensors"


def test_a_payload_is_a_safetensors_file_that_the_library_reads(path: Path) -> None:
    path.write_bytes(file_bytes())
    with safe_open(path, "pt") as file:
        assert (
            file.metadata().items() >= {"format": "miton-chunk-kv", "version": "1", "key": CHUNK.key}.items()
        )
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    assert same(kv_encoding("native").decode(CHUNK.key, tensors), CHUNK)


def test_the_checksum_is_computed_as_documented(path: Path) -> None:
    data = file_bytes()
    length = int.from_bytes(data[:8], "little")
    checksum = json.loads(data[8 : 8 + length])["__metadata__"]["checksum"]
    assert data.count(checksum.encode()) == 1
    assert xxhash.xxh3_128_hexdigest(data.replace(checksum.encode(), b"0" * 32)) == checksum


def test_no_flipped_bit_is_read(path: Path) -> None:
    good = file_bytes()
    for at in range(len(good)):
        bad = bytearray(good)
        bad[at] ^= 1 << at % 8
        path.write_bytes(bad)
        with pytest.raises((DamagedPayload, UnknownVersion)):
            read_payload(path)


def test_no_cut_or_lengthened_file_is_read(path: Path) -> None:
    good = file_bytes()
    for bad in [*(good[:length] for length in range(len(good))), good + b"\0", good + good, bytes(len(good))]:
        path.write_bytes(bad)
        for read in (read_payload, read_header):
            with pytest.raises(DamagedPayload):
                read(path)


@pytest.mark.parametrize(
    "header",
    [b"", b"[]", b"{}", b"null", b'{"__metadata__": 3}', b"\xff\xfe", b"[" * 5000, b'{"__metadata__": {}}'],
)
def test_a_file_of_another_kind_is_damaged_not_a_crash(path: Path, header: bytes) -> None:
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    for read in (read_payload, read_header):
        with pytest.raises(DamagedPayload):
            read(path)


def test_an_unknown_version_is_told_apart_from_damage(path: Path) -> None:
    path.write_bytes(file_bytes().replace(b'"version":"1"', b'"version":"2"'))
    for read in (read_payload, read_header):
        with pytest.raises(UnknownVersion):
            read(path)
