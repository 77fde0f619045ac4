"""Dice: apply the rejection rule thousands of times, also with a bug, and compare the histograms with the target's p."""

from collections.abc import Iterator
from typing import Any

import gradio as gr

from ...core.rules import rule_for
from ...core.numbers import count, decimal, percent, significant
from ...measure import charts
from ...measure.bugs import BUGS
from ...measure.dice import MIN_INTERVAL, THROWS, Histogram, throw
from ..parts import markup, plot, plot_update, status_line
from ..running import buttons, follow_job, run_and_stop

SURE = 1e-4


def controls(bug: str = "") -> None:
    """Add the dice, with `bug` selected at first."""
    with gr.Row(elem_classes="la-do"):
        broken = [(bug.name, bug.id) for bug in BUGS.values() if bug.rule == "rejection"]
        rule = gr.Dropdown([("correct", ""), *broken], value=bug, label="rule", filterable=False, interactive=True)
        many = gr.Slider(500, 20_000, THROWS, step=500, label="throws", interactive=True)
        start, stop = buttons("Throw")
    status, figure = markup(), plot()
    run_and_stop(start, stop, _throw, [rule, many], [figure], status=status, done=None, draws=True)


def _throw(dark: bool, bug: str, throws: float) -> Iterator[Any]:
    """Throw the correct rule, and the rule with the bug with the same random numbers."""
    rules = [rule_for, BUGS[bug].parts.rule] if bug in BUGS else [rule_for]
    masked = bug in BUGS and BUGS[bug].masked
    interval = max(MIN_INTERVAL, int(throws) // 40)

    def both() -> Iterator[tuple[Histogram, ...]]:
        yield from zip(*(throw(int(throws), interval, rule, masked=masked) for rule in rules), strict=True)

    for line, histograms in follow_job(both):
        if histograms:
            correct, with_bug = (*histograms, None)[:2]
            yield [_status(correct, with_bug, bug), plot_update(charts.dice(correct, dark, with_bug))]
        else:
            yield [line, gr.skip()]


def _status(correct: Histogram, with_bug: Histogram | None, bug: str) -> str:
    now = with_bug or correct
    text = f"{count(now.throws)} of {count(now.total)} throws; {percent(now.accepted / now.throws)} of the drafted tokens were accepted."
    if now.p_value is not None:
        text += f" Chi-square {decimal(now.chi_square)} with {now.freedom} degrees of freedom: a correct rule deviates at least this far in {_odds(now)} of all cases."
        if now.throws == now.total:
            text += " It converges to p." if now.p_value > SURE else " It does not converge to p."
    if with_bug:
        if correct.p_value is not None:
            text += f" With the correct rule, chi-square is {decimal(correct.chi_square)}: {_odds(correct)} of all cases deviate at least this far."
        text += f" {BUGS[bug].description}"
    return status_line(text, now.throws / now.total)


def _odds(histogram: Histogram) -> str:
    return significant(histogram.p_value, 2) if histogram.p_value >= 1e-12 else "less than 1e-12"
