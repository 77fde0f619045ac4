"""Attention whose rows do not depend on their company: what makes a tree-shaped pass exact.

In bfloat16 on a CPU with the matching instructions, a row of `softmax(q k) v` has the same bits
however many rows are computed beside it and however many masked keys trail behind it. But keys
masked *between* the visible ones shift how neighbours are paired in the dot product, and the
last bits move. So this attention never leaves a gap: a tree is computed branch by branch, each
branch's keys put side by side as if it were the only one, all branches in one batched product.
A chain is one branch and costs nothing more.

Registered with transformers under the name `BY_BRANCH`; the layout of a pass arrives as a
keyword through the model's own forward, and a mask of four dimensions tells transformers to
build none. Without a layout it is ordinary eager attention, so `model.generate` works as ever. Knows nothing of caches, tokens or drafts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

from .tree import branches

BY_BRANCH = "lookahead_by_branch"


@dataclass(frozen=True, slots=True)
class Layout:
    """How one pass is laid out; the same for every layer.

    `past` cached keys come first. `later` [longest, columns] is True where a query may not look:
    later rows of its branch, and the room that is still empty. For a tree, `paths`
    [branches, longest] holds each branch's rows (padded by repeating the last one) and `home`
    [rows] tells where a row is found in the flattened paths.
    """

    past: int
    later: torch.Tensor
    paths: torch.Tensor | None = None
    home: torch.Tensor | None = None


def layout(rows: int, parents: Sequence[int] | None, past: int, room: int, device: torch.device) -> Layout:
    """The layout of a pass of `rows` rows behind `past` cached ones; `parents` None is a chain.

    `room` is the length of the longest key buffer once the rows are in.
    """
    if parents is None:
        return Layout(past, _later(rows, room - past, device))
    found = branches(parents)
    longest = max(len(path) for path, _ in found)
    home = [0] * rows
    for b, (path, own) in enumerate(found):
        for i in range(own, len(path)):
            home[path[i]] = b * longest + i
    paths = [path + path[-1:] * (longest - len(path)) for path, _ in found]
    later = _later(longest, room - past, device)
    return Layout(past, later, torch.tensor(paths, device=device), torch.tensor(home, device=device))


def _later(rows: int, columns: int, device: torch.device) -> torch.Tensor:
    return torch.ones(rows, columns, dtype=torch.bool, device=device).triu_(1)


def _attend(query, key, value, scaling, softcap, hidden):
    """Attention [batch, heads, n, dim]; `hidden` (bool, [..., n, columns]) masks the last columns."""
    batch, heads, n, dim = query.shape
    kv_heads, total = key.shape[1:3]
    grouped = query.reshape(batch, kv_heads, heads // kv_heads * n, dim)
    scores = torch.matmul(grouped, key.transpose(2, 3)) * scaling
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    if hidden is not None:
        masked = scores.view(batch, kv_heads, -1, n, total)[..., total - hidden.shape[-1] :]
        masked.masked_fill_(hidden, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(query.dtype)
    return torch.matmul(weights, value).reshape(batch, heads, n, dim)


def attend(query, key, value, scaling: float, softcap: float | None, rows: Layout) -> torch.Tensor:
    """Attention of one pass: query [1, heads, n, dim], key buffers [1, kv, room, dim]; returns [1, n, heads, dim]."""
    hidden = rows.later[:, : key.shape[2] - rows.past]
    if rows.paths is None:
        return _attend(query, key, value, scaling, softcap, hidden).transpose(1, 2).contiguous()
    count, longest = rows.paths.shape

    def laid_out(cached):
        out = cached.new_zeros(count, *cached.shape[1:])
        out[:, :, : rows.past] = cached[:, :, : rows.past]
        out[:, :, rows.past : rows.past + longest] = cached[0][:, rows.past + rows.paths].transpose(0, 1)
        return out

    queries = query[0][:, rows.paths].transpose(0, 1)
    out = _attend(queries, laid_out(key), laid_out(value), scaling, softcap, hidden)
    return out.permute(0, 2, 1, 3).flatten(0, 1)[rows.home][None]


def by_branch(
    module, query, key, value, attention_mask, scaling=None, dropout=0.0, softcap=None, rows: Layout | None = None, **_
):
    """transformers' attention interface over `attend`."""
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    if rows is None:  # somebody else's pass, `model.generate` say: transformers made the mask
        hidden = None if attention_mask is None else (attention_mask < 0)[:, :, None]
        return _attend(query, key, value, scaling, softcap, hidden).transpose(1, 2).contiguous(), None
    return attend(query, key, value, scaling, softcap, rows), None


AttentionInterface.register(BY_BRANCH, by_branch)
AttentionMaskInterface.register(BY_BRANCH, eager_mask)
