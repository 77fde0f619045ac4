"""Attention whose rows do not depend on their company: what makes a tree-shaped pass exact.

A row of `softmax(q k) v` has the same bits in any company if nothing that a kernel adds up changes its order. Four
things can change it, and all are kept still here:

- The number of rows, or of keys, makes a library choose another kernel. oneDNN's bfloat16 product with the values is
  the same up to 32 rows on a processor with AMX, and up to 1,024 keys on one with AVX512-BF16; beyond, the transposed
  product is taken, which has the same bits (`_mixed`).
- softmax adds its terms in an order that depends on their columns. So the scores of a row's ancestors are first brought
  side by side, behind the cached ones, as if they were a chain.
- The product with the values adds keys tile by tile (2 keys with AVX512-BF16, 32 with AMX), so a masked key between two
  visible ones would shift the later ones into another place of their tile. So the rows of every branch of a tree get
  tiles of columns of their own behind the cached values: they hold the cached keys of the tile in which the text ends,
  and the branch behind them, as a chain would have them. The weights are spread over those columns, and all else in
  front of them is zeros by whole tiles, which adds nothing.
- The cached keys come in whole blocks of columns, of which the empty ones weigh nothing.

For example with tiles of 4: 6 cached keys, rows a, b, c of which b and c both continue a. The buffers hold columns
`k0 k1 k2 k3 | k4 k5 a b | c` and the tiles of the branch a-c behind them, from the next whole tile on: `k4 k5 a c`. Row
c's weights for k4, k5, a and c go there, those for k0 to k3 stay; row b's branch lies in place already.

The cached keys and values are read where they lie, by all branches at once; a tree costs a few small copies a layer,
which the cache makes in its own buffers (`cache.KeyValueCache.lay_out`). A chain needs none of it. Whether the rows
really are exact is for `exactness` to find out.

Knows tensors. It does not know models, tokens or drafts.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch.nn.functional import pad

WIDTH = 16  # floats in a processor's vector
WIDEST = 64  # rows of a pass whose bits are compared with others; a wider one reads text, the same in every lane
DIRECT_ROWS, DIRECT_KEYS = 32, 1024  # of a bfloat16 product with the values, up to which the direct form is exact


@dataclass(frozen=True, slots=True)
class Layout:
    """How one pass is laid out; the same for every layer.

    `past` cached keys come first. `later` [rows, columns] is True where a query may not look: later rows, and the room
    that is still empty. For a tree, whose rows lie behind the past in the buffer: `ancestors` [rows, longest] are the
    buffer columns of each row's ancestors, in order; `spread` [rows, m] tells to which column the weights of the compact
    columns from `whole` on go.
    """

    past: int
    later: torch.Tensor
    ancestors: torch.Tensor | None = None
    spread: torch.Tensor | None = None
    whole: int = 0

    def to(self, device: torch.device | int, non_blocking: bool = False) -> Layout:
        """The same on another GPU: a model that is spread over several asks for it at every layer."""
        there = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
        if self.later.device == there:
            return self
        tensors = {name: getattr(self, name) for name in ("later", "ancestors", "spread")}
        moved = {k: t if t is None else t.to(there, non_blocking=non_blocking) for k, t in tensors.items()}
        return replace(self, **moved)


@dataclass(frozen=True, slots=True)
class Branches:
    """Where the branches of a tree go: plain lists, from which `layout` makes tensors. `columns` is the room it takes."""

    past: int
    whole: int
    paths: tuple[tuple[int, ...], ...]
    tiles: tuple[int, ...]
    tiles_at: int
    spread: tuple[tuple[int, ...], ...]

    @property
    def columns(self) -> int:
        """Length of the buffers that the pass needs; the last column is for weights of what is not there: zeros."""
        return self.tiles_at + len(self.tiles) + 1


def branches(parents: Sequence[int], past: int, first: int = 0, tile: int = 1) -> Branches:
    """Lay out the rows of a tree behind `past` cached keys, for a kernel that adds keys `tile` by `tile`.

    Of the rows those before `first` have been there since the pass before; only the later ones ask.
    """
    paths: list[tuple[int, ...]] = []
    for row, parent in enumerate(parents):
        paths.append((*paths[parent], row) if parent >= 0 else (row,))
    tip = list(range(len(parents)))  # the end of the branch that a row's weights are laid out for
    for row in range(len(parents) - 1, -1, -1):
        if parents[row] >= 0:
            tip[parents[row]] = tip[row]
    whole = past - past % tile
    cached, longest = past - whole, max(len(path) for path in paths[first:])
    tiles_at = -(-(past + len(parents)) // tile) * tile
    tiles: list[int] = []
    starts: dict[int, int] = {}
    for row in range(first, len(parents)):
        path = paths[tip[row]]
        if path[-1] in starts:
            continue
        in_place = path == tuple(range(len(path)))
        starts[path[-1]] = whole if in_place else tiles_at + len(tiles)
        if not in_place:
            columns = [*range(whole, past), *(past + r for r in path)]
            tiles += columns + columns[-1:] * (-len(columns) % tile)
    nothing = tiles_at + len(tiles)
    spread = []
    for row in range(first, len(parents)):
        start, used = starts[tip[row]], cached + len(paths[row])
        spread.append((*range(start, start + used), *[nothing] * (cached + longest - used)))
    return Branches(past, whole, tuple(paths[first:]), tuple(tiles), tiles_at, tuple(spread))


def layout(rows: int | Branches, past: int, room: int, device: torch.device) -> Layout:
    """The layout of a pass behind `past` cached keys, of so many rows in a chain or of `Branches`.

    `room` is the length of the longest key buffer once the rows are in.
    """
    if isinstance(rows, int):
        return Layout(past, _later(rows, room - past, device))
    lengths = [len(path) for path in rows.paths]
    longest = max(lengths)
    ancestors = [[*(past + r for r in path), *[past] * (longest - len(path))] for path in rows.paths]
    return Layout(
        past,
        torch.arange(room - past, device=device) >= torch.tensor(lengths, device=device)[:, None],
        torch.tensor(ancestors, device=device),
        torch.tensor(rows.spread, device=device),
        rows.whole,
    )


@functools.lru_cache(maxsize=1024)
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


def _weights(scores, dtype, sinks=None):
    """Softmax of the scores. `sinks` [heads] are further scores that take weight and have no value."""
    if sinks is None:
        return torch.softmax(scores, dim=-1, dtype=torch.float32).to(dtype)
    further = sinks.to(scores.dtype).view(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
    return torch.softmax(torch.cat([scores, further], -1), dim=-1, dtype=torch.float32)[..., :-1].to(dtype)


def _mixed(weights, value):
    """Values [batch, kv, keys, dim] under weights [batch, heads, n, keys]: [batch, heads, n, dim]."""
    batch, heads, n, total = weights.shape
    kv_heads, _, dim = value.shape[1:]
    rows = heads // kv_heads * n
    turned = value.dtype == torch.bfloat16 and n <= WIDEST and (rows > DIRECT_ROWS or total > DIRECT_KEYS)
    return product(weights.reshape(batch, kv_heads, rows, total), value, turned).reshape(batch, heads, n, dim)


def product(left: torch.Tensor, right: torch.Tensor, turned: bool) -> torch.Tensor:
    """left [batch, heads, m, k] times right [batch, heads, k, n]; `turned`: transposed, as (right' left')'.

    The libraries' kernels split the sums of a product by its first size, m; transposed, that is a size of the model.
    """
    if turned and left.device.type == "cpu":
        return torch.matmul(right.transpose(-1, -2), left.transpose(-1, -2)).transpose(-1, -2).contiguous()
    return torch.matmul(left, right)


def plain(
    query,
    key,
    value,
    scaling: float,
    softcap: float | None,
    mask: torch.Tensor | None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """Ordinary attention under an additive mask, for passes that are not ours: [batch, n, heads, dim]."""
    scores = _scores(query, key, scaling, softcap)
    lowest = torch.finfo(scores.dtype).min
    if mask is not None:
        scores = scores.masked_fill(mask < 0, lowest)
    # Softmax adds short rows in another order than long ones; in a whole vector's width all are alike.
    total = scores.shape[-1]
    weights = _weights(pad(scores, (0, -total % WIDTH), value=lowest), value.dtype, sinks)[..., :total]
    return _mixed(weights, value).transpose(1, 2).contiguous()


def attend(
    query, key, value, scaling: float, softcap: float | None, rows: Layout, sinks: torch.Tensor | None = None
) -> torch.Tensor:
    """Attention of one pass: query [1, heads, n, dim], key buffers [1, kv, room, dim]; returns [1, n, heads, dim].

    `sinks` [heads] are further scores, as in `_weights`.
    """
    scores, past = _scores(query, key, scaling, softcap), rows.past
    hidden = rows.later[:, : key.shape[2] - past]
    lowest = torch.finfo(scores.dtype).min
    if rows.ancestors is None:
        scores[..., past:].masked_fill_(hidden, lowest)
        return _mixed(_weights(scores, value.dtype, sinks), value).transpose(1, 2).contiguous()
    heads = query.shape[1]
    side_by_side = scores.gather(-1, rows.ancestors.expand(1, heads, -1, -1))
    scores[..., past : past + side_by_side.shape[-1]] = side_by_side
    scores[..., past:].masked_fill_(hidden, lowest)
    weights, whole = _weights(scores, value.dtype, sinks), rows.whole
    spread = torch.zeros_like(weights)
    spread[..., :whole] = weights[..., :whole]
    compact = weights[..., whole : whole + rows.spread.shape[-1]]
    spread.scatter_(-1, rows.spread.expand(1, heads, -1, -1), compact)
    return _mixed(spread, value).transpose(1, 2).contiguous()
