"""How many at once: batches of several sizes, naive decoding against a method, measured on this machine."""

from collections.abc import Iterator, Mapping
from typing import Any

import gradio as gr

from ...core.numbers import counted
from ...family.models import Models
from ...measure import batches, charts, published
from ...measure.decision import levels_of, texts_at_once
from ...measure.progress import questions
from ...server.state import ServerState
from ..parts import DARK, QUIET, Follow, Opening, answer_html, markup, plot, plot_update, prose, split, table
from ..running import buttons, follow_progress, run_and_stop, with_visitor_models
from . import classroom

INTRO = (
    "One text leaves most of a processor idle, so drafted tokens cost little. Several texts share every pass. Each text then costs "
    "less, and a drafted token takes time that another text could use. So a token is drafted only if its expected gain is worth "
    "its cost. The number of texts is constant: when one text ends, the next starts."
)
SIZES = {"1 to 8": (1, 2, 4, 8), "1 to 32": (1, 2, 4, 8, 16, 32), "1 to 64": (1, 4, 16, 64)}
MAX_TOKENS = 48  # tokens per text
ELSEWHERE = "draft"  # the method whose measurements on another machine are shown at first


def add(server: ServerState, follow: Follow) -> list[Opening]:
    """Add the section."""
    advice = markup()
    left, right = split()
    with right:
        prose(INTRO)
        method = gr.Dropdown(batches.shared_methods(server.models), value="draft", label="method", filterable=False)
        sizes = gr.Dropdown(list(SIZES), value="1 to 8", label="texts at once", filterable=False)
        with gr.Row(elem_classes="la-do"):
            start, stop = buttons("Measure")
        status = markup()
    with left:
        figure, rows = plot(), markup()
        passes = gr.State({})
        with gr.Row(elem_classes="la-do"):
            which = gr.Dropdown([], label="show a pass of", filterable=False, visible=False)
            number = gr.Slider(1, batches.SHOWN_PASSES, 1, step=1, label="pass", visible=False)
        picture = plot()
    classroom.add(server, method, left, right)
    follow(offered, method)
    work, outputs = with_visitor_models(server, _write), [advice, figure, rows, passes, which, number]
    run_and_stop(start, stop, work, [method, sizes], outputs, status=status, draws=True)
    dark = gr.Checkbox(False, visible=False)
    for change in (which.change, number.change):
        change(
            _picture, [dark, passes, which, number], picture, js=f"(_, ...rest) => [{DARK}, ...rest]", queue=False,
            trigger_mode="always_last", **QUIET,
        )  # fmt: skip
    return [Opening(_measured_elsewhere, [advice, figure])]


def _measured_elsewhere(dark: bool) -> list[Any]:
    """Return the published table, which is shown until this machine is measured."""
    by_method, machine = published.batches()
    levels = by_method.get(ELSEWHERE, ())
    source = f"Measured on another machine ({machine}), with {ELSEWHERE}"
    sentence = f"{source}: {texts_at_once(levels)} Your results replace this."
    return [answer_html(sentence), plot_update(charts.load(levels, dark))] if levels else gr.skip()


def offered(models: Models) -> gr.Dropdown:
    """Return the choice of methods whose texts can share passes."""
    methods = batches.shared_methods(models)
    return gr.Dropdown(methods, value="draft" if "draft" in methods else methods[0])


def _write(models: Models, dark: bool, method: str, sizes: str) -> Iterator[Any]:
    prompts, counts, offered = questions(family=models.spec), SIZES[sizes], []

    def show(newest: Mapping[str, Any]) -> list[Any] | None:
        nonlocal offered
        if not newest["rows"]:
            return None
        levels, previous = levels_of(newest["rows"]), offered
        figure = plot_update(charts.load(levels, dark, [row["theory"] for row in newest["rows"]]))
        passes = {counted(row["texts"], "text"): row["passes"] for row in newest["rows"]}
        drafting = [name for name, pictures in passes.items() if pictures and any(map(any, pictures[0]))]
        offered = [*passes]
        last = (drafting or offered)[-1]
        chosen = gr.Dropdown(offered, value=last, visible=True) if offered != previous else gr.skip()
        advice, rows = answer_html(texts_at_once(levels)), table(*batches.table(newest["rows"]))
        return [advice, figure, rows, passes, chosen, gr.Slider(visible=True)]

    yield from follow_progress(
        lambda: batches.measure(models, prompts, [method], counts, max_new_tokens=MAX_TOKENS), show, 6
    )


def _picture(dark: bool, passes: Mapping[str, Any], which: str, number: float) -> gr.Plot:
    return plot_update(charts.shared_pass(passes.get(which, ()), int(number), dark))
