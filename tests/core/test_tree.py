"""The shape of drafts, compared with brute force."""

import random

import pytest

from lookahead.core import tree
from lookahead.core.events import Draft


def random_parents(draws, n):
    return [draws.randint(-1, i - 1) for i in range(n)]


@pytest.mark.parametrize("seed", range(30))
def test_mask_depths_and_children_agree_with_brute_force(seed):
    draws = random.Random(seed)
    parents = random_parents(draws, draws.randint(1, 14))
    rows = range(len(parents))

    def brute(row):
        path = [row]
        while parents[path[0]] >= 0:
            path.insert(0, parents[path[0]])
        return path

    mask = tree.ancestor_mask(parents)
    below = tree.children(parents)
    for i in rows:
        assert tree.ancestors(parents, i) == brute(i)
        assert [j for j in rows if mask[i][j]] == sorted(brute(i))
        assert tree.depths(parents)[i] == len(brute(i))
        assert i in below[parents[i] + 1]
    assert sum(map(len, below)) == len(parents)
    leaves = [i for i in rows if i not in parents]
    assert tree.branch_count(parents) == len(leaves)


def test_trie_merges_prefixes_and_keeps_the_whole_first_candidate():
    tokens, parents, origins = tree.trie([[1, 2, 3], [1, 2, 4], [5]], rows=10)
    assert tokens == [1, 2, 3, 4, 5]
    assert parents == [-1, 0, 1, 1, -1]
    assert origins == [(0, 0), (0, 1), (0, 2), (1, 2), (2, 0)]
    assert tree.trie([[1, 2, 3], [4, 5]], rows=3)[:2] == ([1, 2, 3], [-1, 0, 1])


def test_pruning_keeps_a_tree():
    draft = Draft((1, 2, 3, 4), (-1, 0, 0, 2), None, ("x",) * 4, (0.9, 0.8, 0.7, 0.6))
    kept = draft.pruned([0, 2, 3])
    assert kept.tokens == (1, 3, 4)
    assert kept.parents == (-1, 0, 1)
    assert kept.chances == (0.9, 0.7, 0.6)


def test_a_draft_is_a_tree():
    assert tree.is_chain(Draft.chain([1, 2, 3], "x").parents)
    with pytest.raises(AssertionError):
        Draft((1, 2), (-1, 1))
    with pytest.raises(AssertionError):
        Draft((1,), ())
