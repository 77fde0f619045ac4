"""Drafting of a tree in one compiled call: a pass, the most probable tokens, and so on until the stop rule.

A chain is a tree of one row per level.

After a pass of the target, the CPU's caches contain neither a small drafter's weights nor the interpreter's data.
Python's work per token then takes as long as the drafter's pass.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.lm import DraftRequest
from .compiling import REASSOCIATED, compiled, internal
from .llama_pass import forward
from .records import (
    CACHES,
    FLOAT,
    FLOATS_2D,
    INTEGER,
    INTEGERS,
    KERNELS,
    NUMBER,
    ROTATIONS,
    SIZES,
    WEIGHTS,
    Caches,
    Columns,
    Outputs,
    Pipeline,
    Rows,
    tuple_type,
)
from .vectors import call, copy, exp, maximum

NO_NOISE, ALL_IDS = np.empty((0, 0), np.float32), np.empty(0, np.int64)


class CompiledRequest(NamedTuple):
    """A `DraftRequest` for compiled code. `noise` [max_tokens, output_vocab] and `ids` [output_vocab] may be empty."""

    max_tokens: int
    output_vocab: int
    scale: np.float32
    noise: np.ndarray
    ids: np.ndarray
    floors: np.ndarray
    reach: float

    @classmethod
    def from_request(cls, request: DraftRequest) -> CompiledRequest:
        """Convert the tensors of a `DraftRequest` to arrays."""
        noise, ids = request.scores.noise, request.ids
        return cls(
            request.max_tokens, request.output_vocab, np.float32(request.scores.scale), NO_NOISE if noise is None else noise.numpy(),
            ALL_IDS if ids is None else ids.numpy(), np.array(request.stop.floors, np.float64), float(request.reach),
        )  # fmt: skip


REQUEST = tuple_type(CompiledRequest, INTEGER, INTEGER, FLOAT, FLOATS_2D, INTEGERS, NUMBER[::1], NUMBER)
TEXT = KERNELS, SIZES, WEIGHTS, CACHES, INTEGERS, INTEGER, ROTATIONS, INTEGERS


@internal()
def stops(request, reach, drafted):
    """Return whether drafting stops after `drafted` tokens, as `StopRule.stops` does."""
    return not reach > request.floors[min(drafted, len(request.floors)) - 1]


@internal(REASSOCIATED)
def compute_scores(logits, scale, noise, row):
    """Replace `logits` [vocab] by scores. Return their maximum, and the sum of e to the power of (score - maximum)."""
    count = len(logits)
    if len(noise):
        for i in range(count):
            logits[i] = logits[i] * scale + noise[row, i]
    else:
        for i in range(count):
            logits[i] *= scale
    top, total = maximum(logits), np.float32(0)
    for i in range(count):
        total += exp(logits[i] - top)
    return top, total


@internal()
def first_index(score, scores):
    """Return the index of the first element of `scores` that is at least `score`."""
    token = 0
    while scores[token] < score:
        token += 1
    return token


@internal()
def pick(logits, scale, noise, row):
    """Return the first token with the maximum score and its softmax probability. Replaces `logits` by scores."""
    top, total = compute_scores(logits, scale, noise, row)
    return first_index(top, logits), 1.0 / total


@internal()
def top_k(logits, scale, noise, row, count):
    """Return the `count` tokens with the highest scores and their softmax probabilities. Overwrites `logits`."""
    best, total = compute_scores(logits, scale, noise, row)
    top, tokens, shares = best, np.empty(count, np.int64), np.empty(count)
    for i in range(count):
        tokens[i] = first_index(best, logits)
        shares[i] = np.exp(best - top) / total
        logits[tokens[i]] = -np.inf
        best = maximum(logits)
    return tokens, shares


@internal()
def add_level(logits, depth, level_size, first, count, tokens, parents, chances, reach, request):
    """Add a level to a tree. Returns the new number of rows, and the sum of the reach of the new ones.

    The candidates are the `branches` most probable tokens after each of the `level_size` rows from `first` on; at depth
    0, after the end of the text, whose reach is that of the request. The candidates that are most probably reached become
    rows from `count` on: `branches` of them, or fewer if the tree is full.

    Arrays: logits [branches, width], which are overwritten. Each [rows]: tokens, parents (-1: the end of the text),
    chances (softmax probabilities), reach (the products of chances from the root).
    """
    branches, ids = len(logits), request.ids
    candidates, candidate_chances = np.empty((level_size * branches, 2), np.int64), np.empty((level_size * branches, 2))
    for i in range(level_size):
        indices, shares = top_k(logits[i, : request.output_vocab], request.scale, request.noise, depth, branches)
        parent, parent_reach = (first + i, reach[first + i]) if depth else (-1, request.reach)
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


@internal()
def prepare_level(caches, tokens, parents, first, count, depth, start, columns, rotations, level_rotations):
    """Return the caches, rows and columns of a pass over a tree's level.

    The level has the rows from `first` up to `count`, at this depth after `start` columns of a cache. A row attends to
    itself and to the columns of its parent (-1: the end of the text). Fills the level's part of `columns`, and writes
    the rotations of its position to `level_rotations` [2, branches, head_dim].
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


@internal()
def chain_columns(start, n):
    """Return the columns of a chain of n rows after `start` columns."""
    new = np.arange(start, start + n)
    return Columns(new, new + 1, np.zeros((n, 1), np.int64), np.zeros(n, np.int64))


@internal()
def empty_columns(rows, max_branch):
    """Return the columns of a tree of at most `rows` rows, which `prepare_level` fills."""
    new, prefix = np.empty(rows, np.int64), np.empty(rows, np.int64)
    return Columns(new, prefix, np.zeros((rows, max_branch), np.int64), np.zeros(rows, np.int64))


@internal()
def forward_chain(kernels, sizes, weights, caches, ids, start, rotations, taps, logits):
    """Compute a pass over `ids` after `start` columns; write the logits after the last id to the address `logits`."""
    n = len(ids)
    rows = Rows(ids, rotations.cos[start : start + n], rotations.sin[start : start + n])
    outputs = Outputs(n - 1, np.int64(1), logits, taps, np.zeros(1, np.int64))
    caches = Caches(caches.addresses, caches.capacities, np.full(1, n))
    columns, pipeline = chain_columns(start, n), Pipeline(np.int64(0), np.int64(0))
    return forward(kernels, sizes, weights, caches, rows, columns, outputs, pipeline)


@compiled(*TEXT, INTEGER, INTEGER, REQUEST)
def tree(kernels, sizes, weights, caches, ids, start, rotations, taps, branches, rows, request):
    """Read `ids` [n] after `start` tokens of the cache, then draft a tree, one pass per level.

    Returns tokens, parents (-1: the end of the text) and softmax probabilities, [drafted] each, and the number of
    tokens that are in the cache: those of all levels but the last. There are at most `rows` rows, and at most
    `branches` per level, those with the highest reach. Drafting stops at the first level after which the stop rule ends
    it. The cache must have capacity for `n + rows` columns.
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
