"""Native dequantization against the `gguf` library, for every block type the kernels read."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
import torch

from miton_engine.kernels.build import load_library
from miton_engine.kernels.dequantise import dequantise
from miton_engine.kernels.packed import BLOCK, ThreadPool
from miton_engine.models.checkpoint import QuantizedTensor
from miton_engine.models.sources import default_cache_dir


@pytest.mark.parametrize("kind", sorted(BLOCK))
@pytest.mark.parametrize("rows", [1, 3, 64])
def test_blocks_become_the_bf16_of_the_library_s_values(kind: str, rows: int) -> None:
    library = load_library(default_cache_dir() / "kernels")
    assert library is not None
    block_columns, block_bytes = BLOCK[kind]
    random = np.random.default_rng(rows)
    raw = random.integers(0, 256, (rows * 2, block_bytes), dtype=np.uint8)
    # Scales are half floats; random bytes would make some of them NaN or infinite.
    for offset in {"Q4_1": (0, 2), "Q5_1": (0, 2), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}.get(
        kind, (0,)
    ):
        scales = random.normal(0, 0.02, rows * 2).astype(np.float16)
        raw[:, offset : offset + 2] = scales.view(np.uint8).reshape(-1, 2)
    blocks = QuantizedTensor(kind, (rows, 2 * block_columns), raw.reshape(rows, -1))
    expected = gguf.dequantize(blocks.data, gguf.GGMLQuantizationType[kind])
    got = dequantise(ThreadPool(library, 2), blocks)
    assert got is not None
    assert torch.equal(got, torch.from_numpy(expected).reshape(got.shape).bfloat16())
