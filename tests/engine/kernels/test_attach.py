"""Placing chunk KV: the native call against torch, and against rotating from scratch."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from miton_engine.kernels.attach import attach_native, attach_reference
from miton_engine.kernels.packed import ThreadPool


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    layers=st.integers(1, 3),
    kv_heads=st.integers(1, 3),
    tokens=st.integers(0, 70),
    head_dim=st.sampled_from([16, 24, 64, 128]),
    partial=st.booleans(),
    slot=st.integers(0, 20),
    offset=st.integers(-300, 9000),
)
def test_native_equals_reference(
    pool: ThreadPool,
    layers: int,
    kv_heads: int,
    tokens: int,
    head_dim: int,
    partial: bool,
    slot: int,
    offset: int,
) -> None:
    rotary = head_dim // 2 if partial else head_dim
    generator = torch.Generator().manual_seed(offset)
    chunk_k, chunk_v = (
        torch.randn(layers, kv_heads, tokens, head_dim, generator=generator).bfloat16() for _ in range(2)
    )
    angle = offset / 1e4 ** (torch.arange(0, rotary, 2) / rotary)
    start = torch.randn(layers, kv_heads, 100, head_dim, generator=generator).bfloat16()
    caches = [start.clone() for _ in range(4)]
    attach_reference(caches[0], caches[1], slot, chunk_k, chunk_v, angle.cos(), angle.sin())
    attach_native(pool, caches[2], caches[3], slot, chunk_k, chunk_v, angle.cos(), angle.sin())
    # One unit in the last place of bf16 where a fused multiply-add rounds once instead of twice.
    torch.testing.assert_close(caches[2].float(), caches[0].float(), rtol=2**-7, atol=1e-6)
    assert torch.equal(caches[3], caches[1])
    outside = [i for i in range(100) if not slot <= i < slot + tokens]
    assert torch.equal(caches[2][:, :, outside], start[:, :, outside])


def test_arguments_that_do_not_fit_are_refused(pool: ThreadPool) -> None:
    cache, chunk, angle = (
        torch.zeros(2, 2, 10, 16).bfloat16(),
        torch.zeros(2, 2, 4, 16).bfloat16(),
        torch.zeros(8),
    )
    bad = [
        (cache, cache, 7, chunk, chunk),
        (cache, cache, -1, chunk, chunk),
        (cache.float(), cache.float(), 0, chunk, chunk),
        (cache, cache, 0, chunk[:1], chunk[:1]),
        (cache, cache[:, :, :5], 0, chunk, chunk),
        (cache[:, :, ::2], cache[:, :, ::2], 0, chunk, chunk),
    ]
    for keys, values, slot, chunk_k, chunk_v in bad:
        with pytest.raises(ValueError):
            attach_native(pool, keys, values, slot, chunk_k, chunk_v, angle.cos(), angle.sin())
