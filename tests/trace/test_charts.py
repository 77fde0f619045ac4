"""The figures: each number equals a statistic of the race, and an empty figure shows the reason."""

import itertools
import json

import pytest
from color import contrast, palette
from synthetic import SECONDS, lane, trace

from lookahead import Trace
from lookahead.trace import charts

FIGURES = charts.FIGURES
BY_LANE = FIGURES[:3]  # those that draw a line or a group of bars per lane


@pytest.fixture(scope="module")
def race():
    return trace(lane("naive"), lane("draft"), lane("lookahead"), lane("draft", opaque=True))


def annotations(figure):
    """Return the texts in a figure, without its axes."""
    return " ".join(note.text for note in figure.layout.annotations)


def traces_by_name(figure):
    return {bar.name: bar for bar in figure.data}


# ------------------------------------------------------------------ the numbers


def test_tokens_over_time_ends_where_the_lanes_end(race):
    figure = charts.tokens_over_time(race)
    assert len(figure.data) == len(race.lanes)
    for line, record in zip(figure.data, race.lanes, strict=True):
        assert (line.x[0], line.y[0]) == (0, 0) and line.line.shape == "hv"
        assert (line.x[-1], line.y[-1]) == (pytest.approx(record.clock_s), len(record.tokens))
        assert list(line.x) == sorted(line.x) and list(line.y) == sorted(line.y)


def test_acceptance_by_position_is_the_statistic(race):
    bars = traces_by_name(charts.acceptance_by_position(race))
    assert bars.keys() == {"draft", "lookahead"}
    for number in (1, 2):
        bar, stats = bars[race.lanes[number].method], race.stats(number)
        assert [y / 100 for y in bar.y] == pytest.approx(stats["acceptance_rate_per_position"])
        assert sum(accepted for accepted, _ in bar.customdata) == stats["num_accepted_draft_tokens"]
        first = [s.statuses[0] for s in race.lanes[number].verified if s.tested and not s.finish]
        assert 0 <= bar.customdata[0][1] - len(first) <= 1, "every draft's first token is tested"


def test_accepted_per_pass_is_the_histogram(race):
    bars = traces_by_name(charts.accepted_per_pass(race))
    assert bars.keys() == {"draft", "lookahead", "hf-assisted"}, "an opaque lane reports its accepted tokens"
    for number, record in enumerate(race.lanes[1:], start=1):
        bar, stats = bars[record.method], race.stats(number)
        assert [count for count, _ in bar.customdata] == stats["accepted_histogram"]
        assert sum(bar.y) == pytest.approx(100)


def test_time_per_token_is_the_clock_over_the_tokens(race):
    bars = charts.time_per_token(race).data
    assert [bar.name for bar in bars] == ["drafting", "the target's pass", "the rest"]
    for number, record in enumerate(race.lanes):
        assert sum(bar.x[number] for bar in bars) == pytest.approx(1e3 * record.clock_s / len(record.tokens))
    assert bars[0].x[0] == 0, "naive drafts nothing"


def test_a_prediction_by_hand():
    """Two passes of 5 rows that write 3 and 2 tokens, drafting 1 ms each: 5 tokens for 2 * (6.0 + 1) ms against 5 ms per token."""
    record = lane("draft", 12, 4)
    step = record.steps[1]
    chain = step.draft.model_copy(
        update={"tokens": [1] * 4, "parents": [-1, 0, 1, 2], "pieces": ["a"] * 4, "sources": ["draft"] * 4}
    )
    steps = [
        step.model_copy(update={"draft": chain, "statuses": ["accepted"] * 4, "emitted": [1] * n, "propose_s": 0.001})
        for n in (3, 2)
    ]
    race = trace(lane("naive", 12), record.model_copy(update={"steps": steps}))
    assert race.predicted(1).speedup == pytest.approx(5 * SECONDS[0] / (2 * (SECONDS[3] + 0.001)))


def test_predicted_against_measured(race):
    figure = charts.predicted_against_measured(race)
    points = traces_by_name(figure)
    assert points.keys() == {"draft", "lookahead"}
    for number in (1, 2):
        point = points[race.lanes[number].method]
        assert point.y == (pytest.approx(race.stats(number)["speedup"]),)
        assert point.x == (pytest.approx(race.predicted(number).speedup),)
    assert "hf-assisted does not report its rows" in annotations(figure)
    assert race.predicted(3) is None
    line = figure.layout.shapes[0]
    assert (
        (line.x0, line.x1) == (line.y0, line.y1) == tuple(figure.layout.xaxis.range) == tuple(figure.layout.yaxis.range)
    )


# ------------------------------------------------------------------ empty figures show the reason


CASES = {
    "no lane": trace(),
    "nothing ran": trace(*(lane(m, 4).model_copy(update={"steps": []}) for m in ("naive", "draft"))),
    "prefill only": trace(*(r.model_copy(update={"steps": r.steps[:1]}) for r in (lane("naive", 4), lane("draft", 4)))),
    "naive alone": trace(lane("naive")),
    "draft alone": trace(lane("draft")),
    "opaque": trace(lane("naive"), lane("draft", opaque=True)),
    "opaque alone": trace(lane("draft", opaque=True)),
    "no draft": trace(lane("naive"), lane("draft", k=0)),
}


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("make", FIGURES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("case", CASES)
def test_a_figure_has_data_or_shows_the_reason(case, make, dark):
    figure = make(CASES[case], dark)
    shown = [bar for bar in figure.data if len(bar.x)]
    assert shown or annotations(figure).endswith(".")
    json.loads(figure.to_json())


def test_messages_of_empty_figures():
    def message(make, case):
        return annotations(make(CASES[case]))

    assert message(charts.acceptance_by_position, "no draft") == "draft drafted nothing."
    assert message(charts.acceptance_by_position, "opaque") == "hf-assisted does not report its drafts."
    assert message(charts.acceptance_by_position, "naive alone") == "Nothing was drafted."
    assert message(charts.predicted_against_measured, "draft alone") == "There is no naive lane to compare with."
    assert {message(make, "no lane") for make in FIGURES[:4]} == {charts.NOTHING_RAN}


# ------------------------------------------------------------------ styles


@pytest.mark.parametrize("make", FIGURES, ids=lambda f: f.__name__)
def test_style_that_all_figures_share(race, make):
    figure = make(race)
    layout = figure.layout
    assert layout.paper_bgcolor == layout.plot_bgcolor == "rgba(0,0,0,0)"
    assert "system-ui" in layout.font.family
    assert layout.xaxis.title.text and (layout.yaxis.title.text or make is charts.time_per_token)
    assert layout.showlegend is True
    parts = make is charts.time_per_token  # the legend names them
    assert make(CASES["draft alone"]).layout.showlegend is parts, "one lane needs no legend"
    assert "gradient" not in figure.to_json()


@pytest.mark.parametrize("make", BY_LANE, ids=lambda f: f.__name__)
def test_lanes_differ_by_more_than_color(make):
    four = trace(lane("naive"), lane("draft"), lane("tree"), lane("lookahead"), lane("self"))
    data = make(four).data
    styles = [
        bar.line.dash if bar.type == "scatter" else bar.marker.pattern.shape for bar in data if bar.name != "naive"
    ]
    colors = [bar.line.color if bar.type == "scatter" else bar.marker.color for bar in data]
    assert len(styles) == len(set(styles)) == 4
    assert len(colors) == len(set(colors))


def test_the_style_of_the_last_lane_does_not_depend_on_the_number_of_lanes():
    few, many = ([lane("naive"), *more, lane("draft")] for more in ([], [lane("tree"), lane("self")]))
    last = [charts.tokens_over_time(trace(*lanes)).data[-1].line for lanes in (few, many)]
    assert last[0] == last[1]


def test_naive_is_grey():
    for dark, ink in ((False, charts.LIGHT), (True, charts.DARK)):
        line = charts.tokens_over_time(CASES["naive alone"], dark).data[0]
        assert line.line.color == ink["naive"]
        channels = [int(ink["naive"][i : i + 2], 16) for i in (1, 3, 5)]
        assert max(channels) - min(channels) < 16


@pytest.mark.parametrize(("block", "ink"), [(":root", charts.LIGHT), (".dark", charts.DARK)])
def test_inks_are_readable_on_the_page(block, ink):
    paper = palette(block)["paper"]
    assert contrast(ink["ink"], paper) >= 12
    for color in (ink["quiet"], ink["naive"], *ink["lanes"]):
        assert contrast(color, paper) >= 4.5, color


# Machado et al. 2009, severity 1: colors as seen without one kind of cone, in linear light.
BLIND = {
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def lab(linear):
    """Return the CIE L*a*b* of linear sRGB."""
    m = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    x, y, z = (sum(a * b for a, b in zip(row, linear, strict=True)) for row in m)
    fx, fy, fz = (
        v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116
        for v in (max(0, x / 0.9505), max(0, y), max(0, z / 1.089))
    )
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


@pytest.mark.parametrize("kind", [*BLIND, None])
@pytest.mark.parametrize("ink", [charts.LIGHT, charts.DARK], ids=["light", "dark"])
def test_lanes_differ_to_the_color_blind(ink, kind):
    seen = []
    for color in (ink["naive"], *ink["lanes"]):
        linear = [((c / 255 + 0.055) / 1.055) ** 2.4 for c in bytes.fromhex(color[1:])]
        seen.append(
            lab([sum(a * b for a, b in zip(row, linear, strict=True)) for row in BLIND[kind]] if kind else linear)
        )
    for a, b in itertools.combinations(range(len(seen)), 2):
        apart = sum((x - y) ** 2 for x, y in zip(seen[a], seen[b], strict=True)) ** 0.5
        assert apart > 8, f"{kind}: {a} and {b} are {apart:.1f} apart"


# ------------------------------------------------------------------ names


def test_lanes_have_different_names():
    race = trace(lane("naive"), lane("draft", k=4, draft="draft"), lane("draft", k=2, draft="offdomain"), lane("naive"))
    assert charts._names(race) == ["naive (lane 0)", "draft (draft)", "draft (offdomain)", "naive (lane 3)"]
    same = trace(lane("tree", 4, draft="a"), lane("tree", 4, draft="a"))
    assert len(set(charts._names(same))) == 2


@pytest.mark.parametrize("make", FIGURES, ids=lambda f: f.__name__)
def test_names_from_untrusted_traces_are_text(race, make):
    data = json.loads(race.to_json())
    data["lanes"][1]["method"] = '<a href="https://example.com">x</a>' + "y" * 150
    text = make(Trace.from_json(json.dumps(data))).to_json()
    assert "<a" not in text and "\\u003ca" not in text
