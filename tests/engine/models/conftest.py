"""GGUF files written by the `gguf` library from transformers' own models and tokenizers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from miton_engine.models.safetensors import canonical_name

TEXT = (Path(__file__).parent / "test_decoder.py").read_text(
    "utf-8"
) + "中文 日本語 😀 naïve 12345 don't we'll\r\n" * 9
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def train(pre_tokenizer: Any, *, ignore_merges: bool = False) -> Tokenizer:
    """A byte-level BPE tokenizer of 700 tokens; the first three are special."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizer, decoders.ByteLevel()
    tokenizer.train_from_iterator(
        [TEXT],
        trainers.BpeTrainer(
            vocab_size=700,
            special_tokens=SPECIAL,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return tokenizer


def write_vocabulary(writer: gguf.GGUFWriter, tokenizer: Tokenizer, pre: str) -> None:
    vocab = tokenizer.get_vocab()
    tokens = sorted(vocab, key=vocab.__getitem__)
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in SPECIAL else 1 for token in tokens])
    writer.add_token_merges([" ".join(merge) for merge in merges])
    writer.add_eos_token_id(vocab["<|im_end|>"])
    writer.add_bos_token_id(vocab["<|endoftext|>"])
    writer.add_add_bos_token(False)


def interleaved(weight: np.ndarray, heads: int) -> np.ndarray:
    """llama.cpp's `LlamaModel.permute` (convert_hf_to_gguf.py)."""
    return (
        weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
        .swapaxes(1, 2)
        .reshape(weight.shape)
    )


@pytest.fixture
def write_gguf(tmp_path: Path) -> Callable[..., Path]:
    """Write transformers' `model` (fp32) as GGUF, its matrices quantized as `type`."""

    def write(model: torch.nn.Module, *, type: str = "F32", name: str = "tiny.gguf", **extra: Any) -> Path:
        config = model.config
        path = tmp_path / name
        writer = gguf.GGUFWriter(path, config.model_type)
        writer.add_context_length(config.max_position_embeddings)
        writer.add_embedding_length(config.hidden_size)
        writer.add_block_count(config.num_hidden_layers)
        writer.add_feed_forward_length(config.intermediate_size)
        writer.add_head_count(config.num_attention_heads)
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_key_length(model.model.layers[0].self_attn.head_dim)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
        for key, value in extra.items():
            getattr(writer, f"add_{key}")(value)
        write_vocabulary(writer, train(pre_tokenizers.ByteLevel(add_prefix_space=False)), "default")
        for theirs, parameter in model.state_dict().items():
            ours = canonical_name(theirs)
            if ours is None or (ours == "output.weight" and config.tie_word_embeddings):
                continue
            values = parameter.float().numpy()
            if config.model_type == "llama" and ".attn_q." in ours:
                values = interleaved(values, config.num_attention_heads)
            if config.model_type == "llama" and ".attn_k." in ours:
                values = interleaved(values, config.num_key_value_heads)
            kind = gguf.GGMLQuantizationType[type if values.ndim == 2 else "F32"]
            if kind.name != "F32":
                writer.add_tensor(ours, gguf.quantize(values, kind), raw_dtype=kind)
            else:
                writer.add_tensor(ours, values)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    return write


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[Tokenizer, Path]]:
    """(tokenizer with that pre-tokenizer, GGUF file that names it `pre`)."""

    def make(pre: str, pre_tokenizer: Any, *, ignore_merges: bool = False) -> tuple[Tokenizer, Path]:
        tokenizer = train(pre_tokenizer, ignore_merges=ignore_merges)
        path = tmp_path_factory.mktemp("vocabulary") / "vocabulary.gguf"
        writer = gguf.GGUFWriter(path, "llama")
        write_vocabulary(writer, tokenizer, pre)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        return tokenizer, path

    return make
