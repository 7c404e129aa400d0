"""What the encodings keep of K and V."""

from __future__ import annotations

import pytest
import torch
from deterministic_chunks import make_chunk, same

from miton_engine.errors import StoreError
from miton_engine.memory.chunk_kv import ChunkKV
from miton_engine.memory.encoding import kv_encoding


def with_magnitudes(scale: float) -> ChunkKV:
    chunk = make_chunk(3, tokens=40)
    k = chunk.k * scale
    k[:, :, 0] = 0  # a head of zeros
    k[:, :, 1, 0] = 300 * scale  # an outlier, as keys with biases have
    return ChunkKV(
        chunk.key, chunk.tokens, k, chunk.v, {"summary": torch.randn(5), "clusters": torch.arange(9)}
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float16])
def test_native_keeps_every_bit(dtype: torch.dtype) -> None:
    chunk = with_magnitudes(1)
    chunk.k, chunk.v = chunk.k.to(dtype), chunk.v.to(dtype)
    native = kv_encoding("native")
    assert same(native.decode(chunk.key, native.encode(chunk)), chunk)


@pytest.mark.parametrize("scale", [1e-20, 1e-3, 1.0, 1e3, 1e30])
def test_int8_error_is_within_half_a_step_and_bf16_rounding(scale: float) -> None:
    chunk = with_magnitudes(scale)
    int8 = kv_encoding("int8")
    decoded = int8.decode(chunk.key, int8.encode(chunk))
    for got, true in ((decoded.k, chunk.k), (decoded.v, chunk.v)):
        true = true.double()
        step = true.abs().amax(-1, keepdim=True) / 127
        bound = 0.5 * step * (1 + 1e-5) + true.abs().add(step) * 2**-8
        assert got.dtype == torch.bfloat16
        assert ((got.double() - true).abs() <= bound).all()
    assert decoded.k[:, :, 0].abs().max() == 0
    assert decoded.extras["clusters"].equal(chunk.extras["clusters"])


def test_int8_halves_what_is_stored(open_store) -> None:
    store = open_store(encoding="int8")
    chunk = make_chunk(1, tokens=100)
    store.put(chunk)
    kv_bytes = chunk.k.nbytes + chunk.v.nbytes
    scales = kv_bytes // 2 // 16 * 4  # fp32 per 16 bf16 values here; per 64 in the default model
    assert store.stats()["memory"]["bytes"] == kv_bytes // 2 + scales + chunk.tokens.nbytes


def test_encodings_share_a_directory_without_mixing(open_store) -> None:
    chunk = make_chunk(1)
    native, int8 = open_store(), open_store(encoding="int8")
    native.put(chunk)
    native.flush()
    assert int8.get(chunk.key) is None
    int8.put(chunk)
    int8.flush()
    assert same(open_store().get(chunk.key), chunk)
    assert not same(open_store(encoding="int8").get(chunk.key), chunk)


def test_unknown_encoding_is_refused(tmp_path, open_store) -> None:
    with pytest.raises(StoreError, match="Choose one of: native, int8"):
        open_store(encoding="fp4")
