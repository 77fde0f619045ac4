"""This machine: the cost of a pass, by format and number of threads, and the times of its parts."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gradio as gr

from ...core import processor
from ...core.costs import CostCurve, DrafterCosts
from ...core.numbers import counted, decimal, ratio, seconds, size, speed
from ...drafting import DRAFTERS
from ...family import threads
from ...family.models import Models
from ...measure import charts
from ...measure.machine import Combination, Comparison, PassParts, compare, time_parts
from ...model.forward import Mixture
from ...server.state import ServerState
from ..parts import ESTIMATED, Follow, Opening, answer_html, exactness, markup, plot, plot_update, prose, split, table
from ..running import buttons, follow_progress, run_and_stop, with_visitor_models

INTRO = (
    "A pass reads every weight once, even if it has many rows. If reading takes most of the time, further rows cost almost "
    "nothing. Drafts are verified in these rows. In a mixture of experts, more rows activate more experts, whose weights must be "
    "read too. The curve was measured when the app started."
)
COMPARE = (
    "<b>Another format, other threads?</b> This measures the target's pass in float32 and bfloat16 with several thread counts, "
    "in turns. It uses a copy of the weights, so races do not change."
)
PARTS = (
    "<b>How close is a pass to the memory bandwidth?</b> A pass takes at least as long as reading its weights from memory. This "
    "reads a buffer as large as each model, and times each part of its pass alone. The rest is norms and kernel launches. The "
    "line in the figure is the time to read the weights."
)


def add(server: ServerState, follow: Follow) -> list[Opening]:
    """Add the section."""
    follow(_verdict, markup())
    left, right = split()
    with left:
        figure = plot()
    with right:
        prose(INTRO)

    def curve(dark: bool, request: gr.Request) -> gr.Plot:
        return plot_update(charts.cost_curve(server.models_for(request.session_hash).costs.target, dark))

    with gr.Accordion("details", open=False):
        follow(_facts, markup())
        _trial(COMPARE, "Compare formats and threads", with_visitor_models(server, _compare))
        _trial(PARTS, "Time the parts of a pass", with_visitor_models(server, _take_apart))
    return [Opening(curve, figure)]


def _trial(description: str, label: str, work: Callable[..., Iterator[Any]]) -> None:
    """Add a measurement that starts with a button. Its result and its chart appear below."""
    prose(description)
    with gr.Row(elem_classes="la-do"):
        start, stop = buttons(label, 300)
    line, *outputs = markup(), markup(), plot()
    run_and_stop(start, stop, work, [], outputs, status=line, draws=True)


def _verdict(models: Models) -> str:
    """Return a sentence on the cost of eight rows."""
    cost = models.costs.target.ratio(8)
    return answer_html(
        f"Here, a pass that verifies 7 drafted tokens costs {decimal(cost)} times as much as a pass without a draft."
    )


def _facts(models: Models) -> str:
    costs, passes, used = models.costs, models.target.passes, models.measured.threads
    fitted = (drafter.fitted(models.policy_costs(), costs) for drafter in DRAFTERS.values())
    limited = "" if used >= processor.cores() else f" of {processor.cores()}: {threads.reason(passes)}"
    kind = ESTIMATED if models.estimated else "measured"
    rows = [
        ["costs", kind],
        ["processor", f"{processor.name()}, {processor.cores()} cores"],
        ["threads", f"{used}{limited}"],
        ["format", models.dtype],
        ["exactness", f"{models.exactness}. {exactness(models)}"],
        ["target", f"{models.names['target']}, {size(passes.nbytes)} of weights, {seconds(costs.pass_s(1))} per pass"],
        ["memory read", f"{speed(passes.read_bytes / costs.pass_s(1))} in a one-row pass (weights only)"],
        ["8 rows", f"{decimal(costs.target.ratio(8))} one-row passes, {decimal(costs.target.ratio(8) / 8)} per row"],
        *_experts(costs.target, passes.mixture),
        *map(list, filter(None, fitted)),
        *(_drafter_facts(models, role, drafter) for role, drafter in costs.drafters.items()),
    ]
    return table(["fact", "value"], rows)


def _experts(curve: CostCurve, mixture: Mixture | None) -> list[list[str]]:
    """Return the row of the table with the experts that passes activate, if the target is a mixture of experts."""
    if mixture is None or not curve.experts:
        return []
    passes = [f"{counted(n, 'row')} {decimal(active)}" for n, active in zip(curve.rows, curve.experts, strict=True)]
    return [
        ["experts", f"activated of {mixture.total}, per layer: {', '.join(passes)}. Each one's weights must be read."]
    ]


def _drafter_facts(models: Models, role: str, drafter: DrafterCosts) -> list[str]:
    if role in models.heads:
        first, token = drafter.token_s + sum(drafter.cold_s[:1]), drafter.token_s
        fact = f"{seconds(first)} for the first token of a draft, {seconds(token)} for each further one"
        return [f"trained head: {role}", fact]
    pass_s, eight_bits = drafter.curve.pass_s(1), models.drafts[role].eight_bits
    share = f"1/{decimal(models.costs.pass_s(1) / pass_s)} of the target's"
    return [f"draft: {role}", f"{seconds(pass_s)} per pass{' in 8 bits' if eight_bits else ''}, {share}"]


def _take_apart(models: Models, dark: bool) -> Iterator[Any]:
    yield from follow_progress(
        lambda: time_parts(models), lambda parts: [_parts(parts), plot_update(charts.pass_parts(parts, dark))], 2
    )


def _parts(models: Sequence[PassParts]) -> str:
    names = dict.fromkeys(name for parts in models for name in parts.segments)
    rows = [
        [
            parts.role, size(parts.weight_bytes), speed(parts.bytes_per_s), seconds(parts.limit_s), seconds(parts.pass_s),
            ratio(parts.ratio), *(seconds(parts.segments[name]) if name in parts.segments else "" for name in names),
        ]
        for parts in models
    ]  # fmt: skip
    heads = ["model", "weights", "memory bandwidth", "time to read", "time of a pass", "ratio", *names]
    caption = "one row after 64 tokens; the fastest of many; each part is timed alone"
    return answer_html("", models[0].sentence) + table(heads, rows, caption)


def _compare(models: Models, dark: bool) -> Iterator[Any]:
    compared = None

    def show(newest: Comparison) -> list[Any]:
        nonlocal compared
        compared = newest
        return [_comparison(newest), gr.skip()]

    yield from follow_progress(lambda: compare(models), show, 2)
    figure = plot_update(charts.formats(compared, dark))  # at the end: drawing disturbs the measurement
    yield [gr.skip(), gr.skip(), figure]


def _comparison(compared: Comparison) -> str:
    caption = f"medians of {compared.visits}; 9 and 33 rows in one-row passes"
    heads = ["format", "threads", "1 row", "9 rows", "33 rows", "weights read"]
    # No line breaks in cells: on a phone, the table scrolls.
    cells = [[cell.replace(" ", "\u00a0") for cell in row] for row in (heads, *map(_cells, compared.combinations))]
    return answer_html(compared.verdict()) + table(cells[0], cells[1:], caption)


def _cells(passes: Combination) -> list[str]:
    kind = [passes.dtype + (", in use" if passes.in_use else ""), str(passes.threads or "GPU")]
    if not passes.pass_s:
        return [*kind, "", "", "", passes.skipped]
    ratios = [decimal(passes.seconds(n) / passes.pass_s[0]) if n <= passes.rows[-1] else "" for n in (9, 33)]
    return [*kind, seconds(passes.pass_s[0]), *ratios, speed(passes.bytes_per_s)]
