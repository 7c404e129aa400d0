"""Packed matrices against gguf's own dequantisation, on every instruction set."""

from __future__ import annotations

from collections.abc import Callable

import gguf
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from miton_engine.kernels.packed import BLOCK, GGML_KINDS, PackedMatrix, ThreadPool, quantise
from miton_engine.kernels.reference import round_to_int8

Blocks = Callable[..., np.ndarray]
few = settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def dequantised(kind: str, raw: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(gguf.dequantize(raw, gguf.GGMLQuantizationType[kind])).float()


@pytest.mark.parametrize("kind", GGML_KINDS)
def test_packing_loses_nothing(pool: ThreadPool, random_blocks: Blocks, kind: str) -> None:
    rows, columns = 45, 3 * BLOCK[kind][0]
    raw = random_blocks(kind, rows, columns, seed=1)
    matrix = PackedMatrix(pool, kind, (rows, columns), raw)
    expected = dequantised(kind, raw)
    for row in range(rows):
        torch.testing.assert_close(matrix.row(row), expected[row], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kind", GGML_KINDS)
@few
@given(
    rows=st.integers(1, 130), blocks=st.integers(1, 4), tokens=st.integers(1, 16), seed=st.integers(0, 999)
)
def test_products_equal_those_of_the_dequantised_matrix(
    pool: ThreadPool, random_blocks: Blocks, kind: str, rows: int, blocks: int, tokens: int, seed: int
) -> None:
    columns = blocks * BLOCK[kind][0]
    raw = random_blocks(kind, rows, columns, seed)
    x = torch.randn(tokens, columns, generator=torch.Generator().manual_seed(seed))
    x[0, :32] = 0  # a group without a scale
    expected = round_to_int8(x).double() @ dequantised(kind, raw).double().T
    # Activations half-way between two int8 values may round either way.
    got = PackedMatrix(pool, kind, (rows, columns), raw).multiply(x).double()
    assert (got - expected).abs().max() <= 2e-3 * expected.abs().max()


def test_extreme_values_do_not_overflow(pool: ThreadPool, random_blocks: Blocks) -> None:
    """255 * 127 in every place saturates 16-bit sums where a build uses them carelessly."""
    columns = 64
    for kind in GGML_KINDS:
        width = max(columns, BLOCK[kind][0])
        raw = random_blocks(kind, 32, width, seed=3)
        if kind == "Q8_0":
            raw = raw.reshape(32, -1, 34)
            raw[..., 2:] = np.tile(np.array([127, 128], dtype=np.uint8), 16)  # 127, -128, ...
            raw = raw.reshape(32, -1)
        for sign in (1.0, -1.0):
            x = torch.full((1, width), sign)
            expected = x.double() @ dequantised(kind, raw).double().T
            got = PackedMatrix(pool, kind, (32, width), raw).multiply(x)
            torch.testing.assert_close(got.double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_1"])
def test_quantised_here_is_as_close_as_gguf(kind: str) -> None:
    weight = torch.randn(7, 96)
    weight[2] = 0
    ours = dequantised(kind, quantise(weight, kind))  # type: ignore[arg-type]
    theirs = dequantised(kind, gguf.quantize(weight.numpy(), gguf.GGMLQuantizationType[kind]))
    assert (ours - weight).norm() <= 1.02 * (theirs - weight).norm()
    assert torch.equal(ours[2], torch.zeros(96))


def test_blocks_that_do_not_fit_are_refused(pool: ThreadPool, random_blocks: Blocks) -> None:
    raw = random_blocks("Q5_0", 4, 64, seed=0)
    with pytest.raises(ValueError, match="do not make a matrix"):
        PackedMatrix(pool, "Q5_0", (4, 96), raw)
    with pytest.raises(ValueError, match="do not read IQ2_XS"):
        PackedMatrix(pool, "IQ2_XS", (4, 64), raw)
    with pytest.raises(ValueError, match="48 columns"):
        quantise(torch.zeros(2, 48), "Q8_0")
    with pytest.raises(ValueError, match="activations"):
        PackedMatrix(pool, "Q5_0", (4, 64), raw).multiply(torch.zeros(17, 64))
