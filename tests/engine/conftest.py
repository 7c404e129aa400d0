"""Tiny random checkpoints, written by transformers itself, so that its own classes are the oracle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

TINY = {
    "vocab_size": 320,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "bos_token_id": 0,
    "eos_token_id": 1,
}
CLASSES = {
    "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
    "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
    "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
}


@pytest.fixture
def tiny_checkpoint(tmp_path: Path) -> Callable[..., tuple[Path, torch.nn.Module]]:
    """Make (directory, transformers' model in fp32) for an architecture and config overrides."""

    def make(architecture: str, **overrides: Any) -> tuple[Path, torch.nn.Module]:
        config_class, model_class = CLASSES[architecture]
        torch.manual_seed(0)
        model = model_class(config_class(**{**TINY, **overrides})).float().eval()
        for name, parameter in model.named_parameters():
            # transformers initialises biases to 0 and norms to 1: a decoder that forgot them would pass.
            if "bias" in name or "norm" in name:
                torch.nn.init.normal_(parameter, mean=float("norm" in name), std=0.2)
        directory = tmp_path / f"{architecture}-{len(overrides)}"
        model.save_pretrained(directory)
        write_byte_tokenizer(directory)
        return directory, model

    return make


def write_byte_tokenizer(directory: Path) -> None:
    """A byte-level tokenizer: 256 bytes and two special tokens, in the format of the `tokenizers` library."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {"<s>": 0, "</s>": 1, **{character: index + 2 for index, character in enumerate(alphabet)}}
    tokenizer = Tokenizer(models.BPE(vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<s>", special=True), AddedToken("</s>", special=True)])
    tokenizer.save(str(directory / "tokenizer.json"))
