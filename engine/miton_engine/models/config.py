"""What a decoder needs to know of a checkpoint: sizes, norms, rotary embedding and its scaling.

Rotary scaling follows the semantics of Hugging Face's `rope_scaling`: linear, dynamic NTK, llama3, and YaRN
(arXiv 2309.00071); GGUF adds explicit frequency factors (the tensor `rope_freqs.weight`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from miton_engine.errors import ModelError

ARCHITECTURES = ("llama", "qwen2", "qwen3", "smollm")
ROPE_TYPES = ("linear", "dynamic", "llama3", "yarn", "frequency_factors")


@dataclass(frozen=True)
class RopeConfig:
    """Rotary embedding of a head's `dim` dimensions with base `theta`.

    `scaling` is None or a mapping with `rope_type` (one of `ROPE_TYPES`) and that type's parameters, named as
    in config.json. `max_position_embeddings` is the model's, to which dynamic scaling and defaults refer.
    """

    theta: float
    dim: int
    scaling: Mapping[str, Any] | None = None
    max_position_embeddings: int = 2048

    def __post_init__(self) -> None:
        if self.scaling is not None and self.scaling.get("rope_type") not in ROPE_TYPES:
            raise ModelError(
                f"The model asks for rotary scaling {self.scaling.get('rope_type')!r}; supported are "
                f"{', '.join(ROPE_TYPES)}."
            )

    def inv_freq(self, seq_len: int) -> Tensor:
        """Inverse frequencies [dim / 2] fp32, in radians per position, for sequences of up to `seq_len`."""
        scaling = self.scaling
        if scaling is None:
            return self._unscaled(self.theta)
        factor: float = scaling.get("factor") or 1.0
        match scaling["rope_type"]:
            case "linear":
                return self._unscaled(self.theta) / factor
            case "dynamic":
                return self._dynamic(factor, seq_len)
            case "llama3":
                return self._llama3(scaling)
            case "yarn":
                return self._yarn(scaling)
            case _:
                return self._unscaled(self.theta) / torch.tensor(scaling["factors"], dtype=torch.float32)

    @property
    def attention_scaling(self) -> float:
        """What cosines and sines are multiplied with: 1 except for YaRN (its paper, section 3.4)."""
        scaling = self.scaling
        if scaling is None or scaling["rope_type"] != "yarn":
            return 1.0
        if scaling.get("attention_factor") is not None:
            return float(scaling["attention_factor"])
        factor = self._yarn_factor(scaling)
        numerator, denominator = scaling.get("mscale"), scaling.get("mscale_all_dim")
        if numerator and denominator:
            return _yarn_mscale(factor, numerator) / _yarn_mscale(factor, denominator)
        return _yarn_mscale(factor, 1.0)

    def _unscaled(self, theta: float) -> Tensor:
        return 1.0 / (theta ** (torch.arange(0, self.dim, 2, dtype=torch.int64).float() / self.dim))

    def _original_length(self, scaling: Mapping[str, Any]) -> int:
        return int(scaling.get("original_max_position_embeddings") or self.max_position_embeddings)

    def _dynamic(self, factor: float, seq_len: int) -> Tensor:
        length = max(seq_len, self.max_position_embeddings)
        stretch = factor * length / self.max_position_embeddings - (factor - 1)
        return self._unscaled(self.theta * stretch ** (self.dim / (self.dim - 2)))

    def _llama3(self, scaling: Mapping[str, Any]) -> Tensor:
        low: float = scaling["low_freq_factor"]
        high: float = scaling["high_freq_factor"]
        factor: float = scaling["factor"]
        inv_freq = self._unscaled(self.theta)
        turns = self._original_length(scaling) * inv_freq / (2 * math.pi)  # within the trained length
        smooth = ((turns - low) / (high - low)).clamp(0, 1)
        return (1 - smooth) * inv_freq / factor + smooth * inv_freq

    def _yarn_factor(self, scaling: Mapping[str, Any]) -> float:
        factor = scaling.get("factor")
        return float(factor) if factor else self.max_position_embeddings / self._original_length(scaling)

    def _yarn(self, scaling: Mapping[str, Any]) -> Tensor:
        length = self._original_length(scaling)

        def dimension_with(rotations: float) -> float:
            return self.dim * math.log(length / (rotations * 2 * math.pi)) / (2 * math.log(self.theta))

        low = dimension_with(scaling.get("beta_fast") or 32)
        high = dimension_with(scaling.get("beta_slow") or 1)
        if scaling.get("truncate", True):
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, self.dim - 1)
        if low == high:
            high += 0.001
        ramp = ((torch.arange(self.dim // 2, dtype=torch.float32) - low) / (high - low)).clamp(0, 1)
        inv_freq = self._unscaled(self.theta)
        return inv_freq / self._yarn_factor(scaling) * ramp + inv_freq * (1 - ramp)


def _yarn_mscale(factor: float, mscale: float) -> float:
    return 0.1 * mscale * math.log(factor) + 1.0 if factor > 1 else 1.0


@dataclass(frozen=True)
class ModelConfig:
    """Sizes and choices of one decoder. Raises `ModelError` for what the decoder does not implement."""

    architecture: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_norm_eps: float
    rope: RopeConfig
    tie_word_embeddings: bool
    attention_bias: bool
    qk_norm: bool
    max_position_embeddings: int

    def __post_init__(self) -> None:
        check_architecture(self.architecture)
        sizes = (self.vocab_size, self.hidden_size, self.intermediate_size, self.num_layers, self.head_dim)
        if min(*sizes, self.max_position_embeddings, self.num_heads) < 1 or self.head_dim % 2:
            raise ModelError(f"The model's configuration has impossible sizes: {self}.")
        if self.num_kv_heads < 1 or self.num_heads % self.num_kv_heads:
            raise ModelError(
                f"{self.num_heads} attention heads cannot share {self.num_kv_heads} key/value heads evenly."
            )
        if self.rope.dim != self.head_dim:
            raise ModelError(
                f"The model rotates {self.rope.dim} of {self.head_dim} dimensions per head; partial rotary "
                "embedding is not supported."
            )

    def tensor_shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """(name, shape) of all matrices and norms that a checkpoint of this configuration must hold."""
        hidden, inner = self.hidden_size, self.intermediate_size
        query, key = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        layer: dict[str, tuple[int, ...]] = {
            "attn_norm": (hidden,),
            "attn_q": (query, hidden),
            "attn_k": (key, hidden),
            "attn_v": (key, hidden),
            "attn_output": (hidden, query),
            "ffn_norm": (hidden,),
            "ffn_gate": (inner, hidden),
            "ffn_up": (inner, hidden),
            "ffn_down": (hidden, inner),
        }
        if self.qk_norm:
            layer |= {"attn_q_norm": (self.head_dim,), "attn_k_norm": (self.head_dim,)}
        yield "token_embd.weight", (self.vocab_size, hidden)
        yield "output_norm.weight", (hidden,)
        if not self.tie_word_embeddings:
            yield "output.weight", (self.vocab_size, hidden)
        # One by one: a damaged file may claim billions of layers, of which the first is missing.
        for index in range(self.num_layers):
            for name, shape in layer.items():
                yield f"blk.{index}.{name}.weight", shape


def check_tensors(config: ModelConfig, shapes: Mapping[str, Sequence[int]], where: Path) -> None:
    """Raise `ModelError` unless `shapes`, the tensors found in `where`, are what `config` asks for."""
    for name, expected in config.tensor_shapes():
        if name not in shapes:
            raise ModelError(f"{where} has no tensor {name!r}; it is not a complete model. Fetch it again.")
        if tuple(shapes[name]) != expected:
            raise ModelError(
                f"{where}: {name} has the shape {tuple(shapes[name])}, but the configuration asks for "
                f"{expected}; the files do not belong together or are damaged. Fetch the model again."
            )


def check_architecture(architecture: str) -> None:
    """Raise `ModelError` unless the decoder implements `architecture`."""
    if architecture not in ARCHITECTURES:
        raise ModelError(
            f"Models of architecture {architecture!r} are not supported; supported are "
            f"{', '.join(ARCHITECTURES)}. Choose another model with --model."
        )
