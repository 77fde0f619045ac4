"""transformers' own speculation as a lane: the same ids, measured step times, and no side effects."""

import copy

import pytest
import torch
from conftest import emitted, finished
from transformers import GenerationConfig

import lookahead
from lookahead.engine import external as peers
from lookahead.engine.lane import Lane
from lookahead.measure.timing import time_lane

PROMPT = "Once upon a time there was a small frog who"
PEERS = tuple(peers.EXTERNAL)
DRAFTING = ("hf-assisted", "hf-lookup")


@pytest.mark.parametrize("method", DRAFTING)
def test_steps_are_recorded_and_marked_as_opaque(models, method):
    repeating = "Item: apples\nPrice: 20\n\nItem: pears\nPrice: 31\n\nItem: books\nPrice:"
    steps = list(lookahead.decode(models, repeating, method=method, max_new_tokens=40))
    assert steps[0].kind == "prefill"
    assert steps[0].verify_s > 0
    assert len(emitted(steps)) == 40
    assert steps[-1].finish == "length"
    assert all(step.verify_s > 0 for step in steps[2:])
    assert all(not len(step.draft) and not step.tests for step in steps)
    assert any(step.accepted for step in steps), "some drafted tokens were accepted"
    assert len(steps) < 41
    trace = finished(lookahead.race(models, PROMPT, ["naive", method], max_new_tokens=24))
    assert trace.lanes[1].opaque
    assert trace.agreement(1)["identical"]
    assert trace.stats(1)["draft_acceptance_rate"] is None
    assert "does not report its drafts" in trace.verdict()["sentence"]
    assert "default generation configuration" in trace.verdict()["sentence"]
    assert lookahead.Trace.from_json(trace.to_json()) == trace


def test_the_configuration_is_restored_also_if_a_run_is_closed(models):
    before = copy.deepcopy(models.drafts["draft"].model.generation_config.to_dict())
    for k in (3, 8):
        running = lookahead.decode(models, PROMPT, method="hf-assisted", k=k, max_new_tokens=60)
        next(running), next(running), next(running)
        running.close()
        list(lookahead.decode(models, PROMPT, method="hf-assisted", k=k, max_new_tokens=20))
    assert models.drafts["draft"].model.generation_config.to_dict() == before
    assert torch.is_grad_enabled()
    running = lookahead.decode(models, PROMPT, method="hf-assisted", attention="sdpa", max_new_tokens=60)
    next(running), next(running)
    running.close()
    assert {lm.model.config._attn_implementation for lm in models.drafts.values()} == {"lookahead"}
    assert models.target.model.config._attn_implementation == "lookahead"


def test_plain_generate_is_a_lane_too(models):
    steps = list(lookahead.decode(models, PROMPT, method="hf-generate", max_new_tokens=12))
    assert [len(step.emitted) for step in steps] == [0] + [1] * 12
    with pytest.raises(lookahead.LookaheadError, match="attention"):
        lookahead.decode(models, PROMPT, method="hf-generate", attention="quick")


def test_runs_do_not_leak_into_each_other(models):
    def passes():
        return [len(s.emitted) for s in lookahead.decode(models, PROMPT, method="hf-assisted", max_new_tokens=48)]

    first = passes()
    list(lookahead.decode(models, "Name: Anna\nAge:", method="hf-assisted", max_new_tokens=30, k=2))
    assert passes() == first


def test_k_sets_their_draft_length(models):
    longest = {}
    for k in (1, 6):
        steps = lookahead.decode(models, PROMPT, method="hf-assisted", k=k, max_new_tokens=60)
        longest[k] = max(len(step.emitted) for step in steps)
    assert longest[1] <= 2
    assert longest[6] > 2


def test_ends_cut_at_the_same_token_as_naive(models):
    whole = emitted(lookahead.decode(models, PROMPT, method="naive", max_new_tokens=60))
    stop = models.tokenizer.decode(whole)[40:46]
    expected = emitted(lookahead.decode(models, PROMPT, method="naive", max_new_tokens=60, stop=(stop,)))
    for method in PEERS:
        steps = list(lookahead.decode(models, PROMPT, method=method, max_new_tokens=60, stop=(stop,)))
        assert emitted(steps) == expected
        assert steps[-1].finish == "stop"


def test_with_the_rejection_rule_they_sample_by_seed(models):
    def text(seed):
        options = {"max_new_tokens": 30, "temperature": 1.0, "rule": "rejection", "seed": seed}
        return emitted(lookahead.decode(models, PROMPT, method="hf-assisted", **options))

    assert text(1) == text(1)
    assert text(1) != text(2)


def test_interleaved_lanes_write_the_same_text_as_alone(models):
    """Two external generators and naive are interleaved pass by pass."""
    names = ("naive", "hf-lookup", "hf-assisted")
    alone = [emitted(lookahead.decode(models, PROMPT, method=m, max_new_tokens=24)) for m in names]
    running = [lookahead.decode(models, PROMPT, method=m, max_new_tokens=24) for m in names]
    written = [[] for _ in names]
    live = set(range(len(names)))
    while live:
        for i in sorted(live):
            step = next(running[i])
            written[i] += step.emitted
            if step.finish:
                live.discard(i)
    assert written == alone


@pytest.mark.timed
def test_draft_is_faster_than_assisted_generation(models):
    """The results of docs/benchmarks.md with wide margins; run `bench` for the speedup of this machine."""
    if models.dtype != "bfloat16":
        pytest.skip("float32 machine")
    from statistics import median

    def seconds(method, **settings):
        options = {"max_new_tokens": 64, "details": False, **settings}
        return time_lane(Lane(models, PROMPT, method, lookahead.Settings(**options))).seconds

    for method in ("draft", "hf-assisted"):
        seconds(method)
    assert median(seconds("hf-assisted", k=5) / seconds("draft") for _ in range(7)) > 1.2


CONFIGURED = {
    "num_beams": {"num_beams": 3},
    "sampling": {"do_sample": True, "temperature": 0.3, "top_k": 5, "top_p": 0.5},
    "stop_strings": {"stop_strings": ["a"]},
    "max_time": {"max_time": 0.0},
    "max_length": {"max_length": 3},
    "min_new_tokens": {"min_new_tokens": 5},
    "static_cache": {"cache_implementation": "static"},
    "no_cache": {"use_cache": False},
    "suppress_tokens": {"suppress_tokens": [*range(300, 2000)]},
    "begin_suppress_tokens": {"begin_suppress_tokens": [*range(300, 2000)]},
    "bad_words_ids": {"bad_words_ids": [[token] for token in range(300, 600)]},
    "guidance_scale": {"guidance_scale": 2.0},
    "forced_bos": {"forced_bos_token_id": 7},
    "forced_eos": {"forced_eos_token_id": 7},
    "repetition_penalty": {"repetition_penalty": 3.0},
    "no_repeat_ngram_size": {"no_repeat_ngram_size": 1},
    "sequence_bias": {"sequence_bias": [[[500], -50.0]]},
    "penalty_alpha": {"penalty_alpha": 0.6},
    "num_return_sequences": {"num_return_sequences": 2, "num_beams": 2},
    "scores": {"return_dict_in_generate": True, "output_scores": True},
}


@pytest.mark.parametrize("configured", CONFIGURED.values(), ids=CONFIGURED)
def test_a_models_own_generation_config_changes_no_lane(models, monkeypatch, configured):
    """`generation_config.json` may have any setting. All lanes of a race use only the settings of the race."""
    naive = emitted(lookahead.decode(models, PROMPT, "naive", max_new_tokens=12))
    for lm in (models.target, models.drafts["draft"]):
        monkeypatch.setattr(lm.model, "generation_config", GenerationConfig(**configured))
    for method in ("hf-generate", "hf-assisted", "hf-lookup"):
        assert emitted(lookahead.decode(models, PROMPT, method, max_new_tokens=12)) == naive, method
        assert models.target.model.generation_config.to_dict() == GenerationConfig(**configured).to_dict()


def test_an_error_of_transformers_names_the_method(models, monkeypatch):
    """For example, an IndexError after a text that is too long for the draft model of another tokenizer."""
    monkeypatch.setattr(type(models.target), "generate", lambda *_, **__: [][0])
    for method in ("hf-generate", "hf-assisted", "hf-lookup"):
        with pytest.raises(lookahead.MethodError, match=f"{method}.*transformers failed .*IndexError.*choose a method"):
            list(lookahead.decode(models, "Once", method, max_new_tokens=4))
