"""How chunk KV lies in the store's tiers: as computed, or as int8 with a scale per layer, head and token.

Symmetric quantisation by token, as KIVI's for values (arXiv 2402.02750); at 8 bits keys need no grouping by
channel either.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from miton_engine.errors import StoreError
from miton_engine.memory.chunk_kv import ChunkKV

EXTRA = "extra."


class KVEncoding(Protocol):
    """Named tensors <-> chunk KV. Encoding is deterministic; decoding raises KeyError if a tensor lacks."""

    name: str

    def encode(self, chunk: ChunkKV) -> dict[str, Tensor]: ...

    def decode(self, key: str, tensors: Mapping[str, Tensor]) -> ChunkKV: ...


class NativeEncoding:
    """K and V bit for bit: `tokens`, `k`, `v`, `extra.*`. 12 KB a token for 24 layers of 2 heads of 64."""

    name = "native"

    def encode(self, chunk: ChunkKV) -> dict[str, Tensor]:
        return {"tokens": chunk.tokens, "k": chunk.k, "v": chunk.v, **_prefixed(chunk.extras)}

    def decode(self, key: str, tensors: Mapping[str, Tensor]) -> ChunkKV:
        return ChunkKV(key, tensors["tokens"], tensors["k"], tensors["v"], _extras(tensors))


class Int8Encoding:
    """`k`, `v` int8 [layers, kv_heads, tokens, head_dim], their scales fp32 [layers, kv_heads, tokens].

    A value is scale * integer, scale = the largest magnitude in the token's head / 127, so its error is at
    most half a scale, and the rounding of bf16, to which it is decoded. Extras stay as they are.

    Measured with Qwen2.5-Coder-0.5B on 600-token chunks of ten standard library modules: relative error of K
    1.1%, of V 0.75%; NLL of the 249 tokens after each chunk 1.479 from int8, 1.480 from bf16, 2.038 without it.
    """

    name = "int8"

    def encode(self, chunk: ChunkKV) -> dict[str, Tensor]:
        k, k_scale = _quantize(chunk.k)
        v, v_scale = _quantize(chunk.v)
        tensors = {"tokens": chunk.tokens, "k": k, "k_scale": k_scale, "v": v, "v_scale": v_scale}
        return tensors | _prefixed(chunk.extras)

    def decode(self, key: str, tensors: Mapping[str, Tensor]) -> ChunkKV:
        k = _dequantize(tensors["k"], tensors["k_scale"])
        v = _dequantize(tensors["v"], tensors["v_scale"])
        return ChunkKV(key, tensors["tokens"], k, v, _extras(tensors))


_ENCODINGS: dict[str, KVEncoding] = {
    encoding.name: encoding for encoding in (NativeEncoding(), Int8Encoding())
}


def kv_encoding(name: str) -> KVEncoding:
    """The encoding of that name. Raises StoreError for an unknown one."""
    if name not in _ENCODINGS:
        raise StoreError(f"Unknown KV encoding {name!r}. Choose one of: {', '.join(_ENCODINGS)}.")
    return _ENCODINGS[name]


def _quantize(values: Tensor) -> tuple[Tensor, Tensor]:
    values = values.float()
    scale = values.abs().amax(dim=-1) / 127
    divisor = torch.where(scale > 0, scale, 1.0)  # a head of zeros stays zeros
    return torch.round(values / divisor.unsqueeze(-1)).clamp_(-127, 127).to(torch.int8), scale


def _dequantize(values: Tensor, scale: Tensor) -> Tensor:
    return (values * scale.unsqueeze(-1)).to(torch.bfloat16)


def _prefixed(extras: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {EXTRA + name: tensor for name, tensor in extras.items()}


def _extras(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name[len(EXTRA) :]: tensor for name, tensor in tensors.items() if name.startswith(EXTRA)}
