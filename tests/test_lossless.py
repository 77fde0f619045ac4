"""Lossless, on the bundled models: every strategy prints exactly what naive prints.

Where this machine is bit-exact any difference is a bug. Elsewhere (float32, no bf16 units) two
tokens whose logits tie to the last bits may swap; then the trace must say so itself.
"""

import pytest
import torch
from conftest import emitted

import lookahead
from lookahead import METHODS
from lookahead.cost import BIT_EXACT

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
OPENINGS = (
    "Once upon a time there was a {0} who", "{0} and {1} went to the park. They saw", "The {0} was very sad because",
    "Explain the {0} like I'm five years old.", "Name: {0}\nAge: 7\n\nName: {1}\nAge:", "def {0}(a, b):\n    return",
    "{0}, {1}, {0}, {1}, {0},", "What is 3 + 4? The {0} says", "[1, 2, 3, 1, 2, 3, 1,", "\"{0}!\" said the {1}. \"{0}!\" said",
)  # fmt: skip
WORDS = ("frog", "Lily", "dragon", "moon", "Ben", "robot", "\u96ea", "old king", "x1", "caf\u00e9")
HUNDRED = [opening.format(WORDS[i], WORDS[(i + 3) % 10]) for opening in OPENINGS for i in range(10)]


@pytest.mark.parametrize("temperature", [0.0, 0.9], ids=["greedy", "coupled"])
def test_every_method_writes_naives_ids_on_a_hundred_prompts(models, temperature):
    if models.exactness != BIT_EXACT:
        pytest.skip("not a bit-exact machine; test_exactness.py covers it")
    assert len(HUNDRED) == 100
    for seed, prompt in enumerate(HUNDRED):
        options = {"max_new_tokens": 10, "details": False, "temperature": temperature, "seed": seed}
        naive = emitted(lookahead.decode(models, prompt, method="naive", **options))
        for method in DRAFTING:
            assert emitted(lookahead.decode(models, prompt, method=method, **options)) == naive, (method, prompt)


@pytest.mark.parametrize("method", DRAFTING)
@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_ids_equal_naives(models, method, changes):
    if models.exactness != BIT_EXACT:
        pytest.skip("not a bit-exact machine; test_exactness.py covers it")
    for i, prompt in enumerate(PROMPTS):
        options = {"max_new_tokens": 24, "details": False, **changes}
        naive = emitted(lookahead.decode(models, prompt, method="naive", **options))
        k = LENGTHS[i % len(LENGTHS)]
        assert emitted(lookahead.decode(models, prompt, method=method, k=k, **options)) == naive, (prompt, k)


def test_naive_is_what_transformers_generate_writes(models):
    if models.exactness != BIT_EXACT:
        pytest.skip("not a bit-exact machine")
    for prompt in PROMPTS:
        ids = models.tokenizer(prompt)["input_ids"]
        naive = emitted(lookahead.decode(models, ids, method="naive", max_new_tokens=40))
        theirs = models.target.model.generate(torch.tensor([ids]), max_new_tokens=40, do_sample=False)
        assert theirs[0, len(ids) :].tolist() == naive


def test_self_drafting_is_accepted_in_full(models):
    """The target as its own draft: every drafted token of every step stands."""
    import dataclasses

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
    import dataclasses

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
        assert stop not in models.tokenizer.decode(ids[:-1]), "it ends with the token that completes the stop string"


def test_a_closed_run_leaves_the_models_usable(models):
    want = emitted(lookahead.decode(models, PROMPTS[0], method="draft", max_new_tokens=20))
    running = lookahead.decode(models, PROMPTS[1], method="draft", max_new_tokens=50)
    for _ in range(3):
        next(running)
    running.close()
    assert emitted(lookahead.decode(models, PROMPTS[0], method="draft", max_new_tokens=20)) == want


def test_the_context_may_be_filled_to_the_last_token(models):
    room = models.target.context_length
    ids = (models.tokenizer(PROMPTS[0])["input_ids"] * 200)[: room - 12]
    naive = list(lookahead.decode(models, ids, method="naive", max_new_tokens=200))
    assert naive[-1].finish in ("context", "eos")
    for method in DRAFTING:
        ours = emitted(lookahead.decode(models, ids, method=method, max_new_tokens=200, k=8))
        assert ours == emitted(naive), method
