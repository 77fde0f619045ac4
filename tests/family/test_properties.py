"""Property tests of exactness: any prompt, method, draft length, tree shape, rule, seed and context length.

The number of examples is small and fixed; LOOKAHEAD_EXAMPLES sets another. `test_exactness.py` runs this file again with the
processor's newer instructions hidden.
"""

import os
import random

import pytest
import torch
from agreement import assert_agrees
from conftest import emitted
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lookahead
from lookahead import METHODS
from lookahead.core import tree
from lookahead.core.events import BIT_EXACT
from lookahead.model.layer_skip import shallow

EXAMPLES = int(os.environ.get("LOOKAHEAD_EXAMPLES", "12"))
FIXED = settings(
    max_examples=EXAMPLES, deadline=None, derandomize=EXAMPLES < 100, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
OURS = [m for m in METHODS if m not in ("naive", "hf-assisted", "hf-lookup")]
OPTIONS = {
    "tree": st.fixed_dictionaries({"branches": st.integers(1, 8), "rows": st.integers(1, 64)}),
    "ngram": st.fixed_dictionaries({"shortest": st.integers(1, 3), "candidates": st.integers(1, 8)}),
    "suffix": st.fixed_dictionaries({"shortest": st.integers(1, 3), "candidates": st.integers(1, 8)}),
    "lookahead": st.fixed_dictionaries(
        {"window": st.integers(0, 15), "ngram": st.sampled_from([0, 2, 3, 5]), "guesses": st.integers(0, 15)}
    ),
    "draft": st.sampled_from([{"draft": "draft"}, {"draft": "offdomain"}]),
}
LENGTHS = st.one_of(st.integers(1, 1000), st.sampled_from([126, 127, 128, 254, 255, 256, 511, 512, 640, 895, 1000]))


@st.composite
def lanes(draw):
    """Draw a method and options for it."""
    method = draw(st.sampled_from(OURS))
    return method, draw(OPTIONS.get(method, st.just({})))


@st.composite
def prompts(draw, models):
    """Draw up to 1,000 ids: runs of tokens of a short text, so that n-grams repeat."""
    text = "Once upon a time Lily and Ben saw a big red frog. Name: Anna Age: 7 def add(a, b): 1, 2, 3,"
    tokens, draws = models.tokenizer(text)["input_ids"], random.Random(draw(st.integers(0, 1 << 30)))
    ids, length = [], draw(LENGTHS)
    while len(ids) < length:
        start = draws.randrange(len(tokens))
        ids += tokens[start : start + draws.randint(1, 12)]
    return ids[:length]


@FIXED
@given(data=st.data())
def test_every_lane_writes_the_text_of_naive(models, data):
    prompt = data.draw(prompts(models), label="prompt")
    temperature = data.draw(st.sampled_from([0.0, 0.0, 0.7, 1.0, 1.3]), label="temperature")
    assert_agrees(
        models,
        prompt,
        data.draw(lanes(), label="lane"),
        max_new_tokens=12,
        k=data.draw(st.one_of(st.just("auto"), st.integers(0, 64)), label="k"),
        temperature=temperature,
        top_p=data.draw(st.sampled_from([1.0, 0.9]), label="top_p") if temperature else 1.0,
        repetition_penalty=data.draw(st.sampled_from([1.0, 1.0, 1.2]), label="penalty"),
        seed=data.draw(st.integers(0, 1 << 20), label="seed"),
    )


@FIXED
@given(data=st.data())
def test_rejection_writes_the_same_text_for_the_same_seed(models, data):
    method, method_options = data.draw(lanes(), label="lane")
    options = {
        "k": data.draw(st.integers(0, 64), label="k"), "rule": "rejection", "temperature": 1.0, "max_new_tokens": 6,
        "details": False, "seed": data.draw(st.integers(0, 1 << 20), label="seed"),
    }  # fmt: skip
    prompt = data.draw(prompts(models), label="prompt")[:200]
    first, second = (
        emitted(lookahead.decode(models, prompt, method=method, **options, **method_options)) for _ in range(2)
    )
    assert first == second
    assert 1 <= len(first) <= 6


@st.composite
def trees(draw, most=64):
    """Draw the parents of a pass of up to `most` rows: chains, wide, deep and other trees. The first row follows the text."""
    rows = draw(st.integers(1, most))
    reach = draw(st.sampled_from([1, 2, 4, 64]))
    draws = random.Random(draw(st.integers(0, 1 << 30)))
    return [-1, *(draws.randrange(max(0, i - reach), i) for i in range(1, rows))]


@pytest.fixture(scope="module")
def first_layer(models):
    """The target's first layer and its output head, with the same kernels in a tenth of the time."""
    return shallow(models.target)


@settings(FIXED, max_examples=8 * EXAMPLES)
@given(parents=trees(), length=LENGTHS, seed=st.integers(0, 1 << 20))
@torch.inference_mode()
def test_a_row_has_the_same_bits_with_other_rows_as_alone(models, first_layer, parents, length, seed):
    lm, draws = first_layer, random.Random(seed)
    text = [draws.randrange(lm.vocab) for _ in range(length)]
    rows = [draws.randrange(lm.vocab) for _ in parents]
    path = tree.ancestors(parents, draws.randrange(len(parents)))
    lm.reset()
    lm.extend(text)
    alone = []
    for row in path:
        alone.append(lm.forward([rows[row]])[0].clone())
        lm.keep([0])
    lm.sync([*text, 0])
    together = lm.forward(rows, parents)
    exact = models.exactness == BIT_EXACT
    for row, logits in zip(path, alone, strict=True):
        same = torch.equal(together[row], logits)
        assert same if exact else torch.allclose(together[row].float(), logits.float(), atol=0.1, rtol=0.05)
