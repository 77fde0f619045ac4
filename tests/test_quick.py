"""A drafter's pass in eight bits: the same model, rounded otherwise; where it does not apply, the plain pass."""

import random

import pytest
import torch
from conftest import tiny
from transformers import AutoModelForCausalLM

from lookahead import attention, quick, tree
from lookahead.events import Settings
from lookahead.lane import Lane
from lookahead.llama import FusedLlama
from lookahead.lm import CachedLM

FAR = 0.01  # nats between both passes' distributions; the bundled draft and its target are about 1 apart


def load(folder, dtype=torch.bfloat16):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation=attention.BY_BRANCH).eval()


def apart(logits, others):
    """Kullback-Leibler divergences, in nats, row by row."""
    a, b = logits.float().log_softmax(-1), others.float().log_softmax(-1)
    return (a.exp() * (a - b)).sum(-1)


@pytest.fixture
def paying(monkeypatch):
    """The kernel is taken, whatever this processor thinks of it."""
    if not hasattr(torch, "_weight_int8pack_mm"):
        pytest.skip("this torch has no kernel for 8-bit weights")
    monkeypatch.setattr(quick, "pays", lambda: True)


def test_the_bundled_drafters_say_the_same_in_eight_bits(models):
    """Chains short and long, and trees, over text that the draft reads as it would in a race."""
    if not quick.pays() or models.dtype != "bfloat16":
        pytest.skip("this processor is quicker in sixteen bits")
    text = models.tokenizer.encode("Once upon a time there was a small frog who lived in a green pond. One day he")
    for name in ("draft", "offdomain", "self"):
        eight, full = models.draft(name), CachedLM(models.drafts[name].model, models.target.vocab)
        assert eight.eight_bits and not full.eight_bits
        for lm in (eight, full):
            lm.extend(text)
        far = []
        for _ in range(20):
            token = int(full.forward([5])[0].argmax())
            far.append(apart(eight.extend([token]), full.extend([token])))
            parents = [-1, 0, 0, 1]
            far.append(apart(eight.forward([token, 7, 8, 9], parents), full.forward([token, 7, 8, 9], parents)))
        assert torch.cat(far).mean() < FAR, name


def test_grouped_heads_and_long_texts(tmp_path, paying, monkeypatch):
    """Key heads that several query heads share, and rows that look further than a sum is quick for."""
    model = load(tiny("llama", tmp_path / "m", layers=2))
    eight, full = CachedLM(model, exact=False), CachedLM(model)
    assert (
        eight.eight_bits == sum(w.numel() for n, w in model.named_parameters() if n.endswith("proj.weight")) + 4096 * 64
    )
    draws = random.Random(0)
    text = [draws.randrange(4096) for _ in range(120)]
    whole = full.forward(text)
    one_by_one = torch.cat([eight.extend([token]).clone() for token in text])
    assert apart(one_by_one, whole).mean() < FAR
    monkeypatch.setattr(quick, "ELEMENTS", 0)
    eight.reset()
    assert apart(torch.cat([eight.extend([token]).clone() for token in text]), whole).mean() < FAR


def test_a_tree_that_grows_by_one_row_sees_its_own_branch(tmp_path, paying):
    model = load(tiny("llama", tmp_path / "m", layers=2))
    eight, full = CachedLM(model, exact=False), CachedLM(model)
    rows, parents = [5, 6, 7, 8, 9], [-1, -1, 1, 2, 3]
    for lm in (eight, full):
        lm.extend([1, 2, 3])
    whole = full.forward(rows, parents)
    eight.forward(rows[:4], parents[:4])
    grown = eight.forward(rows, parents, first=4)
    assert apart(grown, whole[4:]).mean() < FAR < apart(whole[:1], whole[4:]).mean()


def test_the_models_own_weights_stay(tmp_path, paying):
    model = load(tiny("llama", tmp_path / "m", layers=2))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    CachedLM(model, exact=False).extend([1, 2, 3])
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_target_is_never_rounded_otherwise(models):
    for name in ("naive", "draft", "self"):
        lane = Lane(models, "Once upon a time", name, Settings())
        assert type(lane._fresh_target()._fused) in (FusedLlama, type(None))
    assert type(models.target._fused) in (FusedLlama, type(None))


@pytest.mark.parametrize("why", ["float32", "odd", "slow", "full"])
def test_elsewhere_the_plain_pass_drafts(tmp_path, paying, monkeypatch, why):
    changes = {"intermediate_size": 72} if why == "odd" else {}
    model = load(tiny("llama", tmp_path / "m", **changes), torch.float32 if why == "float32" else torch.bfloat16)
    if why == "slow":
        monkeypatch.setattr(quick, "pays", lambda: False)
    if why == "full":
        monkeypatch.setattr(quick.room, "memory", lambda: 1000)
    eight, full = CachedLM(model, exact=False), CachedLM(model)
    assert type(eight._fused) is FusedLlama
    rows, parents = [5, 6, 7, 8], [-1, 0, 0, 2]
    assert torch.equal(eight.forward(rows, parents), full.forward(rows, parents))
    path = tree.ancestors(parents, 3)
    eight.keep(path)
    assert eight.tokens == [5, 7, 8]


def test_without_the_kernel_it_does_not_pay(monkeypatch):
    monkeypatch.delattr(torch, "_weight_int8pack_mm", raising=False)
    quick.pays.cache_clear()
    assert not quick.pays()
    quick.pays.cache_clear()
