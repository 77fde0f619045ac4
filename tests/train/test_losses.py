"""Losses of draft models and heads, and the cache for writing training text."""

import pytest
import torch
from small_training import SMALL

from lookahead.train import cache, heads
from lookahead.train.losses import distillation_loss, stored_distillation_loss
from lookahead.train.rows import Rows
from training.family import new_model


def test_the_distillation_loss_is_zero_only_for_equal_models():
    teacher, student = new_model(SMALL.target, SMALL, 1), new_model(SMALL.draft, SMALL, 2)
    ids = torch.randint(0, 512, (2, 17))
    assert float(distillation_loss(teacher)(teacher, ids).detach()) == pytest.approx(0.0, abs=1e-5)
    assert float(distillation_loss(teacher)(student, ids).detach()) > 0.01


def test_stored_distributions_have_the_same_loss_as_the_teacher():
    teacher, student = new_model(SMALL.target, SMALL, 1), new_model(SMALL.draft, SMALL, 2)
    ids = torch.randint(0, 512, (2, 17))
    logp, order = teacher(ids[:, :-1]).logits.detach().float().log_softmax(-1).sort(-1, descending=True)
    full, few = Rows(ids, order, logp), Rows(ids, order[..., :16], logp[..., :16])
    exact = float(distillation_loss(teacher)(student, ids).detach())
    assert float(stored_distillation_loss(0.0)(student, full).detach()) == pytest.approx(exact, abs=1e-3)
    assert float(stored_distillation_loss(0.0)(teacher, few).detach()) == pytest.approx(0.0, abs=1e-4)
    assert 0 < float(stored_distillation_loss(0.0)(student, few).detach()) < exact, (
        "counting all other tokens as one lowers the divergence"
    )
    added = float((stored_distillation_loss(0.5)(student, few) - stored_distillation_loss(0.0)(student, few)).detach())
    likeliest = student(ids[:, :-1]).logits.float().log_softmax(-1).gather(-1, order[..., :1])
    assert added == pytest.approx(-0.5 * float(likeliest.mean().detach()), abs=1e-4)


def test_a_cache_that_grows_by_blocks_changes_nothing():
    target, prompts = new_model(SMALL.target, SMALL, 1).eval(), torch.randint(3, 500, (3, cache.BLOCK - 1))

    def write(**options):
        length = 2 * cache.BLOCK + 2
        mask = torch.ones_like(prompts)
        return target.generate(
            prompts, attention_mask=mask, max_new_tokens=length, eos_token_id=None, do_sample=False,
            output_logits=True, return_dict_in_generate=True, **options,
        )  # fmt: skip

    keys = cache.growing_cache(target)
    expected, grown = write(), write(past_key_values=keys)
    assert torch.equal(expected.sequences, grown.sequences)
    assert torch.allclose(torch.stack(expected.logits), torch.stack(grown.logits), atol=1e-4)
    assert keys.layers[0].keys.shape[2] == 3 * cache.BLOCK


def test_later_slots_have_less_weight():
    """The distance of equal distributions is 0, and the chance of acceptance is 1 - total variation."""
    loss = heads.BlockLoss(None, likeliest_weight=0.0)
    target = torch.randn(2, 3, 50).log_softmax(-1)
    distance, chance = loss._distance(target, target)
    assert torch.allclose(distance, torch.zeros(2, 3), atol=1e-5) and torch.allclose(
        chance, torch.ones(2, 3), atol=1e-5
    )
    other = torch.randn(2, 3, 50).log_softmax(-1)
    accepted = torch.minimum(target.exp(), other.exp()).sum(-1)
    assert torch.allclose(loss._distance(other, target)[1], accepted, atol=1e-5), (
        "the sum of min(p, q), Leviathan et al. 2023"
    )
    early, late = torch.zeros(1, 8), torch.zeros(1, 8)
    early[0, 0] = late[0, 7] = 1.0
    assert heads.weighted(early) > 4 * heads.weighted(late)
