"""Directories in Hugging Face's layout: config.json, tokenizer.json, and weights in safetensors files.

Tensors are mapped lazily through the `safetensors` library and renamed to GGUF's names. Defaults of
config.json's keys are those of transformers' configuration classes, which leave out what equals them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from miton_engine.errors import ModelError
from miton_engine.models.checkpoint import QuantizedTensor
from miton_engine.models.config import ModelConfig, RopeConfig, check_architecture, check_tensors
from miton_engine.models.prompt_format import PromptFormat
from miton_engine.models.tokenizer import Tokenizer, read_json, tokenizer_from_directory

log = logging.getLogger(__name__)

TOP_NAMES = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output"}
LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
DEFAULT_POSITIONS = {"llama": 2048, "qwen2": 32768, "qwen3": 32768}
DEFAULT_HEAD_DIM = {"qwen3": 128}


class SafetensorsCheckpoint:
    """A `Checkpoint` in a directory. Raises `ModelError` for what is missing, damaged or not supported."""

    def __init__(self, directory: Path, *, name: str, fingerprint: str) -> None:
        self.directory, self.name, self.fingerprint = directory, name, fingerprint
        self._description = read_json(directory / "config.json")
        if not self._description:
            raise ModelError(f"{directory} has no config.json; give a directory with a whole model.")
        if "quantization_config" in self._description:
            method = self._description["quantization_config"].get("quant_method", "unknown")
            raise ModelError(
                f"{directory} holds weights quantized by {method!r}, which is not supported. Use the model's "
                "unquantized files or a GGUF file."
            )
        check_architecture(self._description.get("model_type", "unknown"))
        self._files = dict(self._open_files())
        if self._description.get("tie_word_embeddings"):
            self._files.pop("output.weight", None)
        self.config = self._read_config()
        check_tensors(self.config, {name: self._shape(name) for name in self._files}, directory)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        ends: set[int] = set()
        for description in (self._description, read_json(self.directory / "generation_config.json")):
            ids = description.get("eos_token_id")
            ends |= set(ids if isinstance(ids, list) else [ids]) - {None}
        return tokenizer_from_directory(self.directory, ends)

    @cached_property
    def prompt_format(self) -> PromptFormat:
        return PromptFormat(self.tokenizer, self._chat_template())

    def has(self, name: str) -> bool:
        return name in self._files

    def tensor(self, name: str) -> Tensor:
        if name not in self._files:
            raise ModelError(f"{self.directory} has no tensor {name!r}; it is not a complete model.")
        file, theirs = self._files[name]
        try:
            stored: Tensor = file.get_tensor(theirs)
        except SafetensorError as error:
            raise ModelError(f"{self.directory}: the tensor {theirs!r} cannot be read: {error}.") from error
        return stored.to(torch.float32).contiguous()

    def quantized(self, name: str) -> QuantizedTensor | None:
        return None

    def _open_files(self) -> Iterator[tuple[str, tuple[Any, str]]]:
        index = read_json(self.directory / "model.safetensors.index.json").get("weight_map")
        files = (
            sorted(set(index.values())) if index else [f.name for f in self.directory.glob("*.safetensors")]
        )
        if not files:
            raise ModelError(
                f"{self.directory} has no safetensors file. Give a directory with config.json and "
                "safetensors files, or a .gguf file."
            )
        for file_name in files:
            try:
                file = safe_open(self.directory / file_name, framework="pt")
            except (OSError, SafetensorError) as error:
                raise ModelError(
                    f"{self.directory / file_name} is missing or damaged: {error}. Fetch the model again."
                ) from error
            names: list[str] = file.keys()  # type: ignore[no-untyped-call]
            for theirs in names:
                if (ours := canonical_name(theirs)) is not None:
                    yield ours, (file, theirs)

    def _read_config(self) -> ModelConfig:
        given, architecture = self._description, self._description["model_type"]

        def need(key: str) -> Any:
            if given.get(key) is None:
                raise ModelError(f"{self.directory / 'config.json'} lacks {key!r}.")
            return given[key]

        if (activation := given.get("hidden_act", "silu")) != "silu":
            raise ModelError(
                f"{self.directory} asks for the activation {activation!r}; only 'silu' is supported."
            )
        hidden, heads = need("hidden_size"), need("num_attention_heads")
        head_dim = given.get("head_dim") or DEFAULT_HEAD_DIM.get(architecture, hidden // heads)
        positions = given.get("max_position_embeddings") or DEFAULT_POSITIONS.get(architecture, 2048)
        rope = rope_from_config(given, head_dim, positions)
        if given.get("use_sliding_window") and 0 < (window := given.get("sliding_window") or 0) < positions:
            log.warning("%s: the context is limited to its sliding window of %d tokens", self.name, window)
            positions = window
        return ModelConfig(
            architecture=architecture,
            vocab_size=self._shape("token_embd.weight")[0],
            hidden_size=hidden,
            intermediate_size=need("intermediate_size"),
            num_layers=need("num_hidden_layers"),
            num_heads=heads,
            num_kv_heads=given.get("num_key_value_heads") or heads,
            head_dim=head_dim,
            rms_norm_eps=given.get("rms_norm_eps", 1e-6),
            rope=rope,
            tie_word_embeddings=not self.has("output.weight"),
            attention_bias=self.has("blk.0.attn_q.bias"),
            qk_norm=self.has("blk.0.attn_q_norm.weight"),
            max_position_embeddings=positions,
        )

    def _shape(self, name: str) -> tuple[int, ...]:
        if name not in self._files:
            raise ModelError(f"{self.directory} has no tensor {name!r}; it is not a complete model.")
        file, theirs = self._files[name]
        return tuple(file.get_slice(theirs).get_shape())

    def _chat_template(self) -> str | None:
        file = self.directory / "chat_template.jinja"
        if file.is_file():
            return file.read_text("utf-8")
        found = read_json(self.directory / "tokenizer_config.json").get("chat_template")
        if isinstance(found, list):  # several templates by name
            return next((entry["template"] for entry in found if entry["name"] == "default"), None)
        return found


def canonical_name(name: str) -> str | None:
    """GGUF's name of a tensor that transformers calls `name`; None for what a decoder does not use."""
    stem, _, kind = name.removeprefix("model.").rpartition(".")
    if kind not in ("weight", "bias"):
        return None
    if layer := re.fullmatch(r"layers\.(\d+)\.(.+)", stem):
        ours = LAYER_NAMES.get(layer[2])
        return f"blk.{layer[1]}.{ours}.{kind}" if ours else None
    return f"{TOP_NAMES[stem]}.{kind}" if stem in TOP_NAMES else None


def rope_from_config(given: Mapping[str, Any], head_dim: int, positions: int) -> RopeConfig:
    """Rotary embedding from config.json: `rope_parameters` of transformers 5, or `rope_scaling` before it."""
    parameters = dict(given.get("rope_parameters") or given.get("rope_scaling") or {})
    kind = parameters.setdefault("rope_type", parameters.get("type", "default"))
    if kind in ("llama3", "yarn") and given.get("original_max_position_embeddings"):
        parameters["original_max_position_embeddings"] = given["original_max_position_embeddings"]
    rotated = parameters.get("partial_rotary_factor") or given.get("partial_rotary_factor") or 1.0
    return RopeConfig(
        theta=float(parameters.get("rope_theta") or given.get("rope_theta") or 10000.0),
        dim=int(head_dim * rotated),
        scaling=None if kind == "default" else parameters,
        max_position_embeddings=positions,
    )
