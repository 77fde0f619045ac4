"""Captured passes on a CPU. A trace of their operators replaces the CUDA graph: its numbers are constants, its tensors static."""

import gc
import random
import time

import pytest
import torch
from conftest import daily, tiny
from torch.fx.experimental.proxy_tensor import make_fx
from transformers import AutoModelForCausalLM

from lookahead.core import tree
from lookahead.family import capture
from lookahead.model.cuda_graphs import ROWS, SHORTEST, CudaGraphs
from lookahead.model.lm import CachedLM
from lookahead.model.modules import ATTENTION, Modules

pytestmark = pytest.mark.models

KINDS = ("qwen3", "gpt2")


def traced(run):
    """Return the operators that `run` calls, as a function that calls them again over the same tensors, without its Python code."""
    run()
    return make_fx(lambda: run())()  # a lambda without default arguments, which `make_fx` would trace as inputs


@pytest.fixture(scope="module", params=daily(KINDS, 2))
def passes(request, tmp_path_factory):
    folder = tiny(request.param, tmp_path_factory.mktemp(request.param), max_position_embeddings=2048)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation=ATTENTION).eval()
    return Modules(model)


@pytest.fixture(scope="module")
def captured(passes):
    return CudaGraphs(passes, capture=traced)


def close(ours, expected):
    return torch.allclose(ours, expected, atol=1e-4, rtol=1e-4)


def test_a_text_in_chains_trees_and_long_passes(passes, captured):
    """Every operation of a CachedLM, compared with the same passes launched kernel by kernel."""
    draws = random.Random(3)
    ours, plain = CachedLM(captured), CachedLM(passes)
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
    assert close(ours.forward([1]), plain.forward([1])), "a rolled back token is visible"


def test_a_graph_computes_the_hidden_states_for_heads(passes, captured):
    """Chains, trees, and a prompt with more rows than any graph: the states equal those of passes launched kernel by kernel."""
    taps, draws = [0, 1, passes.rollback.keys], random.Random(5)
    ours, plain = CachedLM(captured), CachedLM(passes)
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


def test_a_pass_continues_the_previous_pass(passes, captured):
    lms = CachedLM(captured), CachedLM(passes)
    logits = []
    for lm in lms:
        lm.extend([5, 6, 7])
        lm.forward([1, 2, 3], [-1, 0, 0])
        logits.append(lm.forward([1, 2, 3, 4, 5], [-1, 0, 0, 1, 2], first=3))
    assert close(*logits)


def test_a_text_longer_than_its_buffers(passes, captured):
    draws = random.Random(4)
    text = [draws.randrange(passes.shape.vocab) for _ in range(SHORTEST - 20)]
    ours, plain = CachedLM(captured), CachedLM(passes)
    for lm in (ours, plain):
        lm.extend(text)
    for _ in range(3):
        more = [draws.randrange(ours.vocab) for _ in range(16)]
        assert close(ours.forward(more), plain.forward(more))
        for lm in (ours, plain):
            lm.keep(range(16))
    assert ours.cache.buffers.capacity == 2 * SHORTEST


def test_a_cache_is_copied(captured):
    """A text longer than the shortest buffers is copied into other buffers."""
    lm, other = CachedLM(captured), CachedLM(captured)
    lm.taps = other.taps = (1, 2)
    lm.reset()
    read = [random.Random(5).randrange(lm.vocab) for _ in range(SHORTEST + 50)]
    lm.extend(read)
    other.copy_from(lm)
    assert other.tokens == read and other.cached() == len(read)
    assert torch.equal(other.states(0), lm.states(0))
    logits = other.forward([7, 8, 9])
    other.keep([0, 1])
    assert torch.equal(logits, lm.forward([7, 8, 9]))


def test_buffers_are_reused(passes):
    """Each concurrent lane captures a graph per row count; a later lane reuses free graphs."""
    captures = []
    counting = CudaGraphs(passes, capture=lambda run: captures.append(run) or run)
    lm, other = CachedLM(counting), CachedLM(counting)
    assert lm.cache.buffers is not other.cache.buffers, "two lanes share their keys"
    assert len(captures) == 2 * len(ROWS)
    first = lm.cache.buffers
    del lm
    gc.collect()
    assert CachedLM(counting).cache.buffers is first
    assert len(captures) == 2 * len(ROWS)
    other.extend([3, 4])


def test_padding_rows_are_not_visible(captured):
    """A pass of 5 rows is computed by the graph of 8 rows; the keys of the 3 padding rows must not change later passes."""
    lms = CachedLM(captured), CachedLM(captured)
    logits = []
    for lm, chunks in zip(lms, ([5, 1, 1], [1] * 7), strict=True):
        lm.extend([9, 8, 7])
        tokens = iter(range(1, 8))
        for size in chunks:
            logits.append(lm.forward([next(tokens) for _ in range(size)])[-1])
            lm.keep(range(size))
    assert close(logits[2], logits[-1])


class Slow(CudaGraphs):
    def __call__(self, *args, **kwargs):
        time.sleep(0.05)
        return super().__call__(*args, **kwargs)


class Wrong(CudaGraphs):
    def __call__(self, *args, **kwargs):
        return super().__call__(*args, **kwargs).flip(-1)


def unchanged(run):
    return run


@pytest.mark.parametrize("other", [Slow, Wrong])
def test_slower_or_different_passes_are_not_used(passes, other):
    assert capture.faster(passes, other(passes, capture=unchanged)) is passes


def test_faster_passes_are_used(passes):
    class Late(Modules):
        def __call__(self, *args, **kwargs):
            time.sleep(0.05)
            return super().__call__(*args, **kwargs)

    faster = CudaGraphs(passes, capture=unchanged)
    assert capture.faster(Late(passes.model), faster) is faster


def test_a_cpu_captures_nothing(passes):
    assert capture.capture_if_faster(passes) is passes


def test_passes_that_cannot_be_captured_are_launched_kernel_by_kernel(passes, monkeypatch, caplog):
    """The device claims to be a GPU, and torch's capture fails because there is none."""
    monkeypatch.setattr(Modules, "device", torch.device("cuda"))
    monkeypatch.setattr(Modules, "devices", {"cuda:0"})
    assert capture.capture_if_faster(passes) is passes
    assert "CUDA graphs are not used" in caplog.text
