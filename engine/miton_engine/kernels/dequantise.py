"""ggml blocks to bf16 matrices on the kernels' threads, tested against `gguf.dequantize`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from miton_engine.kernels.packed import BLOCK, GGML_KINDS, ThreadPool

if TYPE_CHECKING:
    from miton_engine.models.checkpoint import QuantizedTensor


def dequantise(pool: ThreadPool, blocks: QuantizedTensor) -> Tensor | None:
    """The matrix [out, in] in bf16, rounded to nearest even; None for a type of block not known here."""
    if blocks.type not in GGML_KINDS:
        return None
    rows, columns = blocks.shape
    block_columns, block_bytes = BLOCK[blocks.type]
    raw = np.ascontiguousarray(blocks.data, dtype=np.uint8)
    out = torch.empty(rows, columns, dtype=torch.bfloat16)
    pool.library.miton_dequantise(
        pool.handle,
        GGML_KINDS[blocks.type],
        rows,
        columns,
        block_columns,
        block_bytes,
        raw.ctypes.data,
        out.data_ptr(),
    )
    return out
