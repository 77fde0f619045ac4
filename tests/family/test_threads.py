"""The number of threads: the smallest that is nearly as fast, LOOKAHEAD_THREADS, and the number stored with a family."""

import dataclasses

import pytest
import torch
from conftest import POCKET, emitted

import lookahead
from lookahead import kernels
from lookahead.core import processor
from lookahead.core.events import SettingsError
from lookahead.family import measurements, threads
from lookahead.model import modules
from lookahead.model.lm import CachedLM


@pytest.fixture
def counts(monkeypatch):
    """A function that sets the time of passes for each number of threads, on a machine with eight cores."""
    monkeypatch.delenv("LOOKAHEAD_THREADS", raising=False)
    monkeypatch.setattr(threads, "TORCH_THREADS", 8)
    monkeypatch.setattr(processor, "cores", lambda: 8)
    monkeypatch.setattr(kernels.TEAM, "hire", lambda count: count)  # without helpers
    before = torch.get_num_threads(), kernels.TEAM.threads

    def timed(seconds, functions):
        times = []
        for function in functions:
            function()
            times.append(seconds[max(torch.get_num_threads(), kernels.TEAM.threads)])
        return times

    yield lambda seconds: monkeypatch.setattr(
        threads, "interleaved", lambda functions, *_, **__: timed(seconds, functions)
    )
    assert (torch.get_num_threads(), kernels.TEAM.threads) == before, "choosing restores the setting"


@pytest.mark.parametrize(
    ("seconds", "chosen"),
    [
        ({8: 1.0, 4: 1.0, 2: 1.0, 1: 1.0}, 1),
        ({8: 1.0, 4: 1.1, 2: 1.25, 1: 1.9}, 2),
        ({8: 1.0, 4: 1.9, 2: 3.7, 1: 7.0}, 8),
        ({8: 3.0, 4: 1.0, 2: 1.5, 1: 2.5}, 4),
    ],
)
def test_torch_uses_the_smallest_number_that_is_nearly_as_fast(models, counts, seconds, chosen):
    counts(seconds)
    assert threads.choose(CachedLM(modules.Modules(models.target.model))) == chosen


@pytest.mark.parametrize(
    ("seconds", "chosen"),
    [({1: 4.0, 2: 2.0, 3: 1.4, 4: 1.05, 6: 1.0}, 4), ({1: 1.0, 2: 1.0, 3: 1.0, 4: 1.0, 6: 1.0}, 1)],
)
def test_our_kernels_use_the_smallest_number_within_a_tenth_and_leave_a_core(models, counts, seconds, chosen):
    counts(seconds)
    assert threads.choose(models.target.fresh()) == chosen


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_our_kernels_use_one_thread_on_fewer_than_four_cores(models, counts, monkeypatch, cores):
    counts({})
    monkeypatch.setattr(processor, "cores", lambda: cores)
    assert threads.choose(models.target.fresh()) == 1


def test_the_environment_overrides_the_choice(models, counts, monkeypatch):
    counts({})
    monkeypatch.setattr(threads, "MAX_THREADS", 8)
    monkeypatch.setenv("LOOKAHEAD_THREADS", "5")
    assert threads.choose(models.target.fresh()) == 5
    assert threads.choose(CachedLM(modules.Modules(models.target.model))) == 5


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "9999", "²"])
def test_an_impossible_number_is_a_clear_error(monkeypatch, text):
    monkeypatch.setenv("LOOKAHEAD_THREADS", text)
    with pytest.raises(SettingsError, match=r"LOOKAHEAD_THREADS.*give a number of threads from 1 to"):
        lookahead.load("pocket")


def test_the_stored_number_depends_on_the_environment(monkeypatch):
    folder, names = [POCKET / "target"], []
    for text in ("", "1", "2"):
        monkeypatch.setenv("LOOKAHEAD_THREADS", text)
        names.append(measurements.key(folder, None))
    assert len(set(names)) == 3


def test_a_lane_uses_the_number_of_threads_of_its_family(models):
    other = dataclasses.replace(models, measured=dataclasses.replace(models.measured, threads=2))
    with threads.using(models.target.passes, 1):
        emitted(lookahead.decode(other, "Once", method="naive", max_new_tokens=2))
        assert threads.current(models.target.passes) == 2
        emitted(lookahead.decode(models, "Once", method="naive", max_new_tokens=2))
        assert threads.current(models.target.passes) == models.measured.threads
