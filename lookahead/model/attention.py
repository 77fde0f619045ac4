"""Attention in plain torch under an additive mask, with soft caps and sinks: what transformers' modules compute with here."""

from __future__ import annotations

import torch


def attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float, softcap: float | None,
    mask: torch.Tensor | None, sinks: torch.Tensor | None = None,
) -> torch.Tensor:  # fmt: skip
    """Attention [batch, rows, heads, dim] of queries [batch, heads, rows, dim] over keys and values [batch, kv heads, keys, dim].

    Query heads that share a key head are computed together. `mask` is additive, [batch, 1, rows, keys]. `sinks` [heads] are
    scores of no key: they take weight and have no value.
    """
    batch, heads, rows, dim = query.shape
    kv_heads, keys = key.shape[1:3]
    grouped = query.reshape(batch, kv_heads, heads // kv_heads * rows, dim)
    scores = torch.matmul(grouped, key.transpose(2, 3)) * scaling
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    scores = scores.view(batch, heads, rows, keys)
    if mask is not None:
        scores = scores.masked_fill(mask < 0, torch.finfo(scores.dtype).min)
    if sinks is not None:
        scores = torch.cat([scores, sinks.to(scores.dtype).view(1, -1, 1, 1).expand(batch, heads, rows, 1)], -1)
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(value.dtype)[..., :keys]
    mixed = torch.matmul(weights.reshape(batch, kv_heads, heads // kv_heads * rows, keys), value)
    return mixed.reshape(batch, heads, rows, value.shape[3]).transpose(1, 2).contiguous()
