"""Masks in the loop, with a grammar of four tokens: all rules stay exact, and forced tokens are always accepted."""

import itertools
from collections import Counter

import pytest
from conftest import emitted, sampling, table_steps
from scipy.stats import chisquare

from lookahead.core.events import ACCEPTED, Draft, Settings
from lookahead.core.masks import Masks
from lookahead.core.rules import rule_for
from lookahead.core.table import TableLM
from lookahead.drafting.grammar import FORCED

pytestmark = pytest.mark.split
VOCAB, LENGTH, RUNS, ODDS = 4, 4, 700, 1e-4
TARGET, DRAFTER, PROMPT = TableLM(VOCAB, seed=3, spread=1.2), TableLM(VOCAB, seed=8, spread=1.2), (1, 2)
FOLLOWING = {None: {0, 1, 2}, 0: {3}, 1: {0, 2}, 2: {0, 1, 3}, 3: {1, 2}}  # the allowed tokens after each token
METHODS = ("draft", "tree", "ngram", "suffix", "lookahead", "grammar", "hybrid")


class Following:
    """A grammar in which the last token determines the allowed ones. After 3, token 1 is the usual one."""

    def allowed(self, tokens):
        last = None
        for token in tokens:
            if token not in FOLLOWING[last]:
                return None
            last = token
        return bytes([sum(1 << token for token in FOLLOWING[last])])

    def forced(self, tokens):
        return 1 if tokens and tokens[-1] == 3 else None

    def satisfied(self, tokens):
        return self.allowed(tokens) is not None


def steps(method, settings, **options):
    return table_steps(method, settings, target=TARGET, draft=DRAFTER, prompt=PROMPT, grammar=Following(), **options)


def exact(settings):
    """Return the probability of every text that the grammar allows, by enumeration."""
    rule, out = rule_for(settings, Masks(Following(), len(PROMPT))), {}
    for text in itertools.product(range(VOCAB), repeat=LENGTH):
        chance = 1.0
        for i in range(LENGTH):
            context = [*PROMPT, *text[:i]]
            chance *= float(rule.process(TARGET.logits_after(context)[None], context)[0].double().softmax(-1)[text[i]])
            if not chance:
                break
        else:
            out[text] = chance
    return out


@pytest.mark.parametrize("method", ["draft", "tree", "hybrid", "grammar"])
def test_rejection_keeps_the_masked_distribution(method):
    settings = sampling(rule="rejection", max_new_tokens=LENGTH, k=3)
    expected = exact(settings)
    assert sum(expected.values()) == pytest.approx(1)
    seeded = ({**{name: getattr(settings, name) for name in Settings.names()}, "seed": seed} for seed in range(RUNS))
    seen = Counter(tuple(emitted(steps(method, Settings(**changed)))) for changed in seeded)
    assert seen.keys() <= expected.keys(), "a text that the grammar forbids"
    common = [text for text, p in expected.items() if p * RUNS >= 5]
    rest = 1 - sum(expected[text] for text in common)
    counts = [*(seen[text] for text in common), RUNS - sum(seen[text] for text in common)]
    assert chisquare(counts, [RUNS * p for p in (*(expected[text] for text in common), rest)]).pvalue > ODDS


@pytest.mark.parametrize("k", [3, "auto"])
@pytest.mark.parametrize("temperature", [0.0, 0.8], ids=["greedy", "coupled"])
def test_every_method_writes_the_masked_text_of_naive(temperature, k):
    settings = Settings(max_new_tokens=40, temperature=temperature, repetition_penalty=1.1)
    naive = steps("naive", settings)
    assert Following().satisfied(emitted(naive)) and naive[-1].satisfied
    assert emitted(table_steps("naive", settings, target=TARGET, prompt=PROMPT)) != emitted(naive), "the mask matters"
    for method in METHODS:
        drafted = steps(method, settings, k=k)
        assert emitted(drafted) == emitted(naive), method
        assert all(step.mask_s > 0 for step in drafted[1:])


def test_forced_tokens_are_drafted_without_a_model_and_always_accepted():
    for method in ("grammar", "hybrid"):
        forced = [
            (step.statuses[row], source)
            for step in steps(method, Settings(max_new_tokens=60), k=4)
            for row, source in enumerate(step.draft.sources)
            if source == FORCED and (row == 0 or step.statuses[row - 1] == ACCEPTED)
        ]
        assert forced and all(status == ACCEPTED for status, _ in forced), method


def test_forbidden_rows_are_removed_with_the_rows_after_them():
    masks = Masks(Following(), len(PROMPT))
    tree = Draft((0, 3, 1, 3, 2), (-1, 0, 1, -1, 3), None, ("x",) * 5)
    assert masks.pruned(tree, [*PROMPT]).tokens == (0, 3, 1)
    sampled = Draft((3,), (-1,), (TARGET.logits_after(PROMPT).softmax(-1),), ("x",))
    assert masks.pruned(sampled, [*PROMPT]) is sampled, "without a sampled row the distribution would change"
