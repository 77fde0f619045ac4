"""A pretrained model in all parts: SmolLM2 with a vocabulary of 49,152 tokens, grouped queries and a chat template.

requirements-smol.txt installs it. CI requires it; elsewhere the tests are skipped without it.
"""

from __future__ import annotations

import json
import os
import re

import jsonschema
import pytest
import torch
from conftest import ROOT, daily, emitted, finished
from scipy.stats import chisquare

import lookahead
from lookahead.core.events import BIT_EXACT, SettingsError
from lookahead.engine.lane import decode
from lookahead.engine.methods import methods_for
from lookahead.family import sources
from lookahead.measure import prompt_files
from lookahead.measure.scenarios import ANSWERS
from lookahead.trace.race import race
from lookahead.trace.trace import Trace

SOURCE = sources.named("smol")
there = SOURCE.gguf or SOURCE.local_copy()
pytestmark = [
    pytest.mark.models,
    pytest.mark.skipif(not there and not os.environ.get("CI"), reason="requirements-smol.txt is not installed"),
]
TOKENS = 20
COPY = next(scenario for scenario in ANSWERS if scenario.id == "smol-copy")


@pytest.fixture(scope="module")
def smol():
    """The family. The target is downloaded first if necessary."""
    return lookahead.load("smol")


@pytest.fixture(scope="module")
def naive(smol):
    """The naive text by temperature."""
    return {temperature: written(smol, "naive", temperature) for temperature in (0.0, 0.8)}


def written(family, method, temperature, **options):
    options = {"max_new_tokens": TOKENS, "chat": True, "seed": 3, **options}
    return emitted(decode(family, COPY.prompt, method, temperature=temperature, **options))


def test_the_family_has_the_documented_properties(smol):
    assert smol.names["target"] == "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert smol.target.vocab == 49_152 and smol.target.passes.size > 130e6
    shape = smol.target.passes.shape
    assert shape.heads == 3 * shape.kv_heads, "grouped queries"
    assert smol.exactness == BIT_EXACT, smol.probe.sentence
    head = smol.heads["block"]
    assert head.shape.draft_vocab == 8192
    files = [path for path in (sources.BUNDLED / "smol").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 18e6 and max(path.stat().st_size for path in files) < 9.5e6


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_every_method_writes_the_same_text_as_naive(smol, naive, temperature):
    methods = [method for method in methods_for(smol) if method != "naive"]
    assert {"hybrid", "block", "block-tree", "ngram", "suffix", "lookahead", "self", "hf-generate"} <= set(methods)
    for method in methods:
        if temperature and method.startswith("hf-"):
            continue  # they draw other random numbers
        assert written(smol, method, temperature) == naive[temperature], method


def test_every_text_with_a_schema_is_valid_and_naives(smol):
    """The 20 schemas of the bench; under CI a part of them."""
    for question in daily(prompt_files.read(ROOT / "docs" / "schemas.jsonl"), 20):
        schema = question.settings["schema"]
        options = {"schema": schema, "chat": True, "max_new_tokens": 160, "details": False}
        naive = emitted(decode(smol, question.prompt, "naive", **options))
        text = smol.tokenizer.decode(naive, skip_special_tokens=True)
        if isinstance(schema, dict):
            jsonschema.validate(json.loads(text), schema)
        else:
            assert text in schema if isinstance(schema, list) else re.fullmatch(schema, text)
        for method, changes in (("grammar", {}), ("hybrid", {}), ("hybrid", {"grammar": 0})):
            steps = list(decode(smol, question.prompt, method, **options, **changes))
            assert emitted(steps) == naive and steps[-1].satisfied, (question.id, method, changes)


def test_a_race_separates_the_typed_prompt_from_the_template(smol):
    running = race(smol, COPY.prompt, methods=["naive"], chat=True, max_new_tokens=2)
    list(running)
    prompt = running.result().prompt
    assert prompt.typed == prompt.shown == running.prompt_text == COPY.prompt
    assert prompt.text.startswith("system\n") and prompt.text.rstrip().endswith("assistant")


def test_a_copy_takes_few_passes(smol):
    trace = finished(race(smol, COPY.prompt, ["naive", "hybrid"], max_new_tokens=48, chat=True))
    alone, drafted = ([step for step in lane.steps if step.kind == "verify"] for lane in trace.lanes)
    assert trace.agreement(1)["identical"]
    assert len(drafted) < 0.7 * len(alone)
    again = Trace.from_json(trace.to_json())
    assert again.models.spec == "smol" and again.models.heads["block"].name == trace.models.heads["block"].name


def test_the_rejection_rule_keeps_the_distribution_of_a_reduced_vocabulary(smol):
    """The first drafted token is accepted or replaced. The emitted token has the target's distribution."""
    prompt = smol.tokenizer("The color of the")["input_ids"]
    lm = smol.target.fresh()
    p = torch.softmax(lm.extend(prompt)[0].double(), -1)
    likely = p.topk(6).indices.tolist()
    draws, counts = 160, dict.fromkeys([*likely, -1], 0)
    for seed in range(draws):
        options = {"temperature": 1.0, "rule": "rejection", "max_new_tokens": 2, "k": 1, "seed": seed, "details": False}
        step = next(step for step in decode(smol, prompt, "block", **options) if step.kind == "verify")
        assert step.tests[0].q is not None, "a drafted token was tested"
        counts[step.emitted[0] if step.emitted[0] in counts else -1] += 1
    expected = [draws * float(p[token]) for token in likely]
    expected.append(draws - sum(expected))
    assert chisquare(list(counts.values()), expected).pvalue > 1e-4


def test_impossible_settings_raise_clear_errors(smol):
    with pytest.raises(SettingsError, match="context holds"):
        written(smol, "naive", 0.0, max_new_tokens=100_000)
    with pytest.raises(lookahead.ModelError, match="no such draft model"):
        written(smol, "draft", 0.0)
