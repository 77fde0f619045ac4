"""Dice: the rejection rule thrown thousands of times, and the histogram settling on the target's p; or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import gradio as gr

from ...events import LookaheadError
from ...lab import charts
from ...lab.bugs import BUGS
from ...lab.dice import EVERY, THROWS, Histogram, P, Q, throw
from ..jobs import follow
from ..stage import Stage
from .parts import buttons, drawn, plot, prose, refused, runs, says

INTRO = (
    "A token is drafted from q, accepted with the chance min(1, p/q), and replaced by a draw from what is left of p where it "
    "is refused. However wrong q is, what comes out is distributed as p. With a bug in the rule it is not, and the "
    "chi-square test says so."
)
HONEST = "as it should be"
SURE = 1e-4


def add(stage: Stage) -> None:
    """The section."""
    prose(INTRO)
    board()


def board(
    p: Sequence[float] = P, q: Sequence[float] = Q, tokens: Sequence[str] = (), bug: str = "", throws: int = THROWS
) -> None:
    """Dice to be thrown: the rule and the number of throws to begin with may be changed."""
    with gr.Row(elem_classes="la-do"):
        broken = [(bug.name, bug.id) for bug in BUGS.values() if bug.rule == "rejection"]
        rule = gr.Dropdown([(HONEST, ""), *broken], value=bug, label="rule", filterable=False, interactive=True)
        many = gr.Slider(500, 20_000, throws, step=500, label="throws", interactive=True)
        start, stop = buttons("Throw")
    said = gr.HTML("", apply_default_css=False)
    figure = plot()
    runs(start, stop, partial(_throw, p, q, tokens), [rule, many], [said, figure])


def _throw(
    p: Sequence[float], q: Sequence[float], tokens: Sequence[str], dark: bool, bug: str, throws: float
) -> Iterator[Any]:
    rule = {"rule": BUGS[bug].parts.rule} if bug in BUGS else {}
    every = max(EVERY, int(throws) // 40)
    try:
        for now in follow(lambda: throw(p, q, throws=int(throws), every=every, **rule)):
            if isinstance(now, Histogram):
                yield [_words(now, bug), drawn(charts.dice(now, dark, tokens))]
            else:
                yield [says(now) if now else gr.skip(), gr.skip()]
    except LookaheadError as error:
        yield [refused(error), gr.skip()]


def _words(now: Histogram, bug: str) -> str:
    told = f"{now.throws:,} of {now.of:,} throws; {now.accepted / now.throws:.0%} of the drafted tokens stood."
    if now.p_value is not None:
        odds = f"{now.p_value:.2g}" if now.p_value >= 1e-12 else "less than 1e-12"
        told += f" Chi-square {now.chi_square:.1f} with {now.freedom} degrees of freedom: a correct rule strays as far in {odds} of all cases."
        if now.throws == now.of:
            told += " It settles on p." if now.p_value > SURE else " It does not settle on p."
    if bug in BUGS:
        told += f" {BUGS[bug].wrong}"
    return says(told, now.throws / now.of)
