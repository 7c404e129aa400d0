"""Chunks whose tokens, key and KV follow from one number, so what a store returns can be recomputed."""

from __future__ import annotations

import random

import torch

from miton_engine.memory.chunk_kv import ChunkKV, chunk_key

LAYERS, HEADS, HEAD_DIM = 3, 2, 16
SINK = (7, 8, 9)


def make_chunk(number: int, fingerprint: str = "model", tokens: int | None = None) -> ChunkKV:
    """The chunk of that number: 1 to 200 tokens (or `tokens`), KV drawn with its key as the seed."""
    draw = random.Random(number)
    length = tokens or draw.randint(1, 200)
    return compute([number, *(draw.randrange(150_000) for _ in range(length - 1))], fingerprint)


def compute(token_ids: list[int], fingerprint: str = "model") -> ChunkKV:
    """Stands for the model: KV as a function of the key alone."""
    key = chunk_key(fingerprint, "test-1", SINK, token_ids)
    generator = torch.Generator().manual_seed(int(key[:15], 16))
    shape = (2, LAYERS, HEADS, len(token_ids), HEAD_DIM)
    k, v = torch.randn(shape, generator=generator).bfloat16().unbind()
    return ChunkKV(key, torch.tensor(token_ids, dtype=torch.int32), k.contiguous(), v.contiguous())


def same(a: ChunkKV | None, b: ChunkKV | None) -> bool:
    """Equal bit for bit, or both missing."""
    if a is None or b is None:
        return a is b
    return (
        a.key == b.key
        and a.extras.keys() == b.extras.keys()
        and all(
            x.dtype == y.dtype and torch.equal(x, y)
            for x, y in [(a.tokens, b.tokens), (a.k, b.k), (a.v, b.v)]
            + [(a.extras[name], b.extras[name]) for name in a.extras]
        )
    )


def is_right(chunk: ChunkKV, fingerprint: str = "model") -> bool:
    """Whether a chunk is what computing its own tokens again gives."""
    return same(chunk, compute(chunk.tokens.tolist(), fingerprint))
