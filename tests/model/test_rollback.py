"""Rollback of every kind of layer: trees, rejected drafts, interrupted passes, and the number of passes."""

from __future__ import annotations

import random
from functools import partial

import pytest
import torch
from conftest import emitted, table_steps
from models.architectures import build, config_of

from lookahead.core.events import Draft, ModelError, Settings
from lookahead.core.tree import ancestors
from lookahead.drafting.base import Drafter
from lookahead.model import loading
from lookahead.model.cache import KeyValueCache
from lookahead.model.lm import CachedLM
from lookahead.model.modules import ATTENTION, Modules, rollback_of
from lookahead.model.recurrent import StateCache

pytestmark = pytest.mark.models
WINDOWS = ("mistral", "gemma2", "gpt_oss", "cohere2")  # windows of 8 tokens
HYBRID = "qwen3_next"
RECURRENT = (HYBRID, "mamba", "falcon_h1", "lfm2")
OUTSIDE = ("rwkv", "xlstm", "recurrent_gemma")  # states outside transformers' cache
# Trees as batches of paths: no positions, ALiBi, a window in the model's own mask, an indexer; the last two are recurrent.
PATHS = ("bart", "bloom", "phimoe", "dots3_note_text", "minimax", "qwen4_exp_text")
SETTINGS = Settings(max_new_tokens=40, details=False)
PROMPT = (5, 6, 7, 8, 9)
TOLERANCE = 2e-3  # of a logit, in float32


@pytest.fixture(scope="module", params=[*WINDOWS, *RECURRENT, *OUTSIDE, *PATHS, "mllama"])
def passes(request):
    return Modules(build(request.param, attention="eager" if request.param in PATHS else ATTENTION))


def text(draws, count):
    return [draws.randrange(3, 120) for _ in range(count)]


def shape(draws, rows):
    return [-1, *(draws.randrange(max(0, i - 3), i) for i in range(1, rows))]


def after(passes, tokens):
    """Return the logits after these tokens, computed at once."""
    return CachedLM(passes).extend(tokens)[0]


def test_a_row_of_a_tree_sees_its_ancestors_only(passes):
    draws = random.Random(1)
    lm, context = CachedLM(passes), text(draws, 19)
    lm.extend(context)
    for _ in range(3):
        tokens, parents = text(draws, 12), shape(draws, 12)
        logits = lm.forward(tokens, parents)
        for row in range(12):
            path = [tokens[i] for i in ancestors(parents, row)]
            assert torch.allclose(logits[row], after(passes, [*context, *path]), atol=TOLERANCE), row


def test_passes_after_rejections_equal_passes_without(passes):
    draws = random.Random(2)
    lm, context = CachedLM(passes), text(draws, 11)
    lm.extend(context)
    for number in range(12):
        rows = draws.randrange(1, 7)
        tokens, parents = text(draws, rows), shape(draws, rows) if number % 2 else range(-1, rows - 1)
        logits = lm.forward(tokens, list(parents))
        path = ancestors(parents, draws.randrange(rows))
        expected = after(passes, [*context, *(tokens[i] for i in path)])
        assert torch.allclose(logits[path[-1]], expected, atol=TOLERANCE), number
        lm.keep(path)
        context += [tokens[i] for i in path]
        assert lm.tokens == context and lm.cached() == len(context)


def test_a_draft_model_returns_to_the_text_it_drafted_after(passes):
    draws = random.Random(3)
    lm, context = CachedLM(passes), text(draws, 9)
    for _ in range(6):
        logits = lm.extend(lm.sync(context))[0]
        assert torch.allclose(logits, after(passes, context), atol=TOLERANCE)
        drafted = text(draws, 4)
        for token in drafted:
            lm.extend([token])
        context += [*drafted[: draws.randrange(5)], draws.randrange(3, 120)]


def test_an_interrupted_pass_changes_nothing(passes):
    draws = random.Random(4)
    lm, context = CachedLM(passes), text(draws, 9)
    lm.extend(context)
    hook = passes.model.get_output_embeddings().register_forward_pre_hook(lambda *_: 1 / 0)
    try:
        with pytest.raises(ZeroDivisionError):
            lm.forward(text(draws, 3))
    finally:
        hook.remove()
    assert torch.allclose(lm.forward([7, 8])[1], after(passes, [*context, 7, 8]), atol=TOLERANCE)


def test_a_copied_cache_is_independent(passes):
    draws = random.Random(5)
    first, second, context = CachedLM(passes), CachedLM(passes), text(draws, 14)
    first.extend(context)
    second.copy_from(first)
    first.extend(text(draws, 3))
    assert torch.allclose(second.forward([9])[0], after(passes, [*context, 9]), atol=TOLERANCE)


def test_hidden_states_follow_an_accepted_path(passes):
    if passes.shape.kind in ("mllama_text_model", "qwen4_exp_text"):
        pytest.skip("transformers returns the hidden states of some layers, or several per token")
    draws = random.Random(6)
    lm, plain = CachedLM(passes), CachedLM(passes)
    context, last = text(draws, 9), passes.shape.layers
    for each in (lm, plain):
        each.taps = [1, last]
        each.reset()
    lm.extend(context)
    for parents, path in (([-1, 0, 0, 1, 2], [0, 2, 4]), ([-1, 0, 1], [0]), ([-1, 0, 0], [0, 1])):
        tokens = text(draws, len(parents))
        lm.forward(tokens, parents)
        lm.keep(path)
        context += [tokens[row] for row in path]
        plain.reset()
        plain.extend(context)
        assert torch.allclose(lm.states(0), plain.states(0), atol=TOLERANCE)


class Mostly(Drafter):
    """Drafts `k` tokens of a known text, of which a fifth is wrong; always at the same places."""

    name, summary = "mostly", ""
    known: tuple[int, ...] = ()

    def propose(self, context, limit):
        start = len(context) - len(PROMPT)
        places = range(start, min(start + limit, len(self.known)))
        tokens = [self.known[i] if hash((i, 7)) % 5 else (self.known[i] + 1) % 128 for i in places]
        return Draft(tuple(tokens), tuple(range(-1, len(tokens) - 1)), sources=(self.name,) * len(tokens))


class Counted(Modules):
    """Passes that record their number of rows."""

    def __init__(self, model):
        self.rows = []
        super().__init__(model)

    def __call__(self, ids, *args):
        self.rows.append(len(ids))
        return super().__call__(ids, *args)


def drafted(kind):
    """Return the steps with drafts of which four in five tokens are right, and the rows of the target's passes."""
    target = CachedLM(Counted(build(kind, attention=ATTENTION)))
    known = emitted(table_steps("naive", SETTINGS, target=target, draft=target, prompt=PROMPT, k=4))
    target.passes.rows.clear()
    drafter = partial(type("Known", (Mostly,), {"known": tuple(known)}), options={})
    steps = table_steps("naive", SETTINGS, target=target, draft=target, prompt=PROMPT, k=4, drafter=drafter)
    assert emitted(steps) == known
    return [step for step in steps if step.kind == "verify"], target.passes.rows


def test_replayed_tokens_cost_rows_and_no_pass():
    (hybrid, rows), (keys, plain_rows) = drafted(HYBRID), drafted("llama")
    assert [step.accepted for step in hybrid] == [step.accepted for step in keys], "the same acceptance"
    assert len(rows) == len(plain_rows) == len(hybrid) + 1, "one pass per step, and one that reads the prompt"
    replayed, last = [], None
    for step in hybrid:
        rejected = last is not None and last.accepted < len(last.draft)
        replayed.append(1 + last.accepted if rejected else 0)
        last = step
    assert [count - 1 - len(step.draft) for count, step in zip(rows[1:], hybrid, strict=True)] == replayed
    assert any(replayed) and not all(replayed)


def test_the_state_is_restored_after_a_rejection(monkeypatch):
    def rewind(self, length):
        self._tokens, self._is_valid = length, True
        return KeyValueCache.rewind(self, length)

    drafted(HYBRID)  # asserts that the text is naive's
    monkeypatch.setattr(StateCache, "rewind", rewind)
    with pytest.raises(AssertionError):
        drafted(HYBRID)


def test_a_layer_that_cannot_continue_a_state_computes_row_by_row():
    layers = {kind: Modules(build(kind, attention=ATTENTION)).rollback.row_by_row for kind in RECURRENT}
    assert layers == {HYBRID: False, "mamba": True, "falcon_h1": False, "lfm2": False}


@pytest.mark.parametrize("kind", [*WINDOWS, *RECURRENT, *OUTSIDE, *PATHS, "mllama", "llama", "doge"])
def test_a_pass_without_weights_finds_attention_that_computes_only_chains(kind, tmp_path):
    config_of(kind).save_pretrained(tmp_path)
    model = loading.meta_model(tmp_path)
    attention = loading.supported_attention(model)
    assert attention == ("eager" if kind in (*PATHS, "doge") else ATTENTION)
    assert rollback_of(model, attention).by_paths == (attention == "eager")


def test_an_unknown_state_outside_the_cache_is_refused():
    model = build("llama")
    model._is_stateful = True
    with pytest.raises(ModelError, match="a state outside the cache"):
        Modules(model)


@pytest.mark.parametrize("kind", ["llama", "bloom", "qwen4_exp_text"])
def test_a_draft_model_extends_a_tree_by_its_levels(kind):
    passes = Modules(build(kind, attention="eager" if kind in PATHS else ATTENTION))
    draws = random.Random(7)
    lm, context = CachedLM(passes), text(draws, 9)
    lm.extend(context)
    for parents in ([-1, 0, 0, 1, 1, 2], [-1, 0, 1, 1, 2]):  # the first levels of the second tree are a chain
        tokens, levels = text(draws, len(parents)), ((0, 1), (1, 3), (3, len(parents)))
        for first, stop in levels:
            logits = lm.forward(tokens[:stop], parents[:stop], first=first)
            path = [tokens[i] for i in ancestors(parents, stop - 1)]
            assert torch.allclose(logits[-1], after(passes, [*context, *path]), atol=TOLERANCE), stop
        lm.keep([0, 1])
        context += tokens[:2]


def test_a_tree_as_a_batch_is_one_pass():
    target = CachedLM(Counted(build("bloom")))
    target.extend([5, 6, 7])
    target.passes.rows.clear()
    target.forward([8, 9, 10, 11, 12], [-1, 0, 0, 1, 2])
    target.keep([0, 2, 4])
    assert target.passes.rows == [5] and target.passes.rollback.by_paths and not target.passes.rollback.recurrent
    assert torch.allclose(target.forward([13])[0], after(target.passes, [5, 6, 7, 8, 10, 12, 13]), atol=TOLERANCE)
