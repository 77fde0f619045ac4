"""Batches: each text is the same as alone, drafts compete for rows, and ended texts are replaced."""

from __future__ import annotations

import random
from itertools import cycle, islice, pairwise
from math import ceil
from threading import get_ident

import pytest
import torch

import lookahead
from lookahead.core import parallel
from lookahead.core.events import Draft, Settings, SettingsError, Step
from lookahead.engine.batch import PROBE_BUDGET, Batch, DraftGate, Pass, SharedCost, _chances, compete
from lookahead.engine.decode import Request
from lookahead.engine.draft_length import AdaptiveLength
from lookahead.engine.lane import Lane, decode
from lookahead.measure.scenarios import BENCH
from lookahead.model.lm import CachedLM

PROMPTS = [scenario.prompt for scenario in BENCH if not scenario.chat][:16]
METHODS = (
    "naive",
    "draft",
    "tree",
    "ngram",
    "suffix",
    "lookahead",
    "self",
    "hybrid",
    "mtp",
    "eagle",
    "medusa",
    "block",
    "block-tree",
)


def written(models, prompts, method, at_once=None, **options):
    """Return the texts of a batch, and its passes."""
    lanes = [Lane(models, prompt, method, Settings(details=False, **options)) for prompt in prompts]
    texts, passes = [[] for _ in prompts], []
    for passed in Batch(lanes, at_once):
        for number, step in passed.steps.items():
            texts[number] += step.emitted
        if any(step.kind == "verify" for step in passed.steps.values()):
            passes.append(passed)
    return texts, passes


@pytest.fixture(scope="module")
def alone(models):
    """Return a function that returns naive texts. Each is written once."""
    texts = {}

    def text(prompt, **options):
        key = prompt, repr(options)
        if key not in texts:
            texts[key] = [token for step in decode(models, prompt, "naive", **options) for token in step.emitted]
        return texts[key]

    return text


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("options", [{}, {"temperature": 0.9, "seed": 5}], ids=["greedy", "coupled"])
def test_texts_of_a_batch_are_the_same_as_alone(models, alone, method, options):
    prompts = PROMPTS[:5]
    texts, passes = written(models, prompts, method, max_new_tokens=24, **options)
    assert texts == [alone(prompt, max_new_tokens=24, **options) for prompt in prompts]
    assert len(passes[0].steps) == 5 and all(passed.tokens >= len(passed.steps) for passed in passes)


def test_many_batches_of_mixed_sizes_and_methods(models, alone):
    chance = random.Random(4)
    for _ in range(40):
        prompts = chance.choices(PROMPTS, k=chance.randint(2, 16))
        k = chance.choice(["auto", 3, 7])
        texts, _ = written(models, prompts, chance.choice(METHODS[1:]), max_new_tokens=12, k=k)
        assert texts == [alone(prompt, max_new_tokens=12) for prompt in prompts]


def test_a_batch_of_one_text_has_the_steps_of_a_lane(models):
    steps = list(decode(models, PROMPTS[0], "draft", max_new_tokens=16, k=4))
    _, passes = written(models, PROMPTS[:1], "draft", max_new_tokens=16, k=4)
    shown = [(passed.steps[0].draft.tokens, passed.steps[0].emitted) for passed in passes]
    assert shown == [(step.draft.tokens, step.emitted) for step in steps[1:]]


def test_the_next_text_begins_when_one_ends(models, alone):
    prompts = PROMPTS[:7]
    texts, passes = written(models, prompts, "draft", at_once=3, max_new_tokens=10)
    assert texts == [alone(prompt, max_new_tokens=10) for prompt in prompts]
    assert max(len(passed.steps) for passed in passes) == 3
    begun = [min(i for i, passed in enumerate(passes) if number in passed.steps) for number in range(7)]
    assert begun == sorted(begun) and begun[:3] == [0, 0, 0] and begun[3] > 0


def test_the_texts_share_the_seconds_of_a_pass(models):
    _, passes = written(models, PROMPTS[:4], "draft", max_new_tokens=16)
    for passed in passes:
        parts = sum(step.seconds for step in passed.steps.values())
        assert 0 < parts <= passed.seconds * 1.001


def test_models_that_do_not_batch_write_one_after_the_other(models):
    prompts = [[1, 5, 9], [1, 7]]
    fresh = [models.target.fresh() for _ in prompts]
    for lm, prompt in zip(fresh, prompts, strict=True):
        lm.extend(prompt[:-1])
    rows = [([prompt[-1], 3], [-1, 0]) for prompt in prompts]
    at_once = CachedLM.forward_batch(fresh, rows)
    single = models.target.fresh()
    for lm, prompt, row, logits in zip(fresh, prompts, rows, at_once, strict=True):
        single.reset()
        single.extend(prompt[:-1])
        assert torch.equal(single.forward(*row), logits) and lm.cached() == len(prompt) + 1


def test_rows_compete_for_a_pass():
    class FakeRequest:
        def __init__(self, chances):
            self.draft = Draft.chain([7] * len(chances), "draft", None, chances)
            self.policy = AdaptiveLength(lambda rows, branches: 1.0, 8)

    def lengths(row_s):
        requests = [FakeRequest([0.95, 0.9, 0.9]), FakeRequest([0.3, 0.2, 0.1])]
        compete(requests, 2, lambda rows, branches, longest: 1.0 + row_s * rows)
        return [len(request.draft) for request in requests]

    free, expensive, full = lengths(0.0), lengths(0.25), lengths(100.0)
    assert free == [3, 3] and full == [0, 0]
    assert expensive[0] > expensive[1], "the draft with higher confidence gets the rows"


def drafting_passes(passes, row_s, drafting_s, accepted, texts=4):
    """Return the numbers of passes with drafts, and the time that these lost.

    A row takes `row_s` one-row passes, and drafting takes `drafting_s`. Each text drafts one row. It is accepted in passes for
    which `accepted(number)` is true.
    """
    gate, at, lost = DraftGate(lambda rows, branches, longest: 1 + row_s * (rows - texts)), [], 0.0
    for number in range(passes):
        if gate.due(texts):
            at.append(number)
            draft, verified_s = Draft.chain([7], "draft"), 1 + row_s * texts
            step = Step("verify", number, draft=draft, emitted=(7,) * (1 + accepted(number)))
            gate.count(texts, Pass(dict.fromkeys(range(texts), step), drafting_s + verified_s), drafting_s)
            lost += drafting_s + verified_s - 1 - accepted(number)
    return at, lost


def test_every_pass_drafts_while_that_gains_time():
    assert drafting_passes(50, row_s=0.05, drafting_s=0.1, accepted=lambda number: number % 2)[0] == [*range(50)]


@pytest.mark.parametrize("row_s", [0.0, 0.05, 0.25])
def test_unprofitable_probes_take_little_time(row_s):
    at, lost = drafting_passes(1000, row_s, drafting_s=0.3, accepted=lambda number: False)
    assert at and lost < 5 + 1000 * PROBE_BUDGET
    assert max(after - before for before, after in pairwise(at)) > 10


def test_drafting_is_paused_at_first_if_rows_are_expensive():
    at, _ = drafting_passes(200, row_s=0.25, drafting_s=0.1, accepted=lambda number: False)
    assert at[0] > 50, "two more rows per text would cost two more passes"


def test_drafting_resumes_when_it_gains_time_again():
    at, _ = drafting_passes(1000, row_s=0.02, drafting_s=0.3, accepted=lambda number: number > 300)
    assert len([number for number in at if number <= 300]) < 60
    assert at[-500:] == [*range(500, 1000)]


@pytest.mark.parametrize(("k", "always"), [("auto", False), (3, True)])
def test_texts_are_the_same_if_drafting_is_paused(models, alone, monkeypatch, k, always):
    paused = []
    monkeypatch.setattr(Batch, "pass_s", lambda self, rows, branches=1, longest=1: float(rows))
    monkeypatch.setattr(
        Request, "skip_drafting", lambda self, skip=Request.skip_drafting: paused.append(self) or skip(self)
    )
    texts, passes = written(models, PROMPTS[:4], "ngram", max_new_tokens=40, k=k)
    assert texts == [alone(prompt, max_new_tokens=40) for prompt in PROMPTS[:4]]
    assert (not paused) == always and len(passes) > 16


@pytest.mark.parametrize(("method", "at_once"), [("draft", 2), ("ngram", 1)])
def test_models_draft_for_several_texts_at_the_same_time(models, alone, monkeypatch, method, at_once):
    threads = set()
    monkeypatch.setattr(parallel, "cores", lambda: 2)
    monkeypatch.setattr(
        Request, "propose", lambda self, propose=Request.propose: threads.add(get_ident()) or propose(self)
    )
    texts, passes = written(models, PROMPTS[:3], method, max_new_tokens=20, k=3)
    assert texts == [alone(prompt, max_new_tokens=20) for prompt in PROMPTS[:3]]
    assert len(threads) == at_once
    for passed in passes:
        steps = passed.steps.values()
        assert sum(step.propose_s + step.verify_s for step in steps) < passed.seconds


def test_the_chance_of_a_sampled_row_depends_only_on_its_depth():
    q = [torch.tensor([0.5, 0.5])] * 3
    sampled = [Draft.chain([1, 0, 1], "draft", q, chances) for chances in ([0.9, 0.1, 0.9], [0.1, 0.9, 0.2])]
    first, second = (_chances(draft, lambda drafter, confidence: confidence) for draft in sampled)
    assert first == second == sorted(first, reverse=True)


def test_rejection_in_a_batch_of_one_text_has_the_draws_of_a_lane(models):
    # With the rejection rule a text depends on the lengths of its drafts, so k is fixed.
    options = {"temperature": 1.0, "rule": "rejection", "seed": 3, "max_new_tokens": 24, "k": 3}
    alone = [token for step in decode(models, PROMPTS[0], "draft", **options) for token in step.emitted]
    assert written(models, PROMPTS[:1], "draft", **options)[0] == [alone]


def test_a_row_of_a_shared_pass_has_its_marginal_cost():
    cost = SharedCost(lambda rows, branches, longest: 10.0 + rows + longest)
    assert cost(1) == 12 and cost(4) == 18
    cost.share(5, rows=5)
    assert cost(1) == pytest.approx(16 / 5) and cost(4) == pytest.approx(16 / 5 + 3 + 3)


def test_a_long_draft_costs_the_time_of_its_core(models, monkeypatch):
    monkeypatch.setattr(parallel, "cores", lambda: 2)
    batch = Batch([Lane(models, prompt, "suffix", Settings()) for prompt in PROMPTS[:8]])
    batch._cost.share(8, rows=8)
    costs = batch._lanes[0].costs
    assert batch.pass_s(34) == costs.pass_s(17) and batch.pass_s(34, longest=27) == costs.pass_s(27)
    assert batch.pass_s(34, longest=5) == costs.pass_s(17)


@pytest.mark.parametrize("rows", [[1], [1, 1], [5, 1, 1, 1], [1] * 7, [1, 30, 1], [2, 2, 9], [1, 1, 1, 1, 27, 1]])
def test_every_core_gets_some_texts(rows, monkeypatch):
    for cores in (1, 2, 3, 8):
        monkeypatch.setattr(parallel, "cores", lambda cores=cores: cores)
        groups = parallel.balanced(rows)
        assert sorted(text for group in groups for text in group) == [*range(len(rows))]
        assert len(groups) == min(cores, len(rows)) and all(groups)
        fullest = max(sum(rows[text] for text in group) for group in groups)
        assert fullest <= max(max(rows), ceil(sum(rows) / len(groups)) + 1)


@pytest.mark.parametrize("count", [0, 300])
def test_invalid_numbers_of_texts_are_refused(models, count):
    with pytest.raises(SettingsError, match="texts"):
        Batch(list(islice(cycle([Lane(models, "A", "naive", Settings())]), count)))


def test_an_external_generator_cannot_share_a_pass(models):
    with pytest.raises(SettingsError, match="one text at a time"):
        Batch([Lane(models, "A", "hf-lookup", Settings())])


def test_a_batch_may_be_closed_early(models):
    lanes = [Lane(models, prompt, "draft", Settings(max_new_tokens=40)) for prompt in PROMPTS[:3]]
    for number, _ in enumerate(Batch(lanes)):
        if number == 5:
            break
    assert [token for step in lookahead.decode(models, "The", "draft", max_new_tokens=8) for token in step.emitted]
