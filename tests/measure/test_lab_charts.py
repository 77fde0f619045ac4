"""The lab's figures: the numbers in them are the results', and an empty one says so."""

import pytest
from test_lab_experiments import COSTS, CURVE, row

from lookahead.measure import charts, dice, sweeps
from lookahead.measure.experiments import EXPERIMENTS, Batch, Result
from lookahead.measure.progress import Arm
from lookahead.measure.sweeps import Point, Sweep
from lookahead.trace.charts import DARK, LIGHT


def arm(*speedups):
    return Arm.of("an arm <b>", "draft", [row(speedup) for speedup in speedups])


def point(x, speedup, acceptance=0.6):
    return Point(x, f"k = {x}", arm(speedup), acceptance, 2.5, 2.2, 1.9)


RESULTS = [
    Result(EXPERIMENTS["good-match"], (arm(1.8, 2.4, 2.0),)),
    Result(EXPERIMENTS["short-outputs"], (arm(1.2), arm(2.0))),
    Result(EXPERIMENTS["compute-bound"], (arm(2.0),), (Batch(1, 5, 1.1, 0.2, 2.0, 1.9, 2.1), Batch(64, 320, 4, 0.2, 0.6, 0.5, 0.7))),
    Result(EXPERIMENTS["alignment"], (Arm("x", "draft"), Arm("y", "draft"))),
]  # fmt: skip


def drawn(figure):
    return {trace.name: trace for trace in figure.data}


@pytest.mark.parametrize("dark", [False, True])
def test_claims_stand_beside_measurements(dark):
    marks = drawn(charts.expectations(RESULTS, dark))
    here, claimed, beside = marks["measured here"], marks["claimed"], marks["compared with"]
    assert list(charts.expectations(RESULTS).layout.yaxis.categoryarray) == list(here.y)
    assert list(here.x) == [2.0, 1.2, 0.6] and len(here.y) == 3, "what has not been measured has no mark"
    assert here.error_x.array[0] == pytest.approx(2.5 - 2.0) and here.error_x.arrayminus[0] == pytest.approx(2.0 - 1.7)
    assert list(claimed.y) == ["Good draft model match"]
    assert (claimed.base[0], claimed.base[0] + claimed.x[0]) == (2.0, 3.0)
    assert list(beside.x) == [2.0, 2.0]
    assert "(computed)" in here.customdata[2][0] and "<b>" not in here.customdata[0][0]
    assert here.marker.color == (DARK if dark else LIGHT)["lanes"][0]


def test_generations_have_a_bar_for_each_number():
    arms = [
        Arm.of(name, name, [row(speedup, tokens)])
        for name, speedup, tokens in (("block <i>", 2.5, 3.0), ("draft", 1.5, 2.0))
    ]
    figure = charts.generations(Result(EXPERIMENTS["generations"], (*arms, Arm("medusa", "medusa"))))
    marks = drawn(figure)
    assert list(marks["tokens a pass"].y) == ["draft", "block &lt;i&gt;"], (
        "the oldest first; what was not measured has no bar"
    )
    assert list(marks["tokens a pass"].x) == [2.0, 3.0] and list(marks["speedup"].text) == ["1.50x", "2.50x"]
    assert list(marks["draft cost (ordinary passes)"].x) == [0.3, 0.3]
    assert len({bar.marker.pattern.shape for bar in figure.data}) == 3, "told apart by hatching too"
    empty = charts.generations(None)
    assert not empty.data and empty.layout.annotations[0].text == charts.NOTHING


def test_a_sweep_stands_beside_its_theory():
    marks = drawn(charts.sweep(Sweep("draft length", (point(1, 1.4), point(4, 1.8)))))
    assert list(marks["measured here"].y) == [1.4, 1.8] and list(marks["measured here"].x) == [1, 4]
    assert [list(marks[name].y) for name in ("theory, verifying for nothing", "theory, verifying as measured")] == [
        [2.2, 2.2], [1.9, 1.9],
    ]  # fmt: skip
    assert "60% accepted" in marks["measured here"].customdata[0]


def test_the_surface_carries_the_measured_points():
    surface = sweeps.surface(COSTS, alphas=(0.0, 0.5, 1.0), ks=(0, 2, 4))
    figure = charts.speedup_surface(surface, [point(2, 1.7), point(4, 1.1, None)])
    marks = drawn(figure)
    assert [list(cells) for cells in marks["theory, verifying as measured"].z] == [list(c) for c in surface.speedup]
    assert list(marks["measured here"].x) == [2] and list(marks["measured here"].y) == [60]
    assert marks["naive's speed"].contours.value == 1.0


def test_the_cost_curve_lies_between_nothing_and_full_price():
    marks = drawn(charts.cost_curve(CURVE))
    assert list(marks["measured here"].y) == pytest.approx([s / CURVE.seconds[0] for s in CURVE.seconds])
    rows = zip(marks["rows for nothing"].y, marks["measured here"].y, marks["rows at full price"].y, strict=True)
    assert all(low <= here <= high for low, here, high in rows)


def test_the_dice_are_those_that_fell():
    *_, thrown = dice.throw(throws=200)
    marks = drawn(charts.dice(thrown))
    assert list(marks["fallen in 200 throws"].y) == [n / 2 for n in thrown.seen]
    assert list(marks["the target's p"].y) == pytest.approx([100 * p for p in dice.P])


@pytest.mark.parametrize("dark", [False, True])
def test_where_nothing_was_measured_the_figure_says_so(dark):
    for figure in (charts.expectations([], dark), charts.sweep(Sweep("k"), dark), charts.dice(None, dark)):
        assert charts.NOTHING in " ".join(note.text for note in figure.layout.annotations)


def test_more_than_colour_tells_things_apart():
    for figure in (charts.expectations(RESULTS), charts.sweep(Sweep("k", (point(1, 1.4), point(2, 2.0))))):
        looks = [
            (trace.type, getattr(trace.marker, "symbol", None), getattr(getattr(trace, "line", None), "dash", None))
            for trace in figure.data
        ]
        assert len(set(looks)) == len(looks), looks
        assert figure.layout.showlegend
