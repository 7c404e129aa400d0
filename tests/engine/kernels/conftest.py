"""Compiled kernels for each instruction set, and small random checkpoints in ggml formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch

from miton_engine.kernels.build import load_library
from miton_engine.kernels.packed import BLOCK, ThreadPool
from miton_engine.models.checkpoint import QuantizedTensor
from miton_engine.models.config import ModelConfig, RopeConfig

BUILDS = {"best": (), "avx2": ("-DMITON_FORCE_AVX2",), "portable": ("-DMITON_FORCE_PORTABLE",)}


@pytest.fixture(scope="session")
def library_cache(request: pytest.FixtureRequest) -> Path:
    cache = request.config.cache
    assert cache is not None
    return Path(cache.mkdir("kernels"))


@pytest.fixture(scope="session", params=BUILDS)
def flags(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Compiler flags that choose an instruction set."""
    return BUILDS[request.param]


@pytest.fixture(scope="session")
def pool(library_cache: Path, flags: tuple[str, ...]) -> Iterator[ThreadPool]:
    library = load_library(library_cache, flags)
    assert library is not None, "these tests need a C++ compiler"
    threads = ThreadPool(library, 3)
    yield threads
    threads.release()


def random_blocks(kind: str, rows: int, columns: int, seed: int, size: float = 0.05) -> np.ndarray:
    """Random ggml blocks, uint8 [rows, bytes per row]: every bit pattern of the values, scales of about
    `size`.
    """
    rng = np.random.default_rng(seed)
    block_columns, block_bytes = BLOCK[kind]
    raw = rng.integers(0, 256, (rows, columns // block_columns, block_bytes), dtype=np.uint8)
    halves = {"Q4_1": (0, 2), "Q5_1": (0, 2), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}.get(kind, (0,))
    levels = {"Q4": 8, "Q5": 16, "Q6": 32 * 64, "Q8": 127}[kind[:2]] * (32 if kind in ("Q4_K", "Q5_K") else 1)
    for at in halves:
        scale = (rng.uniform(0.5, 1.0, raw.shape[:2]) * size / levels * (8 if at == 2 else 1)).astype(
            np.float16
        )
        if at == 2 and kind.endswith("_1"):
            scale = -scale
        raw[..., at : at + 2] = scale[..., None].view(np.uint8)
    return raw.reshape(rows, -1)


@dataclass
class RandomCheckpoint:
    """A checkpoint in memory with every matrix in one ggml format."""

    config: ModelConfig
    blocks: dict[str, QuantizedTensor] = field(default_factory=dict)
    floats: dict[str, torch.Tensor] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        return name in self.blocks or name in self.floats

    def quantized(self, name: str) -> QuantizedTensor | None:
        return self.blocks.get(name)

    def tensor(self, name: str) -> torch.Tensor:
        if name in self.floats:
            return self.floats[name]
        blocks = self.blocks[name]
        return torch.from_numpy(gguf.dequantize(blocks.data, gguf.GGMLQuantizationType[blocks.type])).float()


def random_checkpoint(
    kind: str = "Q5_0",
    head_kind: str | None = "Q8_0",
    *,
    head_dim: int = 64,
    kv_heads: int = 2,
    group: int = 2,
    hidden: int = 256,
    intermediate: int = 256,
    vocab: int = 333,
    layers: int = 2,
    bias: bool = True,
    qk_norm: bool = False,
    seed: int = 0,
) -> RandomCheckpoint:
    """`head_kind` None ties the head to the embedding."""
    config = ModelConfig(
        architecture="qwen3" if qk_norm else "qwen2",
        vocab_size=vocab,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_layers=layers,
        num_heads=kv_heads * group,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        rms_norm_eps=1e-5,
        rope=RopeConfig(theta=1e4, dim=head_dim),
        tie_word_embeddings=head_kind is None,
        attention_bias=bias,
        qk_norm=qk_norm,
        max_position_embeddings=512,
    )
    checkpoint = RandomCheckpoint(config)
    generator = torch.Generator().manual_seed(seed)

    def matrix(name: str, rows: int, columns: int, of: str = kind) -> None:
        nonlocal seed
        seed += 1
        data = random_blocks(of, rows, columns, seed, size=2.0 / columns**0.5)
        checkpoint.blocks[name] = QuantizedTensor(of, (rows, columns), data)

    def vector(name: str, size: int, mean: float) -> None:
        checkpoint.floats[name] = mean + 0.3 * torch.randn(size, generator=generator)

    q_width, kv_width = config.num_heads * head_dim, kv_heads * head_dim
    matrix("token_embd.weight", vocab, hidden)
    for block in (f"blk.{layer}" for layer in range(layers)):
        for name, rows in (("q", q_width), ("k", kv_width), ("v", kv_width)):
            matrix(f"{block}.attn_{name}.weight", rows, hidden)
            if bias:
                vector(f"{block}.attn_{name}.bias", rows, 0.0)
        matrix(f"{block}.attn_output.weight", hidden, q_width)
        matrix(f"{block}.ffn_gate.weight", intermediate, hidden)
        matrix(f"{block}.ffn_up.weight", intermediate, hidden)
        matrix(f"{block}.ffn_down.weight", hidden, intermediate)
        vector(f"{block}.attn_norm.weight", hidden, 1.0)
        vector(f"{block}.ffn_norm.weight", hidden, 1.0)
        if qk_norm:
            vector(f"{block}.attn_q_norm.weight", head_dim, 1.0)
            vector(f"{block}.attn_k_norm.weight", head_dim, 1.0)
    vector("output_norm.weight", hidden, 1.0)
    if head_kind:
        matrix("output.weight", vocab, hidden, head_kind)
    return checkpoint


def rotary_tables(config: Any, positions: int = 512) -> tuple[torch.Tensor, torch.Tensor]:
    angles = torch.arange(positions)[:, None] * config.rope.inv_freq(positions)[None]
    return angles.cos(), angles.sin()


Blocks = Callable[..., np.ndarray]
Checkpoints = Callable[..., RandomCheckpoint]


@pytest.fixture(scope="session", name="random_blocks")
def random_blocks_fixture() -> Blocks:
    return random_blocks


@pytest.fixture(scope="session", name="random_checkpoint")
def random_checkpoint_fixture() -> Checkpoints:
    return random_checkpoint


@pytest.fixture(scope="session", name="rotary_tables")
def rotary_tables_fixture() -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    return rotary_tables
