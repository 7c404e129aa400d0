"""Weight matrices in the native kernels' layout: the file's ggml blocks without loss, or quantised here.

The kernels read ggml's formats (github.com/ggml-org/ggml, ggml-common.h). A tensor in another format is
quantised to groups of 32 along the input: int8 is ggml's Q8_0 (scale), int4 its Q4_1 (scale and minimum).
"""

from __future__ import annotations

import ctypes
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Quantization = Literal["native", "int8", "int4"]

GGML_KINDS = {"Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q5_1": 7, "Q8_0": 8, "Q4_K": 12, "Q5_K": 13, "Q6_K": 14}
BLOCK = {"Q4_0": (32, 18), "Q4_1": (32, 20), "Q5_0": (32, 22), "Q5_1": (32, 24), "Q8_0": (32, 34)} | {
    "Q4_K": (256, 144),
    "Q5_K": (256, 176),
    "Q6_K": (256, 210),
}
"""Columns and bytes of one block."""

MAX_TOKENS = 16  # rows of activations that share one reading of the weights


class ThreadPool:
    """The kernels' persistent threads; the calling thread is one of them. `release` ends them."""

    handle: int | None = None

    def __init__(self, library: ctypes.CDLL, threads: int) -> None:
        self.library, self.threads = library, max(1, threads)
        self.handle = library.miton_pool_create(self.threads)
        if not self.handle:
            raise MemoryError("no memory for the kernels' threads")

    def release(self) -> None:
        if self.handle:
            self.library.miton_pool_destroy(self.handle)
            self.handle = None

    __del__ = release


class PackedMatrix:
    """A weight matrix [rows, columns] in tiles of 32 rows.

    `raw` is uint8 [rows, bytes per row] of ggml blocks of type `kind`. Raises ValueError where they do not
    fit.
    """

    handle: int | None = None

    def __init__(
        self, pool: ThreadPool, kind: str, shape: tuple[int, int], raw: npt.NDArray[np.uint8]
    ) -> None:
        rows, columns = shape
        if kind not in GGML_KINDS:
            raise ValueError(f"the native kernels do not read {kind} weights")
        block_columns, block_bytes = BLOCK[kind]
        if columns % block_columns or raw.shape != (rows, columns // block_columns * block_bytes):
            raise ValueError(f"{kind} blocks of shape {raw.shape} do not make a matrix of {rows} x {columns}")
        raw = np.ascontiguousarray(raw, dtype=np.uint8)
        self.kind, self.shape, self._pool = kind, (rows, columns), pool
        self.handle = pool.library.miton_matrix_create(
            pool.handle, GGML_KINDS[kind], rows, columns, raw.ctypes.data
        )
        if not self.handle:
            raise MemoryError(f"no memory for a weight matrix of {rows} x {columns}")

    @property
    def nbytes(self) -> int:
        """Bytes that one product reads."""
        return int(self._pool.library.miton_matrix_bytes(self.handle))

    def row(self, index: int) -> Tensor:
        """Row `index`, dequantised: fp32 [columns]."""
        if not 0 <= index < self.shape[0]:
            raise IndexError(index)
        out = torch.empty(self.shape[1])
        self._pool.library.miton_matrix_row(self.handle, index, out.data_ptr())
        return out

    def multiply(self, x: Tensor) -> Tensor:
        """x [tokens <= 16, columns] fp32 times the transposed matrix: fp32 [tokens, rows]. x is rounded to
        int8.
        """
        if x.dim() != 2 or x.shape[1] != self.shape[1] or not 1 <= x.shape[0] <= MAX_TOKENS:
            raise ValueError(f"activations of shape {tuple(x.shape)} for a matrix of {self.shape}")
        x = x.float().contiguous()
        y = torch.empty(x.shape[0], self.shape[0])
        self._pool.library.miton_matrix_multiply(
            self._pool.handle, self.handle, x.data_ptr(), x.shape[0], y.data_ptr()
        )
        return y

    def release(self) -> None:
        if self.handle:
            self._pool.library.miton_matrix_destroy(self.handle)
            self.handle = None

    __del__ = release


def quantise(weight: Tensor, kind: Literal["Q8_0", "Q4_1"]) -> npt.NDArray[np.uint8]:
    """ggml blocks, uint8 [rows, bytes per row], of `weight` [rows, columns]; columns must divide by 32."""
    pieces = [_quantise_rows(piece.float(), kind) for piece in torch.split(weight, 8192)]
    return np.concatenate(pieces)


def _quantise_rows(weight: Tensor, kind: Literal["Q8_0", "Q4_1"]) -> npt.NDArray[np.uint8]:
    rows, columns = weight.shape
    if columns % 32:
        raise ValueError(f"a matrix of {columns} columns cannot be cut into groups of 32")
    groups = weight.reshape(rows, columns // 32, 32)
    if kind == "Q8_0":
        scale = (groups.abs().amax(-1, keepdim=True) / 127).half()
        values = _divide(groups, scale).round().clamp(-127, 127).to(torch.int8)
        parts = [scale.view(torch.uint8), values.view(torch.uint8)]
    else:
        low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
        scale, minimum = ((high - low) / 15).half(), low.half()
        q = _divide(groups - minimum.float(), scale).round().clamp(0, 15).to(torch.uint8)
        parts = [scale.view(torch.uint8), minimum.view(torch.uint8), q[..., :16] | (q[..., 16:] << 4)]
    return torch.cat(parts, dim=-1).reshape(rows, -1).numpy()


def _divide(groups: Tensor, scale: Tensor) -> Tensor:
    divisor = scale.float()
    return torch.where(divisor > 0, groups / divisor.clamp(min=1e-12), torch.zeros(()))
