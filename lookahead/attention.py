"""Attention whose rows do not depend on their company: what makes a tree-shaped pass exact.

In bfloat16 on a CPU with the matching instructions, a row of `softmax(q k) v` has the same bits
however many rows are computed beside it and however many masked keys trail behind it. Keys masked
*between* the visible ones would move the last bits, for two reasons, and both can be had without:

- softmax adds its terms in an order that depends on their columns. So the scores of a row's
  ancestors are first brought side by side, behind the cached ones, as if they were a chain.
- the product with the values adds them two by two: key 2m with key 2m + 1. A gap of whole pairs
  adds nothing, a shifted pairing does. So every row of a tree gets a pair of columns of its own
  behind the cached values, holding itself and its parent as a chain would have paired them, and
  the weights are spread over those columns.

The cached keys and values are read where they lie, by all branches at once; a tree costs a few
small copies a layer. A chain needs none of it.

Registered with transformers under the name `BY_BRANCH`; the layout of a pass arrives as a keyword
through the model's own forward, and a mask of four dimensions tells transformers to build none.
Without a layout it is ordinary eager attention, so `model.generate` works as ever. Knows nothing
of caches, tokens or drafts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch.nn.functional import pad
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

BY_BRANCH = "lookahead_by_branch"
WIDTH = 16  # floats in a processor's vector


@dataclass(frozen=True, slots=True)
class Layout:
    """How one pass is laid out; the same for every layer.

    `past` cached keys come first. `later` [rows, columns] is True where a query may not look: later
    rows, and the room that is still empty. For a tree, whose rows lie behind the past in the buffer:
    `ancestors` [rows, longest] are the buffer columns of each row's ancestors, in order; `pairs`
    [2 rows] are the columns whose values go, two by two, to `pairs_at` and after; `spread` [rows, n]
    tells to which column the weights of the last `n` compact columns go.
    """

    past: int
    later: torch.Tensor
    ancestors: torch.Tensor | None = None
    pairs: torch.Tensor | None = None
    pairs_at: int = 0
    spread: torch.Tensor | None = None

    def to(self, device: torch.device | int, non_blocking: bool = False) -> Layout:
        """The same on another GPU: a model that is spread over several asks for it at every layer."""
        there = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
        if self.later.device == there:
            return self
        tensors = (self.ancestors, self.pairs, self.spread)
        ancestors, pairs, spread = (t if t is None else t.to(there, non_blocking=non_blocking) for t in tensors)
        return Layout(
            self.past, self.later.to(there, non_blocking=non_blocking), ancestors, pairs, self.pairs_at, spread
        )


def room_of_tree(rows: int) -> int:
    """Columns a tree of `rows` rows needs behind its rows: a pair each, one to align, one for what is not there."""
    return 2 * rows + 2


def layout(
    rows: int, parents: Sequence[int] | None, past: int, room: int, device: torch.device, first: int = 0
) -> Layout:
    """The layout of a pass of `rows` rows behind `past` cached ones; `parents` None is a chain.

    `room` is the length of the longest key buffer once the rows are in. Of a tree the rows before `first` have been
    there since the pass before; only the later ones ask.
    """
    if parents is None:
        return Layout(past, _later(rows, room - past, device))
    paths: list[list[int]] = []
    for row, parent in enumerate(parents):
        paths.append([*paths[parent], row] if parent >= 0 else [row])
    lengths = [len(path) for path in paths]
    longest = max(lengths[first:])
    pairs_at = past + rows + (past + rows) % 2
    nothing = pairs_at + 2 * rows
    odd = past % 2  # the last cached key then pairs with the first row of each path
    columns, pairs, spread = [], [], []
    for row, path in enumerate(paths):
        columns.append([past + r for r in path] + [past + row] * (longest - len(path)))
        second = (past + len(path) - 1) % 2 == 1
        before = past + parents[row] if parents[row] >= 0 else past - 1
        pairs += [before, past + row] if second else [past + row, past + row]
        to = [pairs_at + 2 * path[0]] if odd else []
        for i, r in enumerate(path):
            if (past + i) % 2 == 1:
                to.append(pairs_at + 2 * r + 1)
            else:
                to.append(pairs_at + 2 * (path[i + 1] if i + 1 < len(path) else r))
        spread.append(to + [nothing] * (odd + longest - len(to)))
    later = torch.arange(room - past, device=device) >= torch.tensor(lengths[first:], device=device)[:, None]
    return Layout(
        past, later, torch.tensor(columns[first:], device=device), torch.tensor(pairs, device=device), pairs_at,
        torch.tensor(spread[first:], device=device),
    )  # fmt: skip


@lru_cache(maxsize=1024)
def _later(rows: int, columns: int, device: torch.device) -> torch.Tensor:
    return torch.ones(rows, columns, dtype=torch.bool, device=device).triu_(1)


def _scores(query, key, scaling, softcap):
    """Scores [batch, heads, n, keys]; query heads that share a key head are computed together."""
    batch, heads, n, dim = query.shape
    kv_heads, total = key.shape[1:3]
    grouped = query.reshape(batch, kv_heads, heads // kv_heads * n, dim)
    scores = torch.matmul(grouped, key.transpose(2, 3)) * scaling
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    return scores.view(batch, heads, n, total)


def _weights(scores, dtype):
    return torch.softmax(scores, dim=-1, dtype=torch.float32).to(dtype)


def _mixed(weights, value):
    """Values [batch, kv, keys, dim] under weights [batch, heads, n, keys]: [batch, heads, n, dim]."""
    batch, heads, n, total = weights.shape
    kv_heads, _, dim = value.shape[1:]
    return torch.matmul(weights.view(batch, kv_heads, heads // kv_heads * n, total), value).view(batch, heads, n, dim)


def attend(query, key, value, scaling: float, softcap: float | None, rows: Layout) -> torch.Tensor:
    """Attention of one pass: query [1, heads, n, dim], key buffers [1, kv, room, dim]; returns [1, n, heads, dim]."""
    scores, past = _scores(query, key, scaling, softcap), rows.past
    hidden = rows.later[:, : key.shape[2] - past]
    lowest = torch.finfo(scores.dtype).min
    if rows.ancestors is None:
        scores[..., past:].masked_fill_(hidden, lowest)
        return _mixed(_weights(scores, value.dtype), value).transpose(1, 2).contiguous()
    heads = query.shape[1]
    side_by_side = scores.gather(-1, rows.ancestors.expand(1, heads, -1, -1))
    scores[..., past : past + side_by_side.shape[-1]] = side_by_side
    scores[..., past:].masked_fill_(hidden, lowest)
    weights = _weights(scores, value.dtype)
    whole = past - past % 2
    spread = torch.zeros_like(weights)
    spread[..., :whole] = weights[..., :whole]
    spread.scatter_(-1, rows.spread.expand(1, heads, -1, -1), weights[..., whole : whole + rows.spread.shape[-1]])
    value[:, :, rows.pairs_at : rows.pairs_at + rows.pairs.shape[0]] = value[:, :, rows.pairs]
    return _mixed(spread, value).transpose(1, 2).contiguous()


def by_branch(
    module, query, key, value, attention_mask, scaling=None, dropout=0.0, softcap=None, rows: Layout | None = None, **_
):
    """transformers' attention interface over `attend`."""
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    if rows is None:  # somebody else's pass, `model.generate` say: transformers made the mask
        scores = _scores(query, key, scaling, softcap)
        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask < 0, torch.finfo(scores.dtype).min)
        # Softmax adds short rows in another order than long ones; in a whole vector's width all are alike.
        total = scores.shape[-1]
        wide = pad(scores, (0, -total % WIDTH), value=torch.finfo(scores.dtype).min)
        return _mixed(_weights(wide, value.dtype)[..., :total], value).transpose(1, 2).contiguous(), None
    return attend(query, key, value, scaling, softcap, rows), None


AttentionInterface.register(BY_BRANCH, by_branch)
AttentionMaskInterface.register(BY_BRANCH, eager_mask)
