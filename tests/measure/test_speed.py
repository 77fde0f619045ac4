"""Speed, with wide margins: naive decoding is as fast as transformers', and drafting is faster than naive decoding.

Runs alternate and results are medians, so noise affects both sides. Measured speedups are in docs/benchmarks.md.
"""

import statistics
from time import perf_counter

import pytest
import torch
from conftest import POCKET, emitted
from transformers import AutoModelForCausalLM

import lookahead
from lookahead import Settings
from lookahead.engine.lane import Lane
from lookahead.measure.timing import time_lane

pytestmark = [pytest.mark.models, pytest.mark.timed]
PROMPT = "Once upon a time there was a small frog who"
RECORDS = "Name: Anna\nAge: 23\nCity: Denver\n\nName: Ben\nAge: 31\nCity: Miami\n\nName: Lily\nAge:"


@pytest.fixture(autouse=True)
def fast_format(models):
    if models.dtype != "bfloat16":
        pytest.skip("float32 machine: a second row costs half a pass")


def test_naive_is_as_fast_as_the_generate_of_transformers(models):
    model = AutoModelForCausalLM.from_pretrained(POCKET / "target", dtype=torch.bfloat16).eval()
    ids, new = models.tokenizer(PROMPT)["input_ids"], 64

    def generate():
        with torch.inference_mode():
            model.generate(torch.tensor([ids]), max_new_tokens=new, min_new_tokens=new, do_sample=False)

    def naive():
        assert len(emitted(lookahead.decode(models, ids, method="naive", max_new_tokens=new, details=False))) == new

    ratios = []
    for repetition in range(7):
        seconds = {}
        for work in (generate, naive) if repetition % 2 else (naive, generate):
            start = perf_counter()
            work()
            seconds[work] = perf_counter() - start
        ratios.append(seconds[generate] / seconds[naive])
    assert statistics.median(ratios[2:]) >= 0.98


@pytest.mark.parametrize(("prompt", "method", "least"), [(PROMPT, "draft", 1.05), (RECORDS, "ngram", 2.0)])
def test_drafting_pays(models, prompt, method, least):
    def seconds(name):
        return time_lane(Lane(models, prompt, name, Settings(max_new_tokens=96, details=False))).seconds

    seconds(method)
    ratios = [seconds("naive") / seconds(method) for _ in range(5)]
    assert statistics.median(ratios) >= least


def test_a_useless_draft_model_costs_little(models, tmp_path):
    """With k = auto and a random draft model, drafting stops, and the lane is almost as fast as naive."""
    import dataclasses

    from conftest import tiny

    from lookahead.model.modules import ATTENTION

    folder = tiny("llama", tmp_path / "random", layers=1)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, attn_implementation=ATTENTION)
    useless = dataclasses.replace(models, drafts={"draft": lookahead.CachedLM(model.eval(), 4096)})

    def seconds(name):
        return time_lane(Lane(useless, PROMPT, name, Settings(max_new_tokens=128, details=False))).seconds

    seconds("draft")
    assert statistics.median(seconds("naive") / seconds("draft") for _ in range(5)) >= 0.85
