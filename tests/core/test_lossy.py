"""The rules that change the text, and block verification, which does not: weights, acceptance, damage and references."""

import math

import pytest
import torch
from conftest import emitted, finished, sampling, table_steps
from test_accept import LENGTH, ODDS, PROCESSED, Picked, method, p_value

import lookahead
from lookahead.core.events import LOSSY, Draft, Settings, SettingsError
from lookahead.core.rules import rule_for
from lookahead.core.table import TableLM
from lookahead.measure import dice

pytestmark = pytest.mark.split
PROMPT = "Once upon a time there was a small frog who"
METHODS = ("draft", "tree", "ngram", "lookahead")
TOKENS = 60


class Near(TableLM):
    """A draft model whose table is close to the target's."""

    def logits_after(self, sequence):
        other = TableLM(self.vocab, self.order, self.seed + 7, self.spread).logits_after(sequence)
        return super().logits_after(sequence) + 0.9 * other


def written(rule, weight, name="draft", temperature=0.0):
    settings = Settings(max_new_tokens=TOKENS, k=4, rule=rule, weight=weight, temperature=temperature)
    return table_steps(name, settings, draft=Near(seed=0))


def naive_ids(temperature):
    return emitted(table_steps("naive", Settings(max_new_tokens=TOKENS, temperature=temperature)))


def share(steps):
    """Return the share of the tested tokens that were accepted."""
    rejected = sum(step.statuses.count("rejected") for step in steps)
    accepted = sum(step.accepted for step in steps)
    return accepted / (accepted + rejected)


def changes(steps):
    return [test.change for step in steps for test in step.tests if test.outcome != "rejected"]


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("rule", LOSSY)
def test_at_weight_0_a_rule_is_exact(rule, temperature):
    for name in METHODS:
        steps = written(rule, 0.0, name, temperature)
        assert emitted(steps) == naive_ids(temperature)
        assert not any(changes(steps))


@pytest.mark.parametrize("rule", LOSSY)
def test_a_larger_weight_accepts_more_up_to_everything(rule):
    shares = [share(written(rule, weight)) for weight in (0.0, 0.5, 1.0)]
    assert shares[0] < shares[1] <= shares[2] == 1.0
    assert share(written(rule, 1.0, temperature=0.8)) == 1.0


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("rule", LOSSY)
def test_a_change_is_a_token_that_naive_would_not_write_after_the_same_text(rule, temperature):
    steps = written(rule, 0.7, "tree" if temperature else "draft", temperature)
    ids, text, found = emitted(steps), [1, 2, 3], 0
    exact = rule_for(Settings(temperature=temperature))
    for token, change in zip(ids, changes(steps), strict=True):
        logits = TableLM(seed=0).logits_after(text)
        naive = exact.verify(logits[None], Draft(), text).token
        assert (change.token if change else token) == naive
        if change:
            found += 1
            logp = exact.process(logits[None], text)[0].log_softmax(-1)
            assert change.p == pytest.approx(float(logp[naive].exp()))
            assert change.lost == pytest.approx(float(logp[naive] - logp[token]), abs=1e-5)
            assert change.lost > 0 or temperature
        text.append(token)
    assert found > 3


def accepted(rule, weight, p, token, q=None):
    """Return whether a rule accepts one drafted token. `p` has the target's probabilities, `q` the drafter's."""
    logits = torch.tensor([p, p]).log()
    draft = Draft.chain([token], "test", None if q is None else [torch.tensor(q)])
    return bool(rule_for(Settings(rule=rule, weight=weight)).verify(logits, draft, (0,)).path)


def test_typical_has_the_threshold_of_medusa():
    """min(0.09, 0.3 exp(-H)) at weight 0.5. With H = 0.80 nats, it is 0.09; with 16 equal tokens, 0.3 / 16."""
    assert accepted("typical", 0.5, [0.7, 0.2, 0.1], 2) and not accepted("typical", 0.5, [0.7, 0.22, 0.08], 2)
    flat = [0.07, *[0.93 * 0.98 / 14] * 14, 0.93 * 0.02]
    entropy = -sum(p * math.log(p) for p in flat)
    assert 0.3 * math.exp(-entropy) > flat[-1] and not accepted("typical", 0.5, flat, 15)
    assert 0.3 * math.exp(-entropy) < flat[-2] < 0.09 and accepted("typical", 0.5, flat, 14)


def test_relaxed_has_the_candidates_of_tensorrt_llm():
    """Among the ten likeliest, and within 0.6 of the highest probability, at weight 0.5."""
    assert accepted("relaxed", 0.5, [0.75, 0.2, 0.05], 1) and not accepted("relaxed", 0.5, [0.82, 0.15, 0.03], 1)
    falling = [(12 - i) / 78 for i in range(12)]
    assert accepted("relaxed", 0.5, falling, 9) and not accepted("relaxed", 0.5, falling, 10)


def test_ensemble_verifies_with_the_mixture():
    p, q = [0.6, 0.3, 0.1], [0.1, 0.8, 0.1]
    assert not accepted("ensemble", 0.25, p, 1, q) and accepted("ensemble", 0.4, p, 1, q)
    logits = torch.tensor([p, p]).log()
    draft = Draft.chain([2], "test", [torch.tensor(q)])
    verification = rule_for(Settings(rule="ensemble", weight=0.4)).verify(logits, draft, (0,))
    assert verification.token == 1, "the correction is the mixture's likeliest token"
    assert verification.tests[-1].change.token == 0


@pytest.mark.models
@pytest.mark.parametrize("weight", [0.25, 0.6])
def test_ensemble_writes_the_text_of_transformers(models, weight):
    settings = {"rule": "ensemble", "weight": weight, "k": 4, "max_new_tokens": 40}
    ours, theirs = (emitted(lookahead.decode(models, PROMPT, name, **settings)) for name in ("draft", "hf-assisted"))
    assert ours == theirs != emitted(lookahead.decode(models, PROMPT, "naive", max_new_tokens=40))


class PickedChain(Picked):
    """Rows with a point mass as q."""

    shape = (-1, 0)


@pytest.mark.parametrize(
    ("drafter", "changed"),
    [(method("draft"), {}), (method("draft"), PROCESSED), (lambda resources: PickedChain(resources, None), {})],
    ids=["plain", "processed", "point mass"],
)
def test_block_verification_follows_the_target_distribution(drafter, changed):
    settings = sampling(rule="block-verification", max_new_tokens=LENGTH, k=2, **changed)
    assert p_value(settings, drafter) > ODDS


def test_block_verification_accepts_at_least_as_many_tokens_as_token_verification():
    """Over 2,000 seeds with the same drafts, from models that differ after each text."""
    target, draft, counts = TableLM(seed=0), Near(seed=0), {}
    for rule in ("rejection", "block-verification"):
        counts[rule] = 0
        for seed in range(2000):
            seeded, text = rule_for(sampling(rule=rule, seed=seed)), [1, 2, seed % 8]
            picks = []
            for _ in range(4):
                picks.append(seeded.choose(draft.logits_after([*text, *(p.token for p in picks)]), text))
            tokens = [pick.token for pick in picks]
            logits = torch.stack([target.logits_after(text + tokens[:n]) for n in range(5)])
            chain = Draft.chain(tokens, "draft", [pick.q for pick in picks])
            counts[rule] += len(seeded.verify(logits, chain, text).path)
    assert counts["block-verification"] > 1.02 * counts["rejection"]


def test_both_verifications_converge_in_the_dice():
    token, block = ([*dice.throw(1200, drafted=4, name=name)][-1] for name in ("rejection", "block-verification"))
    assert min(token.p_value, block.p_value) > ODDS
    assert block.accepted > 1.1 * token.accepted
    assert sum(block.counts) == block.written > block.accepted


def test_an_equal_drafter_is_accepted_completely_by_block_verification():
    settings = sampling(rule="block-verification", max_new_tokens=40, k=4)
    assert share(table_steps("draft", settings, draft=TableLM(seed=0))) == 1.0


@pytest.mark.parametrize(
    "options",
    [{"weight": 0.5}, {"rule": "typical", "weight": 1.5}, {"rule": "coupled", "weight": 0.1, "temperature": 1.0}],
    ids=str,
)
def test_a_weight_needs_a_rule_that_changes_the_text(options):
    with pytest.raises(SettingsError, match="weight"):
        Settings(**options)


@pytest.mark.models
def test_a_race_reports_changed_tokens_and_no_bug(models):
    settings = {"rule": "relaxed", "weight": 0.5, "max_new_tokens": 40, "k": 4}
    trace = finished(lookahead.race(models, PROMPT, ["naive", "draft"], **settings))
    badge = trace.agreement(1)
    assert badge.identical is None and badge.badge.startswith("changes the text: ") and "nats" in badge.detail
    assert trace.lanes[1].changes and f"{len(trace.lanes[1].changes)} of 40 tokens" in badge.badge
    assert lookahead.Trace.from_json(trace.to_json()) == trace
    exact = finished(lookahead.race(models, PROMPT, ["naive", "draft"], **{**settings, "weight": 0.0}))
    assert exact.lanes[0].tokens == exact.lanes[1].tokens
    assert exact.agreement(1).badge == "changes the text: 0 of 40 tokens, 0%"
    for external, rule in (("hf-assisted", "typical"), ("hf-lookup", "ensemble"), ("hf-generate", "relaxed")):
        with pytest.raises(lookahead.LookaheadError, match="transformers has no such rule"):
            lookahead.decode(models, PROMPT, external, rule=rule)
