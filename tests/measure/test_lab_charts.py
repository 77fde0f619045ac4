"""The lab's figures: the numbers in them are the results', and an empty one says so."""

import pytest
from test_lab_experiments import COSTS, CURVE, row

from lookahead.measure import charts, dice
from lookahead.measure.decision import Level
from lookahead.measure.experiments import EXPERIMENTS, Result, tables
from lookahead.measure.progress import Arm
from lookahead.measure.published import batches, published
from lookahead.measure.sweeps import Point, Sweep
from lookahead.measure.tables import of_report
from lookahead.trace.charts import DARK, LIGHT


def arm(*speedups):
    return Arm.of("an arm <b>", "draft", [row(speedup) for speedup in speedups])


def point(x, speedup, acceptance=0.6):
    return Point(x, Arm.of(f"k = {x}", "draft", [row(speedup, acceptance=acceptance)]), 2.2, 1.9)


RESULTS = [
    Result(EXPERIMENTS["good-match"], (arm(1.8, 2.4, 2.0),)),
    Result(EXPERIMENTS["short-outputs"], (arm(1.2), arm(2.0))),
    Result(EXPERIMENTS["compute-bound"], (arm(2.0),), (Level(1, 2.0, (1.9, 2.1)), Level(64, 0.6, (0.5, 0.7)))),
    Result(EXPERIMENTS["alignment"], (Arm("x", "draft"), Arm("y", "draft"))),
]  # fmt: skip


NOWHERE = ({}, "")  # no figures of another machine


def drawn(figure):
    return {trace.name: trace for trace in figure.data}


@pytest.mark.parametrize("dark", [False, True])
def test_claims_stand_beside_measurements(dark):
    marks = drawn(charts.expectations(RESULTS, NOWHERE, dark))
    here, claimed, beside = marks["measured here"], marks["claimed"], marks["compared with"]
    assert list(here.x) == [2.0, 1.2, 0.6] and len(here.y) == 3, "what has not been measured has no mark"
    assert here.error_x.array[0] == pytest.approx(2.5 - 2.0) and here.error_x.arrayminus[0] == pytest.approx(2.0 - 1.7)
    assert claimed.y[0] == "Good draft model match" and len(claimed.y) == 5
    assert (claimed.base[0], claimed.base[0] + claimed.x[0]) == (2.0, 3.0)
    assert list(beside.x) == [2.0, 2.0]
    assert here.customdata[2][0] == "64 texts at once" and "<b>" not in here.customdata[0][0]
    assert here.error_x.array[2] == pytest.approx(0.1), "of a batch, its interval"
    assert here.marker.color == (DARK if dark else LIGHT)["lanes"][0]


def test_generations_have_a_bar_for_each_number():
    arms = [
        Arm.of(name, name, [row(speedup, tokens)])
        for name, speedup, tokens in (("block <i>", 2.5, 3.0), ("draft", 1.5, 2.0))
    ]
    figure = charts.generations(Result(EXPERIMENTS["generations"], (*arms, Arm("medusa", "medusa"))))
    marks = drawn(figure)
    assert list(marks["tokens per pass"].y) == ["draft", "block &lt;i&gt;"], (
        "the oldest first; what was not measured has no bar"
    )
    assert list(marks["tokens per pass"].x) == [2.0, 3.0] and list(marks["speedup"].text) == ["1.50x", "2.50x"]
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


@pytest.mark.parametrize("last", [2, 16, 256])
def test_under_a_sweep_of_whole_numbers_stand_whole_numbers(last):
    step = charts.sweep(Sweep("k", (point(1, 1.4), point(last, 1.8)))).layout.xaxis.dtick
    assert step == int(step) >= 1 and last / step <= 12
    assert charts.sweep(Sweep("temperature", (point(0.3, 1.4),))).layout.xaxis.dtick is None


def test_the_surface_carries_the_measured_points():
    figure = charts.speedup_surface(COSTS, [point(2, 1.7), point(4, 1.1, None)])
    marks = drawn(figure)
    speedups = [[COSTS.predict(alpha, k, "draft").speedup for k in charts.KS] for alpha in charts.ALPHAS]
    assert [list(cells) for cells in marks["theory, verifying as measured"].z] == speedups
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
    for figure in (charts.sweep(Sweep("k"), dark), charts.load([], dark), charts.pass_parts((), dark)):
        assert charts.NOTHING in " ".join(note.text for note in figure.layout.annotations)


def test_more_than_colour_tells_things_apart():
    for figure in (charts.expectations(RESULTS, NOWHERE), charts.sweep(Sweep("k", (point(1, 1.4), point(2, 2.0))))):
        looks = [
            (trace.type, getattr(trace.marker, "symbol", None), getattr(getattr(trace, "line", None), "dash", None))
            for trace in figure.data
        ]
        assert len(set(looks)) == len(looks), looks
        assert figure.layout.showlegend


def test_a_load_has_theory_behind_it_and_its_end_marked():
    levels = [Level(1, 2.0, (1.8, 2.2)), Level(4, 1.2, (1.1, 1.3)), Level(16, 0.8, (0.7, 0.9))]
    figure = charts.load(levels, theory=[2.1, 0.9, 0.5])
    marks = drawn(figure)
    assert list(marks["theory, drafting as for one"].y) == [2.1, 0.9, 0.5]
    line = next(shape for shape in figure.layout.shapes if shape.x0 == shape.x1 and shape.yref.endswith("domain"))
    assert line.x0 == pytest.approx(1.5), "halfway between 4 and 16"
    assert "off from 8" in figure.to_json()
    assert "off from" not in charts.load(levels[:2]).to_json()


def test_a_shared_pass_is_a_line_a_text():
    passes = [[(3, 2), (0, 0)], [(4, 0), (1, 1)]]
    bars = drawn(charts.shared_pass(passes, 1))
    assert list(bars["the text's own row"].x) == [1, 1]
    assert list(bars["drafted, accepted"].x) == [2, 0] and list(bars["drafted, not accepted"].x) == [1, 0]
    assert list(drawn(charts.shared_pass(passes, 9))["drafted, accepted"].x) == [0, 1], "no pass behind the last"
    assert not charts.shared_pass([], 1).data


def test_expectations_open_with_claims_and_what_was_measured_elsewhere():
    known, machine = published()
    assert known.keys() == {e.title for e in EXPERIMENTS.values()}
    figure = charts.expectations([], (known, machine))
    marks = drawn(figure)
    elsewhere = [mark for name, mark in marks.items() if name.startswith("measured on")]
    assert all(mark.marker.symbol.endswith("-open") for mark in elsewhere)
    assert {title: x for mark in elsewhere for title, x in zip(mark.y, mark.x, strict=True)} == {
        title: speedup for title, (speedup, _) in known.items()
    }
    assert len(elsewhere) == 1, "all of them by one machine"
    assert marks[charts.CLAIM].y and charts.HERE not in marks and not figure.layout.annotations
    assert list(figure.layout.yaxis.categoryarray) == [e.title for e in EXPERIMENTS.values()]
    assert tuple(figure.layout.yaxis.range) == (len(EXPERIMENTS) - 0.5, -0.5), "a claim without a mark has its row"


def test_a_readme_without_a_table_tells_nothing(tmp_path):
    assert published(tmp_path / "none.md") == ({}, "")
    assert batches(tmp_path / "none.md") == ({}, "")


def test_batches_open_with_what_was_measured_elsewhere():
    by_method, machine = batches()
    assert machine and {"draft", "suffix", "hybrid"} <= by_method.keys()
    for levels in by_method.values():
        assert [level.at_once for level in levels] == [1, 2, 4, 8, 16, 32, 64]
        assert all(level.interval[0] <= level.speedup <= level.interval[1] for level in levels)


def test_what_the_command_writes_is_what_the_lab_shows(tmp_path):
    """The table as `--update` pads it, one experiment not measured."""
    report = {
        "machine": {"cpu": "A CPU", "cores": 4, "dtype": "bfloat16"}, "exactness": "bit-exact", "note": "a note",
        "experiments": [
            {
                **result.experiment.listing(), "measured": result.measured.label, "median": result.measured.median,
                "low": result.measured.low, "high": result.measured.high, "interval": None, "compared": None, "outcome": "",
            }
            for result in RESULTS
        ],
    }  # fmt: skip
    readme = tmp_path / "README.md"
    readme.write_text("\n".join(["<!-- lab -->", of_report(report, tables(report)), "<!-- /lab -->"]), encoding="utf-8")
    known, machine = published(readme)
    assert machine == "A CPU, 4 cores"
    assert {title: speedup for title, (speedup, _) in known.items()} == {
        "Good draft model match": 2.0, "Short outputs": 1.2, "Compute-bound": 0.6,
    }  # fmt: skip
