"""Drafting a chain or a tree in one compiled call: pass, pick the likeliest token, and so on until the stop rule.

After a target's pass, nothing of a small drafter is in the processor's caches any more, nor are Python's own structures. Then
Python's work for one token takes as long as the token's pass.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from ..core.lm import DraftRequest
from .compiling import FREE, compiled
from .vectors import call, copy, exp, highest
from .whole_pass import forward

NO_NOISE, ALL = np.empty((0, 0), np.float32), np.empty(0, np.int64)


class Request(NamedTuple):
    """A `DraftRequest` as compiled code takes it; `noise` [most, known] and `ids` [known] may be empty."""

    most: int
    known: int
    scale: np.float32
    noise: np.ndarray
    ids: np.ndarray
    floors: np.ndarray
    reach: float

    @classmethod
    def of(cls, request: DraftRequest) -> Request:
        """The same with arrays."""
        noise, ids = request.scores.noise, request.ids
        return cls(
            request.most, request.known, np.float32(request.scores.scale), NO_NOISE if noise is None else noise.numpy(),
            ALL if ids is None else ids.numpy(), np.array(request.stop.floors, np.float64), float(request.reach),
        )  # fmt: skip


@njit(error_model="numpy")
def stops(request, reach, drafted):
    """`StopRule.stops`."""
    return not reach > request.floors[min(drafted, len(request.floors)) - 1]


@njit(fastmath=FREE, error_model="numpy")
def scored(logits, scale, noise, row):
    """Make the `logits` [known] scores: the highest of them, and the sum of their exponentials in units of its own."""
    count = len(logits)
    if len(noise):
        for i in range(count):
            logits[i] = logits[i] * scale + noise[row, i]
    else:
        for i in range(count):
            logits[i] *= scale
    top = highest(logits)
    total = np.float32(0)
    for i in range(count):
        total += exp(logits[i] - top)
    return top, total


@njit(error_model="numpy")
def place_of(score, scores):
    """The first token with a score that one has."""
    token = 0
    while scores[token] < score:
        token += 1
    return token


@njit(error_model="numpy")
def picked(logits, scale, noise, row):
    """The token with the highest score, the first of several, and its share of the scores' softmax. `logits` [known] become
    the scores."""
    top, total = scored(logits, scale, noise, row)
    return place_of(top, logits), 1.0 / total


@njit(error_model="numpy")
def favourites(logits, scale, noise, row, most):
    """The tokens with the `most` highest scores, the highest first, and their shares of the scores' softmax. Of the `logits`
    [known] nothing is left."""
    best, total = scored(logits, scale, noise, row)
    top, tokens, shares = best, np.empty(most, np.int64), np.empty(most)
    for i in range(most):
        tokens[i] = place_of(best, logits)
        shares[i] = np.exp(best - top) / total
        logits[tokens[i]] = -np.inf
        best = highest(logits)
    return tokens, shares


@njit(error_model="numpy")
def level(logits, depth, above, first, count, tokens, parents, chances, reach, request):
    """Grow a tree by a level: of the favourites behind the `above` rows from `first` on, at depth 0 behind the text's end, the
    likeliest become rows from `count` on, `branches` of them if there is room. Returns how many rows there are now,
    and the sum of the chances of reaching the new ones.

    Arrays: logits [branches, whole blocks of the known tokens], of which nothing is left; [rows] each: ids, parents (-1: the
    text's end), shares of the softmax, chances of being reached.
    """
    branches, ids = len(logits), request.ids
    offered, offers = np.empty((above * branches, 2), np.int64), np.empty((above * branches, 2))
    for i in range(above):
        places, shares = favourites(logits[i, : request.known], request.scale, request.noise, depth, branches)
        row, so_far = (first + i, reach[first + i]) if depth else (-1, 1.0)
        for j in range(branches):
            at = i * branches + j
            offered[at, 0], offered[at, 1] = ids[places[j]] if len(ids) else places[j], row
            offers[at, 0], offers[at, 1] = shares[j], shares[j] * so_far
    reached = 0.0
    for _ in range(min(branches, len(tokens) - count)):
        best = 0
        for at in range(1, len(offers)):
            if offers[at, 1] > offers[best, 1]:
                best = at
        tokens[count], parents[count] = offered[best, 0], offered[best, 1]
        chances[count], reach[count] = offers[best, 0], offers[best, 1]
        offers[best, 1] = -1.0
        reached += reach[count]
        count += 1
    return count, reached


@njit(error_model="numpy")
def lay_out(first, count, depth, parents, start, straight, branch, counts, cos, sin, turns):
    """Where the rows of a tree's level look, for `whole_pass.forward`: those from `first` up to `count`, at this depth behind
    `start` columns of a cache. A row looks at what its parent (-1: the text's end) looks at, and at itself.

    Arrays: straight and counts [rows], branch [rows, longest]; cos, sin [positions, dim], of which the level's go into
    `turns` [2, branches, dim].
    """
    for row in range(first, count):
        parent = parents[row]
        if parent < 0:
            straight[row], counts[row] = start, 0
        else:
            straight[row], counts[row] = straight[parent], counts[parent]
            copy(branch[parent], branch[row])
        if counts[row] == 0 and straight[row] == start + row:
            straight[row] += 1
        else:
            branch[row, counts[row]] = start + row
            counts[row] += 1
        copy(cos[start + depth], turns[0, row - first])
        copy(sin[start + depth], turns[1, row - first])


@compiled
def chain(
    steps, ids, embed, cos, sin, norms, weights, scales, caches, rooms, start, heads, kv, inner, vocab, rounded, spare, eps,
    scaling, taps, request,
):  # fmt: skip
    """Read `ids` [n] behind `start` tokens of the cache, then draft: tokens and confidences, [drafted] each.

    The cache must have room for `n + most` columns, `cos` and `sin` [positions, dim] rows for as many; all tokens but the last
    drafted are in it afterwards. The other arguments are those of `whole_pass.forward`, and a `Request`.
    """
    _, _, _, _, _, read, _, _ = steps
    most, known, reach = request.most, request.known, request.reach
    tokens, confidences, count = np.empty(most, np.int64), np.empty(most), np.int64(0)
    stored, scores = np.empty(vocab, np.float32), np.empty(vocab, np.float32)
    while True:
        n = len(ids)
        new = np.arange(start, start + n)
        scratch = forward(
            steps, ids, embed, cos[start : start + n], sin[start : start + n], norms, weights, scales, caches, rooms,
            np.full(1, n), new, new + 1, np.zeros((n, 1), np.int64), np.zeros(n, np.int64), heads, kv, inner, vocab, rounded,
            spare, n - 1, np.int64(1), np.int64(stored.ctypes.data), eps, scaling, taps, np.zeros(1, np.int64),
            np.int64(0), np.int64(0),
        )  # fmt: skip
        call(read, (stored.ctypes.data, scores.ctypes.data, known, rounded))
        token, confidence = picked(scores[:known], request.scale, request.noise, count)
        tokens[count], confidences[count] = token, confidence
        count += 1
        reach *= confidence
        if count == most or stops(request, reach, count):
            return tokens[:count], confidences[:count], scratch[:1], stored[:1]
        start += n
        ids = tokens[count - 1 : count]


@compiled
def tree(
    steps, ids, embed, cos, sin, norms, weights, scales, caches, rooms, start, heads, kv, inner, vocab, rounded, spare, eps,
    scaling, taps, branches, rows, request,
):  # fmt: skip
    """Read `ids` [n] behind `start` tokens of the cache, then grow a tree, a pass a level: tokens, parents (-1: the text's end),
    and the share of each of its softmax, [drafted] each; and how many of them, all but the last level, were read. At most `rows`
    in all, and of a level the `branches` that are likeliest reached; the last level is the one behind which those of the next
    would not pay.

    The cache must have room for `n + rows` columns. Otherwise as `chain` takes them.
    """
    _, _, _, _, _, read, _, _ = steps
    most = request.most
    tokens, parents, chances, reach = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows), np.empty(rows)
    straight, branch, counts = np.empty(rows, np.int64), np.zeros((rows, most), np.int64), np.zeros(rows, np.int64)
    out, turns = np.empty((branches, vocab), np.float32), np.empty((2, branches, cos.shape[1]), np.float32)
    stored, n, end = np.empty((branches, vocab), np.float32), len(ids), start + len(ids)
    one, new = np.zeros(1, np.int64), np.arange(start, end)
    scratch = forward(
        steps, ids, embed, cos[start:end], sin[start:end], norms, weights, scales, caches, rooms, np.full(1, n), new, new + 1,
        np.zeros((n, 1), np.int64), np.zeros(n, np.int64), heads, kv, inner, vocab, rounded, spare, n - 1,
        np.int64(1), np.int64(stored.ctypes.data), eps, scaling, taps, one, np.int64(0), np.int64(0),
    )  # fmt: skip
    first, count, above = np.int64(0), np.int64(0), np.int64(1)
    for depth in range(most):
        call(read, (stored.ctypes.data, out.ctypes.data, above * vocab, rounded))
        newest = count
        count, reached = level(out, depth, above, first, count, tokens, parents, chances, reach, request)
        first, above = newest, count - newest
        if count == rows or depth + 1 == most or stops(request, reached, depth + 1):
            break
        lay_out(first, count, depth, parents, end, straight, branch, counts, cos, sin, turns)
        scratch = forward(
            steps, tokens[first:count], embed, turns[0, :above], turns[1, :above], norms, weights, scales, caches, rooms,
            np.full(1, above), np.arange(end + first, end + count), straight[first:count], branch[first:count],
            counts[first:count], heads, kv, inner, vocab, rounded, spare, np.int64(0), above,
            np.int64(stored.ctypes.data), eps, scaling, taps, one, np.int64(0),
            np.int64(0),
        )  # fmt: skip
    return tokens[:count], parents[:count], chances[:count], first, scratch[:1], stored[:1]
