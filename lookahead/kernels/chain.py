"""Drafting a chain or a tree in one compiled call: pass, pick the likeliest token, and so on until the stop rule.

After a target's pass, nothing of a small drafter is in the processor's caches any more, nor are Python's own structures. Then
Python's work for one token takes as long as the token's pass.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from ..core.lm import DraftRequest
from .compiling import REASSOCIATED, compiled
from .llama_pass import forward
from .records import Caches, Columns, Outputs, Pipeline, Rows
from .vectors import call, copy, exp, maximum

NO_NOISE, ALL_IDS = np.empty((0, 0), np.float32), np.empty(0, np.int64)


class CompiledRequest(NamedTuple):
    """A `DraftRequest` as compiled code takes it; `noise` [most, known] and `ids` [known] may be empty."""

    max_tokens: int
    output_vocab: int
    scale: np.float32
    noise: np.ndarray
    ids: np.ndarray
    floors: np.ndarray
    reach: float

    @classmethod
    def from_request(cls, request: DraftRequest) -> CompiledRequest:
        """The same with arrays."""
        noise, ids = request.scores.noise, request.ids
        return cls(
            request.most, request.known, np.float32(request.scores.scale), NO_NOISE if noise is None else noise.numpy(),
            ALL_IDS if ids is None else ids.numpy(), np.array(request.stop.floors, np.float64), float(request.reach),
        )  # fmt: skip


@njit(error_model="numpy")
def stops(request, reach, drafted):
    """`StopRule.stops`."""
    return not reach > request.floors[min(drafted, len(request.floors)) - 1]


@njit(fastmath=REASSOCIATED, error_model="numpy")
def compute_scores(logits, scale, noise, row):
    """Make the `logits` [known] scores: the highest of them, and the sum of their exponentials in units of its own."""
    count = len(logits)
    if len(noise):
        for i in range(count):
            logits[i] = logits[i] * scale + noise[row, i]
    else:
        for i in range(count):
            logits[i] *= scale
    top = maximum(logits)
    total = np.float32(0)
    for i in range(count):
        total += exp(logits[i] - top)
    return top, total


@njit(error_model="numpy")
def first_index(score, scores):
    """The first token with a score that one has."""
    token = 0
    while scores[token] < score:
        token += 1
    return token


@njit(error_model="numpy")
def pick(logits, scale, noise, row):
    """The first token with the highest score, and its share of the scores' softmax. `logits` [known] become the scores."""
    top, total = compute_scores(logits, scale, noise, row)
    return first_index(top, logits), 1.0 / total


@njit(error_model="numpy")
def top_k(logits, scale, noise, row, count):
    """The `most` tokens with the highest scores, in order, and their shares of the softmax. Overwrites `logits` [known]."""
    best, total = compute_scores(logits, scale, noise, row)
    top, tokens, shares = best, np.empty(count, np.int64), np.empty(count)
    for i in range(count):
        tokens[i] = first_index(best, logits)
        shares[i] = np.exp(best - top) / total
        logits[tokens[i]] = -np.inf
        best = maximum(logits)
    return tokens, shares


@njit(error_model="numpy")
def add_level(logits, depth, level_size, first, count, tokens, parents, chances, reach, request):
    """Grow a tree by a level: of the likeliest tokens after the `above` rows from `first` on, at depth 0 after the text's end, the
    likeliest become rows from `count` on, `branches` of them if there is room. Returns how many rows there are now,
    and the sum of the chances of reaching the new ones.

    Arrays: logits [branches, whole blocks of the known tokens], of which nothing is left; [rows] each: ids, parents (-1: the
    text's end), shares of the softmax, chances of being reached.
    """
    branches, ids = len(logits), request.ids
    candidates, candidate_chances = np.empty((level_size * branches, 2), np.int64), np.empty((level_size * branches, 2))
    for i in range(level_size):
        indices, shares = top_k(logits[i, : request.output_vocab], request.scale, request.noise, depth, branches)
        parent, parent_reach = (first + i, reach[first + i]) if depth else (-1, 1.0)
        for j in range(branches):
            candidate = i * branches + j
            candidates[candidate, 0], candidates[candidate, 1] = ids[indices[j]] if len(ids) else indices[j], parent
            candidate_chances[candidate, 0], candidate_chances[candidate, 1] = shares[j], shares[j] * parent_reach
    reached = 0.0
    for _ in range(min(branches, len(tokens) - count)):
        best = 0
        for candidate in range(1, len(candidate_chances)):
            if candidate_chances[candidate, 1] > candidate_chances[best, 1]:
                best = candidate
        tokens[count], parents[count] = candidates[best, 0], candidates[best, 1]
        chances[count], reach[count] = candidate_chances[best, 0], candidate_chances[best, 1]
        candidate_chances[best, 1] = -1.0
        reached += reach[count]
        count += 1
    return count, reached


@njit(error_model="numpy")
def prepare_level(caches, tokens, parents, first, count, depth, start, columns, rotations, level_rotations):
    """The caches, rows and columns of a pass over a tree's level: the rows from `first` up to `count`, at this depth after `start`
    columns of a cache. A row attends to what its parent (-1: the text's end) attends to, and to itself. The level's part of
    `columns` is filled, and the rotations of its position go into `of_level` [2, branches, head_dim].
    """
    new, prefix, branch, counts = columns
    for row in range(first, count):
        parent = parents[row]
        new[row] = start + row
        if parent < 0:
            prefix[row], counts[row] = start, 0
        else:
            prefix[row], counts[row] = prefix[parent], counts[parent]
            copy(branch[parent], branch[row])
        if counts[row] == 0 and prefix[row] == start + row:
            prefix[row] += 1
        else:
            branch[row, counts[row]] = start + row
            counts[row] += 1
        copy(rotations.cos[start + depth], level_rotations[0, row - first])
        copy(rotations.sin[start + depth], level_rotations[1, row - first])
    level_size = count - first
    return (
        Caches(caches.addresses, caches.capacities, np.full(1, level_size)),
        Rows(tokens[first:count], level_rotations[0, :level_size], level_rotations[1, :level_size]),
        Columns(new[first:count], prefix[first:count], branch[first:count], counts[first:count]),
    )


@njit(error_model="numpy")
def chain_columns(start, n):
    """The columns of a chain of n rows after `start` columns."""
    new = np.arange(start, start + n)
    return Columns(new, new + 1, np.zeros((n, 1), np.int64), np.zeros(n, np.int64))


@njit(error_model="numpy")
def empty_columns(rows, max_branch):
    """The columns of a tree of so many rows, for `lay_out`."""
    new, prefix = np.empty(rows, np.int64), np.empty(rows, np.int64)
    return Columns(new, prefix, np.zeros((rows, max_branch), np.int64), np.zeros(rows, np.int64))


@njit(error_model="numpy")
def forward_chain(kernels, sizes, weights, caches, ids, start, rotations, taps, logits):
    """A pass over `ids` after `start` columns, with the logits of the last at an address."""
    n = len(ids)
    rows = Rows(ids, rotations.cos[start : start + n], rotations.sin[start : start + n])
    outputs = Outputs(n - 1, np.int64(1), logits, taps, np.zeros(1, np.int64))
    caches = Caches(caches.addresses, caches.capacities, np.full(1, n))
    return forward(
        kernels, sizes, weights, caches, rows, chain_columns(start, n), outputs, Pipeline(np.int64(0), np.int64(0))
    )


@compiled
def chain(kernels, sizes, weights, caches, ids, start, rotations, taps, request):
    """Read `ids` [n] after `start` tokens of the cache, then draft: tokens and confidences, [drafted] each.

    The cache must have room for `n + most` columns, and the rotations as many positions; all tokens but the last drafted are in it
    afterwards.
    """
    max_tokens, output_vocab, reach = request.max_tokens, request.output_vocab, request.reach
    tokens, confidences, count = np.empty(max_tokens, np.int64), np.empty(max_tokens), np.int64(0)
    stored_logits, scores = np.empty(sizes.vocab, np.float32), np.empty(sizes.vocab, np.float32)
    while True:
        logits = np.int64(stored_logits.ctypes.data)
        scratch = forward_chain(kernels, sizes, weights, caches, ids, start, rotations, taps, logits)
        call(kernels.read, (stored_logits.ctypes.data, scores.ctypes.data, output_vocab, sizes.rounded))
        token, confidence = pick(scores[:output_vocab], request.scale, request.noise, count)
        tokens[count], confidences[count] = token, confidence
        count += 1
        reach *= confidence
        if count == max_tokens or stops(request, reach, count):
            return tokens[:count], confidences[:count], scratch[:1], stored_logits[:1]
        start += len(ids)
        ids = tokens[count - 1 : count]


@compiled
def tree(kernels, sizes, weights, caches, ids, start, rotations, taps, branches, rows, request):
    """Read `ids` [n] after `start` tokens of the cache, then grow a tree, a pass per level: tokens, parents (-1: the text's end),
    and the share of each of its softmax, [drafted] each; and how many of them, all but the last level, were read.

    There are at most `rows` rows, and of a level the `branches` that are likeliest reached. The last level is the one after which
    another would not pay. The cache must have room for `n + rows` columns.
    """
    max_tokens, vocab, text_end = request.max_tokens, sizes.vocab, start + len(ids)
    tokens, parents, chances, reach = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows), np.empty(rows)
    columns, level_rotations = empty_columns(rows, max_tokens), np.empty((2, branches, sizes.head_dim), np.float32)
    stored_logits, out = np.empty((branches, vocab), np.float32), np.empty((branches, vocab), np.float32)
    logits, no_states = np.int64(stored_logits.ctypes.data), np.zeros(1, np.int64)
    scratch = forward_chain(kernels, sizes, weights, caches, ids, start, rotations, taps, logits)
    first, count, level_size = np.int64(0), np.int64(0), np.int64(1)
    for depth in range(max_tokens):
        call(kernels.read, (stored_logits.ctypes.data, out.ctypes.data, level_size * vocab, sizes.rounded))
        level_start = count
        count, reached = add_level(out, depth, level_size, first, count, tokens, parents, chances, reach, request)
        first, level_size = level_start, count - level_start
        if count == rows or depth + 1 == max_tokens or stops(request, reached, depth + 1):
            break
        level_caches, level_rows, level_columns = prepare_level(
            caches, tokens, parents, first, count, depth, text_end, columns, rotations, level_rotations
        )
        outputs = Outputs(np.int64(0), level_size, logits, taps, no_states)
        pipeline = Pipeline(np.int64(0), np.int64(0))
        scratch = forward(kernels, sizes, weights, level_caches, level_rows, level_columns, outputs, pipeline)
    return tokens[:count], parents[:count], chances[:count], first, scratch[:1], stored_logits[:1]
