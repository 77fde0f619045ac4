"""The loop with table models: lossless text, exact acceptance patterns, and ends."""

import random

import pytest
import torch
from conftest import emitted, sampling, table_steps

from lookahead import Settings
from lookahead.core.events import Draft, Step
from lookahead.core.policy import EXPECTED_TOKENS, LOOKUP_S, DraftCost
from lookahead.core.rules import rule_for
from lookahead.core.table import TableLM
from lookahead.drafting import DRAFTERS, Resources
from lookahead.drafting.base import HEAD_TOKENS
from lookahead.drafting.draft import DraftModel
from lookahead.engine.decode import Request, decode
from lookahead.engine.draft_length import AdaptiveLength
from lookahead.engine.fixed_length import FixedLength
from lookahead.engine.lane import Lane
from lookahead.engine.steps import up_to_end
from lookahead.engine.stop_conditions import StopConditions

METHODS = tuple(DRAFTERS)
METHODS_WITHOUT_NAIVE = [m for m in METHODS if m != "naive"]


def drafting(rule, draft):
    """Return a new `draft` drafter."""
    return DraftModel(Resources(rule, draft), DraftModel.Options())


@pytest.mark.parametrize("method", METHODS_WITHOUT_NAIVE)
@pytest.mark.parametrize("k", [0, 1, 4, "auto"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        pytest.param({"repetition_penalty": 1.3}, marks=pytest.mark.long),
        pytest.param({"temperature": 0.7}, marks=pytest.mark.long),
        pytest.param({"temperature": 1.0, "top_p": 0.8, "repetition_penalty": 1.2}, marks=pytest.mark.long),
    ],
    ids=["greedy", "penalty", "coupled", "coupled-processed"],
)
def test_every_method_writes_the_same_text_as_naive(method, k, changes):
    for seed in range(3):
        settings = Settings(max_new_tokens=60, k=k, seed=seed, **changes)
        target, draft = TableLM(12, seed=seed), TableLM(12, seed=seed, spread=1.5)
        naive = table_steps("naive", settings, target=target)
        steps = table_steps(method, settings, target=target, draft=draft)
        assert emitted(steps) == emitted(naive)
        assert len(emitted(naive)) == 60


@pytest.mark.parametrize("changes", [{}, {"temperature": 1.0}], ids=["greedy", "coupled"])
def test_self_drafting_is_fully_accepted(changes):
    target = TableLM(16)
    steps = table_steps("draft", Settings(max_new_tokens=40, k=4, **changes), target=target, draft=target)[1:]
    assert [step.accepted for step in steps] == [4] * 8
    assert [len(step.emitted) for step in steps] == [5] * 8
    assert all(step.statuses == ("accepted",) * 4 for step in steps)
    assert all(step.origins == ("accepted",) * 4 + ("bonus",) for step in steps[:-1])


def test_self_drafting_under_the_rejection_rule_is_accepted_whole():
    target = TableLM(16)
    steps = table_steps("draft", sampling(rule="rejection", max_new_tokens=40, k=4), target=target, draft=target)[1:]
    assert [step.accepted for step in steps] == [4] * 8


def test_bookkeeping_of_every_step():
    for method in METHODS:
        for step in table_steps(method, Settings(max_new_tokens=50, k=3), prompt=(1, 2, 3, 1, 2, 3, 1, 2))[1:]:
            assert step.statuses.count("accepted") == step.accepted == len(step.path)
            assert step.statuses.count("window") == step.draft.window
            assert [step.draft.tokens[row] for row in step.path] == list(step.emitted[: len(step.path)])
            assert len(step.emitted) - len(step.path) in (0, 1)
            origin = step.origins[-1]
            assert origin in ("accepted", "correction", "bonus")
            if origin == "correction":
                assert "rejected" in step.statuses
            if origin == "bonus":
                leaf = step.path[-1] if step.path else -1
                assert leaf not in step.draft.parents[: step.draft.tested], "nothing was drafted after it"


def test_only_the_last_token_is_missing_from_the_cache():
    target, rule = TableLM(10), rule_for(Settings())
    ends = StopConditions(frozenset(), 30, target.context_length)
    context = [1, 2, 3]
    for step in decode(Request(target, drafting(rule, TableLM(10, seed=4)), FixedLength(3), rule, context, ends)):
        context = context + list(step.emitted)
        assert target.tokens == context[:-1]


def test_a_consumer_that_stops_early_leaves_the_models_usable():
    target, draft, rule = TableLM(10), TableLM(10, seed=4), rule_for(Settings())
    ends = StopConditions(frozenset(), 30, target.context_length)
    whole = emitted(decode(Request(target.fresh(), drafting(rule, draft.fresh()), FixedLength(3), rule, [1, 2], ends)))
    running = decode(Request(target, drafting(rule, draft), FixedLength(3), rule, [1, 2], ends))
    next(running), next(running), next(running)
    running.close()
    assert emitted(decode(Request(target, drafting(rule, draft), FixedLength(3), rule, [1, 2], ends))) == whole


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("most", [1, 2, 3, 7])
def test_the_length_cap_cuts_inside_an_accepted_run(method, most):
    target = TableLM(16)
    steps = table_steps(method, Settings(max_new_tokens=most, k=5), target=target, draft=target)
    assert len(emitted(steps)) == most
    assert steps[-1].finish == "length"
    assert all(step.finish is None for step in steps[:-1])


def test_eos_inside_an_accepted_run_ends_the_text():
    target = TableLM(16)
    whole = emitted(table_steps("naive", Settings(max_new_tokens=40), target=target))
    eos = whole[7]
    end = whole.index(eos)
    steps = table_steps("draft", Settings(max_new_tokens=40, k=6), target=target, draft=target, eos=[eos])
    assert emitted(steps) == whole[: end + 1]
    last = steps[-1]
    assert last.finish == "eos"
    assert last.origins == ("accepted",) * len(last.emitted), "the draft is the target's own, so eos was accepted"
    assert last.statuses.count("accepted") == len(last.emitted), "rows after the end are not counted as accepted"


def test_the_context_is_never_exceeded():
    target = TableLM(16, context_length=20)
    draft = TableLM(16, seed=0, context_length=20)
    for method in METHODS:
        steps = table_steps(method, Settings(max_new_tokens=100, k=8), target=target, draft=draft)
        assert steps[-1].finish == "context"
        assert 3 + len(emitted(steps)) == 20


def test_auto_only_probes_a_useless_draft_model():
    target, draft = TableLM(200, seed=0), TableLM(200, seed=9)
    steps = table_steps("draft", Settings(max_new_tokens=400, k="auto"), target=target, draft=draft)[1:]
    drafted = [len(step.draft) for step in steps]
    assert sum(drafted[:40]) > 0, "it drafts at first"
    assert sum(1 for d in drafted[100:] if d) <= 12, "later there are only a few probes"


def rounds(policy, count, confidence, correct):
    """Return the lengths of `count` drafts with a constant confidence, whose first `correct` tokens are accepted."""
    lengths = []
    for index in range(count):
        length, reach = 0, 1.0
        most, stop = policy.limit("x"), policy.stop_rule("x")
        while length < most and not (length and stop.stops(reach, length)):
            length += 1
            reach *= confidence
        accepted = min(correct, length)
        statuses = ("accepted",) * accepted + ("rejected",) * (accepted < length)
        statuses += ("unvisited",) * (length - len(statuses))
        draft = Draft.chain([1] * length, "x", chances=[confidence] * length)
        emitted = (1,) * (accepted + 1)
        origins = ("accepted",) * accepted + ("bonus",)
        seconds = {
            "propose_s": random.expovariate(1),
            "verify_s": random.expovariate(1),
        }  # measured times, which the policy must ignore
        policy.observe(Step("verify", index, draft, statuses, emitted=emitted, origins=origins, **seconds))
        lengths.append(length)
    return lengths


def test_auto_drafts_as_far_as_it_pays():
    def pass_s(rows, branches):
        return 0.98 + 0.02 * rows

    assert (
        rounds(AdaptiveLength(pass_s, 12, {"x": DraftCost(0.05, 0.0)}), 60, confidence=0.9, correct=12)[-5:] == [12] * 5
    ), "all are accepted: the longest drafts"
    assert set(
        rounds(AdaptiveLength(pass_s, 12, {"x": DraftCost(0.05, 0.0)}), 60, confidence=0.9, correct=2)[-20:]
    ) <= {
        2,
        3,
        4,
    }, "two are accepted: slightly more than two"
    useless = rounds(AdaptiveLength(pass_s, 12, {"x": DraftCost(0.05, 0.0)}), 200, confidence=0.9, correct=0)
    assert sum(useless[:10]) > 0
    assert sum(1 for n in useless[20:] if n) <= 6, "none is accepted: rare probes"
    assert (
        sum(rounds(AdaptiveLength(pass_s, 12, {"x": DraftCost(1.2, 0.0)}), 200, confidence=0.9, correct=1)[60:]) <= 12
    ), "the drafter is too expensive"


def test_auto_ends_before_an_expensive_row():
    """If rows are computed in groups, the first row of a group costs several times as much as the rows before it."""

    def pass_s(rows, branches):
        return 0.98 + 0.02 * min(rows, 5) + 0.4 * max(0, rows - 5)

    assert (
        rounds(AdaptiveLength(pass_s, 8, {"x": DraftCost(0.05, 0.0)}), 40, confidence=0.8, correct=4)[-10:] == [4] * 10
    )


def test_a_bad_first_draft_does_not_pause_a_good_drafter():
    policy = AdaptiveLength(lambda rows, branches: 0.94 + 0.06 * rows, 8, {"x": DraftCost(0.12, 0.0)})
    rounds(policy, 1, confidence=0.9, correct=0)
    assert all(rounds(policy, 20, confidence=0.9, correct=4))


def test_a_higher_expectation_allows_a_worse_first_draft():
    """A long first draft is rejected, and rows and drafting are expensive. A head continues; an unknown drafter is paused."""

    def pass_s(rows, branches):
        return 0.88 + 0.12 * rows

    def may_draft(tokens):
        policy = AdaptiveLength(pass_s, 8, {"x": DraftCost(0.02, 0.3, tokens)})
        draft, statuses = Draft.chain([1] * 8, "x", chances=[0.9] * 8), ("rejected",) + ("unvisited",) * 7
        seconds = {"propose_s": 0.46, "verify_s": pass_s(9, 1)}
        assert policy.limit("x") == 8
        policy.observe(Step("verify", 0, draft, statuses, emitted=(1,), origins=("correction",), **seconds))
        return policy.limit("x")

    assert may_draft(HEAD_TOKENS) == 8 and may_draft(EXPECTED_TOKENS) == 0


def test_auto_may_draft_nothing_if_rows_are_expensive():
    policy = AdaptiveLength(lambda rows, branches: float(rows), 8)
    assert policy.trim(Draft.chain([1, 2, 3], "x", chances=[0.9, 0.9, 0.9])) == Draft()
    assert policy.stop_rule("x").stops(0.9, 1)


def test_auto_drafts_a_long_match_in_parts():
    """If each row costs the same, two short drafts gain as much as one long draft, and lose less after a rejection."""

    def pass_s(rows, branches):
        return max(1.0, 0.5 + 0.12 * rows)

    best = max(range(25), key=lambda rows: sum(0.95**depth for depth in range(rows + 1)) / pass_s(1 + rows, 1))
    match = Draft.chain(range(24), "x", chances=[0.95] * 24)
    assert len(AdaptiveLength(pass_s, 32).trim(match)) == best < 12


def test_auto_keeps_the_rows_that_gain_time():
    policy = AdaptiveLength(lambda rows, branches: 1 + 0.05 * (rows - 1), 8)
    tree = Draft((1, 2, 3, 4), (-1, 0, 1, -1), None, ("x",) * 4, (0.9, 0.9, 0.02, 0.01))
    kept = policy.trim(tree)
    assert kept.tokens == (1, 2)
    assert kept.parents == (-1, 0)


def test_auto_corrects_confidences():
    """The confidence 0.9 is corrected if every token is rejected."""
    policy = AdaptiveLength(lambda rows, branches: 1 + 0.02 * rows, 8, {"x": DraftCost()})
    claim = Draft.chain([1], "x", chances=[0.9])
    before = policy.reaches(claim)[0]
    for index in range(60):
        policy.observe(
            Step("verify", index, claim, ("rejected",), emitted=(2,), origins=("correction",), verify_s=1.02)
        )
    assert policy.reaches(claim)[0] < 0.35 < 0.85 < before
    assert policy.limit("x") == 0


def test_a_wrong_parent_changes_the_logits():
    """The logits of `TableLM` depend on the path, so they reveal a wrong mask."""
    lm = TableLM(16)
    lm.extend([1, 2, 3])
    straight, tree = lm.forward([4, 5], [-1, 0]), lm.forward([4, 5], [-1, -1])
    assert torch.equal(straight[0], tree[0])
    assert not torch.equal(straight[1], tree[1])


def test_lookups_pause_if_they_lose_time():
    """In a batch the share of a text in a pass may be as short as a lookup."""

    def lookups(naive_s, accepted):
        policy, count = AdaptiveLength(lambda rows, branches: naive_s, 8), 0
        for index in range(400):
            if policy.limit("ngram"):
                count += 1
                draft = Draft.chain([1] * accepted, "ngram")
                statuses, origins = ("accepted",) * accepted, ("accepted",) * accepted + ("bonus",)
                policy.observe(Step("verify", index, draft, statuses, emitted=(1,) * (1 + accepted), origins=origins))
        return count

    assert lookups(naive_s=100 * LOOKUP_S, accepted=0) == lookups(naive_s=5 * LOOKUP_S, accepted=1) == 400
    assert 3 < lookups(naive_s=5 * LOOKUP_S, accepted=0) < 40


def test_a_drafter_that_is_too_expensive_for_a_shared_pass_is_paused_from_the_start():
    def first_draft(naive_s):
        policy = AdaptiveLength(lambda rows, branches: naive_s + 0.01 * rows, 8, {"head": DraftCost(0.2, 0.1)})
        return next(n for n in range(500) if policy.limit("head"))

    assert first_draft(naive_s=2.0) == 0 and first_draft(naive_s=0.1) > 20


def test_nothing_is_drafted_after_the_end():
    """A chain is cut after its end-of-sequence token, and every branch of a tree after its own."""
    chain = Draft.chain([4, 9, 5, 6], "ngram")
    assert up_to_end(chain, frozenset({9})).tokens == (4, 9)
    assert up_to_end(chain, frozenset({8})) is chain and up_to_end(chain, frozenset()) is chain
    #        4 - 9 - 5     and    4 - 6 - 9 - 9     and    9 - 5
    tree = Draft((4, 9, 5, 6, 9, 9, 9, 5), (-1, 0, 1, 0, 3, 4, -1, 6), None, ("suffix",) * 8)
    ended = up_to_end(tree, frozenset({9}))
    assert (ended.tokens, ended.parents) == ((4, 9, 6, 9, 9), (-1, 0, 0, 2, -1))


def test_a_copied_end_costs_no_rows(models):
    """The text after an earlier end of turn in a chat is not drafted after a copied end of turn."""
    end = min(models.eos)
    turn = [*range(100, 112), end, *range(200, 240)]
    lane = Lane(models, [*turn, *range(100, 111)], "ngram", Settings(k=16, max_new_tokens=40, details=False))
    request = lane.request(models.costs.pass_s)
    request.prefill()
    assert request.propose().tokens == (111, end)
