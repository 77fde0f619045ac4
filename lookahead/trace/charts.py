"""Draw figures of a race from a `RaceRecord` with Plotly.

A lane has the same color, dash and hatching in all figures, so color alone never identifies it. Naive is gray. A figure
without data shows the reason. Names come from untrusted traces and Plotly interprets markup, so names are escaped.
"""

import html
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import plotly.graph_objects as go

from ..core.acceptance import Acceptance
from ..core.events import ACCEPTED, CORRECTION
from ..core.numbers import counted, decimal, percent
from .schema import LaneRecord, RaceRecord, histogram

FONT = 'system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif'
# After Okabe and Ito, darker on white and lighter on black. Lanes also differ in lightness, for color-blind readers.
LIGHT = {
    "ink": "#1c1b19", "quiet": "#5d5a53", "rule": "#dcd9d0", "field": "#ffffff", "naive": "#716d65",
    "lanes": ("#00553e", "#1769c2", "#b4560a", "#7d2a78"),
}  # fmt: skip
DARK = {
    "ink": "#ecebe5", "quiet": "#a9a69d", "rule": "#383733", "field": "#1b1b19", "naive": "#a19e95",
    "lanes": ("#5fe3b8", "#7db8f5", "#f2a25c", "#dc9fd4"),
}  # fmt: skip
DASHES = ("solid", "7px,2px", "2px,2px", "9px,2px,2px,2px")  # short gaps keep the steps visible
HATCHES = ("", "/", "x", ".")
SYMBOLS = ("circle", "square", "diamond", "triangle-up")
PARTS = (("propose_s", "drafting"), ("verify_s", "the target's pass"), ("mask_s", "masks"), ("other_s", "the rest"))
NOTHING_RAN = "No pass has run yet."
KINDS = ("start of a word", "inside a word", "name", "digits", "punctuation", "code", "space")
CODE = set("{}[]()<>=+*/\\_|&^%$#@~`")
NAIVE = "naive"
Values = Iterable[Any]


class Chart:
    """A Plotly figure in the page's font and colors. `x` and `y` are the titles of its axes; `ink` has the colors."""

    def __init__(self, dark: bool, x: str, y: str = ""):
        self.ink = ink = DARK if dark else LIGHT
        axis = {
            "gridcolor": ink["rule"], "linecolor": ink["rule"], "zeroline": False, "ticks": "", "automargin": True,
            "tickfont": {"color": ink["quiet"]}, "fixedrange": True,
        }  # fmt: skip
        title = {"font": {"color": ink["quiet"], "size": 14}, "standoff": 12}
        transparent = "rgba(0,0,0,0)"
        self.figure = go.Figure(
            layout={
                "template": go.layout.Template(), "paper_bgcolor": transparent, "plot_bgcolor": transparent,
                "font": {"family": FONT, "size": 14, "color": ink["ink"]}, "margin": {"l": 64, "r": 24, "t": 24, "b": 56},
                "xaxis": {**axis, "title": {**title, "text": x}}, "yaxis": {**axis, "title": {**title, "text": y}},
                "hoverlabel": {"bgcolor": ink["field"], "bordercolor": ink["rule"], "font": {"color": ink["ink"], "family": FONT}},
                "modebar": {"bgcolor": transparent, "color": ink["quiet"], "activecolor": ink["ink"]},
                "barmode": "group", "bargap": 0.3, "bargroupgap": 0.06, "dragmode": False,
            }
        )  # fmt: skip

    def line(self, x: Values, y: Values, name: str, color: str, dash: str = "solid", width: float = 2, **more: Any):
        """Add a line; `more` is passed to `go.Scatter`."""
        style = {"color": color, "dash": dash, "width": width, "shape": more.pop("shape", "linear")}
        self.figure.add_scatter(x=list(x), y=list(y), name=name, line=style, **{"mode": "lines", **more})

    def bars(self, x: Values, y: Values, name: str, color: str, hatch: str = "", **more: Any) -> None:
        """Add bars with the pattern `hatch`; `more` is passed to `go.Bar`."""
        pattern = {"shape": hatch, "fillmode": "overlay", "fgcolor": self.ink["field"], "fgopacity": 0.45, "size": 7}
        style = {"color": color, "line": {"width": 0}, "pattern": pattern}
        self.figure.add_bar(x=list(x), y=list(y), name=name, **{"marker": style, **more})

    def horizontal_bars(self, height: int | None = None, barmode: str = "stack") -> None:
        """Make the bars horizontal, with the first on top, in a figure of `height` pixels."""
        self.figure.update_traces(orientation="h", selector={"type": "bar"})
        self.figure.update_layout(barmode=barmode, legend_traceorder="normal", height=height)
        style = {"showgrid": False, "ticksuffix": "  ", "tickfont_color": self.ink["ink"], "type": "category"}
        self.figure.update_yaxes(autorange="reversed", **style)

    def finish(self, *notes: str) -> go.Figure:
        """Return the figure with its notes, and a legend for several series. Without series, notes replace the axes."""
        position = {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"}
        legend = {**position, "font": {"color": self.ink["ink"]}, "itemclick": False, "itemdoubleclick": False}
        self.figure.update_layout(showlegend=len(self.figure.data) > 1, legend=legend)
        style = {"xref": "paper", "yref": "paper", "showarrow": False, "font": {"color": self.ink["quiet"], "size": 14}}
        if notes and self.figure.data:
            self.figure.add_annotation(x=1, y=1.02, xanchor="right", yanchor="bottom", text=" ".join(notes), **style)
        elif notes:
            self.figure.add_annotation(x=0.5, y=0.5, text="<br>".join(notes), **style)
            self.figure.update_xaxes(visible=False).update_yaxes(visible=False)
        return self.figure


@dataclass(frozen=True, slots=True)
class _Lane:
    """A lane with its name and its style."""

    record: LaneRecord
    number: int
    name: str
    color: str
    dash: str
    hatch: str
    symbol: str


def tokens_over_time(trace: RaceRecord, dark: bool = False) -> go.Figure:
    """Tokens written in each lane, over the time of that lane without prefill."""
    chart = Chart(dark, "the lane's own time (s)", "tokens written")
    for lane in _lanes(trace, dark):
        if not (steps := lane.record.verified):
            continue
        clock, written = accumulate((s.seconds for s in steps), initial=0), [len(s.emitted) for s in steps]
        tokens = accumulate(written, initial=0)
        passes = ["", *(f"pass {number}: {counted(n, 'token')}" for number, n in enumerate(written, start=1))]
        chart.line(
            clock, tokens, lane.name, lane.color, lane.dash, 1.5 if lane.record.method == NAIVE else 2.5, shape="hv",
            customdata=passes, hovertemplate="%{customdata}<br>%{y} tokens at %{x:.3g} s",
        )  # fmt: skip
    if not chart.figure.data:
        return chart.finish(NOTHING_RAN)
    chart.figure.update_xaxes(range=[0, 1.02 * max(line.x[-1] for line in chart.figure.data) or 1])
    chart.figure.update_yaxes(range=[0, 1.05 * max(line.y[-1] for line in chart.figure.data) or 1])
    return chart.finish()


def acceptance_by_position(trace: RaceRecord, dark: bool = False) -> go.Figure:
    """Share of tested tokens that were accepted, by position. A token is tested if all earlier tokens were accepted.

    A bar's height is an entry of `acceptance_rate_per_position`. A 0 marks a position at which all tokens were rejected.
    """

    def counts(record: LaneRecord) -> dict[int, tuple[int, int]]:
        acceptance = Acceptance() if record.opaque else Acceptance.from_steps(record.verified)
        return dict(enumerate(zip(acceptance.accepted, acceptance.tested, strict=True), start=1))

    hover = "position %{x}: accepted in %{customdata[0]} of %{customdata[1]} drafts tested there (%{y:.0f}%)"
    figure = _bars(trace, dark, "position in the draft", "accepted (% of tested)", counts, hover)
    for bar in figure.data:
        bar.update(text=["" if share else "0" for share in bar.y], textposition="outside", cliponaxis=False)
    return figure.update_yaxes(range=[0, 100], dtick=25)


def acceptance_by_kind(trace: RaceRecord, dark: bool = False) -> go.Figure:
    """Share of tested tokens that were accepted, by the kind of token: words, names, digits, punctuation.

    A rejected token counts as the kind of the token that replaced it.
    """
    hover = "%{x}: accepted %{customdata[0]} of %{customdata[1]} (%{y:.0f}%)"
    figure = _bars(trace, dark, "kind of token", "accepted (% of tested)", counts_by_kind, hover)
    shown = [name for name in KINDS if any(name in bar.x for bar in figure.data)]
    return figure.update_xaxes(categoryorder="array", categoryarray=shown).update_yaxes(range=[0, 100], dtick=25)


def accepted_per_pass(trace: RaceRecord, dark: bool = False) -> go.Figure:
    """Share of passes that accepted 0, 1, 2, ... drafted tokens. Each pass also writes one token of the target.

    Naive is left out. An opaque lane reports its accepted tokens, so it is included.
    """

    def counts(record: LaneRecord) -> dict[int, tuple[int, int]]:
        accepted = [step.accepted for step in record.verified]
        if record.method == NAIVE or not (any(accepted) or any(step.tested for step in record.verified)):
            return {}
        return {n: (passes, len(accepted)) for n, passes in enumerate(histogram(accepted))}

    hover = "accepted %{x}: %{customdata[0]} of %{customdata[1]} passes (%{y:.0f}%)"
    figure = _bars(trace, dark, "drafted tokens accepted in a pass", "passes (%)", counts, hover)
    return figure.update_yaxes(rangemode="tozero")


def time_per_token(trace: RaceRecord, dark: bool = False) -> go.Figure:
    """Time per token in each lane: drafting, the target's pass, and the rest of the loop.

    Prefill is left out. Opaque lanes report whole passes, so their drafting is part of the target's pass.
    """
    chart = Chart(dark, "time per token (ms)")
    shown = [lane for lane in _lanes(trace, dark) if lane.record.tokens]
    if not shown:
        return chart.finish(NOTHING_RAN)
    names, lanes = [lane.name for lane in shown], chart.ink["lanes"]
    for (field, part), color in zip(PARTS, (lanes[2], lanes[1], lanes[3], chart.ink["naive"]), strict=True):
        if field == "mask_s" and not trace.settings.grammar:
            continue
        spent = [1e3 * sum(getattr(s, field) for s in lane.record.verified) / len(lane.record.tokens) for lane in shown]
        chart.bars(
            spent, names, part, color, width=min(0.55, 0.14 * len(shown)), text=[decimal(ms) for ms in spent],
            textposition="inside", insidetextanchor="middle", textangle=0, textfont={"color": chart.ink["field"]},
            hovertemplate="%{y}, " + part + ": %{x:.3g} ms per token<extra></extra>",
        )  # fmt: skip
    totals = [1e3 * lane.record.clock_s / len(lane.record.tokens) for lane in shown]
    for name, total in zip(names, totals, strict=True):
        text = f"<b>{decimal(total)}</b>"
        chart.figure.add_annotation(x=total, y=name, text=text, xanchor="left", xshift=6, showarrow=False)
    chart.horizontal_bars()
    chart.figure.update_layout(uniformtext={"mode": "hide", "minsize": 12})  # hides text that does not fit its bar
    chart.figure.update_xaxes(range=[0, 1.12 * max(totals)])
    return chart.finish()


def predicted_against_measured(trace: RaceRecord, dark: bool = False) -> go.Figure:
    """Predicted and measured speedup of each lane. On the diagonal, both are equal.

    Predicted: `RaceRecord.predicted`, at the costs in the trace. Measured: `stats()["speedup"]`. The prediction leaves out
    the loop's work, and passes that are slower than at calibration. An opaque lane has no prediction.
    """
    chart = Chart(dark, "predicted speedup (times naive)", "measured speedup (times naive)")
    lanes, figure, quiet = _lanes(trace, dark), chart.figure, chart.ink["quiet"]
    points = [
        (lane, predicted.speedup, measured)
        for lane in lanes
        if lane.record.method != NAIVE
        and (predicted := trace.predicted(lane.number))
        and (measured := trace.stats(lane.number)["speedup"])
    ]
    edge = 1.15 * max([1.0, *(max(x, y) for _, x, y in points)])
    for lane, x, y in points:
        figure.add_scatter(
            x=[x], y=[y], name=lane.name, mode="markers+text" if len(points) == 1 else "markers", text=[lane.name],
            textposition="top left" if y > x else "bottom right", textfont={"color": chart.ink["ink"]},
            marker={"color": lane.color, "symbol": lane.symbol, "size": 13, "line": {"width": 0}},
            hovertemplate=f"measured %{{y:.2f}}x, predicted %{{x:.2f}}x: {percent(y / x)} of the prediction",
        )  # fmt: skip
    if points:
        style = {"showarrow": False, "font": {"color": quiet, "size": 13}}
        for y0, dash in ((0, "solid"), (1, "2px,3px")):
            line = {"color": quiet, "width": 1.5, "dash": dash}
            figure.add_shape(type="line", x0=0, y0=y0, x1=edge, y1=y0 or edge, line=line, layer="between")
        figure.add_annotation(x=edge, y=1, text="naive", xanchor="right", yanchor="bottom", **style)
        low = 0.08 * edge
        figure.add_annotation(x=low, y=low, text="as predicted", xanchor="left", xshift=8, yanchor="top", **style)
    for axis in (figure.update_xaxes, figure.update_yaxes):
        axis(range=[0, edge], ticksuffix="x", nticks=7)
    figure.update_xaxes(constrain="domain")
    if trace.naive() is None:
        return chart.finish("There is no naive lane to compare with.")
    unpredicted = [f"{lane.name} does not report its rows: no prediction." for lane in lanes if lane.record.opaque]
    return chart.finish(*unpredicted or ([] if points else ["Only the naive lane has run."]))


FIGURES = (
    tokens_over_time, acceptance_by_position, accepted_per_pass, time_per_token, predicted_against_measured, acceptance_by_kind,
)  # fmt: skip


def heading(figure: Callable[..., go.Figure]) -> tuple[str, str]:
    """Return a figure's title and description: its name, and the first line of its docstring."""
    return figure.__name__.replace("_", " ").capitalize(), (figure.__doc__ or "").split("\n")[0]


def kind(piece: str, before: str) -> str:
    """Return the kind, one of `KINDS`, of a token's text `piece` after the text `before`."""
    text = piece.strip()
    if not text:
        return "space"
    if any(character in CODE for character in text):
        return "code"
    if any(character.isdigit() for character in text):
        return "digits"
    if not any(character.isalnum() for character in text):
        return "punctuation"
    if before and piece[0].isalnum() and before[-1].isalnum():
        return "inside a word"
    begins = before.rstrip(" ")[-1:]  # a capital at the beginning of a sentence does not mark a name
    return "name" if text[0].isupper() and begins not in ("", ".", "!", "?", "\n", '"', ":") else "start of a word"


def counts_by_kind(lane: LaneRecord) -> dict[str, tuple[int, int]]:
    """Return {kind: (accepted, tested)} tokens; {} for an opaque lane. A rejected token counts as its replacement."""
    before, counts = "", {name: [0, 0] for name in KINDS}
    for step in () if lane.opaque else lane.verified:
        for piece, origin in zip(step.pieces, step.origins, strict=True):
            if origin in (ACCEPTED, CORRECTION):
                count = counts[kind(piece, before)]
                count[0] += origin == ACCEPTED
                count[1] += 1
            before = (before + piece)[-8:]
    return {name: (accepted, tested) for name, (accepted, tested) in counts.items() if tested}


def _lanes(trace: RaceRecord, dark: bool) -> list[_Lane]:
    """Return the lanes with their styles. The last lane that drafts has the first style; styles repeat after the fourth."""
    ink, names = DARK if dark else LIGHT, _names(trace)
    drafting = [number for number, record in enumerate(trace.lanes) if record.method != NAIVE]
    indices = {number: index for index, number in enumerate([*drafting[-1:], *drafting[:-1]])}
    styles = [*zip(ink["lanes"], DASHES, HATCHES, SYMBOLS, strict=True)]
    gray = (ink["naive"], "solid", "", "circle-open")
    return [
        _Lane(record, number, names[number], *(styles[indices[number] % len(styles)] if number in indices else gray))
        for number, record in enumerate(trace.lanes)
    ]


def _names(trace: RaceRecord) -> list[str]:
    """Return an escaped name for each lane: its method, with its options or its number if methods repeat."""
    methods = [lane.method for lane in trace.lanes]
    names = []
    for i, lane in enumerate(trace.lanes):
        name = lane.method
        if methods.count(name) > 1:
            options = (f"{value}" if key == name else f"{key} {value}" for key, value in lane.options.items())
            name = f"{name} ({', '.join(options) or f'lane {i}'})"
        name = name if names.count(name) == 0 else f"{name} {i}"
        names.append(name if len(name) <= 40 else f"{name[:37]}...")
    return [html.escape(name) for name in names]


def _bars(
    trace: RaceRecord, dark: bool, x: str, y: str, counts_of: Callable[[LaneRecord], Mapping[Any, tuple[int, int]]], hover: str
) -> go.Figure:  # fmt: skip
    """Draw bars of percentages. `counts_of` returns {x: (part, total)} for a lane, and {} for a lane without bars."""
    chart, lanes, shown = Chart(dark, x, y), _lanes(trace, dark), []
    for lane in lanes:
        if counts := counts_of(lane.record):
            shown.append(lane)
            shares = [100 * part / total for part, total in counts.values()]
            options = {"customdata": list(counts.values()), "hovertemplate": hover}
            chart.bars(counts, shares, lane.name, lane.color, lane.hatch, **options)
    longest = max((len(bar.x) for bar in chart.figure.data), default=1)
    chart.figure.update_xaxes(showgrid=False, dtick=tick_step(longest))
    notes = [
        f"{lane.name} {'does not report its drafts' if lane.record.opaque else 'drafted nothing'}."
        for lane in lanes
        if lane not in shown and lane.record.method != NAIVE and lane.record.verified
    ]
    if not notes and not shown:
        notes = ["Nothing was drafted." if any(lane.record.verified for lane in lanes) else NOTHING_RAN]
    return chart.finish(*notes)


def tick_step(count: int) -> int:
    """Return the distance between ticks at whole numbers. Up to a count of 1,200 there are at most 12 ticks."""
    return next(step for step in (1, 2, 5, 10, 20, 50, 100) if count / step <= 12 or step == 100)
