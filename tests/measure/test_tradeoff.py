"""Speed against damage: the points of lossy and exact rules, their figure, and the text with its changed tokens."""

import pytest

from lookahead.core.events import SettingsError
from lookahead.measure import charts
from lookahead.measure.tradeoff import pieces, tradeoff

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def measured(models):
    return [update.result for update in tradeoff(models, "relaxed", prompts=2, weights=(0.0, 1.0), tokens=24) if update]


def test_weight_0_and_the_exact_rules_have_no_damage(measured):
    exact, lossy = measured[-1].points
    for point in (exact, *measured[-1].exact):
        assert point.damage("changed") == point.damage("lost") == 0
    assert [point.rule for point in measured[-1].exact] == ["greedy", "coupled", "rejection", "block-verification"]
    assert lossy.damage("changed") > 0 and lossy.damage("lost") > 0
    low, high = lossy.interval("changed")
    assert low <= lossy.damage("changed") <= high
    assert all(row.identical for row in exact.arm.rows) and not all(row.identical for row in lossy.arm.rows)
    assert lossy.arm.mean("acceptance") == 1, "at weight 1 every drafted token is accepted"


def test_a_slider_between_two_weights_shows_the_nearest(measured):
    assert measured[-1].at(0.9).weight == 1 and measured[-1].at(0.2).weight == 0
    assert measured[0].at(0.5) is None, "only naive has run"


def test_the_figure_has_the_measured_points(measured):
    result = measured[-1]
    for kind, factor in (("changed", 100), ("lost", 1)):
        assert charts.NOTHING in charts.tradeoff(measured[:1], kind).layout.annotations[0].text
        curve, *exact = charts.tradeoff([result], kind).data
        assert list(curve.x) == [factor * point.damage(kind) for point in result.points]
        assert list(curve.y) == [point.arm.median for point in result.points]
        low, high = result.points[1].interval(kind)
        assert curve.error_x.array[1] + curve.error_x.arrayminus[1] == pytest.approx(factor * (high - low))
        assert [mark.x[0] for mark in exact] == [0] * 4 and all(mark.name.endswith(", exact") for mark in exact)
        assert curve.name == "relaxed, changes the text"


def test_the_text_has_naives_tokens(measured, models):
    result = measured[-1]
    run = result.points[1].runs[0]
    shown = pieces(models, result.questions[0], run)
    assert "".join(piece.text for piece in shown) == models.tokenizer.decode(run.tokens, skip_special_tokens=True)
    changed = [piece for piece in shown if piece.naive is not None]
    assert len(changed) == round(run.changed * len(run.tokens)) > 0
    assert all(piece.naive != piece.text and 0 < piece.p <= 1 for piece in changed)


def test_an_exact_rule_has_no_tradeoff(models):
    with pytest.raises(SettingsError, match="typical"):
        next(tradeoff(models, "coupled"))
