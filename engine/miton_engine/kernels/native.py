"""The fused decode step on the CPU: 1 to 16 tokens through the whole model in one call into C++.

Decoding reads every weight once per step, so bytes decide: the weights stay in the file's own 4 to 8 bit
blocks, repacked (`packed.py`), activations are rounded to int8 in groups of 32, attention reads the bf16
cache once for all queries of a group. `reference.py` is the same step in plain torch.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from miton_engine.errors import ModelError
from miton_engine.kernels.build import load_library
from miton_engine.kernels.packed import (
    GGML_KINDS,
    MAX_TOKENS,
    PackedMatrix,
    Quantization,
    ThreadPool,
    quantise,
)

if TYPE_CHECKING:
    from miton_engine.models.checkpoint import Checkpoint

SlotRange = tuple[int, int]
Ranges = Sequence[SlotRange] | Sequence[Sequence[Sequence[SlotRange]]]
WEIGHTS = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
VECTORS = (
    "attn_norm.weight",
    "ffn_norm.weight",
    "attn_q.bias",
    "attn_k.bias",
    "attn_v.bias",
    "attn_output.bias",
    "attn_q_norm.weight",
    "attn_k_norm.weight",
)
HEAD_SIZES = (16, 32, 48, 64, 80, 96, 112, 128, 256)


class _Config(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_int32)
        for name in (
            *("vocabulary", "hidden", "intermediate", "layers", "heads", "kv_heads"),
            *("head_dim", "rope_dim", "max_position"),
        )
    ] + [("rms_norm_eps", ctypes.c_float)]


class _Step(ctypes.Structure):
    _fields_ = [
        ("tokens", ctypes.c_int32),
        ("token_ids", ctypes.c_void_p),
        ("positions", ctypes.c_void_p),
        ("slot", ctypes.c_int64),
        ("keys", ctypes.c_void_p),
        ("values", ctypes.c_void_p),
        ("layer_stride", ctypes.c_int64),
        ("head_stride", ctypes.c_int64),
        ("ranges", ctypes.c_void_p),
        ("range_offsets", ctypes.c_void_p),
        ("range_count", ctypes.c_int32),
        ("logit_rows", ctypes.c_int32),
        ("logits", ctypes.c_void_p),
        ("best", ctypes.c_void_p),
        ("exact_tiles", ctypes.c_void_p),
    ]


def native_decoder_available(cache: Path) -> bool:
    """True where the kernels compile (or are compiled already) and load."""
    return load_library(cache) is not None


class NativeDecoder:
    """Decode steps over a caller's bf16 KV cache. One step at a time; the interpreter lock is free meanwhile.

    `cos` and `sin` are fp32 [positions, rotary dim / 2]. Quantization "native" keeps the checkpoint's ggml
    blocks bit for bit (and makes int8 of what has none), "int8" and "int4" quantise everything anew in groups
    of 32. `cache` is the directory of the compiled library, `extra_flags` go to its compiler. Raises
    ModelError for a shape the kernels do not support or where they cannot be built.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        cos: Tensor,
        sin: Tensor,
        *,
        cache: Path,
        threads: int,
        quantization: Quantization = "native",
        extra_flags: tuple[str, ...] = (),
    ) -> None:
        library = load_library(cache, extra_flags)
        if library is None:
            raise ModelError(
                "the native kernels are not available on this machine; see the warning in the log"
            )
        config = checkpoint.config
        if config.head_dim not in HEAD_SIZES:
            raise ModelError(f"the native kernels support head sizes {HEAD_SIZES}, not {config.head_dim}")
        self.config, self.quantization = config, quantization
        self._library, self._pool = library, ThreadPool(library, threads)
        self._positions = cos.shape[0]
        self._matrices: list[PackedMatrix] = []
        self._planes: int | None = None
        self.bytes_per_step = self.bytes_per_greedy_step = 0
        """Weight bytes that one `step`, one `greedy` reads."""
        self.exact_head_tiles = 0
        """Tiles of 32 rows of the head that the last `greedy` computed in full."""
        cos, sin = cos.float().contiguous(), sin.float().contiguous()
        native_config = _Config(
            config.vocab_size,
            config.hidden_size,
            config.intermediate_size,
            config.num_layers,
            config.num_heads,
            config.num_kv_heads,
            config.head_dim,
            2 * cos.shape[1],
            cos.shape[0],
            config.rms_norm_eps,
        )
        self._handle: int | None = library.miton_decoder_create(
            self._pool.handle, ctypes.addressof(native_config), cos.data_ptr(), sin.data_ptr()
        )
        if not self._handle:
            raise MemoryError("no memory for the native decoder")
        for layer in range(config.num_layers):
            self._load_layer(checkpoint, layer)
        self._load_ends(checkpoint)

    def step(
        self,
        token_ids: Sequence[int],
        positions: Sequence[int],
        slot: int,
        keys: Tensor,
        values: Tensor,
        ranges: Ranges,
        logits: Literal["all", "last", "none"] = "all",
    ) -> Tensor:
        """Run 1 to 16 tokens and return their logits: fp32 [tokens, vocab], [1, vocab], [0, vocab].

        keys, values: the cache, bf16 [layers, kv_heads, slots, head_dim], keys rotated. The new keys and
        values are written to slots slot .. slot + tokens - 1; token t sees every slot in `ranges` (pairs
        first, one past the last) and of the new slots its own and those before it. `ranges` is one list for
        all heads, or a list per layer of a list per KV head. `positions` are rotary positions, free of the
        slots. Raises ValueError.
        """
        rows = {"all": len(token_ids), "last": 1, "none": 0}[logits]
        out = torch.empty(rows, self.config.vocab_size)
        self._run(token_ids, positions, slot, keys, values, ranges, rows, out, None)
        return out

    def greedy(
        self,
        token_ids: Sequence[int],
        positions: Sequence[int],
        slot: int,
        keys: Tensor,
        values: Tensor,
        ranges: Ranges,
        rows: Literal["all", "last"] = "all",
    ) -> list[int]:
        """Like `step`, but return the likeliest next token after each token (after the last for "last").

        Exactly the argmax of `step`'s logits, lowest id among equals; an 8-bit head is read only in part.
        """
        count = len(token_ids) if rows == "all" else 1
        best = torch.empty(count, dtype=torch.int32)
        self._run(token_ids, positions, slot, keys, values, ranges, count, None, best)
        return [int(token) for token in best.tolist()]

    def _run(
        self,
        token_ids: Sequence[int],
        positions: Sequence[int],
        slot: int,
        keys: Tensor,
        values: Tensor,
        ranges: Ranges,
        rows: int,
        logits: Tensor | None,
        best: Tensor | None,
    ) -> None:
        self._check(token_ids, positions, slot, keys, values)
        flat, offsets = self._flatten(ranges, slot, slot + len(token_ids), keys.shape[2])
        tokens = torch.tensor(token_ids, dtype=torch.int32)
        where = torch.tensor(positions, dtype=torch.int64)
        exact_tiles = ctypes.c_int32(0)
        step = _Step(
            len(token_ids),
            tokens.data_ptr(),
            where.data_ptr(),
            slot,
            keys.data_ptr(),
            values.data_ptr(),
            keys.stride(0),
            keys.stride(1),
            flat.data_ptr(),
            None if offsets is None else offsets.data_ptr(),
            flat.shape[0],
            rows,
            None if logits is None else logits.data_ptr(),
            None if best is None else best.data_ptr(),
            ctypes.addressof(exact_tiles),
        )
        if self._library.miton_decoder_step(self._handle, ctypes.addressof(step)):
            raise MemoryError("no memory for a decode step")
        self.exact_head_tiles = exact_tiles.value

    def release(self) -> None:
        """Free the weights and end the threads; the decoder cannot be used afterwards."""
        if self._handle:
            self._library.miton_decoder_destroy(self._handle)
            self._handle = None
        if self._planes:
            self._library.miton_planes_destroy(self._planes)
            self._planes = None
        for matrix in self._matrices:
            matrix.release()
        self._pool.release()

    def _load_layer(self, checkpoint: Checkpoint, layer: int) -> None:
        for index, name in enumerate(WEIGHTS):
            matrix = self._pack(checkpoint, f"blk.{layer}.{name}.weight")
            self._library.miton_decoder_set_weight(self._handle, layer, index, matrix.handle)
        for index, name in enumerate(VECTORS):
            if checkpoint.has(f"blk.{layer}.{name}"):
                vector = checkpoint.tensor(f"blk.{layer}.{name}").float().contiguous()
                self._library.miton_decoder_set_vector(
                    self._handle, layer, index, vector.data_ptr(), vector.numel()
                )

    def _load_ends(self, checkpoint: Checkpoint) -> None:
        embedding = self._pack(checkpoint, "token_embd.weight")
        layer_bytes = sum(m.nbytes for m in self._matrices) - embedding.nbytes
        head = self._pack(checkpoint, "output.weight") if checkpoint.has("output.weight") else embedding
        self.bytes_per_step = self.bytes_per_greedy_step = layer_bytes + head.nbytes
        norm = checkpoint.tensor("output_norm.weight").float().contiguous()
        if head.kind == "Q8_0":
            self._planes = self._library.miton_planes_create(self._pool.handle, head.handle, norm.data_ptr())
            if not self._planes:
                raise MemoryError("no memory for the output head")
            self.bytes_per_greedy_step = layer_bytes + head.nbytes * 9 // 17
            if head is not embedding:
                self._matrices.remove(head)
                head.release()
        self._library.miton_decoder_set_ends(
            self._handle,
            embedding.handle,
            None if self._planes else head.handle,
            self._planes,
            norm.data_ptr(),
        )

    def _pack(self, checkpoint: Checkpoint, name: str) -> PackedMatrix:
        blocks = checkpoint.quantized(name) if self.quantization == "native" else None
        if blocks is not None and blocks.type in GGML_KINDS:
            matrix = PackedMatrix(self._pool, blocks.type, (blocks.shape[0], blocks.shape[1]), blocks.data)
        else:
            weight = checkpoint.tensor(name)
            kind: Literal["Q8_0", "Q4_1"] = "Q4_1" if self.quantization == "int4" else "Q8_0"
            try:
                raw = quantise(weight, kind)
            except ValueError as error:
                raise ModelError(f"{name}: {error}; the native kernels cannot run this model") from error
            matrix = PackedMatrix(self._pool, kind, (weight.shape[0], weight.shape[1]), raw)
        self._matrices.append(matrix)
        return matrix

    def _check(
        self, token_ids: Sequence[int], positions: Sequence[int], slot: int, keys: Tensor, values: Tensor
    ) -> None:
        c, count = self.config, len(token_ids)
        if not self._handle:
            raise ValueError("the native decoder was released")
        if not 1 <= count <= MAX_TOKENS or len(positions) != count:
            raise ValueError(
                f"{count} tokens at {len(positions)} positions: 1 to {MAX_TOKENS} tokens per step"
            )
        if min(token_ids) < 0 or max(token_ids) >= c.vocab_size:
            raise ValueError(f"token ids must lie in 0..{c.vocab_size - 1}")
        if min(positions) < 0 or max(positions) >= self._positions:
            raise ValueError(f"positions must lie in 0..{self._positions - 1}")
        for name, cache in (("keys", keys), ("values", values)):
            expected = (c.num_layers, c.num_kv_heads, c.head_dim)
            if cache.dim() != 4 or (cache.shape[0], cache.shape[1], cache.shape[3]) != expected:
                raise ValueError(
                    f"{name} of shape {tuple(cache.shape)}, expected [layers, kv_heads, slots, head_dim]"
                )
            if cache.dtype is not torch.bfloat16 or cache.stride()[2:] != (c.head_dim, 1):
                raise ValueError(f"{name} must be bf16 with contiguous slots")
        if keys.shape != values.shape or keys.stride() != values.stride():
            raise ValueError("keys and values must have the same shape and strides")
        if not 0 <= slot <= keys.shape[2] - count:
            raise ValueError(f"slots {slot}..{slot + count - 1} are outside the cache of {keys.shape[2]}")

    def _flatten(
        self,
        ranges: Ranges,
        first_new: int,
        end_new: int,
        slots: int,
    ) -> tuple[Tensor, Tensor | None]:
        """Pairs int64 [n, 2]; int32 [layers * kv_heads + 1] offsets into them where each head has its own."""
        c = self.config
        offsets = None
        if len(ranges) and not isinstance(ranges[0][0], int):
            if len(ranges) != c.num_layers or any(len(heads) != c.num_kv_heads for heads in ranges):
                raise ValueError("ranges must hold a list per layer of a list per KV head")
            per_head: list[Sequence[SlotRange]] = [head for layer in ranges for head in layer]  # type: ignore[misc]
            pairs = [pair for head in per_head for pair in head]
            lengths = torch.tensor([0, *(len(head) for head in per_head)], dtype=torch.int32)
            offsets = lengths.cumsum(0, dtype=torch.int32)
        else:
            pairs = list(ranges)  # type: ignore[arg-type]
        for begin, end in pairs:
            overlaps = begin < end and begin < end_new and end > first_new
            if not 0 <= begin <= end <= slots or overlaps:
                raise ValueError(
                    f"range {begin}..{end} leaves the cache or meets the new slots {first_new}..{end_new}"
                )
        return torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2), offsets
