"""Training a head in slices: the loss falls, copies do not change, and races with the head are lossless."""

from itertools import pairwise

import pytest
import torch
from conftest import finished, tiny

import lookahead
from lookahead.family import cost
from lookahead.model.heads.head import Head
from lookahead.train import growing
from lookahead.train.growing import BlockHeadTrainer

pytestmark = pytest.mark.models

PROMPT = "Once upon a time there was"


@pytest.fixture(scope="module")
def family(tmp_path_factory):
    return lookahead.load(tiny("llama", tmp_path_factory.mktemp("target"), layers=4))


@pytest.fixture
def fast(monkeypatch):
    """Few and short texts, and frequent measurements with few prompts."""
    monkeypatch.setattr(growing, "BENCH", [s for s in growing.BENCH if s.category == growing.CHECKED][:4])
    for name, value in {
        "FIRST_BATCH": 4,
        "BATCH": 4,
        "LENGTH": 40,
        "KEPT_BATCHES": 2,
        "CHECK_S": 0.5,
        "CHECKED_TOKENS": 16,
    }.items():
        monkeypatch.setattr(growing, name, value)


def trained(family, steps):
    """Train a head for `steps` steps; return it, its slices, and its progress after each slice."""
    grows, history = BlockHeadTrainer(family), []
    slices = grows.slices()
    for progress in slices:
        history.append(progress)
        if progress.steps >= steps:
            return grows, slices, history


def test_training_reports_its_progress(family, fast):
    before = torch.get_num_threads()
    grows, _, history = trained(family, 60)  # on a slow machine, 40 steps have too few tokens
    for earlier, later in pairwise(history):
        assert later.seconds > earlier.seconds
        assert (later.tokens, later.steps, later.checks) >= (earlier.tokens, earlier.steps, earlier.checks)
    assert max(later.seconds - earlier.seconds for earlier, later in pairwise(history)) < 2
    first = next(progress for progress in history if progress.steps)
    assert history[0].accepted is None and first.accepted == pytest.approx(1.0, abs=0.1), "the head is not yet trained"
    assert history[-1].loss < first.loss - 1
    assert history[-1].checks > 1 and history[-1].accepted >= 1
    assert len(grows._texts) == 2, "older texts are dropped"
    assert torch.get_num_threads() == before


def test_written_texts_have_the_targets_likeliest_tokens_and_hidden_states(family, fast):
    """The labels are the target's likeliest tokens, and every second text is greedy."""
    grows, slices, _ = trained(family, 1)
    text, passes = grows._texts[0], family.target.fresh()
    passes.taps = grows.network.shape.taps
    passes.reset()
    row = 0
    logits = torch.cat([passes.extend([token])[-1:] for token in text.ids[row].tolist()])
    gaps = logits.float().amax(-1) - logits.float().gather(-1, text.likeliest[row, :, None])[:, 0]
    assert gaps.max() < 0.1, "equal except for ties in another number format"
    states, written = passes.states(0).float(), text.states[row].float()
    assert (states - written).norm() < 0.05 * states.norm(), "equal except for rounding"
    greedy = text.ids[row, 1:] == text.likeliest[row, :-1]
    assert greedy[-15:].all() and not greedy[:12].all()
    slices.close()


def test_a_copy_does_not_change_and_races_losslessly(family, fast):
    grows, slices, _ = trained(family, 10)
    network = grows.copied()
    before = {name: weight.clone() for name, weight in network.state_dict().items()}
    next(progress for progress in slices if progress.steps > 15)
    assert all(torch.equal(before[name], weight) for name, weight in network.state_dict().items())
    head = Head.from_network(network, family.target.passes)
    models = family.with_head(head, "grown", cost.measure_drafter(head, family.target, family.costs.target))
    assert models.names["block"] == "grown" and "block" not in family.heads
    for options in ({}, {"temperature": 0.8, "seed": 3}):
        trace = finished(lookahead.race(models, PROMPT, ["naive", "block"], k=5, max_new_tokens=40, **options))
        naive, block = trace.lanes
        assert naive.tokens == block.tokens
        assert sum(len(step.draft.tokens) for step in block.steps) > 40
