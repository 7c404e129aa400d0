"""GGUF files: weights against transformers, blocks against the `gguf` library, damage reported as such."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from miton_engine.attention.exact import causal_with_past
from miton_engine.errors import ModelError
from miton_engine.models.checkpoint import open_checkpoint
from miton_engine.models.decoder import Decoder
from miton_engine.models.gguf import GGUFCheckpoint, GGUFFile

MakeTiny = Callable[..., tuple[Path, torch.nn.Module]]
VARIANTS = [
    ("llama", {}),
    ("llama", {"num_key_value_heads": 4, "tie_word_embeddings": True}),
    ("llama", {"attention_bias": True}),
    ("qwen2", {}),
    ("qwen3", {"tie_word_embeddings": True, "head_dim": 32}),
]


@torch.no_grad()
@pytest.mark.parametrize(("architecture", "overrides"), VARIANTS, ids=str)
def test_logits_equal_transformers(
    architecture: str, overrides: dict, tiny_checkpoint: MakeTiny, write_gguf: Callable[..., Path]
) -> None:
    _, reference = tiny_checkpoint(architecture, **overrides)
    decoder = Decoder(open_checkpoint(str(write_gguf(reference))), torch.float32)
    ids = torch.randint(2, 320, (60,), generator=torch.Generator().manual_seed(1))
    hidden = decoder.forward(ids, torch.arange(60), lambda _, q, k, v: causal_with_past(q, k, v, []))
    assert (decoder.logits(hidden) - reference(ids[None]).logits[0]).abs().max() < 1e-4


@torch.no_grad()
@pytest.mark.parametrize("type", ["F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
def test_stored_types_read_back_as_the_library_quantized_them(
    type: str, tiny_checkpoint: MakeTiny, write_gguf: Callable[..., Path]
) -> None:
    _, reference = tiny_checkpoint("llama", intermediate_size=96)
    checkpoint = open_checkpoint(str(write_gguf(reference, type=type)))
    kind = gguf.GGMLQuantizationType[type]
    for name, parameter in reference.state_dict().items():
        # Quantized in the order of transformers' rows: equal only if q and k come back un-interleaved.
        if name.endswith(("self_attn.q_proj.weight", "mlp.down_proj.weight")):
            layer = name.split(".")[2]
            ours = f"blk.{layer}.{'attn_q' if 'q_proj' in name else 'ffn_down'}.weight"
            expected = gguf.dequantize(gguf.quantize(parameter.numpy(), kind), kind)
            assert np.array_equal(checkpoint.tensor(ours).numpy(), expected)
            blocks = checkpoint.quantized(ours)
            if type in ("F16", "BF16"):
                assert blocks is None
            else:
                assert blocks is not None
                assert (blocks.type, blocks.shape) == (type, tuple(parameter.shape))
                assert np.array_equal(gguf.dequantize(blocks.data, kind), expected)


@pytest.mark.parametrize("type", ["Q4_K", "Q5_K", "Q6_K", "Q2_K", "Q3_K"])
def test_k_quants_dequantize_as_in_the_library(type: str, tmp_path: Path) -> None:
    # The library cannot quantize these; any bytes are valid blocks once their fp16 scales are finite.
    kind = gguf.GGMLQuantizationType[type]
    block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    rows = np.random.default_rng(0).integers(0, 256, (6, 2 * block_bytes), dtype=np.uint8)
    expected = gguf.dequantize(rows, kind)
    path = tmp_path / "k.gguf"
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_tensor("blk.0.ffn_down.weight", rows, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    checkpoint = object.__new__(GGUFCheckpoint)
    checkpoint.file = GGUFFile(path)
    checkpoint.config = type_of_architecture("qwen2")
    found = checkpoint.tensor("blk.0.ffn_down.weight").numpy()
    assert found.shape == (6, 2 * block)
    assert np.array_equal(found, expected, equal_nan=True)


def type_of_architecture(name: str) -> object:
    return type("Config", (), {"architecture": name})()


def test_rope_scaling_and_frequency_factors_are_read(
    tiny_checkpoint: MakeTiny, write_gguf: Callable[..., Path]
) -> None:
    _, reference = tiny_checkpoint("qwen2")
    path = write_gguf(
        reference,
        rope_scaling_type=gguf.RopeScalingType.YARN,
        rope_scaling_factor=4.0,
        rope_scaling_orig_ctx_len=64,
    )
    rope = open_checkpoint(str(path)).config.rope
    assert rope.scaling is not None
    assert (rope.scaling["rope_type"], rope.scaling["factor"]) == ("yarn", 4.0)
    assert rope.scaling["original_max_position_embeddings"] == 64


@pytest.fixture
def tiny_gguf(tiny_checkpoint: MakeTiny, write_gguf: Callable[..., Path]) -> Path:
    return write_gguf(tiny_checkpoint("llama")[1], type="Q8_0")


def read_everything(path: Path) -> None:
    checkpoint = open_checkpoint(str(path), cache=path.parent / "cache")
    assert checkpoint.tokenizer.vocab_size
    for name, _ in checkpoint.config.tensor_shapes():
        checkpoint.tensor(name)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(share=st.floats(0, 1, exclude_max=True))
@example(share=0.0)
@example(share=0.999999)
def test_a_truncated_file_is_a_model_error(share: float, tiny_gguf: Path) -> None:
    whole = tiny_gguf.read_bytes()
    cut = tiny_gguf.with_name("cut.gguf")
    cut.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(ModelError, match=r"cut\.gguf"):
        read_everything(cut)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)
@given(data=st.data())
def test_damaged_headers_are_model_errors_or_harmless(data: st.DataObject, tiny_gguf: Path) -> None:
    whole = bytearray(tiny_gguf.read_bytes())
    header = GGUFFile(tiny_gguf)
    end = min(info.start for info in header.tensors.values())
    for _ in range(data.draw(st.integers(1, 4))):
        # Mostly where counts, types and sizes lie; the vocabulary takes most of the header.
        position = data.draw(
            st.one_of(st.integers(0, 1500), st.integers(0, end - 1), st.integers(end - 2500, end - 1))
        )
        whole[position] = data.draw(st.integers(0, 255))
    damaged = tiny_gguf.with_name("damaged.gguf")
    damaged.write_bytes(whole)
    with contextlib.suppress(ModelError):  # every other exception fails
        read_everything(damaged)


@pytest.mark.parametrize("content", [b"", b"GG", b"PK\x03\x04 a zip file", b"\x00" * 64], ids=repr)
def test_other_files_are_not_gguf(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "other.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"other\.gguf"):
        open_checkpoint(str(path), cache=tmp_path)


def test_an_unknown_architecture_is_named(tmp_path: Path) -> None:
    path = tmp_path / "new.gguf"
    writer = gguf.GGUFWriter(path, "mamba2")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(ModelError, match="'mamba2' are not supported; supported are llama, qwen2, qwen3"):
        open_checkpoint(str(path), cache=tmp_path)


def test_a_missing_tensor_is_named(tiny_checkpoint: MakeTiny, write_gguf: Callable[..., Path]) -> None:
    _, reference = tiny_checkpoint("qwen2")
    del reference.model.layers[1].mlp.up_proj
    with pytest.raises(ModelError, match=r"no tensor 'blk\.1\.ffn_up\.weight'"):
        open_checkpoint(str(write_gguf(reference)))


@pytest.mark.real_model
def test_the_default_model_holds_what_the_library_reads() -> None:
    checkpoint = open_checkpoint("qwen2.5-coder-0.5b")
    path = checkpoint.file.path  # type: ignore[attr-defined]
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    assert checkpoint.config.num_layers == 24
    for name in ("blk.0.ffn_down.weight", "blk.3.attn_q.weight", "blk.5.attn_v.weight", "blk.7.attn_q.bias"):
        expected = gguf.dequantize(tensors[name].data, tensors[name].tensor_type)
        assert np.array_equal(
            checkpoint.tensor(name).numpy(), expected.reshape(checkpoint.tensor(name).shape)
        )
        blocks = checkpoint.quantized(name)
        assert blocks is None or np.array_equal(blocks.data, tensors[name].data)
