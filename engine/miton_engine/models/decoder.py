"""The decoder: one transformer for llama, qwen2, qwen3 and smollm, described by its `ModelConfig`.

RMSNorm, grouped-query attention with rotary positions, SwiGLU (the llama block, arXiv 2302.13971; qwen2 adds
biases on q, k and v; qwen3 adds RMSNorm on the heads of q and k). The decoder knows nothing of memory: how a
layer attends is a function its caller gives it, so chunk prefill, cached decode and dense reference share it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from miton_engine.attention.rope import RotaryTable
from miton_engine.models.checkpoint import Checkpoint, QuantizedTensor
from miton_engine.models.config import ModelConfig

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""(layer, q [tokens, heads, head_dim], k and v [tokens, kv_heads, head_dim]) -> [tokens, heads * head_dim].

q and k arrive rotated to their positions."""


class Linear:
    """y = x W^T + b with W packed once for oneDNN when it computes in bf16 on the CPU.

    Packing takes the reordering out of every call: 2.6 against 1.6 TFLOP/s at 128 tokens on two AMX cores.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.out_features = weight.shape[0]
        self.bias = bias
        self._packed = weight.dtype is torch.bfloat16 and weight.device.type == "cpu" and bf16_is_fast()
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight, 256) if self._packed else weight

    def __call__(self, x: Tensor) -> Tensor:
        if self._packed:
            y: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, self.bias, "none", [], "")
            return y
        return F.linear(x, self._weight, self.bias)


@dataclass(frozen=True)
class DecoderLayer:
    attention_norm: Tensor  # [hidden]
    qkv: Linear  # hidden -> (heads + 2 kv_heads) * head_dim
    q_norm: Tensor | None  # [head_dim], qwen3
    k_norm: Tensor | None
    attention_output: Linear
    ffn_norm: Tensor
    gate_up: Linear  # hidden -> 2 * intermediate
    down: Linear


class Decoder:
    """A causal language model's forward pass over given tokens and positions.

    Weights come from `checkpoint` and are kept in `dtype` (bf16, or fp32 for exact comparison); `dequantise`
    turns a matrix's blocks into bf16 faster than the checkpoint itself does, or says None.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        dtype: torch.dtype,
        dequantise: Callable[[QuantizedTensor], Tensor | None] = lambda _: None,
    ) -> None:
        self.config: ModelConfig = checkpoint.config
        self.dtype = dtype
        self.rotary = RotaryTable(self.config.rope, self.config.max_position_embeddings)

        def tensor(name: str) -> Tensor:
            blocks = checkpoint.quantized(name)
            fast = dequantise(blocks) if blocks is not None else None
            return (checkpoint.tensor(name) if fast is None else fast).to(dtype)

        def optional(name: str) -> Tensor | None:
            return tensor(name) if checkpoint.has(name) else None

        def linear(*names: str) -> Linear:
            weight = torch.cat([tensor(f"{name}.weight") for name in names])
            biases = [optional(f"{name}.bias") for name in names]
            present = [bias for bias in biases if bias is not None]
            return Linear(weight, torch.cat(present) if present else None)

        self.embedding = tensor("token_embd.weight")
        self.layers = [
            DecoderLayer(
                attention_norm=tensor(f"{block}.attn_norm.weight"),
                qkv=linear(f"{block}.attn_q", f"{block}.attn_k", f"{block}.attn_v"),
                q_norm=optional(f"{block}.attn_q_norm.weight"),
                k_norm=optional(f"{block}.attn_k_norm.weight"),
                attention_output=linear(f"{block}.attn_output"),
                ffn_norm=tensor(f"{block}.ffn_norm.weight"),
                gate_up=linear(f"{block}.ffn_gate", f"{block}.ffn_up"),
                down=linear(f"{block}.ffn_down"),
            )
            for block in (f"blk.{layer}" for layer in range(self.config.num_layers))
        ]
        self.output_norm = tensor("output_norm.weight")
        self.head = Linear(
            tensor("output.weight") if checkpoint.has("output.weight") else self.embedding, None
        )

    def forward(self, token_ids: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Hidden states [tokens, hidden] after the last norm of `token_ids` [tokens] at `positions` [tokens].

        Both are int64. `attend` is called once per layer, in order, and may keep k and v.
        """
        x = self.embedding[token_ids]
        for index, layer in enumerate(self.layers):
            x = x + self._attention(index, layer, x, positions, attend)
            h = self._norm(x, layer.ffn_norm)
            gate, up = layer.gate_up(h).chunk(2, dim=-1)
            x = x + layer.down(F.silu(gate) * up)
        return self._norm(x, self.output_norm)

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [tokens, vocab] fp32 of hidden states [tokens, hidden]."""
        return self.head(hidden).float()

    def _attention(
        self, index: int, layer: DecoderLayer, x: Tensor, positions: Tensor, attend: Attend
    ) -> Tensor:
        config, tokens = self.config, x.shape[0]
        qkv = layer.qkv(self._norm(x, layer.attention_norm)).view(tokens, -1, config.head_dim)
        q, k, v = qkv.tensor_split((config.num_heads, config.num_heads + config.num_kv_heads), dim=1)
        if layer.q_norm is not None and layer.k_norm is not None:
            q, k = self._norm(q, layer.q_norm), self._norm(k, layer.k_norm)
        q, k = self.rotary.rotate(q, positions), self.rotary.rotate(k, positions)
        return layer.attention_output(attend(index, q, k, v))

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), weight, self.config.rms_norm_eps)


def bf16_is_fast() -> bool:
    """True where the CPU multiplies bf16 matrices in hardware; elsewhere fp32 is both faster and exact."""
    has_onednn = bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]
    return has_onednn and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
