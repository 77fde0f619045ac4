"""An online suffix automaton with counts: where has the text's present ending stood before, and
what followed it there, how often?

Blumer et al. 1985; a state stands for all strings with the same set of endings. A token is added in
constant amortised time, and the longest earlier ending of the text is always one link away.

Compiled, since in a batch every text asks in every pass. States, edges and the places of edges are rows of arrays of
whole numbers. Knows token ids; it does not know whether a continuation is worth its row.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numba import njit
from numba.extending import register_jitable

from ..model.compiling import kept

MOST_LINKS = 32  # shorter endings beyond so many are not counted: they have been counted often enough
FIRST_ROOM = 512  # tokens
# A match of n tokens goes on with odds of n to 1, at its first token of n to this: nothing has shown yet that it does. Of matches
# that had been seen once (3,000 in both bundled families' writing) 47 % of two tokens went on, 55 of three, 71 of four, 75 of
# five to eight.
UNPROVEN = 2
LINK, LENGTH, FOLLOWED, FIRST, LAST, STATE_FIELDS = range(6)  # of a state; FOLLOWED: how often anything did
STATE, TOKEN, TARGET, COUNT, NEXT, EDGE_FIELDS = range(6)  # of an edge; TARGET 0: none yet
STATES, EDGES, PRESENT, SIZES = range(4)  # how many states and edges, and the state of the whole text

compiled = kept(njit, nogil=True, error_model="numpy")


@register_jitable
def doubt(depth):
    """The odds against a match's token at this depth, against its length."""
    return 1 if depth else UNPROVEN


class SuffixAutomaton:
    """States are whole numbers; 0 is the empty string."""

    def __init__(self):
        prepare()
        self._read = 0
        self._sizes = np.array([1, 0, 0])
        self._states, self._edges, self._places = _arrays(FIRST_ROOM)
        self._tree = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)

    def break_off(self) -> None:
        """What comes next does not continue what came before."""
        self._sizes[PRESENT] = 0

    def extend(self, tokens: Sequence[int]) -> None:
        """Add tokens to the text."""
        if not len(tokens):
            return
        self._read += len(tokens)
        if 2 * self._read >= len(self._states):
            states, edges, places = _arrays(2 * self._read)
            states[: len(self._states)], edges[: len(self._edges)] = self._states, self._edges
            _place_all(edges, places, self._sizes[EDGES])
            self._states, self._edges, self._places = states, edges, places
        _extend(self._states, self._edges, self._places, self._sizes, np.array(tokens, np.int64))

    def continuations(
        self, shortest: int, reach: int, longest: int, rows: int, candidates: int
    ) -> tuple[list[int], list[int], list[float]] | None:
        """What followed the longest earlier ending of the text, as a tree: tokens, parents (-1: the text's end) and the chance of
        each behind its parent, the likeliest rows first; a parent is always likelier than its children.

        None where the ending has fewer than `shortest` tokens; at most `rows` rows, of which a row has at most `candidates`
        below it, `reach` times as deep as the ending is long and at most `longest`.
        """
        if len(self._tree[0]) < rows:
            self._tree = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows)
        tokens, parents, chances = self._tree
        count = _continuations(
            self._states, self._edges, self._sizes, tokens, parents, chances, shortest, reach, longest, rows, candidates
        )
        return (tokens[:count].tolist(), parents[:count].tolist(), chances[:count].tolist()) if count else None

    def seen(self) -> tuple[int, int]:
        """(state, length) of the longest ending of the text that something has followed; (0, 0) for none."""
        return _followed(self._states, self._states[self._sizes[PRESENT], LINK])

    def follows(self, state: int) -> dict[int, int]:
        """What followed this state's strings: token -> how often."""
        edges, edge = {}, self._states[state, FIRST]
        while edge >= 0:
            _, token, _, count, edge = self._edges[edge].tolist()
            if count:
                edges[token] = count
        return edges

    def after(self, state: int, token: int) -> int:
        """The state that `token` leads to."""
        return int(self._edges[_edge(self._edges, self._places, state, token), TARGET])

    def __len__(self) -> int:
        return int(self._sizes[STATES])


@lru_cache(maxsize=1)
def prepare() -> None:
    """Compile, before any clock runs: seconds, where it has not been done before."""
    states, edges, places = _arrays(8)
    sizes, tokens = np.array([1, 0, 0]), np.zeros(4, np.int64)
    _extend(states, edges, places, sizes, tokens)
    _continuations(states, edges, sizes, tokens, tokens, np.zeros(4), 1, 1, 1, 1, 1)
    _place_all(edges, places, 0)


def _arrays(tokens: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Room for a text of so many tokens: it has at most twice as many states and three times as many edges."""
    states, edges = 2 * tokens + 2, 3 * tokens + 2
    places = np.full(1 << (2 * edges).bit_length(), -1, np.int64)
    arrays = np.empty((states, STATE_FIELDS), np.int64), np.empty((edges, EDGE_FIELDS), np.int64), places
    arrays[0][0] = -1, 0, 0, -1, -1
    return arrays


@compiled
def _place(edges, places, state, token):
    """Where the edge stands or would stand: places are asked one after another from its hash on."""
    key = state * 2654435761 + token * 40503
    place = (key ^ (key >> 16)) & (len(places) - 1)
    while places[place] >= 0 and not (edges[places[place], STATE] == state and edges[places[place], TOKEN] == token):
        place = (place + 1) & (len(places) - 1)
    return place


@compiled
def _place_all(edges, places, count):
    for edge in range(count):
        places[_place(edges, places, edges[edge, STATE], edges[edge, TOKEN])] = edge


@compiled
def _edge(edges, places, state, token):
    """The edge, or -1."""
    return places[_place(edges, places, state, token)]


@compiled
def _add_edge(states, edges, places, sizes, state, token, target, count):
    edge = sizes[EDGES]
    sizes[EDGES] += 1
    edges[edge, STATE], edges[edge, TOKEN], edges[edge, TARGET] = state, token, target
    edges[edge, COUNT], edges[edge, NEXT] = count, -1
    places[_place(edges, places, state, token)] = edge
    if states[state, FIRST] < 0:
        states[state, FIRST] = edge
    else:
        edges[states[state, LAST], NEXT] = edge
    states[state, LAST] = edge
    return edge


@compiled
def _add_state(states, sizes, length):
    state = sizes[STATES]
    sizes[STATES] += 1
    states[state, LINK], states[state, LENGTH], states[state, FOLLOWED] = 0, length, 0
    states[state, FIRST] = states[state, LAST] = -1
    return state


@compiled
def _split(states, edges, places, sizes, state, token, target):
    """The state of `state`'s longest string and `token`, made out of `target` if need be."""
    length = states[state, LENGTH] + 1
    if states[target, LENGTH] == length:
        return target
    clone = _add_state(states, sizes, length)
    states[clone, LINK], states[clone, FOLLOWED] = states[target, LINK], states[target, FOLLOWED]
    states[target, LINK] = clone
    edge = states[target, FIRST]
    while edge >= 0:
        _add_edge(states, edges, places, sizes, clone, edges[edge, TOKEN], edges[edge, TARGET], edges[edge, COUNT])
        edge = edges[edge, NEXT]
    while state >= 0:
        edge = _edge(edges, places, state, token)
        if edge < 0 or edges[edge, TARGET] != target:
            break
        edges[edge, TARGET] = clone
        state = states[state, LINK]
    return clone


@compiled
def _extend(states, edges, places, sizes, tokens):
    for token in tokens:
        present = state = sizes[PRESENT]
        for _ in range(MOST_LINKS):
            if state < 0:
                break
            edge = _edge(edges, places, state, token)
            if edge < 0:
                edge = _add_edge(states, edges, places, sizes, state, token, 0, 0)
            edges[edge, COUNT] += 1
            states[state, FOLLOWED] += 1
            state = states[state, LINK]
        target = edges[_edge(edges, places, present, token), TARGET]
        if target:  # only after a break: this text begins as another did
            sizes[PRESENT] = _split(states, edges, places, sizes, present, token, target)
            continue
        new, state = _add_state(states, sizes, states[present, LENGTH] + 1), present
        while state >= 0:
            edge = _edge(edges, places, state, token)
            if edge < 0:
                edge = _add_edge(states, edges, places, sizes, state, token, 0, 0)
            if edges[edge, TARGET]:
                break
            edges[edge, TARGET] = new
            state = states[state, LINK]
        if state >= 0:
            states[new, LINK] = _split(states, edges, places, sizes, state, token, edges[edge, TARGET])
        sizes[PRESENT] = new


@compiled
def _followed(states, state):
    """(state, length) of the longest ending of a state's strings that something has followed; (0, 0) for none."""
    while state > 0 and not states[state, FOLLOWED]:
        state = states[state, LINK]
    return (state, states[state, LENGTH]) if state > 0 else (0, 0)


@compiled
def _continuations(states, edges, sizes, tokens, parents, chances, shortest, reach, longest, rows, candidates):
    """How many rows stand in `tokens`, `parents` and `chances` now."""
    state, matched = _followed(states, states[sizes[PRESENT], LINK])
    if matched < max(shortest, 1):
        return 0
    deepest, depths, most = min(longest, reach * matched), np.empty(rows, np.int64), rows * candidates
    # An offer is an edge below a row, and how likely its token is reached: below 0 once it is a row itself.
    offered, below = np.empty(most, np.int64), np.empty(most, np.int64)
    chance, reached = np.empty(most), np.empty(most)
    offers, row, depth, so_far = 0, -1, 0, 1.0
    for count in range(rows):
        state, length = _followed(states, state) if depth < deepest else (0, 0)
        if state:
            total = states[state, FOLLOWED] + doubt(depth) / min(matched + depth, length)
            first = offers
            for _ in range(candidates):
                best, edge = -1, states[state, FIRST]
                while edge >= 0:
                    more = edges[edge, COUNT] > (edges[best, COUNT] if best >= 0 else 0)
                    if more and edge not in offered[first:offers]:
                        best = edge
                    edge = edges[edge, NEXT]
                if best < 0:
                    break
                offered[offers], below[offers] = best, row
                chance[offers] = edges[best, COUNT] / total
                reached[offers] = so_far * chance[offers]
                offers += 1
        best = np.argmax(reached[:offers]) if offers else -1
        if best < 0 or reached[best] < 0:
            return count
        edge, row, so_far = offered[best], count, reached[best]
        tokens[row], parents[row], chances[row] = edges[edge, TOKEN], below[best], chance[best]
        depth = depths[row] = depths[below[best]] + 1 if below[best] >= 0 else 1
        state, reached[best] = edges[edge, TARGET], -1.0
    return rows
