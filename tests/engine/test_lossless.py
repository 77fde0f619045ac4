"""Lossless decoding with the bundled models: every strategy writes exactly the same text as naive.

If this machine is bit-exact, any difference is a bug. Otherwise (float32, no bf16 units) two tokens with nearly equal logits
may swap. Then the trace must report it.
"""

import dataclasses
import itertools

import pytest
import torch
from agreement import assert_agrees
from conftest import daily, emitted
from prompts import HUNDRED

import lookahead
from lookahead import METHODS
from lookahead.engine import external
from lookahead.trace.agreement import TIE, TIES

pytestmark = [pytest.mark.split, pytest.mark.every_day]

PROMPTS = (
    "Once upon a time there was a small frog who",
    "Lily and Ben went to the park. They saw a big",
    "Name: Anna\nAge: 23\nCity: Denver\n\nName: Ben\nAge: 31\nCity: Miami\n\nName: Lily\nAge:",
    "def add(a, b):\n    return",
    "Zo\u00eb \U0001f438 said: \u201cna\u00efve\u201d",
    "the the the the the the",
)
CHANGES = (
    {"repetition_penalty": 1.2}, {"temperature": 0.7},
    {"temperature": 1.0, "top_p": 0.9, "top_k": 50, "seed": 5, "repetition_penalty": 1.1},
)  # fmt: skip
LENGTHS = (1, 4, 8)
DRAFTING = [m for m in METHODS if m != "naive"]
OURS = [m for m in DRAFTING if m not in external.EXTERNAL]


@pytest.mark.parametrize("temperature", [0.0, 0.9], ids=["greedy", "coupled"])
def test_a_hundred_prompts_have_the_same_text_as_naive(models, temperature):
    """Two methods per prompt, in turn. The property tests draw the other pairs."""
    assert len(HUNDRED) == 100
    methods = itertools.cycle(OURS)
    for seed, prompt in enumerate(HUNDRED):
        options = {"max_new_tokens": 10, "details": False, "temperature": temperature, "seed": seed}
        naive = emitted(lookahead.decode(models, prompt, method="naive", **options))
        for method in itertools.islice(methods, 2):
            if emitted(lookahead.decode(models, prompt, method=method, **options)) != naive:
                assert_agrees(models, prompt, method, **options)


@pytest.mark.parametrize("changes", daily(CHANGES), ids=str)
def test_ids_equal_naives(models, changes):
    for i, prompt in enumerate(PROMPTS):
        methods = DRAFTING if i < 2 else OURS  # transformers' methods are slow
        assert_agrees(models, prompt, *methods, max_new_tokens=16, k=LENGTHS[i % len(LENGTHS)], **changes)


def test_naive_writes_the_same_text_as_generate_of_transformers(models):
    for prompt in PROMPTS:
        ids = models.tokenizer(prompt)["input_ids"]
        naive = list(lookahead.decode(models, ids, method="naive", max_new_tokens=40))
        generated = models.target.model.generate(torch.tensor([ids]), max_new_tokens=40, do_sample=False)
        generated, tokens = generated[0, len(ids) :].tolist(), emitted(naive)
        if generated != tokens:  # their prefill has other row counts: only if two logits tie
            different = next(i for i, (a, b) in enumerate(zip(generated, tokens, strict=False)) if a != b)
            assert naive[1 + different].tests[-1].margin < TIES.get(models.dtype, TIE)


def test_self_drafting_is_accepted_in_full(models):
    """With the target as its own draft model every drafted token is accepted."""
    selfish = dataclasses.replace(models, drafts={"draft": models.target})
    for changes in ({}, {"temperature": 0.9}, {"temperature": 0.9, "rule": "rejection"}):
        for prompt in PROMPTS[:3]:
            steps = list(lookahead.decode(selfish, prompt, method="draft", k=4, max_new_tokens=40, **changes))[1:]
            whole = [step for step in steps if not step.finish]
            assert [step.accepted for step in whole] == [4] * len(whole)
            assert all(step.statuses == ("accepted",) * 4 for step in whole)
            assert all(step.origins == ("accepted",) * 4 + ("bonus",) for step in whole)
            assert steps[-1].accepted >= min(4, len(steps[-1].draft)) or steps[-1].finish


def test_stop_strings_cut_inside_an_accepted_run(models):
    selfish = dataclasses.replace(models, drafts={"draft": models.target})
    prompt = PROMPTS[0]
    whole = emitted(lookahead.decode(models, prompt, method="naive", max_new_tokens=60))
    text = models.tokenizer.decode(whole)
    stop = text[40:46]
    for method, family in (("naive", models), ("draft", selfish), ("ngram", models)):
        steps = list(lookahead.decode(family, prompt, method=method, k=6, max_new_tokens=60, stop=(stop,)))
        ids = emitted(steps)
        assert steps[-1].finish == "stop"
        assert ids == whole[: len(ids)]
        out = models.tokenizer.decode(ids)
        assert stop in out
        assert stop not in models.tokenizer.decode(ids[:-1]), (
            "the text ends with the token that completes the stop string"
        )


def test_a_closed_run_leaves_the_models_usable(models):
    expected = emitted(lookahead.decode(models, PROMPTS[0], method="draft", max_new_tokens=20))
    running = lookahead.decode(models, PROMPTS[1], method="draft", max_new_tokens=50)
    for _ in range(3):
        next(running)
    running.close()
    assert emitted(lookahead.decode(models, PROMPTS[0], method="draft", max_new_tokens=20)) == expected


def test_the_context_may_be_filled_to_the_last_token(models):
    """With the target's first layers: the same positions and kernels in a fifth of the time."""
    target = lookahead.CachedLM(models.target.passes.first(2), models.target.vocab)
    family = dataclasses.replace(models, target=target)
    ids = (models.tokenizer(PROMPTS[0])["input_ids"] * 200)[: target.context_length - 12]
    assert list(lookahead.decode(family, ids, method="naive", max_new_tokens=200))[-1].finish in ("context", "eos")
    assert_agrees(family, ids, *DRAFTING, max_new_tokens=200, k=8)
