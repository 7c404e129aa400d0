"""Chunk KV: the keys and values a model computed for one chunk, and the content key it is stored under."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

_DOMAIN = b"miton chunk key 1\0"


@dataclass
class ChunkKV:
    """KV of one chunk's tokens, prefilled after the sink. Tensors are on the CPU, contiguous and read-only:
    the store hands the same ones to every caller.
    """

    key: str
    tokens: Tensor  # [tokens] int32
    k: Tensor  # [layers, kv_heads, tokens, head_dim] bf16, rotated to positions sink_length + 0, 1, 2, ...
    v: Tensor  # same shape and dtype
    extras: dict[str, Tensor] = field(default_factory=dict)
    """What is derived from k and v and stored with them: clusters, prototypes, summary vector."""

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.nbytes for tensor in (self.tokens, self.k, self.v, *self.extras.values()))


def chunk_key(fingerprint: str, numerics: str, sink_ids: Sequence[int], token_ids: Sequence[int]) -> str:
    """Content key: 64 hexadecimal digits of SHA-256 over all that decides a chunk's KV.

    Hashed, after the constant `miton chunk key 1\\0`, is each field behind its length, so no two different
    inputs share an encoding: the model's fingerprint and the numerics version (u64 little-endian count of
    bytes, then UTF-8), the sink's and the chunk's token ids (u64 count of ids, then u32 little-endian each).

    Raises ValueError for a token id that is not in 0 .. 2**32 - 1.
    """
    digest = hashlib.sha256(_DOMAIN)
    for text in (fingerprint, numerics):
        encoded = text.encode()
        digest.update(struct.pack("<Q", len(encoded)) + encoded)
    for ids in (sink_ids, token_ids):
        array = np.asarray(ids, dtype=np.int64)
        if array.size and (array.min() < 0 or array.max() > 0xFFFFFFFF):
            raise ValueError(f"Token ids must be in 0 .. 2**32 - 1, got {array.min()} .. {array.max()}.")
        digest.update(struct.pack("<Q", array.size) + array.astype("<u4").tobytes())
    return digest.hexdigest()
