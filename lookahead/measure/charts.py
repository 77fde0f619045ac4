"""The Lab's figures: claims and measurements, sweeps and theory, the cost of rows, dice, drafters that learn.

A measured value is a solid mark with its extremes; claimed and computed values differ in dash, hatching and shape as well as in
colour. Each function takes what the Lab's generators yield, so a figure can be drawn before a run ends.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from math import log2
from typing import Any

import numpy as np
import plotly.graph_objects as go

from ..core.costs import CostCurve
from ..core.numbers import count, decimal, percent, ratio
from ..trace.charts import DARK, LIGHT, SYMBOLS, blank, every, finished
from .decision import Forecast, Level, crossing
from .dice import Histogram
from .experiments import Experiment, Result
from .machine import Compared, PassParts
from .published import Median
from .sweeps import SEEN, Point, Surface, Sweep
from .whatif import Outcome

NOTHING = "Nothing has been measured yet."
MOST_NATS = 9.0  # of a loss that is shown: a drafter that knows nothing but how often words are used has about 6
CLAIM, HERE = "claimed", "measured here"
ELSEWHERE = ("diamond-open", "square-open", "triangle-up-open")  # a machine each
PART_HATCHES = ("", "/", "x", ".", "-")


def expectations(
    results: Sequence[Result],
    dark: bool = False,
    known: Mapping[str, Median] | None = None,
    all_: Sequence[Experiment] = (),
) -> go.Figure:
    """Every experiment's median speedup with its extremes, over the range that is claimed; naive is at 1.

    A claim without numbers has no range; what it is compared with is a ring. Those of `all_` that were not run here have a row
    too, and `known` medians of other machines are hollow.
    """
    figure, ink = _begun(dark, "speedup (times naive)", None)
    done = [result for result in results if result.measured.median is not None]
    chosen = list(all_) or [result.experiment for result in done]
    claims = [e for e in chosen if e.low is not None]
    if claims:
        figure.add_bar(
            x=[e.high - e.low for e in claims], base=[e.low for e in claims], y=[html.escape(e.title) for e in claims],
            name=CLAIM, orientation="h", width=0.62, customdata=[e.claim for e in claims],
            marker=_hatched(ink), hovertemplate="claimed: %{customdata}<extra></extra>",
        )  # fmt: skip

    def hollow(name: str, symbol: str, colour: str, medians: Sequence[tuple[Experiment, float, str]]) -> None:
        if medians:
            figure.add_scatter(
                x=[median for _, median, _ in medians], y=[html.escape(e.title) for e, _, _ in medians], name=name,
                mode="markers", customdata=[html.escape(label) for _, _, label in medians],
                marker={"symbol": symbol, "size": 11, "color": colour, "line": {"width": 2}},
                hovertemplate="%{customdata}: %{x:.2f}x<extra></extra>",
            )  # fmt: skip

    beside = [(r.experiment, r.compared.median, r.compared.label) for r in done if r.compared and r.compared.median]
    hollow("compared with", "circle-open", ink["quiet"], beside)
    others = [(e, known[e.title]) for e in chosen if known and e.title in known]
    for machine, symbol in zip(dict.fromkeys(median.machine for _, median in others), ELSEWHERE, strict=False):
        there = [(e, median.speedup, median.label) for e, median in others if median.machine == machine]
        hollow(f"measured on<br>{html.escape(machine)}", symbol, ink["ink"], there)
    if done:
        arms = [result.measured for result in done]
        figure.add_scatter(
            x=[arm.median for arm in arms], y=[html.escape(result.experiment.title) for result in done], name=HERE,
            mode="markers+text", text=[f"<b>{ratio(arm.median)}</b>" for arm in arms], textposition="top center",
            textfont={"color": ink["ink"]}, customdata=[[html.escape(arm.label), arm.low, arm.high] for arm in arms],
            marker={"symbol": "diamond", "size": 12, "color": ink["lanes"][0]},
            error_x=_errors([(arm.low, arm.median, arm.high) for arm in arms], ink["lanes"][0]),
            hovertemplate="%{customdata[0]}: %{x:.2f}x, %{customdata[1]:.2f}x to %{customdata[2]:.2f}x<extra></extra>",
        )  # fmt: skip
    if chosen:
        highs = [*(r.measured.high for r in done), *(e.high for e in claims), *(median.speedup for _, median in others)]
        figure.update_xaxes(range=[0, 1.1 * max([2.0, *highs])], ticksuffix="x")
        figure.add_vline(x=1, line=_naive(ink))
        # A claim without a mark has its row too.
        figure.update_yaxes(
            range=[len(chosen) - 0.5, -0.5], categoryorder="array", categoryarray=[html.escape(e.title) for e in chosen]
        )
    if all_:
        figure.update_layout(height=120 + 30 * len(all_))
    figure.update_yaxes(showgrid=False, ticksuffix="  ", tickfont_color=ink["ink"])
    return finished(figure, figure.data, [] if chosen else [NOTHING], dark)


def generations(result: Result | None, dark: bool = False) -> go.Figure:
    """Of every drafter what a pass writes, what drafting for it costs and the speedup, the oldest first; naive is at 1 token
    and 1x."""
    figure, ink = _begun(dark, "tokens, passes and times naive", None)
    arms = [arm for arm in reversed(result.arms) if arm.rows] if result else []
    names = [html.escape(arm.label) for arm in arms]
    kinds = (
        ("tokens a pass", [arm.mean("tokens_per_pass") for arm in arms], "", " tokens", 0),
        ("draft cost (ordinary passes)", [arm.mean("draft_cost") for arm in arms], "/", " passes", 2),
        ("speedup", [arm.median for arm in arms], "x", "x", 1),
    )
    for name, values, hatch, unit, look in kinds if arms else ():
        figure.add_bar(
            x=values, y=names, name=name, orientation="h", text=[f"{decimal(value)}{unit}" for value in values],
            textposition="outside", cliponaxis=False, textfont={"color": ink["ink"]},
            marker={"color": ink["lanes"][look], "line": {"width": 0}, "pattern": {"shape": hatch, "size": 7}},
            hovertemplate=f"%{{y}}: %{{x:.2f}}{unit}",
        )  # fmt: skip
    if arms:
        figure.add_vline(x=1, line=_naive(ink))
        figure.update_xaxes(range=[0, 1.6 * max(max(values) for _, values, *_ in kinds)])
        figure.update_yaxes(autorange="reversed", showgrid=False, ticksuffix="  ", tickfont_color=ink["ink"])
        figure.update_layout(height=140 + 88 * len(arms), legend_traceorder="normal")
    return finished(figure, figure.data, [] if arms else [NOTHING], dark)


def growing(
    losses: Sequence[tuple[float, float]], accepted: Sequence[tuple[float, float]], dark: bool = False
) -> go.Figure:
    """A drafter that learns: tokens a pass when they were measured, and the loss, over seconds of computing."""
    figure, ink = _begun(dark, "seconds of training", "tokens a pass")
    if losses:
        figure.add_scatter(
            x=[s for s, _ in losses], y=[loss for _, loss in losses], name="loss", mode="lines", yaxis="y2",
            line=_naive(ink), hovertemplate="loss %{y:.2f} at %{x:.0f} s",
        )  # fmt: skip
    if accepted:
        figure.add_scatter(
            x=[s for s, _ in accepted], y=[tokens for _, tokens in accepted], name="tokens a pass", mode="lines+markers",
            line={"color": ink["lanes"][0], "width": 2.5}, marker={"size": 8}, hovertemplate="%{y:.2f} tokens a pass at %{x:.0f} s",
        )  # fmt: skip
    figure.update_yaxes(range=[0.95, max([2.0, *(1.05 * tokens for _, tokens in accepted)])])
    figure.update_xaxes(range=[0, max([60.0, *(s for s, _ in (*losses[-1:], *accepted[-1:]))])])
    quiet = {"color": ink["quiet"]}
    right = {
        "overlaying": "y", "side": "right", "showgrid": False, "zeroline": False, "fixedrange": True, "automargin": True,
        "range": [0, MOST_NATS], "tickfont": quiet, "title": {"text": "loss (nats)", "font": {**quiet, "size": 14}},
    }  # fmt: skip
    figure.update_layout(height=264, yaxis2=right)
    return finished(figure, figure.data, [] if losses else [NOTHING], dark)


def sweep(swept: Sweep, dark: bool = False) -> go.Figure:
    """The measured speedup at every point with its extremes, and what the two formulas expect there."""
    figure, ink = _begun(dark, html.escape(swept.setting), "speedup (times naive)")
    points = [point for point in swept.points if point.speedup is not None]
    lines = (
        ("leviathan", "theory, verifying for nothing", "2px,3px", 3),
        ("priced", "theory, verifying as measured", "7px,3px", 1),
    )
    if swept.forecasts:
        _forecast_line(figure, swept.forecasts, ink)
    for field, name, dash, colour in lines:
        known = [point for point in points if getattr(point, field) is not None]
        if known:
            figure.add_scatter(
                x=[point.x for point in known], y=[getattr(point, field) for point in known], name=name, mode="lines",
                line={"color": ink["lanes"][colour], "dash": dash, "width": 2}, hovertemplate="%{y:.2f}x",
            )  # fmt: skip
    if points and all(float(point.x).is_integer() for point in points):
        figure.update_xaxes(dtick=every(max(point.x for point in points)))  # there is no half token
    if points:
        figure.add_scatter(
            x=[point.x for point in points], y=[point.speedup for point in points], name=HERE, mode="lines+markers",
            customdata=[_hover(point) for point in points],
            error_y=_errors([(p.arm.low, p.arm.median, p.arm.high) for p in points], ink["lanes"][0]),
            hovertemplate="%{customdata}<br>%{y:.2f}x", **_measured(ink),
        )  # fmt: skip
        _against_naive(figure, ink)
    return finished(figure, figure.data, [] if points else [NOTHING], dark)


def _forecast_line(figure: go.Figure, forecasts: Sequence[Forecast], ink: Mapping[str, Any]) -> None:
    """What one run predicts, with its interval as a band."""
    ks = [one.k for one in forecasts]
    if all(one.interval for one in forecasts):
        ends = [[one.interval[end] for one in forecasts] for end in (1, 0)]
        figure.add_scatter(
            x=[*ks, *reversed(ks)], y=[*ends[0], *reversed(ends[1])], fill="toself", mode="lines", line={"width": 0},
            fillcolor=ink["lanes"][2], opacity=0.15, hoverinfo="skip", showlegend=False,
        )  # fmt: skip
    figure.add_scatter(
        x=ks, y=[one.speedup for one in forecasts], name=f"predicted from k = 1 and {SEEN}", mode="lines",
        line={"color": ink["lanes"][2], "dash": "10px,3px,2px,3px", "width": 2}, hovertemplate="%{y:.2f}x",
    )  # fmt: skip


def load(levels: Sequence[Level], dark: bool = False, theory: Sequence[float] = ()) -> go.Figure:
    """The speedup of speculation over how many texts are written at once, with intervals; naive stands at 1, and the place where
    it stops paying is marked. `theory` is what would come of it if every text drafted as it does alone."""
    figure, ink = _begun(dark, "texts at once", "speedup (times without)")
    known = [level for level in levels if level.speedup]
    if known:
        ends = [level.interval or (level.speedup,) * 2 for level in known]
        if theory:
            figure.add_scatter(
                x=[str(level.at_once) for level in levels], y=list(theory), name="theory, drafting as for one", mode="lines",
                line={"color": ink["lanes"][1], "dash": "7px,3px", "width": 2}, hovertemplate="%{y:.2f}x",
            )  # fmt: skip
        figure.add_scatter(
            x=[str(level.at_once) for level in known], y=[level.speedup for level in known], name="measured, 90% interval", mode="lines+markers",
            error_y=_errors([(low, level.speedup, high) for level, (low, high) in zip(known, ends, strict=True)], ink["lanes"][0]),
            hovertemplate="%{x} at once: %{y:.2f}x", **_measured(ink),
        )  # fmt: skip
        figure.update_xaxes(type="category")
        if end := crossing(known):
            place = np.interp(log2(end), [log2(level.at_once) for level in known], range(len(known)))
            figure.add_vline(
                x=float(place), line={"color": ink["quiet"], "width": 1}, annotation_text=f"off from {round(end)}"
            )
        _against_naive(figure, ink)
    return finished(figure, figure.data, [] if known else [NOTHING], dark)


def shared_pass(passes: Sequence[Sequence[tuple[int, int]]], number: int, dark: bool = False) -> go.Figure:
    """One pass of several texts, a line each: its own row, the drafted rows that were accepted, and those that were not."""
    figure, ink = _begun(dark, "rows of the pass", "text")
    texts = passes[min(number, len(passes)) - 1] if passes else ()
    names = [str(text) for text in range(1, len(texts) + 1)]
    kinds = (
        ("the text's own row", [1] * len(texts), ink["naive"], ""),
        ("drafted, accepted", [accepted for _, accepted in texts], ink["lanes"][0], ""),
        ("drafted, not accepted", [drafted - accepted for drafted, accepted in texts], ink["quiet"], "/"),
    )
    for name, counts, colour, hatch in kinds if texts else ():
        figure.add_bar(
            x=counts, y=names, name=name, orientation="h", hovertemplate="text %{y}: %{x}",
            marker={"color": colour, "line": {"width": 1, "color": ink["field"]}, "pattern": {"shape": hatch, "size": 6}},
        )  # fmt: skip
    widest = max((1 + drafted for drafted, _ in texts), default=1)
    figure.update_xaxes(range=[0, max(8, widest)], dtick=1 if widest <= 12 else 4)
    figure.update_layout(barmode="stack", legend_traceorder="normal", height=140 + 14 * max(6, len(texts)))
    figure.update_yaxes(autorange="reversed", showgrid=False, type="category")
    return finished(figure, figure.data, [] if texts else [NOTHING], dark)


def what_if(ks: Sequence[int], lines: Sequence[tuple[Outcome, Outcome]], k: int, dark: bool = False) -> go.Figure:
    """The predicted speedup of a lookup setting over the draft length, below the oracle's; `k` is marked."""
    figure, ink = _begun(dark, "draft length k", "predicted speedup (times naive)")
    kinds = ((1, "7px,3px", ink["quiet"], 1.5), (0, "solid", ink["lanes"][0], 2.5))
    for which, dash, colour, width in kinds if lines else ():
        outcomes = [pair[which] for pair in lines]
        figure.add_scatter(
            x=list(ks), y=[outcome.speedup for outcome in outcomes], name=html.escape(outcomes[0].method), mode="lines+markers",
            line={"color": colour, "dash": dash, "width": width}, marker={"size": 7},
            customdata=[[outcome.tokens_per_pass, len(outcome.steps)] for outcome in outcomes],
            hovertemplate="k = %{x}: %{y:.2f}x, %{customdata[0]:.2f} tokens a pass in %{customdata[1]} passes",
        )  # fmt: skip
    if lines:
        _against_naive(figure, ink)
        figure.add_vline(x=k, line={"color": ink["lanes"][0], "width": 1})
        figure.update_xaxes(dtick=every(max(ks)), range=[min(ks) - 0.5, max(ks) + 0.5])
    return finished(figure, figure.data, [] if lines else [NOTHING], dark)


def speedup_surface(drawn: Surface, points: Sequence[Point] = (), dark: bool = False) -> go.Figure:
    """The priced speedup as contours over draft length and acceptance, with measured points on it.

    The thick contour is naive's speed: below it drafting loses. A point's text is what was measured there.
    """
    figure, ink = _begun(dark, "draft length k", "acceptance (% of tested tokens)")
    accepted = [100 * alpha for alpha in drawn.alphas]
    field = ink["field"]
    figure.add_contour(
        x=list(drawn.ks), y=accepted, z=[list(cells) for cells in drawn.speedup], name="theory, verifying as measured",
        colorscale=[[0, field], [1, ink["lanes"][1]]], opacity=0.75, line={"color": ink["quiet"], "width": 1},
        contours={"showlabels": True, "labelfont": {"color": ink["ink"], "size": 12}}, showscale=False,
        hovertemplate="k = %{x}, %{y:.0f}% accepted: %{z:.2f}x<extra></extra>",
    )  # fmt: skip
    figure.add_contour(
        x=list(drawn.ks), y=accepted, z=[list(cells) for cells in drawn.speedup], name="naive's speed", showscale=False,
        contours={"type": "constraint", "operation": "=", "value": 1.0}, line={"color": ink["ink"], "width": 3},
        hoverinfo="skip",
    )  # fmt: skip
    known = [point for point in points if point.acceptance is not None and point.speedup is not None]
    if known:
        figure.add_scatter(
            x=[point.x for point in known], y=[100 * point.acceptance for point in known], name=HERE,
            mode="markers+text", text=[f"<b>{ratio(point.speedup)}</b>" for point in known], textposition="top center",
            textfont={"color": ink["ink"]}, customdata=[_hover(point) for point in known],
            marker={"symbol": "diamond", "size": 12, "color": ink["lanes"][2], "line": {"width": 1, "color": ink["ink"]}},
            hovertemplate="%{customdata}<extra></extra>",
        )  # fmt: skip
    figure.update_xaxes(dtick=every(max(drawn.ks)))
    figure.update_yaxes(range=[0, 100])
    return finished(figure, figure.data, [], dark)


def cost_curve(curve: CostCurve, dark: bool = False) -> go.Figure:
    """What a pass of so many rows costs, in one-row passes, between rows for nothing and rows at full price."""
    figure, ink = _begun(dark, "rows in a pass", "cost (one-row passes)")
    rows = list(curve.rows)
    for name, y, dash in (
        ("rows for nothing", [1.0] * len(rows), "2px,3px"),
        ("rows at full price", [float(n) for n in rows], "7px,3px"),
    ):
        figure.add_scatter(
            x=rows, y=y, name=name, mode="lines", line={"color": ink["quiet"], "dash": dash, "width": 1.5}, hoverinfo="skip"
        )  # fmt: skip
    figure.add_scatter(
        x=rows, y=[curve.ratio(n) for n in rows], customdata=[1e3 * s for s in curve.seconds], name=HERE,
        mode="lines+markers", hovertemplate="%{x} rows: %{customdata:.3g} ms, %{y:.2f} one-row passes<extra></extra>", **_measured(ink),
    )  # fmt: skip
    _log_axes(figure, rows, (0.5, rows[-1]))
    return finished(figure, figure.data, [], dark)


def formats(compared: Compared, dark: bool = False) -> go.Figure:
    """What a pass of so many rows takes in every number format, with every thread count.

    Formats differ in dash and filling, thread counts in colour and shape; what is in use is the thick line.
    """
    figure, ink = _begun(dark, "rows in a pass", "a pass (ms)")
    used, counts = compared.in_use, sorted({one.threads or 0 for one in compared.passes})
    counts.sort(key=lambda n: n != (used.threads or 0))  # what is in use has the first look
    for one in compared.measured:
        look, other = counts.index(one.threads or 0), one.dtype != used.dtype
        figure.add_scatter(
            x=list(one.rows), y=[1e3 * s for s in one.pass_s], name=one.name + (", in use" if one.in_use else ""),
            mode="lines+markers", customdata=[s / one.pass_s[0] for s in one.pass_s],
            line={"color": ink["lanes"][look], "dash": "7px,3px" if other else "solid", "width": 3.5 if one.in_use else 1.5},
            marker={"symbol": SYMBOLS[look] + ("-open" if other else ""), "size": 10 if one.in_use else 8},
            hovertemplate="%{x} rows: %{y:.3g} ms, %{customdata:.2f} one-row passes",
        )  # fmt: skip
    if compared.measured:
        took = [1e3 * s for one in compared.measured for s in one.pass_s]
        _log_axes(figure, used.rows, (0.9 * min(took), 1.1 * max(took)))
    return finished(figure, figure.data, [] if compared.measured else [NOTHING], dark)


def pass_parts(models: Sequence[PassParts], dark: bool = False) -> go.Figure:
    """What each model's one-row pass takes, part by part, in units of reading its weights at memory's speed."""
    figure, ink = _begun(dark, "times as long as reading the weights", None)
    inks = (ink["quiet"], *ink["lanes"])
    for number, name in enumerate(dict.fromkeys(name for one in models for name in one.segments)):
        has = [one for one in models if name in one.segments]
        figure.add_bar(
            x=[one.segments[name] / one.limit_s for one in has], y=[one.role for one in has], name=name, orientation="h",
            customdata=[1e3 * one.segments[name] for one in has], width=0.5,
            marker={"color": inks[number], "line": {"width": 0}, "pattern": {"shape": PART_HATCHES[number], "size": 7}},
            hovertemplate="%{customdata:.3g} ms",
        )  # fmt: skip
    figure.update_layout(barmode="stack", legend_traceorder="normal", height=120 + 56 * len(models))
    figure.update_yaxes(autorange="reversed")
    return finished(figure, figure.data, [] if models else [NOTHING], dark)


def dice(thrown: Histogram | None, dark: bool = False, names: Sequence[str] = ()) -> go.Figure:
    """How often each token fell, beside how often the target says it should; `names` of the tokens, if they have any."""
    figure, ink = _begun(dark, "token", "share of the throws (%)")
    if thrown is None:
        return finished(figure, [], [NOTHING], dark)
    tokens, n = [html.escape(name) for name in names] or list(range(len(thrown.seen))), thrown.throws
    whole = sum(thrown.expected)
    figure.add_bar(
        x=tokens, y=[100 * e / whole for e in thrown.expected], name="the target's p",
        marker=_hatched(ink), hovertemplate="token %{x}: %{y:.1f}% expected<extra></extra>",
    )  # fmt: skip
    if n:
        figure.add_bar(
            x=tokens, y=[100 * s / n for s in thrown.seen], name=f"fallen in {count(n)} throws", customdata=list(thrown.seen),
            marker={"color": ink["lanes"][0], "line": {"width": 0}},
            hovertemplate="token %{x}: %{customdata} times, %{y:.1f}%<extra></extra>",
        )  # fmt: skip
    figure.update_xaxes(dtick=1, showgrid=False)
    return finished(figure, figure.data, [], dark)


def _begun(dark: bool, x: str, y: str | None) -> tuple[go.Figure, Mapping[str, Any]]:
    """An empty figure with titles of its axes, and its colours."""
    return blank(dark, x, y), DARK if dark else LIGHT


def _naive(ink: Mapping[str, Any]) -> dict:
    """The line at naive's speed."""
    return {"color": ink["naive"], "dash": "2px,3px", "width": 1.5}


def _errors(values: Sequence[tuple[float, float, float]], colour: str) -> dict:
    """Error bars of values, each between a lower and a higher one."""
    return {
        "type": "data", "symmetric": False, "array": [high - value for _, value, high in values],
        "arrayminus": [value - low for low, value, _ in values], "color": colour, "thickness": 1.5, "width": 5,
    }  # fmt: skip


def _measured(ink: Mapping[str, Any]) -> dict:
    """The look of a measured line."""
    return {"line": {"color": ink["lanes"][0], "width": 2.5}, "marker": {"symbol": "circle", "size": 9}}


def _hatched(ink: Mapping[str, Any]) -> dict:
    """The look of a bar that was not measured."""
    pattern = {"shape": "/", "fgcolor": ink["quiet"], "fgopacity": 0.5, "size": 7, "solidity": 0.15}
    return {"color": ink["rule"], "line": {"width": 1, "color": ink["quiet"]}, "pattern": pattern}


def _against_naive(figure: go.Figure, ink: Mapping[str, Any]) -> None:
    """An axis of speedups, with a line at 1."""
    figure.update_yaxes(rangemode="tozero", ticksuffix="x")
    figure.add_hline(y=1, line=_naive(ink))


def _log_axes(figure: go.Figure, rows: Sequence[int], between: tuple[float, float]) -> None:
    """Logarithmic axes: rows, and marks at 1, 2 and 5 times powers of ten."""
    marks = [m * 10.0**e for e in range(-3, 6) for m in (1, 2, 5)]
    figure.update_xaxes(type="log", tickvals=list(rows))
    figure.update_yaxes(type="log", tickvals=[mark for mark in marks if between[0] <= mark <= between[1]])


def _hover(point: Point) -> str:
    stood = "" if point.acceptance is None else f", {percent(point.acceptance)} accepted"
    return html.escape(f"{point.label}: {decimal(point.tokens_per_pass)} tokens a pass{stood}")
