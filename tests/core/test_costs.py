"""The cost model, compared with sums that were computed by hand."""

import dataclasses

import pytest

from lookahead.core.costs import CostCurve, DrafterCosts, PassCosts, PricedRun
from lookahead.core.events import Draft, Step

CURVE = CostCurve((1, 2, 4), (0.010, 0.012, 0.020), branching_s=0.003)
DRAFTER = DrafterCosts(CostCurve((1, 2), (0.001, 0.0015), 0.0005), 0.0002, cold_s=(0.004, 0.002), return_s=0.001)
COSTS = PassCosts(CURVE, {"small": DRAFTER})


def test_the_curve_is_interpolated():
    assert [CURVE.pass_s(rows) for rows in (3, 6)] == pytest.approx([0.016, 0.028])
    assert CURVE.pass_s(3, branches=2) == pytest.approx(0.019)
    assert CURVE.ratio(2) == pytest.approx(1.2)


def test_a_draft_costs_its_tokens_and_the_switch():
    assert [DRAFTER.switch_s(k) for k in (0, 1, 2, 9)] == pytest.approx([0, 0.005, 0.007, 0.007])
    assert DRAFTER.token_s == pytest.approx(0.0012)


def test_all_costs_are_scaled():
    twice = COSTS.scaled(2)
    assert [twice.pass_s(4), twice.pass_s(4, 2)] == pytest.approx([0.040, 0.046])
    assert [twice.drafters["small"].switch_s(1), twice.drafters["small"].token_s] == pytest.approx([0.010, 0.0024])


def test_a_prediction_adds_up():
    expected = COSTS.predict(0.5, 3, "small")
    assert (expected.tokens, expected.rows) == (1.875, 4)
    seconds = 0.020 + 3 * 0.0012 + 0.007
    assert expected.cost == pytest.approx(seconds / 0.010)
    assert expected.speedup == pytest.approx(1.875 * 0.010 / seconds)
    assert expected.leviathan == pytest.approx(1.875 * 0.010 / (0.010 + seconds - 0.020))
    assert COSTS.predict(0.5, 3).cost == pytest.approx(2.0), "without a draft model drafting takes no time"
    assert COSTS.predict(0.9, 0, "small").speedup == 1.0


def test_measured_values_replace_expected_ones():
    expected = COSTS.predict(0.5, 3, "small", token_s=0.002, rows_per_token=2, branching=0.5, share=0.25)
    assert expected.rows == 7
    drafted = CURVE.pass_s(7) + 0.5 * 0.003 + 3 * 0.002 + 0.001
    assert expected.tokens_per_pass == pytest.approx(0.25 * 1.875 + 0.75)
    assert expected.cost == pytest.approx(0.25 * drafted / 0.010 + 0.75)


def step(draft, accepted, propose_s=0.5):
    origins = ("accepted",) * accepted + ("correction",)
    return Step("verify", 1, draft, emitted=(1,) * (accepted + 1), origins=origins, propose_s=propose_s)


def test_a_run_is_priced_pass_by_pass():
    """The draft model first reads the root. Later it reads its last drafted token, which is not in its cache, and the bonus."""
    chain, tree = Draft.chain([1, 2], "draft"), Draft((1, 2, 3), (-1, -1, 0), None, ("tree",) * 3)
    run = COSTS.price_passes([step(chain, 2), step(chain, 0)], "small", {"draft": 1})
    first, second = 0.001 + 0.001, 0.0015 + 0.001  # the second begins with two unread rows
    assert run.draft_s == pytest.approx(first + second + 2 * (2 * 0.0002 + 0.006))
    assert run.verify_s == pytest.approx(2 * (0.016 + 0.001))
    assert run == PricedRun(4, 0.010, run.verify_s, run.draft_s)
    assert run.speedup == pytest.approx(4 * 0.010 / run.seconds)
    branched = COSTS.price_passes([step(tree, 0)], "small", {"tree": 2})
    assert branched.verify_s == pytest.approx(0.020 + 0.003 + 0.001)
    assert branched.draft_s == pytest.approx(0.001 + (0.0015 + 0.0005) + 2 * 0.0002 + 0.006)


def test_lookup_is_free_and_an_unknown_draft_model_takes_the_measured_time():
    lookup = Draft.chain([1, 2], "ngram")
    assert COSTS.price_passes([step(lookup, 1), step(Draft(), 0)], None, {"draft": 1}).draft_s == 0
    old = dataclasses.replace(COSTS, drafters={})
    assert old.price_passes([step(Draft.chain([1], "draft"), 1)], "small", {"draft": 1}).draft_s == 0.5


def test_passes_cost_more_after_a_long_text():
    curve = dataclasses.replace(CURVE, context_s=(1e-6, 2e-6, 4e-6))
    longer = curve.at(1064)
    assert [longer.pass_s(rows) for rows in (1, 2, 3)] == pytest.approx([0.011, 0.014, 0.019])
    assert curve.at(10) == curve and CURVE.at(10_000) == CURVE
    assert curve.scaled(2).at(1064).pass_s(1) == pytest.approx(0.022)
    costs = PassCosts(curve, {"small": DRAFTER})
    short, long = (costs.price_passes([step(Draft.chain([1], "ngram"), 1)], None, {}, prompt) for prompt in (0, 1064))
    assert (short.naive_s, long.naive_s, long.verify_s) == pytest.approx((0.010, 0.011, 0.014))
