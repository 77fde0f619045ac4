"""How many threads compute: as few as are about as quick, what the environment says, and what each family was measured with."""

import dataclasses

import pytest
import torch
from conftest import emitted

import lookahead
from lookahead.family import threads
from lookahead.model import modules
from lookahead.model.lm import CachedLM


@pytest.fixture
def counts(monkeypatch):
    """Passes take the seconds that belong to the number of threads."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "MOST", 8)
    before = torch.get_num_threads()

    def timed(seconds, works):
        at = []
        for work in works:
            work()
            at.append(seconds[torch.get_num_threads()])
        return at

    yield lambda seconds: monkeypatch.setattr(threads, "interleaved", lambda works, *_, **__: timed(seconds, works))
    assert torch.get_num_threads() == before, "choosing leaves the setting alone"


@pytest.mark.parametrize(
    ("seconds", "chosen"),
    [
        ({8: 1.0, 4: 1.0, 2: 1.0, 1: 1.0}, 1),
        ({8: 1.0, 4: 1.1, 2: 1.25, 1: 1.9}, 2),
        ({8: 1.0, 4: 1.9, 2: 3.7, 1: 7.0}, 8),
        ({8: 3.0, 4: 1.0, 2: 1.5, 1: 2.5}, 4),
    ],
)
def test_the_fewest_that_are_about_as_quick_are_chosen(models, counts, seconds, chosen):
    counts(seconds)
    assert threads.choose(CachedLM(modules.Modules(models.target.model))) == chosen


def test_kernels_that_compute_with_one_are_not_timed(models, counts):
    counts({8: 1.0, 4: 2.0, 2: 4.0, 1: 8.0})
    assert threads.choose(models.target.fresh()) == 1


def test_what_the_environment_says_is_kept_to(models, counts, monkeypatch):
    counts({8: 9.0, 4: 1.0, 2: 1.0, 1: 1.0})
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    assert threads.choose(models.target.fresh()) == 8


def test_a_lane_computes_with_as_many_as_its_family_was_measured_with(models):
    other = dataclasses.replace(models, measured=dataclasses.replace(models.measured, threads=2))
    with threads.using(1):
        emitted(lookahead.decode(other, "Once", method="naive", max_new_tokens=2))
        assert torch.get_num_threads() == 2
        emitted(lookahead.decode(models, "Once", method="naive", max_new_tokens=2))
        assert torch.get_num_threads() == models.measured.threads
