"""Configuration and names of safetensors directories against transformers' own classes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from miton_engine.errors import ModelError
from miton_engine.models.checkpoint import open_checkpoint
from miton_engine.models.config import RopeConfig
from miton_engine.models.safetensors import rope_from_config

MakeTiny = Callable[..., tuple[Path, torch.nn.Module]]
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
SCALINGS: list[dict[str, Any]] = [
    {"rope_type": "linear", "factor": 4.0},
    {"rope_type": "dynamic", "factor": 3.0},
    {**LLAMA3, "original_max_position_embeddings": 8192},
    {**LLAMA3, "factor": 32.0, "original_max_position_embeddings": 64},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048},
    {"rope_type": "yarn", "factor": 4.0},
    {"rope_type": "yarn", "factor": 8.0, "beta_fast": 16, "beta_slow": 2, "attention_factor": 0.7},
    {"rope_type": "yarn", "factor": 40.0, "mscale": 1.0, "mscale_all_dim": 0.8},
    {"rope_type": "yarn", "factor": 2.0, "truncate": False},
]


@pytest.mark.parametrize("seq_len", [100, 8192, 40000])
@pytest.mark.parametrize("theta", [10000.0, 1e6])
@pytest.mark.parametrize("scaling", SCALINGS, ids=str)
def test_rotary_frequencies_equal_transformers(scaling: dict[str, Any], theta: float, seq_len: int) -> None:
    reference = transformers.LlamaConfig(
        hidden_size=256,
        num_attention_heads=4,
        max_position_embeddings=8192,
        rope_parameters={**scaling, "rope_theta": theta},
    )
    init = ROPE_INIT_FUNCTIONS[scaling["rope_type"]]
    expected, factor = init(reference, device="cpu", seq_len=seq_len)
    rope = rope_from_config({"rope_scaling": scaling, "rope_theta": theta}, 64, 8192)
    assert torch.allclose(rope.inv_freq(seq_len), expected, rtol=1e-6, atol=0)
    assert rope.attention_scaling == pytest.approx(factor)


@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_old_and_new_spellings_of_rope_scaling_mean_the_same(key: str) -> None:
    new = rope_from_config({key: {"type": "linear", "factor": 2.0}, "rope_theta": 5e5}, 64, 4096)
    assert new.theta == 5e5
    assert torch.equal(new.inv_freq(1), RopeConfig(5e5, 64).inv_freq(1) / 2)


def test_frequency_factors_divide() -> None:
    factors = tuple(float(i + 1) for i in range(32))
    rope = RopeConfig(1e4, 64, {"rope_type": "frequency_factors", "factors": factors})
    assert torch.allclose(rope.inv_freq(1) * torch.tensor(factors), RopeConfig(1e4, 64).inv_freq(1))


def test_an_unknown_rope_scaling_is_refused() -> None:
    with pytest.raises(ModelError, match="longrope"):
        rope_from_config({"rope_scaling": {"rope_type": "longrope"}}, 64, 4096)


def test_what_transformers_leaves_out_of_config_json_has_its_defaults(tiny_checkpoint: MakeTiny) -> None:
    directory, reference = tiny_checkpoint("qwen3")
    description = json.loads((directory / "config.json").read_text())
    kept = ("model_type", "hidden_size", "head_dim", "intermediate_size")
    slim = {key: value for key, value in description.items() if key in kept or key.startswith("num_")}
    (directory / "config.json").write_text(json.dumps(slim))
    config, default = open_checkpoint(str(directory)).config, transformers.Qwen3Config()
    assert config.rms_norm_eps == default.rms_norm_eps
    assert config.max_position_embeddings == default.max_position_embeddings
    assert config.rope.theta == default.rope_parameters["rope_theta"]
    assert config.qk_norm
    assert config.vocab_size == reference.config.vocab_size


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("tied", [False, True])
def test_shards_and_one_file_hold_the_same(architecture: str, tied: bool, tiny_checkpoint: MakeTiny) -> None:
    directory, reference = tiny_checkpoint(architecture, tie_word_embeddings=tied)
    one = open_checkpoint(str(directory))
    (directory / "model.safetensors").unlink()
    reference.save_pretrained(directory, max_shard_size="60KB")
    assert (directory / "model.safetensors.index.json").exists()
    many = open_checkpoint(str(directory))
    assert many.has("output.weight") is not tied
    assert many.config == one.config
    for name, _ in one.config.tensor_shapes():
        assert torch.equal(one.tensor(name), many.tensor(name))
    next(directory.glob("model-00002-*.safetensors")).unlink()
    with pytest.raises(ModelError, match="model-00002"):
        open_checkpoint(str(directory))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_weights_come_as_fp32(dtype: torch.dtype, tiny_checkpoint: MakeTiny) -> None:
    directory, reference = tiny_checkpoint("llama")
    reference.to(dtype).save_pretrained(directory)
    found = open_checkpoint(str(directory)).tensor("blk.0.ffn_up.weight")
    assert found.dtype is torch.float32
    assert torch.equal(found, reference.model.layers[0].mlp.up_proj.weight.float())


BAD_CONFIGS: list[tuple[dict[str, Any], str]] = [
    ({"model_type": "gemma3"}, "'gemma3' are not supported"),
    ({"quantization_config": {"quant_method": "awq"}}, "quantized by 'awq'"),
    ({"hidden_act": "gelu"}, "activation 'gelu'"),
    ({"partial_rotary_factor": 0.5}, "partial rotary"),
    ({"num_hidden_layers": 4}, r"no tensor 'blk\.3\."),
    ({"intermediate_size": 100}, "do not belong together"),
    ({"num_key_value_heads": 3}, "evenly"),
    ({"hidden_size": None}, "lacks 'hidden_size'"),
]


@pytest.mark.parametrize(("change", "message"), BAD_CONFIGS, ids=lambda value: str(value)[:40])
def test_bad_configurations_are_model_errors(
    change: dict[str, Any], message: str, tiny_checkpoint: MakeTiny
) -> None:
    directory, _ = tiny_checkpoint("llama")
    file = directory / "config.json"
    description = json.loads(file.read_text())
    description.pop("rope_parameters", None) if "partial_rotary_factor" in change else None
    file.write_text(json.dumps({**description, **change}))
    with pytest.raises(ModelError, match=message):
        open_checkpoint(str(directory))


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "model.safetensors"])
@pytest.mark.parametrize("damage", ["missing", "truncated", "empty"])
def test_damaged_files_are_model_errors(file: str, damage: str, tiny_checkpoint: MakeTiny) -> None:
    directory, _ = tiny_checkpoint("llama")
    whole = (directory / file).read_bytes()
    (directory / file).unlink()
    if damage != "missing":
        (directory / file).write_bytes(whole[: len(whole) // 2] if damage == "truncated" else b"")
    with pytest.raises(ModelError):
        open_checkpoint(str(directory)).tokenizer  # noqa: B018
