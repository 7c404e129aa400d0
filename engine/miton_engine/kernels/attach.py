"""Places stored chunk KV into a live cache: keys turned by one constant rotation, values copied.

R(p + o) = R(o) R(p) (RoFormer, arXiv 2104.09864): keys stored at chunk-local positions move by a constant
angle.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import torch
from torch import Tensor

from miton_engine.kernels.packed import ThreadPool

Attach = Callable[[Tensor, Tensor, int, Tensor, Tensor, Tensor, Tensor], None]


def attach_reference(
    keys: Tensor, values: Tensor, slot: int, chunk_k: Tensor, chunk_v: Tensor, cos: Tensor, sin: Tensor
) -> None:
    """Write a chunk into slots slot .. slot + tokens - 1 of the cache, its keys rotated.

    keys, values: [layers, kv_heads, slots, head_dim]; chunk_k, chunk_v: [layers, kv_heads, tokens, head_dim],
    same dtype; cos, sin: fp32 [rotary dim / 2] of offset * inv_freq. Dimensions past the rotary ones are
    copied.
    """
    half, tokens = cos.shape[0], chunk_k.shape[2]
    a, b = chunk_k[..., :half].float(), chunk_k[..., half : 2 * half].float()
    turned = torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).to(keys.dtype)
    keys[:, :, slot : slot + tokens, : 2 * half] = turned
    keys[:, :, slot : slot + tokens, 2 * half :] = chunk_k[..., 2 * half :]
    values[:, :, slot : slot + tokens] = chunk_v


def attach_native(
    pool: ThreadPool,
    keys: Tensor,
    values: Tensor,
    slot: int,
    chunk_k: Tensor,
    chunk_v: Tensor,
    cos: Tensor,
    sin: Tensor,
) -> None:
    """`attach_reference` for bf16, all layers in one call on the kernels' threads. Raises ValueError."""
    layers, kv_heads, tokens, head_dim = chunk_k.shape
    if any(t.dtype is not torch.bfloat16 for t in (keys, values, chunk_k, chunk_v)):
        raise ValueError("keys and values must be bf16")
    if chunk_v.shape != chunk_k.shape or values.shape != keys.shape or keys.stride() != values.stride():
        raise ValueError("keys and values must have the same shape")
    if (keys.shape[0], keys.shape[1], keys.shape[3]) != (layers, kv_heads, head_dim):
        raise ValueError(f"chunk {tuple(chunk_k.shape)} does not fit a cache {tuple(keys.shape)}")
    if (
        keys.stride()[2:] != (head_dim, 1)
        or not 0 <= slot <= keys.shape[2] - tokens
        or 2 * cos.shape[0] > head_dim
    ):
        raise ValueError(f"{tokens} slots from {slot} do not fit the cache of {keys.shape[2]}")
    chunk_k, chunk_v = chunk_k.contiguous(), chunk_v.contiguous()
    cos, sin = cos.float().contiguous(), sin.float().contiguous()
    shape = _AttachShape(
        layers, kv_heads, tokens, head_dim, 2 * cos.shape[0], slot, keys.stride(0), keys.stride(1)
    )
    pool.library.miton_attach(
        pool.handle,
        ctypes.addressof(shape),
        *(t.data_ptr() for t in (cos, sin, chunk_k, chunk_v, keys, values)),
    )


class _AttachShape(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_int64)
        for name in (
            *("layers", "kv_heads", "tokens", "head_dim"),
            *("rope_dim", "slot", "layer_stride", "head_stride"),
        )
    ]
