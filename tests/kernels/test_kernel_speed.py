"""A speed gate with wide margins: on the processor of the tests, the kernels must be faster than torch."""

import statistics
from time import perf_counter

import pytest
import torch
from torch.nn.functional import linear
from transformers import Qwen2Config, Qwen2ForCausalLM

from lookahead.kernels import CachedLM, Llama
from lookahead.model.modules import ATTENTION, Modules

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
    assert median_ratio(ours, torchs) < 1.0


@torch.inference_mode()
def test_a_pass_is_faster_than_transformers_modules():
    """One row of a random Qwen2 with the layers of one with 0.5 billion parameters, in bfloat16, on one thread each."""
    config = Qwen2Config(
        vocab_size=4096, hidden_size=896, intermediate_size=4864, num_hidden_layers=6, num_attention_heads=14,
        num_key_value_heads=2, tie_word_embeddings=True,
    )  # fmt: skip
    model = Qwen2ForCausalLM._from_config(config, dtype=torch.bfloat16, attn_implementation=ATTENTION).eval()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    lms = CachedLM(model), CachedLM(Modules(model))
    assert type(lms[0].passes) is Llama
    for lm in lms:
        lm.extend([1] * 64)
    assert median_ratio(*(lambda lm=lm: lm.forward([1]) for lm in lms)) < 1.0
    torch.set_num_threads(threads)


def median_ratio(first, second, repeats=60):
    """Return the median quotient of the seconds of two functions, which run in turn."""
    ratios = []
    for _ in range(repeats):
        seconds = []
        for work in (first, second):
            start = perf_counter()
            work()
            seconds.append(perf_counter() - start)
        ratios.append(seconds[0] / seconds[1])
    return statistics.median(ratios)
