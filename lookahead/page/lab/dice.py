"""Dice: apply the rejection rule thousands of times, and compare the histogram with the target's p."""

from collections.abc import Iterator
from typing import Any

import gradio as gr

from ...core.numbers import count, decimal, percent, significant
from ...measure import charts
from ...measure.bugs import BUGS
from ...measure.dice import FREEDOM, MIN_INTERVAL, NOTHING, THROWS, Histogram, throw
from ...server.state import ServerState
from ..parts import Follow, Opening, markup, plot, plot_update, status_line
from ..running import buttons, follow_job, run_and_stop

INTRO = (
    "A token is drafted from q and accepted with probability min(1, p/q). A rejected token is replaced by a draw from "
    "max(0, p - q), normalized. For every q, the results are distributed as p. With a bug in the rule they are not, and the "
    "chi-square test shows it."
)
UNTHROWN = "Hatched bars show the target's p, to which the throws must converge. Nothing has been thrown yet."
SURE = 1e-4


def add(server: ServerState, follow: Follow) -> Opening:
    """Add the section."""
    status, figure = controls()
    return Opening(lambda dark: [status_line(UNTHROWN), plot_update(charts.dice(NOTHING, dark))], [status, figure])


def controls(bug: str = "") -> tuple[gr.HTML, gr.Plot]:
    """Add the dice, with `bug` selected at first. Returns the status line and the figure."""
    with gr.Row(elem_classes="la-do"):
        broken = [(bug.name, bug.id) for bug in BUGS.values() if bug.rule == "rejection"]
        rule = gr.Dropdown([("correct", ""), *broken], value=bug, label="rule", filterable=False, interactive=True)
        many = gr.Slider(500, 20_000, THROWS, step=500, label="throws", interactive=True)
        start, stop = buttons("Throw")
    status, figure = markup(), plot()
    run_and_stop(start, stop, _throw, [rule, many], [figure], status=status, done=None, draws=True)
    return status, figure


def _throw(dark: bool, bug: str, throws: float) -> Iterator[Any]:
    rule = {"rule": BUGS[bug].parts.rule} if bug in BUGS else {}
    interval = max(MIN_INTERVAL, int(throws) // 40)
    for line, histogram in follow_job(lambda: throw(throws=int(throws), every=interval, **rule)):
        yield [_status(histogram, bug), plot_update(charts.dice(histogram, dark))] if histogram else [line, gr.skip()]


def _status(now: Histogram, bug: str) -> str:
    text = f"{count(now.throws)} of {count(now.total)} throws; {percent(now.accepted / now.throws)} of the drafted tokens were accepted."
    if now.p_value is not None:
        odds = significant(now.p_value, 2) if now.p_value >= 1e-12 else "less than 1e-12"
        text += f" Chi-square {decimal(now.chi_square)} with {FREEDOM} degrees of freedom: a correct rule deviates at least this far in {odds} of all cases."
        if now.throws == now.total:
            text += " It converges to p." if now.p_value > SURE else " It does not converge to p."
    if bug in BUGS:
        text += f" {BUGS[bug].description}"
    return status_line(text, now.throws / now.total)
