"""The drafts of the strategies: the right continuation, at a cost that does not grow with the text."""

import itertools
import random
from statistics import median
from time import process_time

import pytest
from conftest import table_steps

from lookahead import METHODS
from lookahead.core.accept import Greedy
from lookahead.core.events import Settings
from lookahead.core.table import TableLM
from lookahead.core.tree import depths
from lookahead.drafting import Resources
from lookahead.drafting.automaton import SuffixAutomaton
from lookahead.drafting.lookahead import SHAPES, choose
from lookahead.engine.fixed_length import FixedLength
from lookahead.engine.methods import method_class, options_of


def make(name, draft=None, **options):
    return method_class(name)(Resources(Greedy(Settings()), draft), options_of(name, options))


def drafted(drafter, context, k):
    drafter.policy = FixedLength(k)
    return drafter.policy.trim(drafter.propose(context, k))


# ------------------------------------------------------------------ ngram


def test_the_longest_match_wins_then_the_most_recent():
    drafter = make("ngram", candidates=1)
    context = [1, 2, 3, 50, 9, 9, 2, 3, 60, 9, 9, 2, 3, 61, 8, 8, 1, 2, 3]
    drafter.start(context)
    draft = drafted(drafter, context, 4)
    assert draft.tokens[0] == 50, "three tokens match there, only two elsewhere"
    context = [7, 2, 3, 60, 9, 9, 2, 3, 61, 8, 8, 4, 2, 3]
    assert drafted(make("ngram", candidates=1), context, 3).tokens == (61, 8, 8), "the most recent of equal matches"


def test_candidates_share_a_trie_and_the_first_is_a_plain_chain():
    context = [1, 2, 30, 31, 32, 0, 1, 2, 30, 41, 42, 0, 1, 2]
    draft = drafted(make("ngram", candidates=2), context, 3)
    assert draft.tokens == (30, 41, 42, 31, 32)
    assert draft.parents == (-1, 0, 1, 0, 3)
    assert draft.chances[1] > draft.chances[3], "the second choice is less likely"


def test_the_whole_match_counts_and_not_only_the_n_gram():
    text = list(range(100, 140))
    short, long = (drafted(make("ngram"), [*text, 0, *text[start : start + n]], 8) for start, n in ((10, 6), (0, 30)))
    assert short.tokens == tuple(text[16:24]) and long.tokens == tuple(text[30:38])
    assert short.chances[:2] == (6 / 8, 7 / 8) and long.chances[:2] == (30 / 32, 31 / 32)
    assert long.chances[1] == 31 / 32, "every token of a draft extends its match"


def test_only_the_first_token_of_a_second_choice_is_less_likely():
    draft = drafted(make("ngram"), [1, 2, 30, 31, 32, 33, 0, 1, 2, 30, 31, 1, 2], 6)
    assert draft.tokens[:6] == (30, 31, 1, 2, 32, 33)
    assert draft.parents[:6] == (-1, 0, 1, 2, 1, 4)
    first, second, later = (draft.chances[row] for row in (2, 4, 5))
    assert first > 0.5 > second
    assert later > first, "after an accepted branch the match is three tokens longer"


@pytest.mark.parametrize("name", ["ngram", "suffix"])
def test_a_repetition_is_continued_to_the_full_length(name):
    assert drafted(make(name), [9, 1, 2, 3, 1, 2, 3], 8).tokens[:8] == (1, 2, 3, 1, 2, 3, 1, 2)
    assert len(drafted(make("ngram"), [1, 2, 3, 4, 1, 2], 8)) == 4, (
        "one occurrence is no repetition, so the draft ends with the text"
    )


@pytest.mark.parametrize("name", ["ngram", "suffix"])
def test_nothing_is_drafted_without_a_match(name):
    drafter = make(name)
    drafter.start(list(range(50)))
    assert not len(drafted(drafter, list(range(50)), 8))
    assert not len(drafted(make(name), [1, 2, 1, 2, 1, 2], 0))


@pytest.mark.parametrize("name", ["ngram", "suffix"])
def test_generated_tokens_are_indexed_as_they_come(name):
    drafter = make(name)
    context = [5, 6]
    drafter.start(context)
    for token in [7, 8, 9, 5, 6]:
        context.append(token)
        draft = drafted(drafter, context, 3)
    assert draft.tokens == (7, 8, 9)


@pytest.mark.timed
@pytest.mark.parametrize("name", ["ngram", "suffix"])
def test_a_step_costs_the_same_late_as_early(name):
    """The median CPU time of a draft at 2,000 tokens is at most 1.5 times that at 100: best of five medians of 300 drafts."""
    medians = {100: [], 2000: []}
    for _ in range(5):
        draws = random.Random(0)
        drafter, context, times = make(name), [], []
        drafter.start([])
        while len(context) < 2300:
            context.append(draws.randrange(4))  # few different tokens, so that there is always a match
            start = process_time()
            drafted(drafter, context, 8)
            times.append(process_time() - start)
        for start, runs in medians.items():
            runs.append(median(times[start : start + 300]))
    assert min(medians[2000]) < 1.5 * min(medians[100]) + 2e-6


# ------------------------------------------------------------------ suffix


def brute_matches(text):
    """Return the length of the longest suffix of `text` with an earlier continuation, and its continuations by count."""
    for n in range(len(text) - 1, 0, -1):
        ending, follows = text[len(text) - n :], {}
        for i in range(len(text) - n):
            if text[i : i + n] == ending:
                follows[text[i + n]] = follows.get(text[i + n], 0) + 1
        if follows:
            return n, follows
    return 0, {}


@pytest.mark.parametrize("seed", range(20))
def test_the_automaton_agrees_with_brute_force(seed):
    draws = random.Random(seed)
    text, automaton = [], SuffixAutomaton()
    letters = draws.choice((2, 3, 6))
    for _ in range(60):
        text.append(draws.randrange(letters))
        automaton.extend(text[-1:])
        state, length = automaton.longest_match()
        expected_length, expected = brute_matches(text)
        assert length == expected_length
        if length:
            assert dict(automaton._counts[state]) == expected
            for token in expected:
                deeper = automaton._next[state][token]
                ending = [*text[len(text) - length :], token]
                counts = {}
                for i in range(len(text) - length - 1):
                    if text[i : i + length + 1] == ending:
                        after = text[i + length + 1]
                        counts[after] = counts.get(after, 0) + 1
                assert dict(automaton._counts[deeper]) == counts
    assert len(automaton) <= 2 * len(text)


@pytest.mark.parametrize("letters", [1, 2, 40, 5000])
def test_the_automaton_is_the_same_read_at_once_or_token_by_token(letters):
    draws = random.Random(letters)
    fresh, first = SuffixAutomaton(), [draws.randrange(letters) for _ in range(700)]
    fresh.extend(first)
    single = SuffixAutomaton()
    for token in first:
        single.extend([token])
    assert fresh.continuations(1, 4, 16, 32, 2) == single.continuations(1, 4, 16, 32, 2), (
        "read at once, or token by token"
    )
    length, follows = brute_matches(first)
    assert fresh.longest_match()[1] == length and (not length or fresh._counts[fresh.longest_match()[0]] == follows)


def test_the_most_frequent_continuation_comes_first_and_goes_deeper_with_the_match():
    context = [1, 2, 7, 0, 1, 2, 8, 0, 3, 1, 2, 8, 4, 1, 2]
    draft = drafted(make("suffix"), context, 4)
    assert draft.tokens[0] == 8
    assert 7 in draft.tokens
    assert draft.chances[0] > draft.chances[draft.tokens.index(7)]
    for reach, k, deepest in ((1, 8, 2), (2, 8, 4), (3, 8, 6), (4, 3, 3)):
        parents = drafted(make("suffix", reach=reach), context, k).parents
        assert max(depths(parents)) == deepest, (
            "the match has two tokens; depth is `reach` per matched token, and at most k"
        )


def test_earlier_outputs_are_searched_separately():
    context = [9, 1, 2, 3]
    assert not len(drafted(make("suffix"), context, 4))
    draft = drafted(make("suffix", earlier=[[1, 2, 3, 4, 5], [6, 7]]), context, 4)
    assert draft.tokens[:2] == (4, 5)
    assert 6 not in draft.tokens, "the beginning of a text does not follow the end of the text before"
    with pytest.raises(ValueError, match="earlier"):
        make("suffix", earlier=[["a"]])


# ------------------------------------------------------------------ tree


def test_a_tree_has_second_choices_and_its_parents_come_first():
    lm = TableLM(12, seed=2)
    draft = drafted(make("tree", lm, branches=2, rows=8), [1, 2, 3], 3)
    assert len(draft) <= 8
    roots = [draft.tokens[row] for row, parent in enumerate(draft.parents) if parent == -1]
    best = lm.logits_after([1, 2, 3]).topk(2).indices.tolist()
    assert roots == best
    for row, parent in enumerate(draft.parents):
        path = [draft.tokens[row]]
        while parent >= 0:
            path.insert(0, draft.tokens[parent])
            parent = draft.parents[parent]
        expected = lm.logits_after([1, 2, 3, *path[:-1]]).softmax(-1)[path[-1]]
        assert draft.chances[row] == pytest.approx(float(expected), abs=1e-6)


# ------------------------------------------------------------------ lookahead


def test_the_window_slides_and_n_grams_have_their_origin():
    target = TableLM(5, order=1, seed=4)  # order 1: a token determines the logits after it, so n-grams recur
    settings = Settings(max_new_tokens=40, k=4)
    steps = table_steps("lookahead", settings, target=target, window=3, ngram=3, guesses=3)[1:]
    full = [s for s in steps if s.draft.window == 6]
    assert len(full) >= len(steps) - 6, "two levels of three, from the full window to the end of the text"
    for step in full:
        assert step.statuses[-6:] == ("window",) * 6
        first = step.draft.tested
        assert step.draft.parents[first:] == (-1, first, first + 1, first, first + 1, first + 2)
    # The levels move up by one per pass. The new last level has the target's predictions.
    for before, after in itertools.pairwise(full):
        if before.index + 1 == after.index:
            assert after.draft.tokens[-6:-3] == before.draft.tokens[-3:]
    ngram_origins = [
        (s.index, origin)
        for s in steps
        for row, origin in enumerate(s.draft.ngram_origins)
        if origin and s.statuses[row] == "accepted"
    ]
    assert ngram_origins, "some n-gram of the window was accepted"
    assert all(1 <= origin < index and 0 <= column < 3 for index, (origin, column) in ngram_origins)
    assert sum(len(s.emitted) for s in steps) / len(steps) > 1.5, "an order-1 text is soon predictable"


def test_the_pool_drafts_while_the_window_is_paused():
    class Paused(FixedLength):
        def limit(self, drafter):
            return 0

    context = [1, 2, 3, 9, 1, 2, 4, 9, 1]
    drafter = make("lookahead", window=2, ngram=3, guesses=2)
    drafter.policy = Paused(4)
    drafter.start(context)
    draft = drafter.propose(context, 4)
    assert draft.tokens == (2, 4, 3) and draft.parents == (-1, 0, 0), "the newest first, in one trie"
    assert set(draft.sources) == {"pool"} and not draft.window
    assert draft.chances[1] > draft.chances[2]
    assert not len(drafter.propose([*context, 7], 4)), "no n-gram of the pool begins with 7"


def test_a_window_fits_the_machine():
    assert choose(lambda rows, branches: 1.0) == SHAPES[-1], "free rows: the largest window"
    assert choose(lambda rows, branches: float(rows)) == SHAPES[0], "rows as expensive as passes: the smallest window"


# ------------------------------------------------------------------ all


def test_unknown_options_are_refused():
    with pytest.raises(ValueError, match="its options are: shortest"):
        make("ngram", color="red")
    with pytest.raises(ValueError, match="takes no options"):
        make("naive", k=3)
    with pytest.raises(ValueError, match="choose one of naive"):
        method_class("magic")


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_name_and_a_summary(name):
    cls = method_class(name)
    assert cls.name == name
    assert cls.summary
    assert cls.__doc__
