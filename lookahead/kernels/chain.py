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
from .records import Caches, Columns, Outputs, Rows, Step
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
    """The first token with the highest score, and its share of the scores' softmax. `logits` [known] become the scores."""
    top, total = scored(logits, scale, noise, row)
    return place_of(top, logits), 1.0 / total


@njit(error_model="numpy")
def top_k(logits, scale, noise, row, most):
    """The `most` tokens with the highest scores, in order, and their shares of the softmax. Overwrites `logits` [known]."""
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
    """Grow a tree by a level: of the likeliest tokens after the `above` rows from `first` on, at depth 0 after the text's end, the
    likeliest become rows from `count` on, `branches` of them if there is room. Returns how many rows there are now,
    and the sum of the chances of reaching the new ones.

    Arrays: logits [branches, whole blocks of the known tokens], of which nothing is left; [rows] each: ids, parents (-1: the
    text's end), shares of the softmax, chances of being reached.
    """
    branches, ids = len(logits), request.ids
    offered, offers = np.empty((above * branches, 2), np.int64), np.empty((above * branches, 2))
    for i in range(above):
        places, shares = top_k(logits[i, : request.known], request.scale, request.noise, depth, branches)
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
def lay_out(caches, tokens, parents, first, count, depth, start, columns, rotations, of_level):
    """The caches, rows and columns of a pass over a tree's level: the rows from `first` up to `count`, at this depth after `start`
    columns of a cache. A row attends to what its parent (-1: the text's end) attends to, and to itself. The level's part of
    `columns` is filled, and the rotations of its position go into `of_level` [2, branches, head_dim].
    """
    new, straight, branch, counts = columns
    for row in range(first, count):
        parent = parents[row]
        new[row] = start + row
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
        copy(rotations.cos[start + depth], of_level[0, row - first])
        copy(rotations.sin[start + depth], of_level[1, row - first])
    above = count - first
    return (
        Caches(caches.addresses, caches.rooms, np.full(1, above)),
        Rows(tokens[first:count], of_level[0, :above], of_level[1, :above]),
        Columns(new[first:count], straight[first:count], branch[first:count], counts[first:count]),
    )


@njit(error_model="numpy")
def in_a_row(start, n):
    """The columns of a chain of n rows after `start` columns."""
    new = np.arange(start, start + n)
    return Columns(new, new + 1, np.zeros((n, 1), np.int64), np.zeros(n, np.int64))


@njit(error_model="numpy")
def empty_columns(rows, longest):
    """The columns of a tree of so many rows, for `lay_out`."""
    new, straight = np.empty(rows, np.int64), np.empty(rows, np.int64)
    return Columns(new, straight, np.zeros((rows, longest), np.int64), np.zeros(rows, np.int64))


@njit(error_model="numpy")
def read_text(kernels, sizes, weights, caches, ids, start, rotations, taps, logits):
    """A pass over `ids` after `start` columns, with the logits of the last at an address."""
    n = len(ids)
    rows = Rows(ids, rotations.cos[start : start + n], rotations.sin[start : start + n])
    outputs = Outputs(n - 1, np.int64(1), logits, taps, np.zeros(1, np.int64))
    caches = Caches(caches.addresses, caches.rooms, np.full(1, n))
    return forward(kernels, sizes, weights, caches, rows, in_a_row(start, n), outputs, Step(np.int64(0), np.int64(0)))


@compiled
def chain(kernels, sizes, weights, caches, ids, start, rotations, taps, request):
    """Read `ids` [n] after `start` tokens of the cache, then draft: tokens and confidences, [drafted] each.

    The cache must have room for `n + most` columns, and the rotations as many positions; all tokens but the last drafted are in it
    afterwards.
    """
    most, known, reach = request.most, request.known, request.reach
    tokens, confidences, count = np.empty(most, np.int64), np.empty(most), np.int64(0)
    stored, scores = np.empty(sizes.vocab, np.float32), np.empty(sizes.vocab, np.float32)
    while True:
        logits = np.int64(stored.ctypes.data)
        scratch = read_text(kernels, sizes, weights, caches, ids, start, rotations, taps, logits)
        call(kernels.read, (stored.ctypes.data, scores.ctypes.data, known, sizes.rounded))
        token, confidence = picked(scores[:known], request.scale, request.noise, count)
        tokens[count], confidences[count] = token, confidence
        count += 1
        reach *= confidence
        if count == most or stops(request, reach, count):
            return tokens[:count], confidences[:count], scratch[:1], stored[:1]
        start += len(ids)
        ids = tokens[count - 1 : count]


@compiled
def tree(kernels, sizes, weights, caches, ids, start, rotations, taps, branches, rows, request):
    """Read `ids` [n] after `start` tokens of the cache, then grow a tree, a pass per level: tokens, parents (-1: the text's end),
    and the share of each of its softmax, [drafted] each; and how many of them, all but the last level, were read.

    There are at most `rows` rows, and of a level the `branches` that are likeliest reached. The last level is the one after which
    another would not pay. The cache must have room for `n + rows` columns.
    """
    most, vocab, end = request.most, sizes.vocab, start + len(ids)
    tokens, parents, chances, reach = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows), np.empty(rows)
    columns, of_level = empty_columns(rows, most), np.empty((2, branches, sizes.head_dim), np.float32)
    stored, out = np.empty((branches, vocab), np.float32), np.empty((branches, vocab), np.float32)
    logits, one = np.int64(stored.ctypes.data), np.zeros(1, np.int64)
    scratch = read_text(kernels, sizes, weights, caches, ids, start, rotations, taps, logits)
    first, count, above = np.int64(0), np.int64(0), np.int64(1)
    for depth in range(most):
        call(kernels.read, (stored.ctypes.data, out.ctypes.data, above * vocab, sizes.rounded))
        newest = count
        count, reached = level(out, depth, above, first, count, tokens, parents, chances, reach, request)
        first, above = newest, count - newest
        if count == rows or depth + 1 == most or stops(request, reached, depth + 1):
            break
        level_caches, level_rows, level_columns = lay_out(
            caches, tokens, parents, first, count, depth, end, columns, rotations, of_level
        )
        outputs = Outputs(np.int64(0), above, logits, taps, one)
        step = Step(np.int64(0), np.int64(0))
        scratch = forward(kernels, sizes, weights, level_caches, level_rows, level_columns, outputs, step)
    return tokens[:count], parents[:count], chances[:count], first, scratch[:1], stored[:1]
