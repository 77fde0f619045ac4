"""A head that learns from random weights in slices: it learns, what is copied of it stays, and it races losslessly."""

from itertools import pairwise

import pytest
import torch
from conftest import finished, tiny

import lookahead
from lookahead.family import cost
from lookahead.model.heads.head import Head
from lookahead.train import growing
from lookahead.train.growing import Growing

pytestmark = pytest.mark.models

PROMPT = "Once upon a time there was"


@pytest.fixture(scope="module")
def family(tmp_path_factory):
    return lookahead.load(tiny("llama", tmp_path_factory.mktemp("target"), layers=4))


@pytest.fixture
def quick(monkeypatch):
    """Few and short texts, measured often on few prompts."""
    monkeypatch.setattr(growing, "BENCH", [s for s in growing.BENCH if s.category == growing.CHECKED][:4])
    for name, value in {
        "FIRST": 4,
        "TOGETHER": 4,
        "LENGTH": 40,
        "REMEMBERED": 2,
        "CHECK_S": 0.5,
        "CHECKED_TOKENS": 16,
    }.items():
        monkeypatch.setattr(growing, name, value)


def learned(family, steps):
    """A head after so many steps, its slices, and all that it said of its progress."""
    grows, said = Growing(family), []
    slices = grows.slices()
    for progress in slices:
        said.append(progress)
        if progress.steps >= steps:
            return grows, slices, said


def test_it_learns_and_says_how_far_it_is(family, quick):
    before = torch.get_num_threads()
    grows, _, said = learned(family, 40)
    for earlier, later in pairwise(said):
        assert later.seconds > earlier.seconds
        assert (later.tokens, later.steps, later.checks) >= (earlier.tokens, earlier.steps, earlier.checks)
    assert max(later.seconds - earlier.seconds for earlier, later in pairwise(said)) < 2
    first = next(progress for progress in said if progress.steps)
    assert said[0].accepted is None and first.accepted == pytest.approx(1.0, abs=0.1), "it has learned nothing yet"
    assert said[-1].loss < first.loss - 1
    assert said[-1].checks > 1 and said[-1].accepted >= 1
    assert len(grows._texts) == 2, "older texts are forgotten"
    assert torch.get_num_threads() == before


def test_what_is_written_has_the_targets_favourites_and_hidden_states(family, quick):
    """A label is what the target itself says behind the token, and every other text follows it greedily."""
    grows, slices, _ = learned(family, 1)
    text, passes = grows._texts[0], family.target.fresh()
    passes.taps = grows.network.shape.taps
    passes.reset()
    row = 0
    logits = torch.cat([passes.extend([token])[-1:] for token in text.ids[row].tolist()])
    gaps = logits.float().amax(-1) - logits.float().gather(-1, text.likeliest[row, :, None])[:, 0]
    assert gaps.max() < 0.1, "but for ties of another number format"
    states, written = passes.states(0).float(), text.states[row].float()
    assert (states - written).norm() < 0.05 * states.norm(), "but for rounding"
    greedy = text.ids[row, 1:] == text.likeliest[row, :-1]
    assert greedy[-15:].all() and not greedy[:12].all()
    slices.close()


def test_what_is_copied_does_not_change_and_races_losslessly(family, quick):
    grows, slices, _ = learned(family, 10)
    network = grows.copied()
    before = {name: weight.clone() for name, weight in network.state_dict().items()}
    next(progress for progress in slices if progress.steps > 15)
    assert all(torch.equal(before[name], weight) for name, weight in network.state_dict().items())
    head = Head.of(network, family.target.passes)
    models = family.with_head(head, "grown", cost.measure_drafter(head, family.target, family.costs.target))
    assert models.names["block"] == "grown" and "block" not in family.heads
    for options in ({}, {"temperature": 0.8, "seed": 3}):
        trace = finished(lookahead.race(models, PROMPT, ["naive", "block"], k=5, max_new_tokens=40, **options))
        naive, block = trace.lanes
        assert naive.tokens == block.tokens
        assert sum(len(step.draft.tokens) for step in block.steps) > 40
