"""The acceptance rules, compared with enumeration.

The chi-square tests draw thousands of short texts with fixed seeds. They compare the frequencies with the target's exact
distribution. A correct rule fails with one set of seeds in ten thousand. The seeds are fixed, so the result is always the
same. The broken rules at the end show that the tests can fail.
"""

import itertools
import math
from collections import Counter
from functools import partial

import pytest
import torch
from conftest import daily, emitted, sampling, table_steps, tiny
from scipy.stats import chisquare
from tokenizers import Tokenizer
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast

from lookahead import kernels
from lookahead.core import accept
from lookahead.core.events import EMPTY, Draft, Settings
from lookahead.core.rules import rule_for
from lookahead.core.table import TableLM
from lookahead.drafting import DRAFTERS, Drafter, Resources
from lookahead.engine.decode import Request, decode
from lookahead.engine.fixed_length import FixedLength
from lookahead.engine.stop_conditions import StopConditions
from lookahead.measure import bugs
from lookahead.model.heads.head import NETWORKS, Head
from lookahead.model.heads.shape import HeadShape
from lookahead.model.lm import CachedLM
from lookahead.model.translated import TranslatedLM, Translator

pytestmark = pytest.mark.split
long = pytest.mark.long

VOCAB, LENGTH, RUNS, ODDS = 4, 3, 1200, 1e-4
TARGET, DRAFTER = TableLM(VOCAB, seed=3, spread=1.2), TableLM(VOCAB, seed=8, spread=1.2)
PROMPT = (1, 2)


def exact(settings, target):
    """Return the probability of every text of LENGTH tokens, by enumeration."""
    rule = rule_for(settings)
    out = {}
    for text in itertools.product(range(VOCAB), repeat=LENGTH):
        chance = 1.0
        for i in range(LENGTH):
            context = [*PROMPT, *text[:i]]
            chance *= float(rule.process(target.logits_after(context)[None], context)[0].double().softmax(-1)[text[i]])
        out[text] = chance
    return out


def from_tables(settings, drafter):
    """Return the steps of a text with TARGET and a drafter of tables."""
    return table_steps(None, settings, target=TARGET, prompt=PROMPT, drafter=drafter)


def observed(settings, steps, runs=RUNS):
    """Count the texts of `runs` runs with different seeds; `steps(settings)` runs one."""
    texts = Counter()
    for seed in range(runs):
        changed = Settings(**{**{n: getattr(settings, n) for n in Settings.names()}, "seed": seed})
        texts[tuple(emitted(steps(changed)))] += 1
    return texts


def p_value(settings, drafter, runs=RUNS):
    """Return the chi-square p-value of texts with TARGET and a drafter of tables."""
    return agreement(settings, TARGET, partial(from_tables, drafter=drafter), runs)


def agreement(settings, target, steps, runs=RUNS):
    """Return the chi-square p-value; cells with an expected count below five are pooled."""
    expected, seen = exact(settings, target), observed(settings, steps, runs)
    assert not seen.keys() - {t for t, p in expected.items() if p > 0}, "a text with probability 0"
    cells, pooled = [], [0.0, 0.0]
    for text, p in expected.items():
        if p * runs >= 5:
            cells.append((seen[text], p * runs))
        else:
            pooled[0] += seen[text]
            pooled[1] += p * runs
    if pooled[1] > 0:
        cells.append(tuple(pooled))
    total = sum(c[1] for c in cells)
    return chisquare([c[0] for c in cells], [c[1] * runs / total for c in cells]).pvalue


class Branching(Drafter):
    """Drafts a tree from the small model. `shape` has its parents. Rows are sampled, or picked with a point mass as q."""

    name = "branching"
    shape = (-1, -1, 0, 0, 1)
    sampled = True

    def propose(self, context, limit):
        if limit < 2:
            return EMPTY
        tokens, qs, paths = [], [], []
        for row, parent in enumerate(self.shape):
            above = [] if parent < 0 else paths[parent]
            logits = DRAFTER.logits_after([*context, *above])
            if self.sampled:
                pick = self.rule.choose(logits, [*context, *above])
                token, q = pick.token, pick.q
            else:  # the likeliest token that no sibling has
                taken = [tokens[r] for r, p in enumerate(self.shape[:row]) if p == parent]
                token, q = next(t for t in logits.argsort(descending=True).tolist() if t not in taken), None
            paths.append([*above, token])
            tokens.append(token)
            qs.append(q)
        return Draft(tuple(tokens), self.shape, tuple(qs), ("test",) * len(tokens))


class Picked(Branching):
    sampled = False


def method(name, **options):
    """Return a function that makes a strategy, with DRAFTER as its draft model."""

    def make(resources):
        cls = DRAFTERS[name]
        return cls(Resources(resources.rule, DRAFTER.fresh(), resources.pass_s), cls.Options(**options))

    make.__name__ = name
    return make


def sampled_tree(resources):
    return Branching(resources, None)


def picked_tree(resources):
    return Picked(resources, None)


PROCESSED = {"temperature": 0.8, "top_k": 3, "top_p": 0.9, "repetition_penalty": 1.4}


@long
@pytest.mark.parametrize("drafter", [method("naive"), method("draft"), sampled_tree, picked_tree])
@pytest.mark.parametrize("changes", [{}, PROCESSED], ids=["plain", "processed"])
@pytest.mark.parametrize("rule", ["rejection", "coupled"])
def test_samples_follow_the_target_distribution(rule, drafter, changes):
    settings = sampling(rule=rule, max_new_tokens=LENGTH, k=2, **changes)
    assert p_value(settings, drafter) > ODDS


@long
@pytest.mark.parametrize(
    "drafter",
    [method("tree"), method("suffix", shortest=1), method("lookahead", window=2, ngram=2, guesses=2), method("hybrid")],
    ids=lambda p: p.__name__,
)
@pytest.mark.parametrize("k", [2, "auto"])
def test_the_rejection_rule_holds_for_every_shape_of_draft(drafter, k):
    assert p_value(sampling(rule="rejection", max_new_tokens=LENGTH, k=k), drafter) > ODDS


class Reader(CachedLM):
    """A real model with the interface of a table."""

    def logits_after(self, context):
        self.reset()
        return self.extend(context)[0]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A Llama of VOCAB tokens."""
    folder = tiny("llama", tmp_path_factory.mktemp("small"), vocab_size=VOCAB, eos_token_id=None, pad_token_id=None)
    return kernels.read(folder, torch.float32)


SIZES = {"heads": 4, "kv_heads": 2, "head_dim": 16, "inner": 96, "head_norms": True}
HEADS = {
    "medusa": HeadShape("medusa", 64, VOCAB, (2,), slots=2),
    "mtp": HeadShape("mtp", 64, VOCAB, (2,), output_normed=True, **SIZES),
    "eagle": HeadShape("eagle", 64, VOCAB, (1, 1, 2), **SIZES),
    "block": HeadShape("block", 64, VOCAB, (1, 2), slots=3, layers=2, rank=4, confident=True, **SIZES),
}


@long
@pytest.mark.models
@pytest.mark.parametrize("name", daily(["medusa", "block", "mtp", "eagle-tree", "eagle", "block-tree"], 2))
def test_the_rejection_rule_holds_for_trained_heads(name, small):
    """A head reads hidden states, so its target is a real model. The weights are random."""
    shape = HEADS[name.removesuffix("-tree")]
    torch.manual_seed(2)
    network = NETWORKS[shape.kind](shape, *small.tables).eval().requires_grad_(False)
    for weight in network.parameters():
        weight.normal_(1.0, 0.1) if weight.dim() == 1 else weight.normal_(0.0, 0.2)
    target, head = Reader(small), Head.from_network(network, small).fresh(VOCAB)
    head.follow(target)

    @torch.inference_mode()
    def steps(settings):
        rule, ends = rule_for(settings), StopConditions(frozenset(), LENGTH, target.context_length)
        drafter = DRAFTERS[name](Resources(rule, head), DRAFTERS[name].Options())
        return list(decode(Request(target, drafter, FixedLength(settings.k), rule, PROMPT, ends, details=False)))

    assert agreement(sampling(rule="rejection", max_new_tokens=LENGTH, k=2), target, steps) > ODDS
    rejected = sum(
        step.accepted < len(step.draft) for step in steps(sampling(rule="rejection", max_new_tokens=60, k=2))
    )
    assert rejected, "without rejections nothing is tested"


@long
def letters(alphabet):
    """Return a tokenizer with one token per letter, whose id is its index."""
    vocab = {letter: number for number, letter in enumerate(alphabet)}
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(BPE(vocab, merges=[])))


@pytest.mark.parametrize("changes", [{}, {"temperature": 0.6, "top_k": 3}], ids=str)
@pytest.mark.parametrize("name", ["draft", "tree"])
def test_a_drafter_with_another_vocabulary_keeps_the_distribution(name, changes):
    """The draft model has three of the target's four tokens, with other ids, and two more."""
    translator = Translator(letters("abcd"), letters("xbdya"))
    assert sorted(translator.shared) == [(1, 1), (2, 3), (4, 0)] and translator.share == 3 / 5
    draft = TranslatedLM(translator, TableLM(5, seed=8, spread=1.2), VOCAB)
    drafted = set()

    def steps(settings):
        done = table_steps(name, settings, target=TARGET, draft=draft, prompt=PROMPT)
        drafted.update(token for step in done for token in step.draft.tokens)
        return done

    settings = sampling(rule="rejection", max_new_tokens=LENGTH, k=2, **changes)
    assert agreement(settings, TARGET, steps) > ODDS
    assert drafted == {0, 1, 3}


@pytest.mark.parametrize("bug", [bugs.NoResidual, bugs.UnprocessedQ, bugs.NoiseReused])
def test_the_test_catches_broken_rules(bug, monkeypatch):
    import conftest

    monkeypatch.setattr(conftest, "rule_for", bug)
    settings = sampling(rule="rejection", max_new_tokens=LENGTH, k=2, temperature=0.6)
    assert p_value(settings, method("draft"), runs=8000) < 1e-9


def test_coupled_noise_is_gumbel_and_shared_across_vocabulary_sizes():
    rule = accept.Coupled(sampling())
    noise = torch.cat([rule.noise(i, 4096) for i in range(20)])
    # Gumbel: mean 0.5772, variance pi^2 / 6; 81,920 draws, six standard errors.
    assert float(noise.mean()) == pytest.approx(0.5772, abs=6 * math.sqrt(1.645 / len(noise)))
    assert float(noise.var()) == pytest.approx(math.pi**2 / 6, rel=0.05)
    assert torch.equal(rule.noise(3, 100), accept.Coupled(sampling()).noise(3, 4096)[:100])
    assert not torch.equal(rule.noise(3, 100), rule.noise(4, 100))
    assert not torch.equal(rule.noise(3, 100), accept.Coupled(sampling(seed=1)).noise(3, 100))


def test_penalty_includes_the_rows_above():
    rule = accept.Greedy(Settings(repetition_penalty=2.0))
    logits = torch.tensor([[2.0, 1.5, -1.0]] * 2)
    out = rule.process(logits, [2], [[], [0]])
    assert out.tolist() == [[2.0, 1.5, -2.0], [1.0, 1.5, -2.0]]


def test_top_k_and_top_p_match_transformers():
    from transformers import generation as hf

    torch.manual_seed(0)
    logits, context = torch.randn(1, 50) * 3, [3, 7, 7, 20]
    expected = logits.clone()
    for processor in (
        hf.RepetitionPenaltyLogitsProcessor(1.3), hf.TemperatureLogitsWarper(0.7), hf.TopKLogitsWarper(12), hf.TopPLogitsWarper(0.8),
    ):  # fmt: skip
        expected = processor(torch.tensor([context]), expected)
    processed = accept.Coupled(sampling(temperature=0.7, top_k=12, top_p=0.8, repetition_penalty=1.3)).process(
        logits, context
    )
    assert torch.equal(expected.softmax(-1) > 0, processed.softmax(-1) > 0)
    assert torch.allclose(expected.softmax(-1), processed.softmax(-1))


def test_accepting_or_resampling_from_the_residual_gives_p_back():
    p, q = torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.2, 0.7, 0.1])
    assert accept.residual(p, q, 0).tolist() == pytest.approx([0.75, 0.0, 0.25])
    accepted = torch.minimum(p, q)
    assert torch.allclose(accepted + (1 - accepted.sum()) * accept.residual(p, q, 0), p)


def test_zero_residual_falls_back_to_p():
    p = torch.tensor([0.5, 0.5])
    assert torch.equal(accept.residual(p, p.clone(), 0), p)


def test_inverse_cdf_reaches_the_ends():
    p = torch.tensor([0.0, 0.25, 0.75, 0.0])
    assert accept.at_quantile(p, 0.0) == 1
    assert accept.at_quantile(p, 0.2499) == 1
    assert accept.at_quantile(p, 0.9999999999) == 2


def test_explanations_give_probabilities_without_changing_outcomes():
    steps = table_steps("draft", Settings(max_new_tokens=30, k=3))
    silent = table_steps("draft", Settings(max_new_tokens=30, k=3, details=False))
    assert emitted(steps) == emitted(silent)
    for step in steps[1:]:
        emitting = [t for t in step.tests if t.outcome != "rejected"]
        assert [t.token for t in emitting] == list(step.emitted)
        for test in emitting:
            assert 0 < test.p <= 1
            assert test.entropy >= 0
            assert test.top[0][0] == test.token, "greedy selects the likeliest token"
            assert len(test.top) == 5
