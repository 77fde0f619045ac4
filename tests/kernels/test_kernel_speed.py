"""A speed gate with wide margins: on the processor of the tests, the kernels must be faster than torch."""

import statistics
from time import perf_counter

import pytest
import torch
from torch.nn.functional import linear

pytestmark = [pytest.mark.models, pytest.mark.timed]


@torch.inference_mode()
def test_a_pass_is_faster_than_torchs_products(models):
    """One row of the bundled target is compared with torch's float32 products of the same sizes, on one thread each."""
    lm = models.target.fresh()
    lm.extend([1] * 32)
    weights = [w.float() for layer in models.target.passes.weights.layers for w in layer.products]
    weights.append(models.target.passes.tables[1].float())
    inputs = [torch.randn(1, weight.shape[1]) for weight in weights]

    def ours():
        lm.forward([1])

    def torchs():
        for x, weight in zip(inputs, weights, strict=True):
            linear(x, weight)

    models.use_threads()
    ratios = []
    for _ in range(60):
        seconds = {}
        for work in (ours, torchs):
            start = perf_counter()
            work()
            seconds[work] = perf_counter() - start
        ratios.append(seconds[ours] / seconds[torchs])
    assert statistics.median(ratios) < 1.0
