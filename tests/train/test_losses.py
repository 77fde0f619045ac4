"""Losses of drafts and heads, and the cache of the text they learn from."""

import pytest
import torch
from small_training import SMALL

from lookahead.train import cache, heads
from lookahead.train.losses import like, like_writing
from lookahead.train.rows import Rows
from training.family import new_model


def test_the_distillation_loss_is_zero_for_a_twin_only():
    teacher, student = new_model(SMALL.target, SMALL, 1), new_model(SMALL.draft, SMALL, 2)
    ids = torch.randint(0, 512, (2, 17))
    assert float(like(teacher)(teacher, ids).detach()) == pytest.approx(0.0, abs=1e-5)
    assert float(like(teacher)(student, ids).detach()) > 0.01


def test_what_was_thought_of_a_text_is_the_same_loss_without_the_teacher():
    teacher, student = new_model(SMALL.target, SMALL, 1), new_model(SMALL.draft, SMALL, 2)
    ids = torch.randint(0, 512, (2, 17))
    logp, order = teacher(ids[:, :-1]).logits.detach().float().log_softmax(-1).sort(-1, descending=True)
    whole, few = Rows(ids, order, logp), Rows(ids, order[..., :16], logp[..., :16])
    exact = float(like(teacher)(student, ids).detach())
    assert float(like_writing(0.0)(student, whole).detach()) == pytest.approx(exact, abs=1e-3)
    assert float(like_writing(0.0)(teacher, few).detach()) == pytest.approx(0.0, abs=1e-4)
    assert 0 < float(like_writing(0.0)(student, few).detach()) < exact, "lumping the rest together hides some of it"
    added = float((like_writing(0.5)(student, few) - like_writing(0.0)(student, few)).detach())
    likeliest = student(ids[:, :-1]).logits.float().log_softmax(-1).gather(-1, order[..., :1])
    assert added == pytest.approx(-0.5 * float(likeliest.mean().detach()), abs=1e-4)


def test_a_cache_that_grows_by_blocks_changes_nothing():
    target, given = new_model(SMALL.target, SMALL, 1).eval(), torch.randint(3, 500, (3, cache.BLOCK - 1))

    def write(**options):
        length = 2 * cache.BLOCK + 2
        seen = torch.ones_like(given)
        return target.generate(
            given, attention_mask=seen, max_new_tokens=length, eos_token_id=None, do_sample=False,
            output_logits=True, return_dict_in_generate=True, **options,
        )  # fmt: skip

    keys = cache.growing_cache(target)
    whole, grown = write(), write(past_key_values=keys)
    assert torch.equal(whole.sequences, grown.sequences)
    assert torch.allclose(torch.stack(whole.logits), torch.stack(grown.logits), atol=1e-4)
    assert keys.layers[0].keys.shape[2] == 3 * cache.BLOCK


def test_what_is_distant_costs_less_the_later_it_is():
    """A head with the target's own distribution has no distance from it, and total variation is what is rejected."""
    loss = heads.BlockLoss(None, likeliest_weight=0.0)
    wanted = torch.randn(2, 3, 50).log_softmax(-1)
    distance, chance = loss._distance(wanted, wanted)
    assert torch.allclose(distance, torch.zeros(2, 3), atol=1e-5) and torch.allclose(
        chance, torch.ones(2, 3), atol=1e-5
    )
    other = torch.randn(2, 3, 50).log_softmax(-1)
    accepted = torch.minimum(wanted.exp(), other.exp()).sum(-1)
    assert torch.allclose(loss._distance(other, wanted)[1], accepted, atol=1e-5), (
        "min(p, q) summed, Leviathan et al. 2023"
    )
    early, late = torch.zeros(1, 8), torch.zeros(1, 8)
    early[0, 0] = late[0, 7] = 1.0
    assert heads.weighted(early) > 4 * heads.weighted(late)
