"""The decode step of `native.py` in plain torch, fp32: the oracle its tests compare with. Slow and clear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:
    from miton_engine.kernels.native import Ranges
    from miton_engine.models.checkpoint import Checkpoint


class ReferenceDecoder:
    """Same arguments and results as `NativeDecoder.step`, for any number of tokens.

    `round_activations` rounds what enters a product to int8 in groups of 32, as the kernels do.
    """

    def __init__(
        self, checkpoint: Checkpoint, cos: Tensor, sin: Tensor, *, round_activations: bool = False
    ) -> None:
        self.config, self._checkpoint, self._cos, self._sin = checkpoint.config, checkpoint, cos, sin
        self._round = round_to_int8 if round_activations else lambda x: x

    def step(
        self,
        token_ids: Sequence[int],
        positions: Sequence[int],
        slot: int,
        keys: Tensor,
        values: Tensor,
        ranges: Ranges,
    ) -> Tensor:
        """Logits fp32 [tokens, vocab]; writes the new keys and values into the cache."""
        c, tensor = self.config, self._checkpoint.tensor
        x = tensor("token_embd.weight")[list(token_ids)]
        for layer in range(c.num_layers):
            block = f"blk.{layer}"
            h = self._norm(x, f"{block}.attn_norm.weight")
            q, k, v = (
                self._linear(h, f"{block}.attn_{name}").view(len(token_ids), -1, c.head_dim) for name in "qkv"
            )
            q = self._rotate(self._norm(q, f"{block}.attn_q_norm.weight"), positions)
            k = self._rotate(self._norm(k, f"{block}.attn_k_norm.weight"), positions)
            new = slice(slot, slot + len(token_ids))
            keys[layer, :, new] = k.transpose(0, 1).to(keys.dtype)
            values[layer, :, new] = v.transpose(0, 1).to(values.dtype)
            heads = [
                self._attend(
                    q, head, keys[layer], values[layer], _visible(ranges, layer, head // self._group), new
                )
                for head in range(c.num_heads)
            ]
            x = x + self._linear(torch.cat(heads, dim=-1), f"{block}.attn_output")
            h = self._norm(x, f"{block}.ffn_norm.weight")
            gated = F.silu(self._linear(h, f"{block}.ffn_gate")) * self._linear(h, f"{block}.ffn_up")
            x = x + self._linear(gated, f"{block}.ffn_down")
        head_name = "output.weight" if self._checkpoint.has("output.weight") else "token_embd.weight"
        return F.linear(self._round(self._norm(x, "output_norm.weight")), tensor(head_name))

    @property
    def _group(self) -> int:
        return self.config.num_heads // self.config.num_kv_heads

    def _attend(
        self,
        q: Tensor,
        head: int,
        keys: Tensor,
        values: Tensor,
        ranges: Sequence[tuple[int, int]],
        new: slice,
    ) -> Tensor:
        """One query head over its visible slots: [tokens, head_dim]."""
        past = [slot for begin, end in ranges for slot in range(begin, end)]
        slots = torch.tensor([*past, *range(new.start, new.stop)])
        tokens = q.shape[0]
        mask = torch.ones(tokens, len(slots), dtype=torch.bool)
        mask[:, len(past) :] = torch.ones(tokens, tokens, dtype=torch.bool).tril()
        k, v = keys[head // self._group, slots].float(), values[head // self._group, slots].float()
        logits = (q[:, head] @ k.T) / self.config.head_dim**0.5
        weights = logits.masked_fill(~mask, -torch.inf).softmax(-1)
        return torch.matmul(weights, v)

    def _linear(self, x: Tensor, name: str) -> Tensor:
        bias = self._checkpoint.tensor(f"{name}.bias") if self._checkpoint.has(f"{name}.bias") else None
        return F.linear(self._round(x), self._checkpoint.tensor(f"{name}.weight"), bias)

    def _norm(self, x: Tensor, name: str) -> Tensor:
        if not self._checkpoint.has(name):
            return x
        return F.rms_norm(x, (x.shape[-1],), self._checkpoint.tensor(name), self.config.rms_norm_eps)

    def _rotate(self, x: Tensor, positions: Sequence[int]) -> Tensor:
        cos, sin = self._cos[list(positions), None], self._sin[list(positions), None]
        half = cos.shape[-1]
        a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
        return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], dim=-1)


def round_to_int8(x: Tensor) -> Tensor:
    """x [..., n] rounded to int8 with one scale per 32 values (ggml's Q8_0, scales in fp32); fp32."""
    groups = x.reshape(*x.shape[:-1], -1, 32)
    scale = groups.abs().amax(-1, keepdim=True) / 127
    return torch.where(scale > 0, (groups / scale).round() * scale, 0.0).reshape(x.shape)


def _visible(ranges: Ranges, layer: int, kv_head: int) -> Sequence[tuple[int, int]]:
    if len(ranges) and not isinstance(ranges[0][0], int):
        return ranges[layer][kv_head]  # type: ignore[return-value]
    return ranges  # type: ignore[return-value]
