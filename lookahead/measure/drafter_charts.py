"""Figures of drafters: generations of them side by side, and one that learns.

Knows the Lab's results and Plotly, as `charts` does. It does not know pages.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

import plotly.graph_objects as go

from ..core.numbers import decimal
from ..trace.charts import DARK, LIGHT, blank, finished
from .charts import NOTHING
from .experiments import Result

MOST_NATS = 9.0  # of a loss that is shown: a drafter that knows nothing but how often words are used has about 6


def generations(result: Result | None, dark: bool = False) -> go.Figure:
    """Of every drafter what a pass writes, what drafting for it costs and the speedup, the oldest first; naive is at 1 token
    and 1x."""
    figure, ink = blank(dark, "tokens, passes and times naive", None), DARK if dark else LIGHT
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
        figure.add_vline(x=1, line={"color": ink["naive"], "dash": "2px,3px", "width": 1.5})
        figure.update_xaxes(range=[0, 1.6 * max(max(values) for _, values, *_ in kinds)])
        figure.update_yaxes(autorange="reversed", showgrid=False, ticksuffix="  ", tickfont_color=ink["ink"])
        figure.update_layout(height=140 + 88 * len(arms), legend_traceorder="normal")
    return finished(figure, figure.data, [] if arms else [NOTHING], dark)


def growing(
    losses: Sequence[tuple[float, float]], accepted: Sequence[tuple[float, float]], dark: bool = False
) -> go.Figure:
    """A drafter that learns: tokens a pass when they were measured, and the loss, over seconds of computing."""
    figure, ink = blank(dark, "seconds of training", "tokens a pass"), DARK if dark else LIGHT
    if losses:
        figure.add_scatter(
            x=[s for s, _ in losses], y=[loss for _, loss in losses], name="loss", mode="lines", yaxis="y2",
            line={"color": ink["naive"], "dash": "2px,3px", "width": 1.5}, hovertemplate="loss %{y:.2f} at %{x:.0f} s",
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
