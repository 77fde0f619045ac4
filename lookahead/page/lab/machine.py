"""This machine: what a pass costs, in which format and with how many threads, and where its time goes."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gradio as gr

from ...core import processor
from ...core.costs import DrafterCosts
from ...core.numbers import decimal, ratio, seconds, size, speed
from ...drafting import DRAFTERS
from ...family import threads
from ...family.models import Models
from ...measure import charts
from ...measure.machine import Combination, Comparison, PassParts, compare, time_parts
from ...server.state import ServerState
from ..parts import Follow, Opening, answered, drawn, exactness, markup, plot, prose, table
from ..running import buttons, measured, measuring, run_and_stop

INTRO = (
    "A pass reads every weight once, however many rows it computes. While reading is what takes the time, more rows come "
    "nearly for nothing, and that is what drafts are verified in. Measured when the app started:"
)
COMPARE = (
    "<b>Another format, other threads?</b> The target's pass in float32 and bfloat16 with several thread counts, in turns. "
    "The weights are copied for it; what races run with stays as it is."
)
PARTS = (
    "<b>How near is a pass to memory's speed?</b> No pass can be faster than memory delivers its weights. Here a buffer as large "
    "as each model is read, and the parts of its pass are timed alone; norms and the starting of kernels are the rest. The line in "
    "the figure is the speed of memory."
)


def add(server: ServerState, follow: Follow) -> Opening:
    """The section."""
    follow(_facts, markup())
    figure = plot()

    def curve(dark: bool, request: gr.Request) -> gr.Plot:
        return drawn(charts.cost_curve(server.models_for(request.session_hash).costs.target, dark))

    _trial(COMPARE, "Compare formats and threads", measuring(server, _compare))
    _trial(PARTS, "Take a pass apart", measuring(server, _take_apart))
    return Opening(curve, figure)


def _trial(words: str, label: str, work: Callable[..., Iterator[Any]]) -> None:
    """A measurement that starts with a button. Its result and its chart appear below."""
    prose(words)
    with gr.Row(elem_classes="la-do"):
        start, stop = buttons(label, 300)
    line, *answer = markup(), markup(), plot()
    run_and_stop(start, stop, work, [], answer, status=line, draws=True)


def _facts(models: Models) -> str:
    costs, passes, used = models.costs, models.target.passes, models.measured.threads
    fitted = (drafter.fitted(models.deciding_costs(), costs) for drafter in DRAFTERS.values())
    limited = "" if used == threads.MOST else f" of {threads.MOST}: more are not clearly faster here"
    rows = [
        ["processor", f"{processor.name()}, {processor.cores()} cores"],
        ["threads", f"{used}{limited}"],
        ["format", models.dtype],
        ["exactness", f"{models.exactness}. {exactness(models)}"],
        ["target", f"{models.names['target']}, {size(passes.nbytes)} of weights, {seconds(costs.pass_s(1))} a pass"],
        ["memory read", f"{speed(passes.read_bytes / costs.pass_s(1))} in a one-row pass (weights only)"],
        ["8 rows", f"{decimal(costs.target.ratio(8))} one-row passes, {decimal(costs.target.ratio(8) / 8)} a row"],
        *map(list, filter(None, fitted)),
        *(_drafter_facts(models, role, drafter) for role, drafter in costs.drafters.items()),
    ]
    return table(["", ""], rows)


def _drafter_facts(models: Models, role: str, drafter: DrafterCosts) -> list[str]:
    if role in models.heads:
        first, token = drafter.tokens_s(1) + sum(drafter.cold_s[:1]), drafter.token_s
        return [
            f"trained head: {role}",
            f"{seconds(first)} for the first token of a draft, {seconds(token)} for each further one",
        ]
    pass_s, eight_bits = drafter.curve.pass_s(1), models.drafts[role].eight_bits
    share = f"1/{decimal(models.costs.pass_s(1) / pass_s)} of the target's"
    return [f"draft: {role}", f"{seconds(pass_s)} a pass{' in 8 bits' if eight_bits else ''}, {share}"]


def _take_apart(models: Models, dark: bool) -> Iterator[Any]:
    def show(parts: Sequence[PassParts]) -> list[Any]:
        return [_parts(parts), drawn(charts.pass_parts(parts, dark))]

    yield from measured(lambda: time_parts(models), show, 2)


def _parts(models: Sequence[PassParts]) -> str:
    names = dict.fromkeys(name for one in models for name in one.segments)
    rows = [
        [
            one.role, size(one.weight_bytes), speed(one.bytes_per_s), seconds(one.limit_s), seconds(one.pass_s), ratio(one.ratio),
            *(seconds(one.segments[name]) if name in one.segments else "" for name in names),
        ]
        for one in models
    ]  # fmt: skip
    heads = ["model", "weights", "memory reads", "in", "the pass takes", "so many times that", *names]
    caption = "one row after 64 tokens; the fastest of many; each part is timed alone"
    return answered("", models[0].sentence) + table(heads, rows, caption)


def _compare(models: Models, dark: bool) -> Iterator[Any]:
    compared = None

    def show(newest: Comparison) -> list[Any]:
        nonlocal compared
        compared = newest
        return [_comparison(newest), gr.skip()]

    yield from measured(lambda: compare(models), show, 2)
    yield [gr.skip(), gr.skip(), drawn(charts.formats(compared, dark))]  # at the end: drawing disturbs the measurement


def _comparison(compared: Comparison) -> str:
    caption = f"medians of {compared.visits}; 9 and 33 rows in one-row passes"
    heads = ["format", "threads", "1 row", "9 rows", "33 rows", "weights read"]
    rows = [
        [one.dtype + (", in use" if one.in_use else ""), str(one.threads or "GPU"), *_cells(one)]
        for one in compared.combinations
    ]
    # Unbroken: on a phone a table is scrolled.
    whole = [[cell.replace(" ", "\u00a0") for cell in row] for row in (heads, *rows)]
    return answered(compared.verdict()) + table(whole[0], whole[1:], caption)


def _cells(one: Combination) -> list[str]:
    if not one.pass_s:
        return ["", "", "", one.skipped]
    more = [decimal(one.seconds(n) / one.pass_s[0]) if n <= one.rows[-1] else "" for n in (9, 33)]
    return [seconds(one.pass_s[0]), *more, speed(one.bytes_per_s)]
