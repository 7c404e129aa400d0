"""The decoder against transformers' own classes, on tiny random checkpoints, in fp32."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from miton_engine.attention.exact import causal_with_past
from miton_engine.memory.chunk_prefill import ChunkPrefill
from miton_engine.memory.kv_cache import KVCache
from miton_engine.models.checkpoint import open_checkpoint
from miton_engine.models.decoder import Decoder
from miton_engine.runtime.model_runner import ModelRunner

MakeTiny = Callable[..., tuple[Path, torch.nn.Module]]

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("llama", {}),
    ("llama", {"tie_word_embeddings": True}),
    ("llama", {"attention_bias": True}),
    ("llama", {"num_key_value_heads": 4}),
    ("llama", {"head_dim": 32}),
    ("llama", {"rope_scaling": {"rope_type": "linear", "factor": 4.0}}),
    (
        "llama",
        {
            "rope_scaling": {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            }
        },
    ),
    (
        "qwen2",
        {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}},
    ),
    ("qwen2", {}),
    ("qwen2", {"tie_word_embeddings": True, "rope_theta": 1e6}),
    ("qwen3", {}),
    ("qwen3", {"tie_word_embeddings": True, "head_dim": 32}),
]


@pytest.fixture(params=VARIANTS, ids=lambda variant: f"{variant[0]}-{'-'.join(variant[1]) or 'plain'}")
def pair(request: pytest.FixtureRequest, tiny_checkpoint: MakeTiny) -> tuple[Decoder, torch.nn.Module]:
    architecture, overrides = request.param
    directory, reference = tiny_checkpoint(architecture, **overrides)
    return Decoder(open_checkpoint(str(directory)), torch.float32), reference


def logits_of(decoder: Decoder, ids: torch.Tensor) -> torch.Tensor:
    hidden = decoder.forward(ids, torch.arange(len(ids)), lambda _, q, k, v: causal_with_past(q, k, v, []))
    return decoder.logits(hidden)


@torch.no_grad()
def test_logits_equal_transformers(pair: tuple[Decoder, torch.nn.Module]) -> None:
    decoder, reference = pair
    ids = torch.randint(2, 320, (97,), generator=torch.Generator().manual_seed(1))
    expected = reference(ids[None]).logits[0]
    assert (logits_of(decoder, ids) - expected).abs().max() < 1e-4


@torch.no_grad()
def test_prefill_in_pieces_and_single_steps_equal_one_pass(pair: tuple[Decoder, torch.nn.Module]) -> None:
    decoder, reference = pair
    ids = torch.randint(2, 320, (40,), generator=torch.Generator().manual_seed(2))
    expected = reference(ids[None]).logits[0]
    runner, cache = ModelRunner(decoder), KVCache(decoder.config, regions=2, dtype=torch.float32)
    for _ in runner.prefill(cache, 0, ids[:17].tolist(), 0, []):
        pass
    rows = []
    for start, end in ((17, 30), (30, 31), (31, 40)):
        visible = [cache.regions[0].filled]
        rows.append(runner.step(cache, 1, ids[start:end].tolist(), start, visible))
    assert (torch.cat(rows) - expected[17:]).abs().max() < 1e-4


@torch.no_grad()
def test_a_packed_chunk_sees_the_sink_and_itself_only(pair: tuple[Decoder, torch.nn.Module]) -> None:
    decoder, _ = pair
    sink, chunks = [5, 6, 7], [[10, 11, 12, 13], [20], [30, 31, 32, 33, 34, 35, 36]]
    prefill = ChunkPrefill(decoder, sink)
    for chunk, (k, v) in zip(chunks, prefill(chunks), strict=True):
        cache = KVCache(decoder.config, regions=1, dtype=torch.float32)
        for _ in ModelRunner(decoder).prefill(cache, 0, sink + chunk, 0, []):
            pass
        alone = cache.k[:, :, len(sink) : len(sink) + len(chunk)]
        assert (k - alone).abs().max() < 1e-5
        assert (v - cache.v[:, :, len(sink) : len(sink) + len(chunk)]).abs().max() < 1e-5


@torch.no_grad()
def test_placing_a_chunk_is_one_rotation(pair: tuple[Decoder, torch.nn.Module]) -> None:
    decoder, _ = pair
    ids = torch.arange(10, 30)
    keys: list[torch.Tensor] = []

    def forward(start: int) -> torch.Tensor:
        def attend(layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            keys.append(k)
            return causal_with_past(q, k, v, [])

        keys.clear()
        decoder.forward(ids, torch.arange(start, start + len(ids)), attend)
        return torch.stack(keys)

    near, far = forward(3), forward(120)
    assert (decoder.rotary.shift(near, 117) - far).abs().max() < 1e-4
