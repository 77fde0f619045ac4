"""A head that grows in slices beside the bundled target: it learns, it drafts, and it leaves no traces."""

from itertools import pairwise

import pytest
from conftest import emitted

from lookahead.calibration import cost
from lookahead.measure.scenarios import FROG
from lookahead.race.lane import decode
from lookahead.train.growing import CHECK_S, LENGTH, Growing


def slices_until(growing, reached):
    """What is said of the slices until `reached(progress)`."""
    progresses, slices = [], growing.slices()
    for progress in slices:
        progresses.append(progress)
        if reached(progress):
            break
    slices.close()
    return progresses


@pytest.fixture(scope="module")
def grown(models):
    """A head after 24 steps, and what was said on the way."""
    growing = Growing(models, seed=1)
    return growing, slices_until(growing, lambda progress: progress.steps == 24)


def test_it_learns_from_what_the_target_writes(grown):
    _, progresses = grown
    last, losses = progresses[-1], [progress.loss for progress in progresses if progress.steps]
    assert losses[-1] < 0.8 * losses[0]
    assert last.checks >= 1 and last.accepted >= 1, "it is measured before it has learned anything"
    assert last.tokens >= 16 * LENGTH
    for before, after in pairwise(progresses):
        assert after.seconds > before.seconds
        assert after.tokens >= before.tokens and 0 <= after.steps - before.steps <= 1
        assert after.seconds - before.seconds < CHECK_S / 2, "a slice is short, for somebody may wait"


def test_races_with_it_are_lossless(models, grown):
    head = grown[0].head()
    beside = models.with_head(head, "grown", cost.measure_head(head, models.target, models.costs.target))
    assert models.heads["block"] is not head, "other races go on with the head that was there"
    for changes in ({}, {"temperature": 0.9}):
        options = {"max_new_tokens": 48, "k": 3, "details": False, **changes}
        drafted = list(decode(beside, FROG, "block", **options))
        assert emitted(drafted) == emitted(decode(models, FROG, "naive", **options))
        assert sum(len(step.draft) for step in drafted) > 20


def test_a_head_that_was_taken_does_not_learn_further(models):
    growing = Growing(models)
    slices_until(growing, lambda progress: progress.steps == 1)
    head = growing.head()

    def drafted():
        beside = models.with_head(head, "grown", models.costs.drafters["block"])
        return [step.draft.tokens for step in decode(beside, FROG, "block", k=3, max_new_tokens=24)]

    before, weights = drafted(), {name: weight.clone() for name, weight in growing.network.state_dict().items()}
    slices_until(growing, lambda progress: progress.steps == 4)
    assert any((weight != weights[name]).any() for name, weight in growing.network.state_dict().items())
    assert drafted() == before


def test_what_it_learned_from_is_forgotten_at_the_end(models):
    growing = Growing(models)
    slices_until(growing, lambda progress: progress.steps == 1)
    growing.end()
    lists = [value for value in vars(growing).values() if isinstance(value, list) and value]
    assert growing._writer is None and lists == [growing._openings]
    assert growing.head().parameters == sum(weight.numel() for weight in growing.network.parameters())
