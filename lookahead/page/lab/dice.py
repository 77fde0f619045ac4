"""Dice: the rejection rule thrown thousands of times, and the histogram settling on the target's p; or not."""

from collections.abc import Iterator
from typing import Any

import gradio as gr

from ...core.numbers import count, decimal, percent, significant
from ...measure import charts
from ...measure.bugs import BUGS
from ...measure.dice import EVERY, FREEDOM, NOTHING, THROWS, Histogram, throw
from ...server.state import ServerState
from ..parts import Follow, Opening, drawn, markup, plot, says
from ..running import buttons, followed, run_and_stop

INTRO = (
    "A token is drafted from q, accepted with the chance min(1, p/q), and replaced by a draw from what is left of p where it "
    "is rejected. However wrong q is, what comes out is distributed as p. With a bug in the rule it is not, and the "
    "chi-square test says so."
)
HONEST = "as it should be"
UNTHROWN = "Hatched is the target's p, on which what is thrown must settle. Nothing has been thrown yet."
SURE = 1e-4


def add(server: ServerState, follow: Follow) -> Opening:
    """The section."""
    status, figure = board()
    return Opening(lambda dark: [says(UNTHROWN), drawn(charts.dice(NOTHING, dark))], [status, figure])


def board(bug: str = "") -> tuple[gr.HTML, gr.Plot]:
    """The dice, with a `bug` chosen at first. Returns the line of words and the figure."""
    with gr.Row(elem_classes="la-do"):
        broken = [(bug.name, bug.id) for bug in BUGS.values() if bug.rule == "rejection"]
        rule = gr.Dropdown([(HONEST, ""), *broken], value=bug, label="rule", filterable=False, interactive=True)
        many = gr.Slider(500, 20_000, THROWS, step=500, label="throws", interactive=True)
        start, stop = buttons("Throw")
    status, figure = markup(), plot()
    run_and_stop(start, stop, _throw, [rule, many], [figure], status=status, done=None, draws=True)
    return status, figure


def _throw(dark: bool, bug: str, throws: float) -> Iterator[Any]:
    rule = {"rule": BUGS[bug].parts.rule} if bug in BUGS else {}
    every = max(EVERY, int(throws) // 40)
    for line, histogram in followed(lambda: throw(throws=int(throws), every=every, **rule)):
        yield [_words(histogram, bug), drawn(charts.dice(histogram, dark))] if histogram else [line, gr.skip()]


def _words(now: Histogram, bug: str) -> str:
    text = f"{count(now.throws)} of {count(now.total)} throws; {percent(now.accepted / now.throws)} of the drafted tokens were accepted."
    if now.p_value is not None:
        odds = significant(now.p_value, 2) if now.p_value >= 1e-12 else "less than 1e-12"
        text += f" Chi-square {decimal(now.chi_square)} with {FREEDOM} degrees of freedom: a correct rule strays as far in {odds} of all cases."
        if now.throws == now.total:
            text += " It settles on p." if now.p_value > SURE else " It does not settle on p."
    if bug in BUGS:
        text += f" {BUGS[bug].description}"
    return says(text, now.throws / now.total)
