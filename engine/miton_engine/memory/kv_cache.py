"""The KV cache of one live context: a few regions of slots, each filled from its start.

Slots are where KV lies, positions are what RoPE rotated it to; the two are independent. So a region may grow
without moving its neighbours, and what a token sees is a list of slot ranges.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from miton_engine.models.config import ModelConfig

SlotRange = tuple[int, int]
"""First slot and one past the last."""


@dataclass(slots=True)
class Region:
    """A run of slots: `length` of `capacity` are filled."""

    start: int
    capacity: int
    length: int = 0

    @property
    def end(self) -> int:
        return self.start + self.length

    @property
    def filled(self) -> SlotRange:
        return self.start, self.end


class KVCache:
    """K and V [layers, kv_heads, slots, head_dim] in `dtype`, cut into regions of the given capacities.

    A region that must grow past its capacity makes the whole cache move once, with room to spare.
    """

    GROWTH = 512  # slots: a region's capacity is a multiple of this

    def __init__(self, config: ModelConfig, regions: int, dtype: torch.dtype) -> None:
        self._config, self._dtype = config, dtype
        self.regions = [Region(0, 0) for _ in range(regions)]
        self.k = self._allocate(0)
        self.v = self._allocate(0)

    @property
    def nbytes(self) -> int:
        return self.k.nbytes + self.v.nbytes

    def reserve(self, index: int, capacity: int) -> None:
        """Make region `index` at least `capacity` slots large, keeping what every region holds."""
        if capacity <= self.regions[index].capacity:
            return
        grown = -(-capacity // self.GROWTH) * self.GROWTH
        old = self.regions
        starts, start = [], 0
        for i, region in enumerate(old):
            starts.append(start)
            start += grown if i == index else region.capacity
        k, v = self._allocate(start), self._allocate(start)
        for region, new_start in zip(old, starts, strict=True):
            source, target = slice(*region.filled), slice(new_start, new_start + region.length)
            k[:, :, target], v[:, :, target] = self.k[:, :, source], self.v[:, :, source]
        self.k, self.v = k, v
        for i, (region, new_start) in enumerate(zip(old, starts, strict=True)):
            region.start = new_start
            region.capacity = grown if i == index else region.capacity

    def write(self, layer: int, slot: int, k: Tensor, v: Tensor) -> None:
        """Store k, v [tokens, kv_heads, head_dim] from `slot` on."""
        self.k[layer, :, slot : slot + k.shape[0]] = k.transpose(0, 1)
        self.v[layer, :, slot : slot + k.shape[0]] = v.transpose(0, 1)

    def views(self, layer: int, ranges: list[SlotRange]) -> list[tuple[Tensor, Tensor]]:
        """(K, V) [kv_heads, length, head_dim] of each range."""
        return [(self.k[layer, :, a:b], self.v[layer, :, a:b]) for a, b in ranges]

    def move(self, region: Region, kept_from: int, to: int) -> None:
        """Move the region's slots from offset `kept_from` on to offset `to`, then cut it there."""
        count = region.length - kept_from
        source = slice(region.start + kept_from, region.end)
        target = slice(region.start + to, region.start + to + count)
        self.k[:, :, target] = self.k[:, :, source].clone()
        self.v[:, :, target] = self.v[:, :, source].clone()
        region.length = to + count

    def _allocate(self, slots: int) -> Tensor:
        c = self._config
        return torch.empty(c.num_layers, c.num_kv_heads, slots, c.head_dim, dtype=self._dtype)
