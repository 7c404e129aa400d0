"""A model's weights, tokenizer and prompt format behind one Protocol, whatever files they come from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from miton_engine.errors import ModelError
from miton_engine.models.config import ModelConfig
from miton_engine.models.prompt_format import PromptFormat
from miton_engine.models.tokenizer import Tokenizer
from miton_engine.models.transfer import Progress


@dataclass(frozen=True)
class QuantizedTensor:
    """A matrix in ggml's block format (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).

    `type` is ggml's name of the format ("Q5_0", "Q8_0", "Q4_K", ...), `shape` is (out, in), `data` is uint8
    [out, bytes per row], usually a view of the mapped file.
    """

    type: str
    shape: tuple[int, ...]
    data: NDArray[np.uint8]


class Checkpoint(Protocol):
    """Weights under GGUF's names (`token_embd.weight`, `blk.{i}.attn_q.weight`, ..., `output_norm.weight`).

    The rotary layout of q and k is always the half-split one. `output.weight` is absent when it is tied to
    the embedding. `fingerprint` is the SHA-256 (hex) of the files.
    """

    config: ModelConfig
    fingerprint: str
    name: str

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer, built at the first use."""

    @property
    def prompt_format(self) -> PromptFormat:
        """The model's prompts."""

    def has(self, name: str) -> bool:
        """Whether the checkpoint holds a tensor of this name."""

    def tensor(self, name: str) -> Tensor:
        """The tensor in fp32, contiguous, in torch's layout ([out, in] for a matrix). Raises `ModelError`."""

    def quantized(self, name: str) -> QuantizedTensor | None:
        """The tensor's own blocks, or None if it is stored as floating point."""


def open_checkpoint(model: str, *, cache: Path | None = None, progress: Progress | None = None) -> Checkpoint:
    """Open a model by short name ("qwen2.5-coder-0.5b"), path of a .gguf file or a directory, or "org/name".

    What is not there yet is fetched into `cache` (default: the user's cache directory), verified, and
    `progress` told how far it is. Raises `ModelError` with the fix in its message.
    """
    from miton_engine.models.gguf import GGUFCheckpoint
    from miton_engine.models.sources import locate

    found = locate(model, cache=cache, progress=progress)
    if found.path.is_dir():
        from miton_engine.models.safetensors import SafetensorsCheckpoint

        return SafetensorsCheckpoint(found.path, name=found.name, fingerprint=found.fingerprint)
    if found.path.suffix == ".gguf":
        return GGUFCheckpoint(found.path, name=found.name, fingerprint=found.fingerprint)
    raise ModelError(
        f"{found.path} is neither a .gguf file nor a directory with config.json and safetensors files."
    )
