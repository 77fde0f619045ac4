"""The number of threads: the smallest that is nearly as fast, OMP_NUM_THREADS, and the number stored with a family."""

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
    """A function that sets the time of passes for each number of threads."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "MAX_THREADS", 8)
    before = torch.get_num_threads()

    def timed(seconds, functions):
        times = []
        for function in functions:
            function()
            times.append(seconds[torch.get_num_threads()])
        return times

    yield lambda seconds: monkeypatch.setattr(
        threads, "interleaved", lambda functions, *_, **__: timed(seconds, functions)
    )
    assert torch.get_num_threads() == before, "choosing restores the setting"


@pytest.mark.parametrize(
    ("seconds", "chosen"),
    [
        ({8: 1.0, 4: 1.0, 2: 1.0, 1: 1.0}, 1),
        ({8: 1.0, 4: 1.1, 2: 1.25, 1: 1.9}, 2),
        ({8: 1.0, 4: 1.9, 2: 3.7, 1: 7.0}, 8),
        ({8: 3.0, 4: 1.0, 2: 1.5, 1: 2.5}, 4),
    ],
)
def test_the_smallest_number_that_is_nearly_as_fast_is_chosen(models, counts, seconds, chosen):
    counts(seconds)
    assert threads.choose(CachedLM(modules.Modules(models.target.model))) == chosen


def test_our_kernels_use_one_thread_and_are_not_timed(models, counts):
    counts({8: 1.0, 4: 2.0, 2: 4.0, 1: 8.0})
    assert threads.choose(models.target.fresh()) == 1


def test_the_environment_overrides_the_choice(models, counts, monkeypatch):
    counts({8: 9.0, 4: 1.0, 2: 1.0, 1: 1.0})
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    assert threads.choose(models.target.fresh()) == 8


def test_a_lane_uses_the_number_of_threads_of_its_family(models):
    other = dataclasses.replace(models, measured=dataclasses.replace(models.measured, threads=2))
    with threads.using(1):
        emitted(lookahead.decode(other, "Once", method="naive", max_new_tokens=2))
        assert torch.get_num_threads() == 2
        emitted(lookahead.decode(models, "Once", method="naive", max_new_tokens=2))
        assert torch.get_num_threads() == models.measured.threads
