"""Exact attention over separate pieces of KV, merged as if it were one softmax.

Each piece gives its output and the log-sum-exp of its logits; outputs are then averaged with the weights
exp(lse) (the merge step of FlashAttention, arXiv 2205.14135). So memory, document and new tokens need not be
contiguous, and a piece computed without a mask needs none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

Piece = tuple[Tensor, Tensor]
"""Output [kv_heads, rows, head_dim] and log-sum-exp [kv_heads, rows] fp32 of attention over some keys."""


def causal_with_past(q: Tensor, k: Tensor, v: Tensor, past: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Attention of new tokens over all of `past` and, causally, over themselves.

    q [tokens, heads, head_dim]; k, v [tokens, kv_heads, head_dim]; `past` holds (K, V) pieces
    [kv_heads, length, head_dim], all visible. Returns [tokens, heads * head_dim] in q's dtype.
    """
    tokens, heads, head_dim = q.shape
    kv_heads = k.shape[1]
    group = heads // kv_heads
    grouped = q.view(tokens, kv_heads, group, head_dim).permute(1, 2, 0, 3)  # [kv_heads, group, tokens, dim]
    pieces = [_causal_piece(grouped, k.transpose(0, 1), v.transpose(0, 1))]
    visible = [(k_past, v_past) for k_past, v_past in past if k_past.shape[1]]
    if visible:
        k_all = torch.cat([k_past for k_past, _ in visible], dim=1) if len(visible) > 1 else visible[0][0]
        v_all = torch.cat([v_past for _, v_past in visible], dim=1) if len(visible) > 1 else visible[0][1]
        rows = grouped.reshape(kv_heads, group * tokens, head_dim)
        pieces.append(_flash(rows[None], k_all[None], v_all[None], causal=False))
    merged = merge(pieces).view(kv_heads, group, tokens, head_dim)
    return merged.permute(2, 0, 1, 3).reshape(tokens, heads * head_dim)


def merge(pieces: Sequence[Piece]) -> Tensor:
    """One softmax over all pieces: [kv_heads, rows, head_dim] in the pieces' dtype."""
    if len(pieces) == 1:
        return pieces[0][0]
    total = torch.logsumexp(torch.stack([lse for _, lse in pieces]), dim=0)
    merged = sum((out.float() * (lse - total).exp()[..., None] for out, lse in pieces), torch.zeros(()))
    return merged.to(pieces[0][0].dtype)


def _causal_piece(grouped: Tensor, k: Tensor, v: Tensor) -> Piece:
    kv_heads, group, tokens, head_dim = grouped.shape
    q = grouped.reshape(1, kv_heads * group, tokens, head_dim)
    k = k.repeat_interleave(group, dim=0)[None]
    v = v.repeat_interleave(group, dim=0)[None]
    out, lse = _flash(q, k, v, causal=True)
    return out.reshape(kv_heads, group * tokens, head_dim), lse.reshape(kv_heads, group * tokens)


def _flash(q: Tensor, k: Tensor, v: Tensor, *, causal: bool) -> Piece:
    """q [1, n, rows, dim], k and v [1, n, keys, dim] -> (out [n, rows, dim], lse [n, rows] fp32)."""
    if q.device.type == "cpu":
        out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, is_causal=causal)
        return out[0], lse[0].float()
    logits = (q @ k.transpose(-1, -2)).float() / math.sqrt(q.shape[-1])
    if causal:
        future = torch.ones(logits.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        logits = logits.masked_fill(future, -torch.inf)
    lse = logits.logsumexp(-1)
    return ((logits - lse[..., None]).exp().to(v.dtype) @ v)[0], lse[0]
