"""The Lab's figures show the numbers of the results, and a note if there are none."""

from dataclasses import replace

import pytest
from test_lab_experiments import COSTS, CURVE, row

from lookahead.core.numbers import ranged
from lookahead.measure import charts, dice
from lookahead.measure.decision import Level
from lookahead.measure.experiments import EXPERIMENTS, Result, tables
from lookahead.measure.progress import Arm
from lookahead.measure.published import batches, published
from lookahead.measure.sweeps import Point, Sweep
from lookahead.measure.tables import report_markdown
from lookahead.page.lab import claims
from lookahead.trace.charts import DARK, LIGHT


def arm(*speedups):
    return Arm.from_rows("an arm <b>", "draft", [row(speedup) for speedup in speedups])


def point(x, speedup, acceptance=0.6):
    return Point(x, Arm.from_rows(f"k = {x}", "draft", [row(speedup, acceptance=acceptance)]), 2.2, 1.9)


RESULTS = [
    Result(EXPERIMENTS["good-match"], (arm(1.8, 2.4, 2.0),)),
    Result(EXPERIMENTS["short-outputs"], (arm(1.2), arm(2.0))),
    Result(EXPERIMENTS["compute-bound"], (arm(2.0),), (Level(1, 2.0, (1.9, 2.1)), Level(64, 0.6, (0.5, 0.7)))),
    Result(EXPERIMENTS["alignment"], (Arm("x", "draft"), Arm("y", "draft"))),
]  # fmt: skip


NO_RESULTS = ({}, "")  # from another machine


def drawn(figure):
    return {trace.name: trace for trace in figure.data}


@pytest.mark.parametrize("dark", [False, True])
def test_claims_have_measurements(dark):
    marks = drawn(charts.expectations(RESULTS, NO_RESULTS, dark))
    here, claimed, compared = marks["measured here"], marks["claimed"], marks["compared with"]
    assert list(here.x) == [2.0, 1.2, 0.6] and len(here.y) == 3, "experiments without results have no mark"
    low, high = RESULTS[0].between
    assert here.error_x.array[0] == pytest.approx(high - 2.0) and here.error_x.arrayminus[0] == pytest.approx(2.0 - low)
    assert high > 2.0 > low and ranged((low, high)) in claims._cell(RESULTS[0]), "as the row's text"
    assert claimed.y[0] == "Good draft model match" and len(claimed.y) == 5
    assert (claimed.base[0], claimed.base[0] + claimed.x[0]) == (2.0, 3.0)
    assert list(compared.x) == [2.0, 2.0]
    assert here.customdata[2][0] == "64 texts at once" and "<b>" not in here.customdata[0][0]
    assert here.error_x.array[2] == pytest.approx(0.1), "for a batch, its interval"
    assert here.marker.color == (DARK if dark else LIGHT)["lanes"][0]


def test_generations_have_a_bar_for_each_number():
    arms = [
        Arm.from_rows(name, name, [row(speedup, tokens)])
        for name, speedup, tokens in (("block <i>", 2.5, 3.0), ("draft", 1.5, 2.0))
    ]
    figure = charts.generations(Result(EXPERIMENTS["generations"], (*arms, Arm("medusa", "medusa"))))
    marks = drawn(figure)
    assert list(marks["tokens per pass"].y) == ["draft", "block &lt;i&gt;"], (
        "the oldest first; an arm without results has no bar"
    )
    assert list(marks["tokens per pass"].x) == [2.0, 3.0] and list(marks["speedup"].text) == ["1.50x", "2.50x"]
    assert list(marks["draft cost (naive passes)"].x) == [0.3, 0.3]
    assert len({bar.marker.pattern.shape for bar in figure.data}) == 3, "they differ in hatching, too"
    empty = charts.generations(None)
    assert not empty.data and empty.layout.annotations[0].text == charts.NOTHING


def test_a_sweep_has_its_theory():
    marks = drawn(charts.sweep(Sweep("draft length", (point(1, 1.4), point(4, 1.8)))))
    assert list(marks["measured here"].y) == [1.4, 1.8] and list(marks["measured here"].x) == [1, 4]
    assert [list(marks[name].y) for name in ("theory, free rows", "theory, measured costs")] == [
        [2.2, 2.2], [1.9, 1.9],
    ]  # fmt: skip
    assert "60% accepted" in marks["measured here"].customdata[0]


@pytest.mark.parametrize("last", [2, 16, 256])
def test_a_sweep_of_whole_numbers_has_whole_ticks(last):
    step = charts.sweep(Sweep("k", (point(1, 1.4), point(last, 1.8)))).layout.xaxis.dtick
    assert step == int(step) >= 1 and last / step <= 12
    assert charts.sweep(Sweep("temperature", (point(0.3, 1.4),))).layout.xaxis.dtick is None


def test_the_surface_has_the_measured_points():
    figure = charts.speedup_surface(COSTS, [point(2, 1.7), point(4, 1.1, None)])
    marks = drawn(figure)
    speedups = [[COSTS.predict(alpha, k, "draft").speedup for k in charts.KS] for alpha in charts.ALPHAS]
    assert [list(cells) for cells in marks["theory, measured costs"].z] == speedups
    assert list(marks["measured here"].x) == [2] and list(marks["measured here"].y) == [60]
    assert marks["naive speed"].contours.value == 1.0


def test_the_cost_curve_is_between_free_rows_and_full_cost():
    marks = drawn(charts.cost_curve(CURVE))
    assert list(marks["measured here"].y) == pytest.approx([s / CURVE.seconds[0] for s in CURVE.seconds])
    rows = zip(marks["free rows"].y, marks["measured here"].y, marks["rows at full cost"].y, strict=True)
    assert all(low <= here <= high for low, here, high in rows)


def test_the_dice_chart_has_the_counts():
    *_, histogram = dice.throw(throws=200)
    marks = drawn(charts.dice(histogram))
    assert list(marks["observed in 200 throws"].y) == [n / 2 for n in histogram.counts]
    for name, shares in (("the target's p", dice.P), ("the drafter's q", dice.Q)):
        assert list(marks[name].x) == list(dice.WORDS), "words, not ids"
        assert list(marks[name].y) == pytest.approx([100 * share for share in shares])
    both = drawn(charts.dice(histogram, other=replace(histogram, counts=(200, *(0,) * 7))))
    assert both["the correct rule"].y == marks["observed in 200 throws"].y
    assert list(both["with the bug"].y) == [100, *(0,) * 7]


@pytest.mark.parametrize("dark", [False, True])
def test_a_figure_without_results_has_a_note(dark):
    for figure in (charts.sweep(Sweep("k"), dark), charts.load([], dark), charts.pass_parts((), dark)):
        assert charts.NOTHING in " ".join(note.text for note in figure.layout.annotations)


def test_marks_differ_in_more_than_color():
    for figure in (charts.expectations(RESULTS, NO_RESULTS), charts.sweep(Sweep("k", (point(1, 1.4), point(2, 2.0))))):
        styles = [
            (trace.type, getattr(trace.marker, "symbol", None), getattr(getattr(trace, "line", None), "dash", None))
            for trace in figure.data
        ]
        assert len(set(styles)) == len(styles), styles
        assert figure.layout.showlegend


def test_a_load_has_theory_and_a_mark_where_it_stops_paying():
    levels = [Level(1, 2.0, (1.8, 2.2)), Level(4, 1.2, (1.1, 1.3)), Level(16, 0.8, (0.7, 0.9))]
    figure = charts.load(levels, theory=[2.1, 0.9, 0.5])
    marks = drawn(figure)
    assert list(marks["theory, drafting as for one text"].y) == [2.1, 0.9, 0.5]
    line = next(shape for shape in figure.layout.shapes if shape.x0 == shape.x1 and shape.yref.endswith("domain"))
    assert line.x0 == pytest.approx(1.5), "halfway between 4 and 16"
    assert "off from 8 texts" in figure.to_json()
    assert "off from" not in charts.load(levels[:2]).to_json()


def test_a_shared_pass_has_a_bar_for_each_text():
    passes = [[(3, 2), (0, 0)], [(4, 0), (1, 1)]]
    bars = drawn(charts.shared_pass(passes, 1))
    assert list(bars["root (the text's last token)"].x) == [1, 1]
    assert list(bars["drafted, accepted"].x) == [2, 0] and list(bars["drafted, not accepted"].x) == [1, 0]
    assert list(drawn(charts.shared_pass(passes, 9))["drafted, accepted"].x) == [0, 1], (
        "a number after the last pass is the last pass"
    )
    assert not charts.shared_pass([], 1).data


def test_expectations_start_with_claims_and_results_of_another_machine():
    known, machine = published()
    assert known.keys() == {e.title for e in EXPERIMENTS.values()}
    figure = charts.expectations([], (known, machine))
    marks = drawn(figure)
    elsewhere = [mark for name, mark in marks.items() if name.startswith("measured on")]
    assert all(mark.marker.symbol.endswith("-open") for mark in elsewhere)
    assert {title: x for mark in elsewhere for title, x in zip(mark.y, mark.x, strict=True)} == {
        title: speedup for title, (speedup, _) in known.items()
    }
    assert len(elsewhere) == 1, "all results are from one machine"
    assert marks[charts.CLAIM].y and charts.HERE not in marks and not figure.layout.annotations
    assert list(figure.layout.yaxis.categoryarray) == [e.title for e in EXPERIMENTS.values()]
    assert tuple(figure.layout.yaxis.range) == (len(EXPERIMENTS) - 0.5, -0.5), "a claim without a mark has a row"


def test_a_page_without_a_table_has_no_results(tmp_path):
    assert published(tmp_path / "none.md") == ({}, "")
    assert batches(tmp_path / "none.md") == ({}, "")


def test_batches_start_with_results_of_another_machine():
    by_method, machine = batches()
    assert machine and {"draft", "suffix", "hybrid"} <= by_method.keys()
    for levels in by_method.values():
        assert [level.at_once for level in levels] == [1, 2, 4, 8, 16, 32, 64]
        assert all(level.interval[0] <= level.speedup <= level.interval[1] for level in levels)


def test_the_lab_reads_the_tables_that_the_command_writes(tmp_path):
    """The table is padded as by `--update`, and one experiment has no result."""
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
    readme.write_text(
        "\n".join(["<!-- lab -->", report_markdown(report, tables(report)), "<!-- /lab -->"]), encoding="utf-8"
    )
    known, machine = published(readme)
    assert machine == "A CPU, 4 cores"
    assert {title: speedup for title, (speedup, _) in known.items()} == {
        "Good draft model match": 2.0, "Short outputs": 1.2, "Compute-bound": 0.6,
    }  # fmt: skip
