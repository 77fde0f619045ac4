"""What the strategies draft: the right continuation, at a cost that does not grow."""

import random
from time import perf_counter

import pytest

from lookahead.accept import Greedy
from lookahead.events import Settings
from lookahead.proposers import build


def ngram(**options):
    return build("ngram", Greedy(Settings()), None, options)


def test_the_longest_match_wins_then_the_most_recent():
    proposer = ngram(candidates=1)
    context = [1, 2, 3, 50, 9, 9, 2, 3, 60, 9, 9, 2, 3, 61, 8, 8, 1, 2, 3]
    proposer.start(context)
    draft = proposer.propose(context, 4)
    assert draft.tokens[0] == 50, "three tokens match there, only two elsewhere"
    context = [7, 2, 3, 60, 9, 9, 2, 3, 61, 8, 8, 4, 2, 3]
    proposer = ngram(candidates=1)
    assert proposer.propose(context, 3).tokens == (61, 8, 8), "of equal matches the most recent"


def test_candidates_share_a_trie_and_the_first_is_a_plain_chain():
    context = [1, 2, 30, 31, 32, 0, 1, 2, 30, 41, 42, 0, 1, 2]
    draft = ngram(candidates=2).propose(context, 3)
    assert draft.tokens == (30, 41, 42, 31, 32)
    assert draft.parents == (-1, 0, 1, 0, 3)


def test_nothing_is_drafted_where_nothing_matches():
    proposer = ngram()
    proposer.start(list(range(50)))
    assert not len(proposer.propose(list(range(50)), 8))
    assert not len(ngram().propose([1, 2, 1, 2, 1, 2], 0))


def test_generated_tokens_are_indexed_as_they_come():
    proposer = ngram()
    context = [5, 6]
    proposer.start(context)
    for token in [7, 8, 9, 5, 6]:
        context.append(token)
        draft = proposer.propose(context, 3)
    assert draft.tokens == (7, 8, 9)


def test_a_step_costs_the_same_late_as_early():
    """Median proposer time at 2,000 tokens at most 1.5 of that at 100; medians of 300 keep noise out."""
    draws = random.Random(0)
    proposer, context, times = ngram(), [], {100: [], 2000: []}
    proposer.start([])
    while len(context) < 2300:
        context.append(draws.randrange(4))  # few tokens: there is always a match
        start = perf_counter()
        proposer.propose(context, 8)
        spent = perf_counter() - start
        for mark, held in times.items():
            if mark <= len(context) < mark + 300:
                held.append(spent)
    early, late = (sorted(times[mark])[len(times[mark]) // 2] for mark in (100, 2000))
    assert late < 1.5 * early + 2e-6


def test_unknown_options_are_refused():
    with pytest.raises(ValueError, match="its options are: shortest"):
        ngram(colour="red")
    with pytest.raises(ValueError, match="takes no options"):
        build("naive", Greedy(Settings()), None, {"k": 3})
