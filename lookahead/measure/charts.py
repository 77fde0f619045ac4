"""Figures of the Lab: claims, sweeps, batches, pass costs, dice and training.

A measured value is a solid mark with error bars. Claimed and computed values differ in dash, hatching and shape, not only in
color. All functions accept partial results, so a figure can be drawn before a run ends.
"""

import html
from collections.abc import Iterable, Mapping, Sequence
from math import log2
from typing import Any

import numpy as np
import plotly.graph_objects as go

from ..core.costs import CostCurve, PassCosts
from ..core.numbers import count, decimal, percent, ratio
from ..trace.charts import DASHES, HATCHES, SYMBOLS, Chart, tick_step
from .decision import KS, Level, crossing
from .dice import WORDS, Histogram, Q
from .experiments import EXPERIMENTS, Experiment, Result
from .machine import Comparison, PassParts
from .sweeps import LONG_K, Point, Sweep
from .tradeoff import Damage, Tradeoff
from .whatif import Outcome

NOTHING = "Nothing has been measured yet."
MAX_NATS = 9.0  # top of the loss axis; a unigram model has a loss of about 6 nats
CLAIM, HERE = "claimed", "measured here"
PART_HATCHES = ("", "/", "x", ".", "-")
DOTTED, DASHED = "2px,3px", "7px,3px"
LABELED = (0.2, 0.5, 1.0)  # weights of lossy rules
EXACT_SYMBOLS = ("circle-open", "square-open", "diamond-open", "triangle-up-open")
ALPHAS = tuple(i / 20 for i in range(21))  # acceptance rates of the speedup surface


def expectations(
    results: Sequence[Result], elsewhere: tuple[Mapping[str, tuple[float, str]], str], dark: bool = False
) -> go.Figure:
    """Draw each experiment's median speedup with its interval, over the claimed range. Naive decoding is at 1.

    A ring marks the arm to compare with, for claims without numbers. `elsewhere` has the results of another machine, as
    returned by `published`, drawn as hollow marks.
    """
    chart = Chart(dark, "speedup (times naive)")
    done = [result for result in results if result.measured.median is not None]
    titles = {e.id: html.escape(e.title) for e in EXPERIMENTS.values()}
    claims = [e for e in EXPERIMENTS.values() if e.low is not None]
    chart.bars(
        [e.high - e.low for e in claims], [titles[e.id] for e in claims], CLAIM, "", base=[e.low for e in claims],
        width=0.62, marker=_hatched(chart), customdata=[e.claim for e in claims],
        hovertemplate="claimed: %{customdata}<extra></extra>",
    )  # fmt: skip
    chart.horizontal_bars(120 + 30 * len(EXPERIMENTS))

    def hollow(name: str, symbol: str, color: str, medians: Sequence[tuple[Experiment, float, str]]) -> None:
        if medians:
            chart.figure.add_scatter(
                x=[median for _, median, _ in medians], y=[titles[e.id] for e, _, _ in medians], name=name,
                mode="markers", customdata=[html.escape(label) for _, _, label in medians],
                marker={"symbol": symbol, "size": 11, "color": color, "line": {"width": 2}},
                hovertemplate="%{customdata}: %{x:.2f}x<extra></extra>",
            )  # fmt: skip

    references = [(r.experiment, r.compared.median, r.compared.label) for r in done if r.compared and r.compared.median]
    hollow("compared with", "circle-open", chart.ink["quiet"], references)
    by_title, machine = elsewhere
    others = [(e, *by_title[e.title]) for e in EXPERIMENTS.values() if e.title in by_title]
    hollow(f"measured on<br>{html.escape(machine)}", "diamond-open", chart.ink["ink"], others)
    if done:
        arms, color = [result.measured for result in done], chart.ink["lanes"][0]
        ends = [result.between for result in done]
        chart.figure.add_scatter(
            x=[arm.median for arm in arms], y=[titles[result.experiment.id] for result in done], name=HERE,
            mode="markers+text", text=[f"<b>{ratio(arm.median)}</b>" for arm in arms], textposition="top center",
            textfont={"color": chart.ink["ink"]},
            customdata=[[html.escape(arm.label), *between] for arm, between in zip(arms, ends, strict=True)],
            marker={"symbol": "diamond", "size": 12, "color": color},
            error_x=_errors(((low, arm.median, high) for arm, (low, high) in zip(arms, ends, strict=True)), color),
            hovertemplate="%{customdata[0]}: %{x:.2f}x, %{customdata[1]:.2f}x to %{customdata[2]:.2f}x<extra></extra>",
        )  # fmt: skip
    highs = [*(result.between[1] for result in done), *(e.high for e in claims), *(median for _, median, _ in others)]
    chart.figure.update_xaxes(range=[0, 1.1 * max([2.0, *highs])], ticksuffix="x")
    chart.figure.add_vline(x=1, line=_naive(chart))
    rows = {"range": [len(titles) - 0.5, -0.5], "categoryorder": "array", "categoryarray": [*titles.values()]}
    chart.figure.update_yaxes(autorange=None, **rows)  # with a row for each claim, even without a result
    return chart.finish()


def generations(result: Result | None, dark: bool = False) -> go.Figure:
    """Draw tokens per pass, draft cost and speedup of each drafter, the oldest first."""
    chart = Chart(dark, "value (units in the legend)")
    arms = [arm for arm in reversed(result.arms) if arm.rows] if result else []
    if not arms:
        return chart.finish(NOTHING)
    kinds = (
        ("tokens per pass", [arm.mean("tokens_per_pass") for arm in arms], "", " tokens", 0),
        ("draft cost (naive passes)", [arm.mean("draft_cost") for arm in arms], "/", " passes", 2),
        ("speedup", [arm.median for arm in arms], "x", "x", 1),
    )
    for name, values, hatch, unit, color in kinds:
        chart.bars(
            values, [html.escape(arm.label) for arm in arms], name, chart.ink["lanes"][color], hatch, cliponaxis=False,
            text=[f"{decimal(value)}{unit}" for value in values], textposition="outside",
            textfont={"color": chart.ink["ink"]}, hovertemplate=f"%{{y}}: %{{x:.2f}}{unit}",
        )  # fmt: skip
    chart.horizontal_bars(140 + 88 * len(arms), "group")
    chart.figure.add_vline(x=1, line=_naive(chart))
    chart.figure.update_xaxes(range=[0, 1.6 * max(max(values) for _, values, *_ in kinds)])
    return chart.finish()


def growing(
    losses: Sequence[tuple[float, float]], accepted: Sequence[tuple[float, float]], dark: bool = False
) -> go.Figure:
    """Draw the loss and the measured tokens per pass of a drafter over training time. Points are (seconds, value)."""
    chart = Chart(dark, "training time (s)", "tokens per pass")
    if not losses:
        return chart.finish(NOTHING)
    hover = "loss %{y:.2f} at %{x:.0f} s"
    chart.line(*zip(*losses, strict=True), "loss", chart.ink["naive"], DOTTED, yaxis="y2", hovertemplate=hover)
    if accepted:
        hover = "%{y:.2f} tokens per pass at %{x:.0f} s"
        chart.line(*zip(*accepted, strict=True), "tokens per pass", **_measured(chart), hovertemplate=hover)
    chart.figure.update_yaxes(range=[0.95, max([2.0, *(1.05 * tokens for _, tokens in accepted)])])
    chart.figure.update_xaxes(range=[0, max([60.0, *(s for s, _ in (*losses[-1:], *accepted[-1:]))])])
    right = {
        **chart.figure.layout.yaxis.to_plotly_json(), "overlaying": "y", "side": "right", "showgrid": False,
        "tickmode": "auto", "range": [0, MAX_NATS],
    }  # fmt: skip
    chart.figure.update_layout(height=264, yaxis2=right, yaxis2_title_text="loss (nats)")
    return chart.finish()


def sweep(swept: Sweep, dark: bool = False) -> go.Figure:
    """Draw the measured speedup of each point with its extremes, and the predictions."""
    chart = Chart(dark, html.escape(swept.setting), "speedup (times naive)")
    points = swept.points
    if not points:
        return chart.finish(NOTHING)
    if forecasts := swept.forecasts:
        ks, color = [forecast.k for forecast in forecasts], chart.ink["lanes"][2]
        if all(forecast.interval for forecast in forecasts):
            lows, highs = zip(*(forecast.interval for forecast in forecasts), strict=True)
            chart.line(
                [*ks, *reversed(ks)], [*highs, *reversed(lows)], "", color, width=0, fill="toself", opacity=0.15,
                hoverinfo="skip", fillcolor=color, showlegend=False,
            )  # fmt: skip
        chart.line(
            ks, [forecast.speedup for forecast in forecasts], f"predicted from k = 1 and {LONG_K}", color, "10px,3px,2px,3px",
            hovertemplate="%{y:.2f}x",
        )  # fmt: skip
    theories = ("leviathan", "free rows", DOTTED, 3), ("priced", "measured costs", DASHED, 1)
    for field, costs, dash, color in theories:
        predicted = {point.x: y for point in points if (y := getattr(point, field)) is not None}
        if predicted:
            style = chart.ink["lanes"][color], dash
            chart.line(predicted, predicted.values(), f"theory, {costs}", *style, hovertemplate="%{y:.2f}x")
    if all(float(point.x).is_integer() for point in points):
        chart.figure.update_xaxes(dtick=tick_step(max(point.x for point in points)))
    chart.line(
        [point.x for point in points], [point.arm.median for point in points], HERE, **_measured(chart),
        customdata=[_hover(point) for point in points], hovertemplate="%{customdata}<br>%{y:.2f}x",
        error_y=_errors(((p.arm.low, p.arm.median, p.arm.high) for p in points), chart.ink["lanes"][0]),
    )  # fmt: skip
    return _against_naive(chart)


def load(levels: Sequence[Level], dark: bool = False, theory: Sequence[float] = ()) -> go.Figure:
    """Draw the speedup with its intervals over the number of texts at once, and the number at which it falls below 1.

    `theory` has the predicted speedups if every text drafts as it does in the smallest batch.
    """
    chart = Chart(dark, "texts at once", "speedup (times without drafts)")
    measured = [level for level in levels if level.speedup]
    if not measured:
        return chart.finish(NOTHING)
    if theory:
        sizes, name = [str(level.at_once) for level in levels], "theory, drafting as for one text"
        chart.line(sizes, theory, name, chart.ink["lanes"][1], DASHED, hovertemplate="%{y:.2f}x")
    ranges = [(level.interval or (level.speedup,) * 2, level.speedup) for level in measured]
    chart.line(
        [str(level.at_once) for level in measured], [level.speedup for level in measured], "measured, 90% interval",
        **_measured(chart),
        error_y=_errors(((low, speedup, high) for (low, high), speedup in ranges), chart.ink["lanes"][0]),
        hovertemplate="%{x} at once: %{y:.2f}x",
    )  # fmt: skip
    chart.figure.update_xaxes(type="category")
    if end := crossing(measured):
        x = np.interp(log2(end), [log2(level.at_once) for level in measured], range(len(measured)))
        line = {"color": chart.ink["quiet"], "width": 1}
        chart.figure.add_vline(x=float(x), line=line, annotation_text=f"off from {round(end)} texts")
    return _against_naive(chart)


def shared_pass(passes: Sequence[Sequence[tuple[int, int]]], number: int, dark: bool = False) -> go.Figure:
    """Draw one pass of a batch, with a bar for each text: its root row, its accepted and its other drafted rows.

    `passes` has (drafted, accepted) for each text; `number` counts from 1.
    """
    chart = Chart(dark, "rows in the pass", "text")
    if not passes:
        return chart.finish(NOTHING)
    texts = passes[min(number, len(passes)) - 1]
    for name, counts, color, hatch in (
        ("root (the text's last token)", [1] * len(texts), chart.ink["naive"], ""),
        ("drafted, accepted", [accepted for _, accepted in texts], chart.ink["lanes"][0], ""),
        ("drafted, not accepted", [drafted - accepted for drafted, accepted in texts], chart.ink["quiet"], "/"),
    ):
        names = map(str, range(1, len(texts) + 1))
        chart.bars(counts, names, name, color, hatch, hovertemplate="text %{y}: %{x}")
    widest = max(1 + drafted for drafted, _ in texts)
    chart.figure.update_xaxes(range=[0, max(8, widest)], dtick=1 if widest <= 12 else 4)
    chart.horizontal_bars(140 + 14 * max(6, len(texts)))
    return chart.finish()


def what_if(ks: Sequence[int], lines: Sequence[tuple[Outcome, Outcome]], k: int, dark: bool = False) -> go.Figure:
    """Draw the predicted speedups of a lookup setting and of the oracle over the draft length, with a line at `k`."""
    chart = Chart(dark, "draft length k", "predicted speedup (times naive)")
    if not lines:
        return chart.finish(NOTHING)
    color = chart.ink["lanes"][0]
    settings, oracles = zip(*lines, strict=True)
    for outcomes, style in ((oracles, (chart.ink["quiet"], DASHED, 1.5)), (settings, (color, "solid", 2.5))):
        chart.line(
            ks, [outcome.speedup for outcome in outcomes], html.escape(outcomes[0].method), *style, mode="lines+markers",
            marker={"size": 7}, customdata=[[outcome.tokens_per_pass, len(outcome.steps)] for outcome in outcomes],
            hovertemplate="k = %{x}: %{y:.2f}x, %{customdata[0]:.2f} tokens per pass in %{customdata[1]} passes",
        )  # fmt: skip
    chart.figure.add_vline(x=k, line={"color": color, "width": 1})
    chart.figure.update_xaxes(dtick=tick_step(max(ks)), range=[min(ks) - 0.5, max(ks) + 0.5])
    return _against_naive(chart)


def speedup_surface(costs: PassCosts, points: Sequence[Point] = (), dark: bool = False) -> go.Figure:
    """Draw the draft model's predicted speedup as contours over draft length and acceptance rate.

    The prediction uses the measured pass costs. The thick contour is at speedup 1. `points` are labeled with the measured
    speedup.
    """
    chart = Chart(dark, "draft length k", "acceptance (% of tested tokens)")
    figure, ink = chart.figure, chart.ink
    speedups = [[costs.predict(alpha, k, "draft").speedup for k in KS] for alpha in ALPHAS]
    surface = {"x": KS, "y": [100 * alpha for alpha in ALPHAS], "z": speedups, "showscale": False}
    figure.add_contour(
        **surface, name="theory, measured costs", colorscale=[[0, ink["field"]], [1, ink["lanes"][1]]], opacity=0.75,
        line={"color": ink["quiet"], "width": 1}, contours={"showlabels": True, "labelfont": {"color": ink["ink"], "size": 12}},
        hovertemplate="k = %{x}, %{y:.0f}% accepted: %{z:.2f}x<extra></extra>",
    )  # fmt: skip
    figure.add_contour(
        **surface, name="naive speed", contours={"type": "constraint", "operation": "=", "value": 1.0},
        line={"color": ink["ink"], "width": 3}, hoverinfo="skip",
    )  # fmt: skip
    drafting = [point for point in points if point.acceptance is not None]
    if drafting:
        figure.add_scatter(
            x=[point.x for point in drafting], y=[100 * point.acceptance for point in drafting], name=HERE,
            mode="markers+text", text=[f"<b>{ratio(point.arm.median)}</b>" for point in drafting],
            textposition="top center", textfont={"color": ink["ink"]}, customdata=[_hover(point) for point in drafting],
            marker={"symbol": "diamond", "size": 12, "color": ink["lanes"][2], "line": {"width": 1, "color": ink["ink"]}},
            hovertemplate="%{customdata}<extra></extra>",
        )  # fmt: skip
    figure.update_xaxes(dtick=tick_step(KS[-1]))
    figure.update_yaxes(range=[0, 100])
    return chart.finish()


def cost_curve(curve: CostCurve, dark: bool = False) -> go.Figure:
    """Draw the cost of a pass over its rows, in one-row passes, with two reference lines: free rows, and rows at full cost."""
    chart, rows = Chart(dark, "rows in a pass", "cost (one-row passes)"), curve.rows
    for name, costs, dash in (("free rows", [1] * len(rows), DOTTED), ("rows at full cost", rows, DASHED)):
        chart.line(rows, costs, name, chart.ink["quiet"], dash, 1.5, hoverinfo="skip")
    mixed, experts = (
        (", %{customdata[1]:.1f} experts per layer", curve.experts) if curve.experts else ("", curve.seconds)
    )
    chart.line(
        rows, [curve.ratio(n) for n in rows], HERE, **_measured(chart),
        customdata=[(1e3 * s, number) for s, number in zip(curve.seconds, experts, strict=True)],
        hovertemplate=f"%{{x}} rows: %{{customdata[0]:.3g}} ms, %{{y:.2f}} one-row passes{mixed}<extra></extra>",
    )  # fmt: skip
    return _by_rows(chart, rows)


def formats(comparison: Comparison, dark: bool = False) -> go.Figure:
    """Draw the time of a pass over its rows for each number format (dash) and thread count (color).

    The combination in use has a thick line.
    """
    chart = Chart(dark, "rows in a pass", "time of a pass (ms)")
    used, counts = comparison.in_use, sorted({c.threads or 0 for c in comparison.combinations})
    counts.sort(key=lambda n: n != (used.threads or 0))  # the count in use has the first color
    for c in comparison.measured:
        style, other = counts.index(c.threads or 0), c.dtype != used.dtype
        chart.line(
            c.rows, [1e3 * s for s in c.pass_s], c.name + (", in use" if c.in_use else ""), chart.ink["lanes"][style],
            DASHED if other else "solid", 3.5 if c.in_use else 1.5, mode="lines+markers",
            marker={"symbol": SYMBOLS[style] + ("-open" if other else ""), "size": 10 if c.in_use else 8},
            customdata=[s / c.pass_s[0] for s in c.pass_s],
            hovertemplate="%{x} rows: %{y:.3g} ms, %{customdata:.2f} one-row passes",
        )  # fmt: skip
    return _by_rows(chart, used.rows)


def pass_parts(models: Sequence[PassParts], dark: bool = False) -> go.Figure:
    """Draw the parts of each model's one-row pass. The unit is the time to read the model's weights from memory."""
    chart = Chart(dark, "time / time to read the weights")
    if not models:
        return chart.finish(NOTHING)
    inks = (chart.ink["quiet"], *chart.ink["lanes"])
    for number, name in enumerate(dict.fromkeys(name for model in models for name in model.segments)):
        bars = [model for model in models if name in model.segments]
        chart.bars(
            [model.segments[name] / model.limit_s for model in bars], [model.role for model in bars], name, inks[number],
            PART_HATCHES[number], width=0.5, customdata=[1e3 * model.segments[name] for model in bars],
            hovertemplate="%{customdata:.3g} ms",
        )  # fmt: skip
    chart.horizontal_bars(120 + 56 * len(models))
    chart.figure.add_vline(x=1, line={"color": chart.ink["ink"], "dash": DOTTED, "width": 2}, annotation_text="memory")
    return chart.finish()


def tradeoff(curves: Sequence[Tradeoff], damage: Damage, dark: bool = False) -> go.Figure:
    """Draw the speedup of lossy rules at each weight over their damage, with 90% intervals. Exact rules are at the left edge.

    The labels are weights.
    """
    unit, factor = ("changed tokens (%)", 100) if damage == "changed" else ("log-probability lost (nats per token)", 1)
    chart = Chart(dark, unit, "speedup (times naive)")
    if not any(curve.points for curve in curves):
        return chart.finish(NOTHING)

    def errors(
        ranges: Iterable[tuple[tuple[float, float] | None, float]], color: str, scale: float = 1
    ) -> dict[str, Any]:
        bars = _errors(
            ((low * scale, x * scale, high * scale) for (low, high), x in ((r or (x, x), x) for r, x in ranges)), color
        )
        red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
        return {**bars, "thickness": 1, "width": 0, "color": f"rgba({red},{green},{blue},0.4)"}

    for number, curve in enumerate(curves):
        color, points = chart.ink["lanes"][number], curve.points
        chart.line(
            [factor * p.damage(damage) for p in points], [p.speedup for p in points], f"{curve.rule}, changes the text", color,
            DASHES[number], mode="lines+markers+text", marker={"symbol": SYMBOLS[number], "size": 8},
            text=[f"{p.weight:g}" if p.weight in LABELED else "" for p in points], textposition="top right",
            textfont={"color": chart.ink["quiet"], "size": 12}, customdata=[p.weight for p in points],
            error_x=errors(((p.interval(damage), p.damage(damage)) for p in points), color, factor),
            error_y=errors(((p.arm.interval, p.speedup) for p in points), color),
            hovertemplate=f"{curve.rule}, weight %{{customdata}}: %{{y:.2f}}x, %{{x:.3g}} {unit}<extra></extra>",
        )  # fmt: skip
    for point, symbol in zip(curves[-1].exact, EXACT_SYMBOLS, strict=False):
        chart.figure.add_scatter(
            x=[0], y=[point.speedup], name=f"{point.rule}, exact", mode="markers", cliponaxis=False,
            marker={"symbol": symbol, "size": 11, "color": chart.ink["ink"], "line": {"width": 2}},
            hovertemplate=f"{point.rule}, exact: %{{y:.2f}}x<extra></extra>",
        )  # fmt: skip
    ends = [factor * max(p.interval(damage) or [p.damage(damage)]) for curve in curves for p in curve.points]
    most = max(ends) or factor  # the marks of exact rules are left of the first grid line
    chart.figure.update_xaxes(range=[-0.03 * most, 1.05 * most]).update_layout(height=420)
    return _against_naive(chart)


def dice(
    histogram: Histogram, dark: bool = False, other: Histogram | None = None, names: Sequence[str] = ("the correct rule", "with the bug")
) -> go.Figure:  # fmt: skip
    """Draw the share of each token in the throws, the target's distribution, and the drafter's as marks.

    With an `other` histogram, the bars of both rules, which are called `names`, are next to each other.
    """
    chart, hover = Chart(dark, "token", "share of written tokens (%)"), "%{x}: %{y:.1f}% expected<extra></extra>"
    q = [share * (p > 0) for share, p in zip(Q, histogram.p, strict=True)]  # a mask applies to both
    expected, drafted = ([100 * share / sum(shares) for share in shares] for shares in (histogram.p, q))
    chart.bars(WORDS, expected, "the target's p", "", marker=_hatched(chart), hovertemplate=hover)
    names = names if other else (f"observed in {count(histogram.throws)} throws",)
    hover = "%{x}: %{customdata} times, %{y:.1f}%<extra></extra>"
    for name, thrown, color, hatch in zip(names, (histogram, other), chart.ink["lanes"], HATCHES, strict=False):
        if thrown and thrown.throws:
            shares = [100 * n / thrown.written for n in thrown.counts]
            chart.bars(WORDS, shares, name, color, hatch, customdata=thrown.counts, hovertemplate=hover)
    chart.figure.add_scatter(
        x=WORDS, y=drafted, name="the drafter's q", mode="markers", hovertemplate="%{x}: %{y:.1f}% drafted<extra></extra>",
        marker={"symbol": "diamond-open", "size": 11, "color": chart.ink["quiet"], "line": {"width": 2}},
    )  # fmt: skip
    chart.figure.update_xaxes(showgrid=False)
    return chart.finish()


def _naive(chart: Chart) -> dict[str, Any]:
    return {"color": chart.ink["naive"], "dash": DOTTED, "width": 1.5}


def _errors(values: Iterable[tuple[float, float, float]], color: str) -> dict[str, Any]:
    """Return error bars for triples (low, value, high)."""
    lows, centers, highs = np.array([*values]).T
    return {
        "type": "data", "symmetric": False, "array": highs - centers, "arrayminus": centers - lows, "color": color,
        "thickness": 1.5, "width": 5,
    }  # fmt: skip


def _measured(chart: Chart) -> dict[str, Any]:
    marker = {"symbol": "circle", "size": 9}
    return {"color": chart.ink["lanes"][0], "width": 2.5, "mode": "lines+markers", "marker": marker}


def _hatched(chart: Chart) -> dict[str, Any]:
    pattern = {"shape": "/", "fgcolor": chart.ink["quiet"], "fgopacity": 0.5, "size": 7, "solidity": 0.15}
    return {"color": chart.ink["rule"], "line": {"width": 1, "color": chart.ink["quiet"]}, "pattern": pattern}


def _against_naive(chart: Chart) -> go.Figure:
    """Finish a figure whose y axis is a speedup, with a line at 1."""
    chart.figure.update_yaxes(rangemode="tozero", ticksuffix="x")
    chart.figure.add_hline(y=1, line=_naive(chart))
    return chart.finish()


def _by_rows(chart: Chart, rows: Sequence[int]) -> go.Figure:
    """Finish a figure with logarithmic axes and ticks at `rows`."""
    chart.figure.update_xaxes(type="log", tickvals=list(rows))
    chart.figure.update_yaxes(type="log", tickvals=[m * 10.0**e for e in range(-3, 6) for m in (1, 2, 5)])
    return chart.finish(*[] if chart.figure.data else [NOTHING])


def _hover(point: Point) -> str:
    accepted = "" if point.acceptance is None else f", {percent(point.acceptance)} accepted"
    return html.escape(f"{point.arm.label}: {decimal(point.arm.mean('tokens_per_pass'))} tokens per pass{accepted}")
