"""The reference forward pass: transformers' logits, the kernels' logits, and a text from the decoding loop."""

from __future__ import annotations

import random

import pytest
import torch
from conftest import POCKET, emitted, tiny
from transformers import AutoModelForCausalLM

from lookahead import kernels
from lookahead.core.events import Settings
from lookahead.core.rules import rule_for
from lookahead.core.tree import ancestors
from lookahead.drafting.base import Resources
from lookahead.drafting.draft import DraftModel
from lookahead.drafting.naive import Naive
from lookahead.engine.decode import Request, decode
from lookahead.engine.fixed_length import FixedLength
from lookahead.engine.stop_conditions import StopConditions
from lookahead.model.lm import CachedLM
from lookahead.model.reference import Reference

pytestmark = pytest.mark.models

TREE = (-1, 0, 0, 1, 1, 2, 5)


@pytest.fixture(scope="module")
def text():
    draws = random.Random(0)
    return [draws.randrange(4096) for _ in range(40)]


@pytest.mark.parametrize("folder", ["target", "draft"])
def test_logits_equal_transformers(folder, text):
    model = AutoModelForCausalLM.from_pretrained(POCKET / folder, dtype=torch.float32).eval()
    with torch.inference_mode():
        expected = model(torch.tensor([text])).logits[0]
    reference = Reference.load(POCKET / folder)
    torch.testing.assert_close(reference.forward(text), expected, rtol=1e-4, atol=1e-4)


def test_grouped_queries_and_untied_heads(tmp_path, text):
    folder = tiny("llama", tmp_path / "m", tie_word_embeddings=False)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.inference_mode():
        expected = model(torch.tensor([text])).logits[0]
    torch.testing.assert_close(Reference.load(folder).forward(text), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 0.03)], ids=["float32", "bfloat16"]
)
def test_kernels_equal_the_reference(dtype, tolerance, text):
    """Compares chains, a tree, and a pass after a committed branch. `tolerance` is relative to the largest logit."""
    compiled, reference = CachedLM(kernels.read(POCKET / "target", dtype)), Reference.load(POCKET / "target", dtype)
    drafted = text[: len(TREE)]

    def compare(tokens, parents=None):
        ours, expected = compiled.forward(tokens, parents).float(), reference.forward(tokens, parents)
        torch.testing.assert_close(ours, expected, rtol=0, atol=tolerance * float(expected.abs().max()))

    for lm in (compiled, reference):
        lm.extend(text[:20])
    compare(text[20:21])
    compare(text[20:29])
    compare(drafted, TREE)
    for lm in (compiled, reference):
        lm.keep(ancestors(TREE, 6))
    assert compiled.tokens == reference.tokens and compiled.cached() == reference.cached() == 24
    compare(text[30:33])


def test_a_branch_has_the_logits_of_the_same_chain(text):
    reference = Reference.load(POCKET / "target")
    reference.extend(text[:20])
    tree = reference.forward(text[20 : 20 + len(TREE)], TREE)
    path = ancestors(TREE, 6)
    alone = reference.forward([text[20 + row] for row in path])
    torch.testing.assert_close(tree[path], alone, rtol=1e-4, atol=1e-4)


def test_the_reference_decodes_through_the_loop():
    """With the reference as target, drafting emits the same tokens as naive decoding, in fewer passes."""
    rule, prompt, ends = rule_for(Settings()), [1, 312, 520, 261], StopConditions(frozenset(), 24, 512)

    def steps(drafter):
        return list(decode(Request(Reference.load(POCKET / "target"), drafter, FixedLength(4), rule, prompt, ends)))

    naive = steps(Naive(Resources(rule), Naive.Options()))
    drafted = steps(DraftModel(Resources(rule, Reference.load(POCKET / "draft")), DraftModel.Options()))
    assert emitted(drafted) == emitted(naive) and len(drafted) < len(naive)
