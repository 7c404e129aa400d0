"""Runs the model over a live context's KV cache: prefill in pieces, and small steps for decode.

Prefill goes through the torch decoder (bf16 matrix products). Steps of a few tokens, where the weights'
bytes decide, go through the native CPU decoder with packed integer weights where it is available.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor

from miton_engine.attention.exact import causal_with_past
from miton_engine.kernels.attach import attach_native, attach_reference
from miton_engine.kernels.native import NativeDecoder
from miton_engine.kernels.packed import MAX_TOKENS, ThreadPool
from miton_engine.memory.kv_cache import KVCache, SlotRange
from miton_engine.models.decoder import Decoder

PREFILL_PIECE = 256  # tokens: the most that runs between two looks at the queue


class ModelRunner:
    """Forward passes that read and write a `KVCache`."""

    def __init__(
        self, decoder: Decoder, native: NativeDecoder | None = None, pool: ThreadPool | None = None
    ) -> None:
        self.decoder, self.native, self._pool = decoder, native, pool
        self.config = decoder.config

    def place(self, cache: KVCache, slot: int, k: Tensor, v: Tensor, offset: int) -> None:
        """Write chunk KV [layers, kv_heads, tokens, head_dim] to slots from `slot` on, keys moved by `offset`."""
        angle = self.decoder.rotary.inv_freq * float(offset)
        where = (cache.k, cache.v, slot, k, v, angle.cos(), angle.sin())
        if self._pool is None:
            attach_reference(*where)
        else:
            attach_native(self._pool, *where)

    def prefill(
        self, cache: KVCache, region: int, token_ids: Sequence[int], position: int, visible: list[SlotRange]
    ) -> Iterator[None]:
        """Append tokens to a region, from `position` on, seeing `visible`, the region so far and themselves.

        Yields after each piece of at most `PREFILL_PIECE` tokens; the region grows piece by piece, so a
        caller that stops midway keeps what is done.
        """
        cache.reserve(region, cache.regions[region].length + len(token_ids))
        for start in range(0, len(token_ids), PREFILL_PIECE):
            piece = token_ids[start : start + PREFILL_PIECE]
            target = cache.regions[region]
            seen = [*visible, target.filled]
            if self._fits_native(len(piece)):
                self._native_step(cache, piece, position + start, target.end, seen, "none")
            else:
                self._forward(cache, piece, position + start, target.end, seen)
            target.length += len(piece)
            yield

    def step(
        self, cache: KVCache, region: int, token_ids: Sequence[int], position: int, visible: list[SlotRange]
    ) -> Tensor:
        """Append a few tokens to a region and return their logits [tokens, vocab] fp32."""
        cache.reserve(region, cache.regions[region].length + len(token_ids))
        target = cache.regions[region]
        seen = [*visible, target.filled]
        if self._fits_native(len(token_ids)):
            logits = self._native_step(cache, token_ids, position, target.end, seen, "all")
        else:
            logits = self.decoder.logits(self._forward(cache, token_ids, position, target.end, seen))
        target.length += len(token_ids)
        return logits

    def greedy(
        self, cache: KVCache, region: int, token_ids: Sequence[int], position: int, visible: list[SlotRange]
    ) -> list[int]:
        """Like `step`, but only the likeliest token after each token: the head need not be read whole."""
        if not self._fits_native(len(token_ids)):
            return self.step(cache, region, token_ids, position, visible).argmax(-1).tolist()
        assert self.native is not None
        cache.reserve(region, cache.regions[region].length + len(token_ids))
        target = cache.regions[region]
        positions = range(position, position + len(token_ids))
        seen = [*visible, target.filled]
        best = self.native.greedy(token_ids, positions, target.end, cache.k, cache.v, seen)
        target.length += len(token_ids)
        return best

    def _fits_native(self, tokens: int) -> bool:
        return self.native is not None and tokens <= MAX_TOKENS

    def _native_step(
        self,
        cache: KVCache,
        token_ids: Sequence[int],
        position: int,
        slot: int,
        visible: list[SlotRange],
        logits: Literal["all", "none"],
    ) -> Tensor:
        assert self.native is not None
        positions = range(position, position + len(token_ids))
        return self.native.step(token_ids, positions, slot, cache.k, cache.v, visible, logits)

    def _forward(
        self, cache: KVCache, token_ids: Sequence[int], position: int, slot: int, visible: list[SlotRange]
    ) -> Tensor:
        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            cache.write(layer, slot, k, v)
            return causal_with_past(q, k, v, cache.views(layer, visible))

        positions = torch.arange(position, position + len(token_ids))
        return self.decoder.forward(torch.tensor(token_ids), positions, attend)
