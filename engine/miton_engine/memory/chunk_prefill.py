"""Chunk prefill: each chunk by itself, after the same short sink, many chunks in one forward pass.

A chunk sees the sink and itself only, at positions that start after the sink, so its KV depends on nothing
around it (chunk-independent KV: Prompt Cache, arXiv 2311.04934; APE, arXiv 2502.05431). Packing several
chunks into one pass keeps the matrix products large; attention alone runs per chunk.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from miton_engine.attention.exact import causal_with_past
from miton_engine.models.decoder import Decoder


class ChunkPrefill:
    """Computes chunk KV for one model. The sink's own KV is computed once, here."""

    def __init__(self, decoder: Decoder, sink_ids: Sequence[int]) -> None:
        self._decoder = decoder
        self.sink_ids = tuple(sink_ids)
        config = decoder.config
        shape = (config.num_layers, config.num_kv_heads, 0, config.head_dim)
        self.sink_k = self.sink_v = torch.empty(shape, dtype=decoder.dtype)
        if self.sink_ids:
            ((self.sink_k, self.sink_v),) = self([self.sink_ids], start=0)

    def __call__(
        self, chunks: Sequence[Sequence[int]], start: int | None = None
    ) -> list[tuple[Tensor, Tensor]]:
        """(K, V) [layers, kv_heads, tokens, head_dim] per chunk of token ids, in the decoder's dtype.

        Keys are rotated to chunk-local positions, which start right after the sink.
        """
        decoder, config = self._decoder, self._decoder.config
        lengths = [len(chunk) for chunk in chunks]
        starts = list(itertools.accumulate(lengths))[:-1]  # where each chunk but the first begins
        start = len(self.sink_ids) if start is None else start
        positions = torch.cat([torch.arange(start, start + length) for length in lengths])
        shape = (config.num_layers, config.num_kv_heads, sum(lengths), config.head_dim)
        k_all, v_all = torch.empty(shape, dtype=decoder.dtype), torch.empty(shape, dtype=decoder.dtype)

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            k_all[layer], v_all[layer] = k.transpose(0, 1), v.transpose(0, 1)
            sink = [(self.sink_k[layer], self.sink_v[layer])] if start else []
            parts = zip(q.tensor_split(starts), k.tensor_split(starts), v.tensor_split(starts), strict=True)
            return torch.cat([causal_with_past(*part, sink) for part in parts])

        decoder.forward(torch.tensor([token for chunk in chunks for token in chunk]), positions, attend)
        return [
            (k.contiguous(), v.contiguous())
            for k, v in zip(k_all.tensor_split(starts, dim=2), v_all.tensor_split(starts, dim=2), strict=True)
        ]
