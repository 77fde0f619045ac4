"""Schemas with the bundled models: every method writes naive's text, the text matches, and bad schemas are explained."""

import json
import random
import re

import jsonschema
import pytest
from agreement import assert_agrees
from conftest import daily, emitted, finished

import lookahead
from lookahead import METHODS, LookaheadError
from lookahead.core.schema import CHOICES, JSON, MAX_CHARACTERS, REGEX, Schema
from lookahead.drafting.grammar import FORCED

pytestmark = [pytest.mark.models, pytest.mark.split]

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "größe": {"enum": ["klein", "大"]},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1, "maxItems": 3},
    },
    "required": ["name", "age", "größe", "tags"],
    "additionalProperties": False,
}
PROMPT = "Name: Anna\nAge: 23\nThe same as JSON:\n"
NESTED = {"type": "object", "properties": {"x": {"$ref": "#"}}, "required": ["x"], "additionalProperties": False}


def text_of(models, schema, method="naive", **options):
    steps = list(lookahead.decode(models, PROMPT, method, schema=schema, **{"max_new_tokens": 90, **options}))
    return models.tokenizer.decode(emitted(steps), skip_special_tokens=True), steps


@pytest.mark.parametrize("temperature", [0.0, 0.9], ids=["greedy", "coupled"])
def test_every_method_writes_the_masked_text_of_naive(models, temperature):
    text, steps = text_of(models, PERSON, temperature=temperature, seed=5)
    jsonschema.validate(json.loads(text), PERSON)
    assert steps[-1].finish == "eos" and steps[-1].satisfied and all(step.mask_s > 0 for step in steps[1:])
    methods = daily([method for method in METHODS if method != "naive"])
    options = {"max_new_tokens": 90, "schema": PERSON, "temperature": temperature, "seed": 5}
    assert_agrees(models, PROMPT, "grammar", "hybrid", ("hybrid", {"grammar": 0}), *methods, **options)


def test_forced_tokens_are_accepted_and_save_passes(models):
    text, steps = text_of(models, PERSON, "grammar", k=8)
    forced = [
        status
        for step in steps
        for status, source in zip(step.statuses, step.draft.sources, strict=True)
        if source == FORCED
    ]
    assert len(forced) > 20 and forced.count("accepted") == len(forced), text
    assert len(steps) < 0.6 * len(emitted(steps))


@pytest.mark.parametrize(
    ("schema", "pattern"),
    [(["yes", "no", "a \"b\"/c"], 'yes|no|a "b"/c'), ("^[a-c]{3,5}-[0-9]{2}$", "[a-c]{3,5}-[0-9]{2}"), ("日本|größe", "日本|größe")],
    ids=["choices", "regex", "unicode"],
)  # fmt: skip
def test_choices_and_regular_expressions(models, schema, pattern):
    for method in ("naive", "hybrid"):
        text, steps = text_of(models, schema, method, temperature=0.8, rule="rejection")
        assert re.fullmatch(pattern, text) and steps[-1].finish == "eos"


def test_the_kind_of_a_schema_follows_from_its_text():
    kinds = {
        '{"type": "string"}': JSON,
        '["a", "b"]': CHOICES,
        "[ab]": REGEX,
        "[1]": REGEX,
        "true": REGEX,
        "yes|no": REGEX,
    }
    assert {text: Schema.from_text(text).kind for text in kinds} == kinds


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ('{"type": "strin', "not valid JSON in line 1"),
        ({"type": "strin"}, "Invalid type: strin"),
        ({"type": "array", "uniqueItems": True}, 'keywords "uniqueItems" are not supported'),
        ({"$ref": "https://example.com/s.json"}, "must name a part of this schema"),
        ({"$ref": "file:///etc/passwd"}, "must name a part of this schema"),
        (NESTED, "without end"),
        ({"type": "integer", "minimum": 5, "maximum": 3}, "no text satisfies it: minimum"),
        (r"[^\s\S]", "no text satisfies it"),
        ("(a", "unclosed group"),
        (r"(a)\1", "backreferences are not supported"),
        ("a(?=b)", "look-around"),
        ("\ud800", "surrogate"),
        ("x" * (MAX_CHARACTERS + 1), "at most 20,000 are allowed"),
        ('{"a":' * 3000, "nested too deeply"),
        ('{"items":' * 300 + "{}" + "}" * 300, "nested too deeply"),
        (5, "give a JSON schema"),
        ({"enum": [object()]}, "not JSON"),
        ({"allOf": [{"anyOf": [{"pattern": f"a{{{i}}}"} for i in range(30)]}] * 6}, "too large"),
    ],
    ids=range(18),
)  # fmt: skip
def test_bad_schemas_are_explained(models, schema, words):
    with pytest.raises(LookaheadError, match=re.escape(words)) as error:
        lookahead.decode(models, PROMPT, "grammar", schema=schema)
    assert error.value.field == "schema" and "\n" not in str(error.value)


def test_a_text_that_is_too_short_for_its_schema_says_how_far_it_came(models):
    race = lookahead.race(models, PROMPT, ["naive", "grammar"], schema=PERSON, max_new_tokens=9)
    trace = finished(race)
    assert trace.lanes[1].steps[-1].satisfied is False
    sentence = trace.verdict()["sentence"]
    assert "does not match its schema yet: it ends after 9 tokens" in sentence and "Allow more new tokens" in sentence


def test_a_trace_keeps_the_schema_and_the_time_of_its_masks(models):
    trace = finished(lookahead.race(models, PROMPT, ["naive", "grammar"], schema=["yes", "no"]))
    read = lookahead.Trace.from_json(trace.to_json())
    assert json.loads(read.settings.grammar) == ["yes", "no"]
    assert all(0 < read.stats(lane)["mask_fraction"] < 1 for lane in (0, 1))
    assert finished(lookahead.race(models, PROMPT, ["naive"], max_new_tokens=2)).stats(0)["mask_fraction"] is None


def test_masks_after_a_rollback_equal_those_of_a_new_matcher(models):
    schema, draws = json.dumps(PERSON), random.Random(1)
    followed, text = models.grammar(schema), []
    for _ in range(200):
        bits = followed.allowed(text)
        assert bits == models.grammar(schema).allowed(text)
        allowed = [token for token in range(models.target.vocab) if bits[token >> 3] >> (token & 7) & 1]
        text.append(draws.choice(allowed))
        if draws.random() < 0.3 or text[-1] in models.eos:
            del text[draws.randrange(len(text)) :]
