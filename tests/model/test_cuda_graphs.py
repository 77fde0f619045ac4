"""Recorded passes, with what freezes them on a processor in the way that a CUDA graph does on a GPU: a trace of their
operators, whose numbers are constants and whose tensors stay where they are."""

import gc
import random
import time

import pytest
import torch
from conftest import tiny
from torch.fx.experimental.proxy_tensor import make_fx
from transformers import AutoModelForCausalLM

from lookahead.core import tree
from lookahead.family import recording
from lookahead.model.cuda_graphs import ROWS, SHORTEST, CudaGraphs
from lookahead.model.lm import CachedLM
from lookahead.model.modules import ATTENTION, Modules

pytestmark = pytest.mark.models

KINDS = ("qwen3", "gpt2")


def traced(run):
    """The operators that `run` calls, to be called again over the same tensors; nothing of Python is left in them."""
    run()
    return make_fx(lambda: run())()  # a function without the defaults that would count as arguments


@pytest.fixture(scope="module", params=KINDS)
def passes(request, tmp_path_factory):
    folder = tiny(request.param, tmp_path_factory.mktemp(request.param), max_position_embeddings=2048)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation=ATTENTION).eval()
    return Modules(model)


@pytest.fixture(scope="module")
def recorded(passes):
    return CudaGraphs(passes, record=traced)


def close(one, other):
    return torch.allclose(one, other, atol=1e-4, rtol=1e-4)


def test_a_text_in_chains_trees_and_long_passes(passes, recorded):
    """Every move of a CachedLM, beside the same passes launched one by one."""
    draws = random.Random(3)
    ours, plain = CachedLM(recorded), CachedLM(passes)
    prompt = [draws.randrange(ours.vocab) for _ in range(100)]
    assert close(ours.extend(prompt), plain.extend(prompt))
    for rows in (1, 3, 8, 9, 33, 64, 70):
        tokens = [draws.randrange(ours.vocab) for _ in range(rows)]
        parents = [-1, *(draws.randrange(max(0, i - 4), i) for i in range(1, rows))]
        for shape in (None, parents):
            assert close(ours.forward(tokens, shape), plain.forward(tokens, shape)), (rows, shape)
        path = tree.ancestors(parents, rows - 1)
        for lm in (ours, plain):
            lm.keep(path)
        assert ours.cached() == plain.cached() == len(ours.tokens)
    back = ours.tokens[:50]
    for lm in (ours, plain):
        assert lm.sync([*back, 1]) == [1]
    assert close(ours.forward([1]), plain.forward([1])), "what was rolled back is not seen"


def test_a_graph_brings_the_hidden_states_that_a_drafter_reads(passes, recorded):
    """Of chains, trees and a prompt of more rows than are recorded; they are those of passes launched one by one."""
    taps, draws = [0, 1, passes.layers], random.Random(5)
    ours, plain = CachedLM(recorded), CachedLM(passes)
    for lm in (ours, plain):
        lm.taps = taps
        lm.reset()
    prompt = [draws.randrange(ours.vocab) for _ in range(100)]
    for lm in (ours, plain):
        lm.extend(prompt)
    for parents in ([-1], [-1, 0, 1], [-1, 0, 0, 1, 2]):
        tokens, start = [draws.randrange(ours.vocab) for _ in parents], len(ours.tokens)
        for lm in (ours, plain):
            lm.forward(tokens, parents)
            lm.keep(tree.ancestors(parents, len(parents) - 1))
        stop = len(ours.tokens)
        assert stop > start
        assert close(*(lm.cache.states(0, stop).clone() for lm in (ours, plain)))


def test_a_pass_may_continue_the_one_before(passes, recorded):
    lms = CachedLM(recorded), CachedLM(passes)
    answers = []
    for lm in lms:
        lm.extend([5, 6, 7])
        lm.forward([1, 2, 3], [-1, 0, 0])
        answers.append(lm.forward([1, 2, 3, 4, 5], [-1, 0, 0, 1, 2], first=3))
    assert close(*answers)


def test_a_text_that_grows_out_of_its_buffers(passes, recorded):
    draws = random.Random(4)
    text = [draws.randrange(passes.shape.vocab) for _ in range(SHORTEST - 20)]
    ours, plain = CachedLM(recorded), CachedLM(passes)
    for lm in (ours, plain):
        lm.extend(text)
    for _ in range(3):
        more = [draws.randrange(ours.vocab) for _ in range(16)]
        assert close(ours.forward(more), plain.forward(more))
        for lm in (ours, plain):
            lm.keep(range(16))
    assert ours.cache.buffers.room == 2 * SHORTEST


def test_what_one_has_read_another_need_not_read(recorded):
    """In buffers of its own, also where the text is longer than the first that are lent."""
    lm, other = CachedLM(recorded), CachedLM(recorded)
    lm.taps = other.taps = (1, 2)
    lm.reset()
    read = [random.Random(5).randrange(lm.vocab) for _ in range(SHORTEST + 50)]
    lm.extend(read)
    other.take(lm)
    assert other.tokens == read and other.cached() == len(read)
    assert torch.equal(other.states(0), lm.states(0))
    answer = other.forward([7, 8, 9])
    other.keep([0, 1])
    assert torch.equal(answer, lm.forward([7, 8, 9]))


def test_buffers_are_lent_again(passes):
    """A graph is recorded for every row count of every lane at work; a later lane finds them made."""
    made = []
    counting = CudaGraphs(passes, record=lambda run: made.append(run) or run)
    one, other = CachedLM(counting), CachedLM(counting)
    assert one.cache.buffers is not other.cache.buffers, "two lanes do not share their keys"
    assert len(made) == 2 * len(ROWS)
    first = one.cache.buffers
    del one
    gc.collect()
    assert CachedLM(counting).cache.buffers is first
    assert len(made) == 2 * len(ROWS)
    other.extend([3, 4])


def test_rows_that_fill_a_pass_up_are_not_seen(recorded):
    """A pass of 5 rows is recorded as one of 8: what the other three leave behind must not matter."""
    lms = CachedLM(recorded), CachedLM(recorded)
    answers = []
    for lm, chunks in zip(lms, ([5, 1, 1], [1] * 7), strict=True):
        lm.extend([9, 8, 7])
        tokens = iter(range(1, 8))
        for size in chunks:
            answers.append(lm.forward([next(tokens) for _ in range(size)])[-1])
            lm.keep(range(size))
    assert close(answers[2], answers[-1])


class Slow(CudaGraphs):
    def __call__(self, *args, **kwargs):
        time.sleep(0.05)
        return super().__call__(*args, **kwargs)


class Wrong(CudaGraphs):
    def __call__(self, *args, **kwargs):
        return super().__call__(*args, **kwargs).flip(-1)


def as_it_is(run):
    return run


@pytest.mark.parametrize("other", [Slow, Wrong])
def test_passes_that_are_slower_or_other_are_not_used(passes, other):
    assert recording.better(passes, other(passes, record=as_it_is)) is passes


def test_quicker_ones_are_used(passes):
    class Late(Modules):
        def __call__(self, *args, **kwargs):
            time.sleep(0.05)
            return super().__call__(*args, **kwargs)

    quick = CudaGraphs(passes, record=as_it_is)
    assert recording.better(Late(passes.model), quick) is quick


def test_on_a_processor_nothing_is_recorded(passes):
    assert recording.where_quicker(passes) is passes


def test_what_cannot_be_recorded_is_launched_as_ever(passes, monkeypatch, caplog):
    """As on a GPU: torch's own refusal, here for want of one."""
    monkeypatch.setattr(Modules, "device", torch.device("cuda"))
    monkeypatch.setattr(Modules, "devices", {"cuda:0"})
    assert recording.where_quicker(passes) is passes
    assert "CUDA graphs are not used" in caplog.text
