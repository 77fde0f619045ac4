"""Unequal pairs: a draft model with fewer tokens or a shorter context than its target, and ids that a model lacks."""

from functools import cache

import pytest
from conftest import emitted, tiny

import lookahead
from lookahead import LookaheadError, MethodError, PromptError, SettingsError
from lookahead.engine.batch import Batch
from lookahead.engine.lane import Lane, split_options

pytestmark = pytest.mark.models

FEWER, SHORTER = 3000, 128
PROMPT = [*range(3200, 3216), 5, 6, 7, 5, 6, 7]  # most of these ids are not in the draft model's vocabulary
RULES = {"greedy": {}, "coupled": {"temperature": 1.0}, "rejection": {"temperature": 1.0, "rule": "rejection"}}


@pytest.fixture(scope="module", params=["llama", "qwen2", "gpt2"])
def pair(request, tmp_path_factory):
    folder, kind = tmp_path_factory.mktemp(request.param), request.param
    target = tiny(kind, folder / "target", seed=1)
    tiny(kind, folder / "draft", seed=1, vocab_size=FEWER, max_position_embeddings=SHORTER)
    return lookahead.load(f"{target}+{folder / 'draft'}", dtype="float32")


def written(pair, method, new=200, **options):
    return list(lookahead.decode(pair, PROMPT, method, max_new_tokens=new, k=3, details=False, **options))


@pytest.fixture(scope="module")
def naive(pair):
    """A function that returns the ids of naive decoding with a rule."""
    return cache(lambda rule: emitted(written(pair, "naive", **RULES[rule])))


def test_the_target_keeps_all_of_its_ids(pair):
    assert pair.target.vocab == 4096 and pair.drafts["draft"].vocab == FEWER
    steps = written(pair, "naive", temperature=1.0)
    assert max(emitted(steps)) >= FEWER


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("method", ["draft", "tree", "hybrid"])
def test_drafts_stay_within_the_draft_models_vocabulary_and_context(pair, naive, method, rule):
    steps = written(pair, method, **RULES[rule])
    assert len(emitted(steps)) == 200 or steps[-1].finish == "eos"
    assert len(PROMPT) + len(emitted(steps)) > SHORTER
    if rule != "rejection":
        assert emitted(steps) == naive(rule)
    length, by_model = len(PROMPT), []
    for step in steps[1:]:
        if step.draft.tokens and step.draft.sources[0] in ("draft", "tree"):
            by_model.append(length)
            assert max(step.draft.tokens) < FEWER
        length += len(step.emitted)
    assert len(by_model) > 10 and max(by_model) <= SHORTER


def test_a_batch_continues_after_the_draft_models_context(pair):
    settings, _ = split_options({"max_new_tokens": 150, "k": 3})
    lanes = [Lane(pair, prompt, "draft", settings) for prompt in (PROMPT, PROMPT[:9])]
    texts = {0: [], 1: []}
    for passed in Batch(lanes):
        for number, step in passed.steps.items():
            texts[number] += step.emitted
    for number, lane in enumerate(lanes):
        alone = lookahead.decode(pair, lane.prompt, "naive", max_new_tokens=150)
        assert texts[number] == emitted(alone)


def test_a_prompt_longer_than_the_draft_models_context_is_not_drafted_for(pair):
    long = PROMPT * 8
    assert len(long) > SHORTER
    steps = list(lookahead.decode(pair, long, "draft", max_new_tokens=20, k=3))
    assert emitted(steps) == emitted(lookahead.decode(pair, long, "naive", max_new_tokens=20))
    assert not any(step.draft.tokens for step in steps)


def test_assisted_generation_is_refused_if_it_would_fail(pair):
    with pytest.raises(MethodError, match="transformers requires the same vocabulary size for both models"):
        lookahead.decode(pair, PROMPT, "hf-assisted", max_new_tokens=20)


def test_assisted_generation_is_limited_to_the_draft_models_context(tmp_path):
    target, draft = tiny("llama", tmp_path / "a"), tiny("llama", tmp_path / "b", max_position_embeddings=SHORTER)
    pair = lookahead.load(f"{target}+{draft}", dtype="float32")
    with pytest.raises(
        SettingsError, match="the draft model's context holds 128 tokens; with this prompt choose at most 106"
    ):
        lookahead.decode(pair, PROMPT, "hf-assisted", max_new_tokens=107)
    within = emitted(lookahead.decode(pair, PROMPT, "hf-assisted", max_new_tokens=30))
    assert within == emitted(lookahead.decode(pair, PROMPT, "naive", max_new_tokens=30))


def test_a_prompt_with_tokens_that_the_model_lacks_is_refused(tmp_path):
    models = lookahead.load(tiny("llama", tmp_path, vocab_size=FEWER), dtype="float32")
    text = "Once" + models.tokenizer.decode([3500])
    assert max(models.tokenizer(text)["input_ids"]) >= FEWER
    for method in ("naive", "ngram"):
        with pytest.raises(PromptError, match="the model has no embedding for this token"):
            lookahead.decode(models, text, method)


@pytest.mark.parametrize("earlier", [[[4096]], [[1, 2, 3], [5, 10**9]]])
def test_earlier_texts_with_unknown_ids_are_refused(models, earlier):
    with pytest.raises(LookaheadError, match=r"earlier is .*give token ids from 0 to 4,095"):
        lookahead.decode(models, "Once", "suffix", earlier=earlier)
