"""What the strategies draft: the right continuation, at a cost that does not grow."""

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


def made(name, draft=None, **options):
    return method_class(name)(Resources(Greedy(Settings()), draft), options_of(name, options))


def drafted(drafter, context, k):
    drafter.policy = FixedLength(k)
    return drafter.policy.trim(drafter.propose(context, k))


# ------------------------------------------------------------------ ngram


def test_the_longest_match_wins_then_the_most_recent():
    drafter = made("ngram", candidates=1)
    context = [1, 2, 3, 50, 9, 9, 2, 3, 60, 9, 9, 2, 3, 61, 8, 8, 1, 2, 3]
    drafter.start(context)
    draft = drafted(drafter, context, 4)
    assert draft.tokens[0] == 50, "three tokens match there, only two elsewhere"
    context = [7, 2, 3, 60, 9, 9, 2, 3, 61, 8, 8, 4, 2, 3]
    assert drafted(made("ngram", candidates=1), context, 3).tokens == (61, 8, 8), "of equal matches the most recent"


def test_candidates_share_a_trie_and_the_first_is_a_plain_chain():
    context = [1, 2, 30, 31, 32, 0, 1, 2, 30, 41, 42, 0, 1, 2]
    draft = drafted(made("ngram", candidates=2), context, 3)
    assert draft.tokens == (30, 41, 42, 31, 32)
    assert draft.parents == (-1, 0, 1, 0, 3)
    assert draft.chances[1] > draft.chances[3], "the second choice is the less likely one"


def test_the_whole_match_counts_not_only_what_was_looked_up():
    text = list(range(100, 140))
    short, long = (drafted(made("ngram"), [*text, 0, *text[at : at + n]], 8) for at, n in ((10, 6), (0, 30)))
    assert short.tokens == tuple(text[16:24]) and long.tokens == tuple(text[30:38])
    assert short.chances[:2] == (6 / 8, 7 / 8) and long.chances[:2] == (30 / 32, 31 / 32)
    assert long.chances[1] == 31 / 32, "every token of a draft makes its match longer"


def test_only_where_it_branches_off_is_a_second_choice_less_likely():
    draft = drafted(made("ngram"), [1, 2, 30, 31, 32, 33, 0, 1, 2, 30, 31, 1, 2], 6)
    assert draft.tokens[:6] == (30, 31, 1, 2, 32, 33)
    assert draft.parents[:6] == (-1, 0, 1, 2, 1, 4)
    first, second, going_on = (draft.chances[row] for row in (2, 4, 5))
    assert first > 0.5 > second
    assert going_on > first, "where it is right, its match is longer by three tokens"


@pytest.mark.parametrize("name", ["ngram", "suffix"])
def test_what_has_come_round_twice_goes_round_and_round(name):
    assert drafted(made(name), [9, 1, 2, 3, 1, 2, 3], 8).tokens[:8] == (1, 2, 3, 1, 2, 3, 1, 2)
    assert len(drafted(made("ngram"), [1, 2, 3, 4, 1, 2], 8)) == 4, "once is no rhythm: to the text's end"


@pytest.mark.parametrize("name", ["ngram", "suffix"])
def test_nothing_is_drafted_where_nothing_matches(name):
    drafter = made(name)
    drafter.start(list(range(50)))
    assert not len(drafted(drafter, list(range(50)), 8))
    assert not len(drafted(made(name), [1, 2, 1, 2, 1, 2], 0))


@pytest.mark.parametrize("name", ["ngram", "suffix"])
def test_generated_tokens_are_indexed_as_they_come(name):
    drafter = made(name)
    context = [5, 6]
    drafter.start(context)
    for token in [7, 8, 9, 5, 6]:
        context.append(token)
        draft = drafted(drafter, context, 3)
    assert draft.tokens == (7, 8, 9)


@pytest.mark.timed
@pytest.mark.parametrize("name", ["ngram", "suffix"])
def test_a_step_costs_the_same_late_as_early(name):
    """Median drafter time at 2,000 tokens at most 1.5 of that at 100: of processor time, the quickest of five medians of 300."""
    medians = {100: [], 2000: []}
    for _ in range(5):
        draws = random.Random(0)
        drafter, context, times = made(name), [], []
        drafter.start([])
        while len(context) < 2300:
            context.append(draws.randrange(4))  # few tokens: there is always a match
            start = process_time()
            drafted(drafter, context, 8)
            times.append(process_time() - start)
        for mark, runs in medians.items():
            runs.append(median(times[mark : mark + 300]))
    assert min(medians[2000]) < 1.5 * min(medians[100]) + 2e-6


# ------------------------------------------------------------------ suffix


def brute_matches(text):
    """(length of the longest ending of `text` that something followed before, what followed it: token -> count)."""
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
        wanted_length, wanted = brute_matches(text)
        assert length == wanted_length
        if length:
            assert dict(automaton._counts[state]) == wanted
            for token in wanted:
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
    draft = drafted(made("suffix"), context, 4)
    assert draft.tokens[0] == 8
    assert 7 in draft.tokens
    assert draft.chances[0] > draft.chances[draft.tokens.index(7)]
    for reach, k, deepest in ((1, 8, 2), (2, 8, 4), (3, 8, 6), (4, 3, 3)):
        parents = drafted(made("suffix", reach=reach), context, k).parents
        assert max(depths(parents)) == deepest, "the match has two tokens: `reach` drafted ones for each, and k at most"


def test_earlier_outputs_count_when_asked_and_do_not_run_into_each_other():
    context = [9, 1, 2, 3]
    assert not len(drafted(made("suffix"), context, 4))
    draft = drafted(made("suffix", earlier=[[1, 2, 3, 4, 5], [6, 7]]), context, 4)
    assert draft.tokens[:2] == (4, 5)
    assert 6 not in draft.tokens, "one text's end is not followed by the next text's beginning"
    with pytest.raises(ValueError, match="earlier"):
        made("suffix", earlier=[["a"]])


# ------------------------------------------------------------------ tree


def test_a_tree_holds_second_choices_and_its_parents_come_first():
    lm = TableLM(12, seed=2)
    draft = drafted(made("tree", lm, branches=2, rows=8), [1, 2, 3], 3)
    assert len(draft) <= 8
    roots = [draft.tokens[row] for row, parent in enumerate(draft.parents) if parent == -1]
    best = lm.logits_after([1, 2, 3]).topk(2).indices.tolist()
    assert roots == best
    for row, parent in enumerate(draft.parents):
        path = [draft.tokens[row]]
        while parent >= 0:
            path.insert(0, draft.tokens[parent])
            parent = draft.parents[parent]
        own = lm.logits_after([1, 2, 3, *path[:-1]]).softmax(-1)[path[-1]]
        assert draft.chances[row] == pytest.approx(float(own), abs=1e-6)


# ------------------------------------------------------------------ lookahead


def test_the_window_slides_and_n_grams_remember_where_they_were_born():
    target = TableLM(5, order=1, seed=4)  # order 1: what follows a token is a fixed table, so n-grams recur
    settings = Settings(max_new_tokens=40, k=4)
    steps = table_steps("lookahead", settings, target=target, window=3, ngram=3, guesses=3)[1:]
    full = [s for s in steps if s.draft.window == 6]
    assert len(full) >= len(steps) - 6, "two levels of three, once it is full and until the end is near"
    for step in full:
        assert step.statuses[-6:] == ("window",) * 6
        first = step.draft.tested
        assert step.draft.parents[first:] == (-1, first, first + 1, first, first + 1, first + 2)
    # A level moves up by one a pass, and the next level is what the target said at the last.
    for before, after in itertools.pairwise(full):
        if before.index + 1 == after.index:
            assert after.draft.tokens[-6:-3] == before.draft.tokens[-3:]
    ngram_origins = [
        (s.index, b)
        for s in steps
        for row, b in enumerate(s.draft.ngram_origins)
        if b and s.statuses[row] == "accepted"
    ]
    assert ngram_origins, "some n-gram of the window was accepted"
    assert all(1 <= born < index and 0 <= column < 3 for index, (born, column) in ngram_origins)
    assert sum(len(s.emitted) for s in steps) / len(steps) > 1.5, "an order-1 text is soon foreseen"


def test_the_pool_is_tried_while_the_window_rests():
    class Resting(FixedLength):
        def limit(self, drafter):
            return 0

    context = [1, 2, 3, 9, 1, 2, 4, 9, 1]
    drafter = made("lookahead", window=2, ngram=3, guesses=2)
    drafter.policy = Resting(4)
    drafter.start(context)
    draft = drafter.propose(context, 4)
    assert draft.tokens == (2, 4, 3) and draft.parents == (-1, 0, 0), "the newest first, under one trie"
    assert set(draft.sources) == {"pool"} and not draft.window
    assert draft.chances[1] > draft.chances[2]
    assert not len(drafter.propose([*context, 7], 4)), "nothing in the pool begins with that"


def test_a_window_fits_the_machine():
    assert choose(lambda rows, branches: 1.0) == SHAPES[-1], "rows for free: the largest"
    assert choose(lambda rows, branches: float(rows)) == SHAPES[0], "rows as dear as passes: the smallest"


# ------------------------------------------------------------------ all


def test_unknown_options_are_refused():
    with pytest.raises(ValueError, match="its options are: shortest"):
        made("ngram", colour="red")
    with pytest.raises(ValueError, match="takes no options"):
        made("naive", k=3)
    with pytest.raises(ValueError, match="choose one of naive"):
        method_class("magic")


@pytest.mark.parametrize("name", METHODS)
def test_every_method_says_what_it_is(name):
    cls = method_class(name)
    assert cls.name == name
    assert cls.summary
    assert cls.__doc__
