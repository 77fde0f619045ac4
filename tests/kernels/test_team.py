"""The team: every unit of a job is computed once, by any number of threads, and a pass has the same bits."""

import time
from dataclasses import replace
from threading import Thread

import numpy as np
import pytest
import torch
from conftest import POCKET
from numba import carray, njit

import lookahead
from lookahead import kernels
from lookahead.kernels import team
from lookahead.kernels.compiling import kernel
from lookahead.kernels.vectors import integers_at
from lookahead.model.lm import CachedLM

PATIENT_S = 30  # the machine may be busy
UNITS, LONG = 200, 3_000  # units of a job, and steps of each, so that helpers have the time to take some


@kernel(4)
def count_units(job, thread, first, stop):
    """Count each computed unit, and add the thread to the second row. `job` is the address of integers [2, UNITS]."""
    counts = carray(integers_at(job), (2, UNITS))
    for unit in range(first, stop):
        value = 1
        for _ in range(LONG):
            value = (value * 3) % 65_537
        counts[0, unit] += 1 if value else 0
        counts[1, unit] = thread


@njit
def share(address, threads, function, job, units):
    team.share(address, threads, function, job, units, True)


@pytest.fixture
def run():
    """A function that computes a job with a number of threads and returns counts and threads [2, units]."""
    address = np.int64(count_units().address)

    def compute(threads, units=UNITS, counts=None):
        counts = np.zeros((2, UNITS), np.int64) if counts is None else counts
        threads = np.int64(kernels.TEAM.hire(threads))
        share(np.int64(kernels.TEAM.address), threads, address, np.int64(counts.ctypes.data), np.int64(units))
        return counts[:, :units]

    return compute


@pytest.fixture(autouse=True)
def _one_thread():
    yield
    kernels.TEAM.use(1)


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_every_unit_is_computed_once(run, threads):
    for units in (0, 1, 2, 7, UNITS):
        assert (run(threads, units)[0] == 1).all(), units


def test_a_thread_takes_no_unit_of_a_job_with_fewer_threads(run):
    """It has no memory for it."""
    for _ in range(300):
        for threads in (5, 2, 3):
            assert run(threads)[1].max() < threads


def test_helpers_work_and_wake_up_after_they_have_slept(run):
    def helped():
        return any((run(2)[1] == 1).any() for _ in range(2000))

    def asleep():
        return kernels.TEAM._memory[(team.ASLEEP + team.LINE) // 8] == 1

    assert helped()
    stop = time.monotonic() + PATIENT_S
    while not asleep() and time.monotonic() < stop:
        time.sleep(0.01)
    assert asleep()
    assert helped()


def test_threads_that_compute_at_the_same_time_do_not_disturb_each_other(run):
    results = [np.zeros((2, UNITS), np.int64) for _ in range(4)]
    callers = [Thread(target=lambda counts=counts: [run(3, counts=counts) for _ in range(20)]) for counts in results]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert all((counts[0] == 20).all() for counts in results)


@pytest.mark.models
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_pass_has_the_same_bits_with_any_number_of_threads(dtype):
    lm = CachedLM(kernels.read(str(POCKET / "target"), dtype))
    text = [(7 * i) % lm.vocab for i in range(90)]

    def logits(threads):
        kernels.TEAM.use(threads)
        lm.reset()
        lm.extend(text)
        tree = lm.forward(text[:6], [-1, 0, 0, 1, 1, 2])
        return [tree, *(lm.forward(text[:n], range(-1, n - 1)) for n in (1, 2, 9, 33))]

    for threads in (2, 3):
        assert all(map(torch.equal, logits(1), logits(threads)))


@pytest.mark.models
@pytest.mark.parametrize("method", ["draft", "eagle", "mtp", "block", "medusa", "tree"])
def test_a_lane_with_two_threads_drafts_the_same_tokens(models, method):
    both = replace(models, measured=replace(models.measured, threads=2))
    options = {"method": method, "max_new_tokens": 24}
    alone, shared = ([*lookahead.decode(family, "Once upon a time", **options)] for family in (models, both))
    assert kernels.TEAM.threads == 2 and torch.get_num_threads() == 1
    assert [(step.draft, step.emitted) for step in alone] == [(step.draft, step.emitted) for step in shared]


@pytest.mark.models
def test_a_batch_has_the_same_bits_as_single_texts():
    passes = kernels.read(str(POCKET / "target"), torch.bfloat16)
    for texts in (2, 5, 40):  # the cores share the weights, then the texts
        lms = [CachedLM(passes) for _ in range(texts)]
        for number, lm in enumerate(lms):
            lm.extend([5 + number, *range(20, 40 + number)])
        rows = [([number, 9], [-1, 0]) for number in range(texts)]
        together = CachedLM.forward_batch(lms, rows)
        for number, lm in enumerate(lms):
            lm.reset()
            lm.extend([5 + number, *range(20, 40 + number)])
            assert torch.equal(together[number], lm.forward(*rows[number])), (texts, number)
