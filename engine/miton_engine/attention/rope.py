"""Rotary position embedding in the half-split ("neox") layout (RoFormer, arXiv 2104.09864).

Rotations compose: R(p + o) = R(o) R(p). That is why keys stored at chunk-local positions are placed anywhere
in a context by one rotation with a constant angle, and why centroids of keys move by the same rotation.
"""

from __future__ import annotations

import torch
from torch import Tensor

from miton_engine.models.config import RopeConfig


class RotaryTable:
    """Cosines and sines of every position up to `max_positions`, computed once in fp32.

    `cos` and `sin` are [max_positions, head_dim / 2] fp32 and carry the attention scaling that YaRN asks for
    (arXiv 2309.00071); `inv_freq` is [head_dim / 2] fp32 without it.
    """

    def __init__(self, rope: RopeConfig, max_positions: int) -> None:
        self.inv_freq = rope.inv_freq(max_positions).float()
        angles = torch.arange(max_positions, dtype=torch.float32)[:, None] * self.inv_freq[None]
        self.cos = (angles.cos() * rope.attention_scaling).contiguous()
        self.sin = (angles.sin() * rope.attention_scaling).contiguous()

    def rotate(self, states: Tensor, positions: Tensor) -> Tensor:
        """Rotate `states` [tokens, heads, head_dim] to `positions` [tokens] int64; computed in fp32."""
        return _rotate_half_split(states, self.cos[positions][:, None], self.sin[positions][:, None])

    def shift(self, keys: Tensor, offset: int) -> Tensor:
        """Move rotated `keys` [..., head_dim] by `offset` positions (may be negative); dtype is kept."""
        angle = self.inv_freq * float(offset)
        return _rotate_half_split(keys, angle.cos(), angle.sin())


def _rotate_half_split(states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = states.shape[-1] // 2
    first, second = states[..., :half].float(), states[..., half:].float()
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(states.dtype)
