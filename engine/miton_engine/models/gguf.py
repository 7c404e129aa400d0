"""GGUF files (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), mapped into memory.

The header is read here: the `gguf` library's reader makes a numpy array per string and took 8.5 s for the
303,000 strings of the default model where this takes 0.2 s. Block formats and dequantization are its own.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import gguf as ggml
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from miton_engine.errors import ModelError
from miton_engine.models.checkpoint import QuantizedTensor
from miton_engine.models.config import ModelConfig, RopeConfig, check_architecture, check_tensors
from miton_engine.models.prompt_format import PromptFormat
from miton_engine.models.tokenizer import Tokenizer, tokenizer_from_gguf

MAGIC = b"GGUF"
NUMPY_TYPES = {"F32": "<f4", "F16": "<f2", "F64": "<f8"}
FLOATING = (*NUMPY_TYPES, "BF16")
STRING, ARRAY = 8, 9  # value types of the specification; the scalar ones by their struct code:
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Where a tensor lies: ggml's type name, shape in torch's order, first byte, number of bytes."""

    type: str
    shape: tuple[int, ...]
    start: int
    nbytes: int


class GGUFFile:
    """Metadata and tensors of one file. Raises `ModelError` for what is not a whole, readable GGUF file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.bytes: NDArray[np.uint8] = np.memmap(path, dtype=np.uint8, mode="r")
        except (OSError, ValueError) as error:  # ValueError: an empty file cannot be mapped
            raise ModelError(f"The model file {path} cannot be read: {error}.") from error
        self._view = memoryview(self.bytes)  # type: ignore[arg-type]  # numpy 2.4 types memmap as no buffer
        magic = bytes(self._view[:4])
        if magic != MAGIC:
            raise ModelError(
                f"{path} is not a GGUF file: it starts with {magic!r} instead of {MAGIC!r}. Delete it so "
                "that it is fetched again, or give another path."
            )
        self._position = 4
        self.metadata: dict[str, Any] = {}
        self.tensors: dict[str, TensorInfo] = {}
        try:
            self._read_header()
        except (struct.error, ValueError, KeyError, OverflowError, MemoryError) as error:
            raise self._damaged(f"its header cannot be read ({error})") from error
        end = max((info.start + info.nbytes for info in self.tensors.values()), default=0)
        if end > len(self.bytes):
            raise self._damaged(f"it has {len(self.bytes):,} of {end:,} bytes")

    def _damaged(self, how: str) -> ModelError:
        return ModelError(
            f"The model file {self.path} is damaged or incomplete: {how}. Delete it so that it is fetched "
            "again."
        )

    def _read_header(self) -> None:
        version = self._scalar("I")
        if version not in (2, 3):
            raise ModelError(f"{self.path} is GGUF version {version}; versions 2 and 3 are supported.")
        num_tensors, num_entries = self._scalar("Q"), self._scalar("Q")
        for _ in range(num_entries):
            key = self._string()
            self.metadata[key] = self._value(self._scalar("I"))
        infos = [self._tensor_info() for _ in range(num_tensors)]
        alignment = int(self.metadata.get("general.alignment", 32))
        if alignment < 1:
            raise ValueError(f"alignment {alignment}")
        start = -(-self._position // alignment) * alignment
        for name, kind, shape, offset, nbytes in infos:
            self.tensors[name] = TensorInfo(kind, shape, start + offset, nbytes)

    def _scalar(self, code: str) -> Any:
        (value,) = struct.unpack_from("<" + code, self._view, self._position)
        self._position += struct.calcsize("<" + code)
        return value

    def _string(self) -> str:
        return self._strings(1)[0]

    def _strings(self, count: int) -> list[str]:
        # The vocabulary's inner loop, hence no calls of ours in it.
        view, position, size = self._view, self._position, len(self._view)
        read_length = struct.Struct("<Q").unpack_from
        strings = []
        for _ in range(count):
            start = position + 8
            position = start + read_length(view, position)[0]
            if position > size:
                raise ValueError("a string reaches past the end of the file")
            strings.append(str(view[start:position], "utf-8"))
        self._position = position
        return strings

    def _value(self, kind: int) -> Any:
        if kind in SCALARS:
            return self._scalar(SCALARS[kind])
        if kind == STRING:
            return self._string()
        if kind != ARRAY:
            raise ValueError(f"value type {kind} is unknown")
        item, count = self._scalar("I"), self._scalar("Q")
        if count > len(self._view):
            raise ValueError(f"an array claims {count} entries")
        if item == STRING:
            return self._strings(count)
        if item not in SCALARS:
            return [self._value(item) for _ in range(count)]
        code = f"<{count}{SCALARS[item]}"
        values = struct.unpack_from(code, self._view, self._position)
        self._position += struct.calcsize(code)
        return list(values)

    def _tensor_info(self) -> tuple[str, str, tuple[int, ...], int, int]:
        name, num_dims = self._string(), self._scalar("I")
        if num_dims > 4:  # ggml's own limit
            raise ValueError(f"tensor {name!r} claims {num_dims} dimensions")
        shape = tuple(reversed([self._scalar("Q") for _ in range(num_dims)]))
        kind = ggml.GGMLQuantizationType(self._scalar("I"))
        block, block_bytes = ggml.GGML_QUANT_SIZES[kind]
        if shape and shape[-1] % block:
            raise ValueError(f"tensor {name!r} has rows of {shape[-1]}, no multiple of {block}")
        count = 1
        for size in shape:
            count *= size
        return name, kind.name, shape, self._scalar("Q"), count // block * block_bytes


class GGUFCheckpoint:
    """A `Checkpoint` in one GGUF file."""

    def __init__(self, path: Path, *, name: str, fingerprint: str) -> None:
        self.file = GGUFFile(path)
        self.name, self.fingerprint = name, fingerprint
        self.config = config_from_gguf(self.file)
        check_tensors(self.config, {n: info.shape for n, info in self.file.tensors.items()}, path)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return tokenizer_from_gguf(self.file.metadata)

    @cached_property
    def prompt_format(self) -> PromptFormat:
        return PromptFormat(self.tokenizer, self.file.metadata.get("tokenizer.chat_template"))

    def has(self, name: str) -> bool:
        return name in self.file.tensors

    def tensor(self, name: str) -> Tensor:
        info, rows = self._info(name), self._rows(name)
        try:
            values = ggml.dequantize(rows, ggml.GGMLQuantizationType[info.type])
        except NotImplementedError as error:
            raise ModelError(
                f"{self.file.path} stores {name} as {info.type}, which is not supported. Use a file "
                "quantized as F16, Q8_0, Q6_K, Q5_K_M or Q4_K_M."
            ) from error
        owned = np.array(values, dtype=np.float32)  # torch must not write into the mapped file
        return torch.from_numpy(owned.reshape(info.shape))

    def quantized(self, name: str) -> QuantizedTensor | None:
        info = self._info(name)
        if info.type in FLOATING:
            return None
        return QuantizedTensor(info.type, info.shape, self._rows(name))

    def _info(self, name: str) -> TensorInfo:
        if name not in self.file.tensors:
            raise ModelError(f"{self.file.path} has no tensor {name!r}; it is not a complete model.")
        return self.file.tensors[name]

    def _rows(self, name: str) -> NDArray[Any]:
        """[out, bytes per row] uint8, or [out, in] of numpy's own floating point types."""
        info = self._info(name)
        raw = np.asarray(self.file.bytes[info.start : info.start + info.nbytes])
        rows = raw.reshape(*info.shape[:-1], -1)
        if info.type in NUMPY_TYPES:
            rows = rows.view(NUMPY_TYPES[info.type])
        order = self._half_split_order(name)
        return rows if order is None else rows[order]

    def _half_split_order(self, name: str) -> NDArray[np.intp] | None:
        """The row order that undoes how GGUF writers interleave q and k of llama models."""
        config, parts = self.config, name.split(".")
        if config.architecture != "llama" or len(parts) != 4 or parts[2] not in ("attn_q", "attn_k"):
            return None
        heads = config.num_heads if parts[2] == "attn_q" else config.num_kv_heads
        rows = np.arange(heads * config.head_dim)
        return rows.reshape(heads, config.head_dim // 2, 2).swapaxes(1, 2).reshape(-1)


def config_from_gguf(file: GGUFFile) -> ModelConfig:
    """Read the sizes from a file's metadata. Raises `ModelError` if they are missing or not supported."""
    architecture = file.metadata.get("general.architecture", "unknown")
    check_architecture(architecture)

    def need(key: str) -> Any:
        value = get(key, None)
        if value is None:
            raise ModelError(
                f"{file.path} lacks the metadata {architecture}.{key}; it is not a complete model."
            )
        return value

    def get(key: str, default: Any) -> Any:
        value = file.metadata.get(f"{architecture}.{key}", default)
        if value is not None and not isinstance(value, int | float):
            raise ModelError(
                f"{file.path}: {architecture}.{key} is {value!r}, not a number; the file is damaged."
            )
        return value

    embedding = file.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise ModelError(f"{file.path} has no matrix 'token_embd.weight'; it is not a complete model.")
    vocab_size, hidden_size = embedding.shape
    num_heads, positions = need("attention.head_count"), need("context_length")
    head_dim = get("attention.key_length", hidden_size // max(num_heads, 1))
    return ModelConfig(
        architecture=architecture,
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        intermediate_size=need("feed_forward_length"),
        num_layers=need("block_count"),
        num_heads=num_heads,
        num_kv_heads=get("attention.head_count_kv", num_heads),
        head_dim=head_dim,
        rms_norm_eps=need("attention.layer_norm_rms_epsilon"),
        rope=RopeConfig(
            theta=get("rope.freq_base", 10000.0),
            dim=get("rope.dimension_count", head_dim),
            scaling=_rope_scaling(file, architecture, positions),
            max_position_embeddings=positions,
        ),
        tie_word_embeddings="output.weight" not in file.tensors,
        attention_bias="blk.0.attn_q.bias" in file.tensors,
        qk_norm="blk.0.attn_q_norm.weight" in file.tensors,
        max_position_embeddings=positions,
    )


def _rope_scaling(file: GGUFFile, architecture: str, positions: int) -> Mapping[str, Any] | None:
    factors = file.tensors.get("rope_freqs.weight")
    if factors is not None:  # llama3 scaling, written out per frequency
        raw = np.asarray(file.bytes[factors.start : factors.start + factors.nbytes])
        return {"rope_type": "frequency_factors", "factors": tuple(raw.view("<f4").tolist())}
    prefix = f"{architecture}.rope.scaling."
    kind, factor = file.metadata.get(prefix + "type", "none"), file.metadata.get(prefix + "factor", 1.0)
    if kind == "none" or (kind == "linear" and factor in (0.0, 1.0)):
        return None
    return {
        "rope_type": kind,
        "factor": factor,
        "original_max_position_embeddings": file.metadata.get(prefix + "original_context_length", positions),
        "beta_fast": file.metadata.get(prefix + "yarn_beta_fast"),
        "beta_slow": file.metadata.get(prefix + "yarn_beta_slow"),
    }
