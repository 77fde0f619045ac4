"""Dice: apply the rejection rule thousands of times, and compare the histogram with the target's p.

A second histogram is that of a bug, or of block verification, with the same drafts.
"""

from collections.abc import Iterator
from typing import Any

import gradio as gr

from ...core.numbers import count, decimal, percent, significant
from ...measure import charts
from ...measure.bugs import BUGS
from ...measure.dice import MIN_INTERVAL, THROWS, Histogram, throw
from ..parts import markup, plot, plot_update, status_line
from ..running import buttons, follow_job, run_and_stop

SURE = 1e-4
BLOCK = "block-verification"
DRAFTED = 4  # tokens of a throw with block verification, which differs from token verification for several tokens only


def controls(bug: str = "") -> None:
    """Add the dice, with `bug` selected at first."""
    with gr.Row(elem_classes="la-do"):
        broken = [(bug.name, bug.id) for bug in BUGS.values() if bug.rule == "rejection"]
        rules = [("correct", ""), ("next to block verification", BLOCK), *broken]
        rule = gr.Dropdown(rules, value=bug, label="rule", filterable=False, interactive=True)
        many = gr.Slider(500, 20_000, THROWS, step=500, label="throws", interactive=True)
        start, stop = buttons("Throw")
    status, figure = markup(), plot()
    run_and_stop(start, stop, _throw, [rule, many], [figure], status=status, done=None, draws=True)


def _throw(dark: bool, other: str, throws: float) -> Iterator[Any]:
    """Throw the correct rule, and with the same random numbers the rule with a bug, or block verification."""
    drafted, masked, rules, names = 1, False, [{}], ("the correct rule", "with the bug")
    if other == BLOCK:
        drafted, rules, names = DRAFTED, [{}, {"name": BLOCK}], ("token verification", "block verification")
    elif other in BUGS:
        masked, rules = BUGS[other].masked, [{}, {"rule": BUGS[other].parts.rule}]
    interval = max(MIN_INTERVAL, int(throws) // 40)

    def both() -> Iterator[tuple[Histogram, ...]]:
        thrown = (throw(int(throws), interval, **rule, drafted=drafted, masked=masked) for rule in rules)
        yield from zip(*thrown, strict=True)

    for line, histograms in follow_job(both):
        if histograms:
            correct, second = histograms[0], histograms[1] if len(histograms) > 1 else None
            line = _compared(*histograms) if other == BLOCK else _status(correct, second, other)
            yield [line, plot_update(charts.dice(correct, dark, second, names))]
        else:
            yield [line, gr.skip()]


def _compared(tokens: Histogram, block: Histogram) -> str:
    """Return the status of token verification next to block verification."""
    more = block.accepted / max(1, tokens.accepted) - 1
    text = (
        f"{count(block.throws)} of {count(block.total)} throws, with the same {block.drafted} drafted tokens each. Token verification "
        f"accepted {decimal(tokens.accepted_per_throw)} tokens per throw, block verification {decimal(block.accepted_per_throw)}"
    )
    text += f", {percent(more)} more." if more > 0 else "."
    if tokens.p_value is not None and block.p_value is not None:
        text += f" A correct rule deviates from p at least this far in {_odds(tokens)} and {_odds(block)} of all cases."
        if block.throws == block.total and min(tokens.p_value, block.p_value) > SURE:
            text += " Both converge to p: both are exact."
    return status_line(text, block.throws / block.total)


def _status(correct: Histogram, with_bug: Histogram | None, bug: str) -> str:
    now = with_bug or correct
    text = f"{count(now.throws)} of {count(now.total)} throws; {percent(now.accepted_per_throw)} of the drafted tokens were accepted."
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
