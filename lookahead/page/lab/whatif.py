"""What if: compute the passes of any lookup setting from the naive lane of the displayed race."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import gradio as gr

from ...core.events import LookaheadError
from ...core.numbers import decimal, percent, ratio, seconds
from ...engine.methods import option_names, text_methods
from ...measure import charts, recordings
from ...measure.whatif import NaiveRun, Outcome, oracle_outcome, what_if
from ...server.state import ServerState
from ...trace.trace import Trace
from ..parts import DARK, QUIET, TRACE, Opening, answer_html, error_line, markup, plot, plot_update, prose, split, table

INTRO = (
    f"A drafter that reads only the text ({', '.join(f'<b>{method}</b>' for method in text_methods())}) can be recomputed from a recording, pass by "
    "pass and without the model. The text would have been the same. The passes are those of a real run; only their times "
    "are predicted. The <b>oracle</b> drafts the real next tokens, so no draft is better. At first, this uses the recorded "
    "records, whose text repeats itself."
)
FIRST_RECORDING = "records"
KS = tuple(range(1, 17))
FIRST = {"shortest": 2, "candidates": 2}


def add(server: ServerState, verdict: gr.HTML, left: gr.Column, right: gr.Column) -> Opening:
    """Add the result to `verdict` and the column `left`, and its controls to the column `right`."""

    def shown(text: str) -> NaiveRun:
        recording = NaiveRun.from_trace(Trace.from_json(text) if text else recordings.read(FIRST_RECORDING))
        server.limits.check(list(recording.prompt), len(recording.tokens))
        return recording

    with right:
        prose(INTRO)
    return _sliders(shown, TRACE, "use the displayed race", verdict, left, right)


def recording_sliders(scenario: str, method: str, k: int, options: Mapping[str, int]) -> None:
    """Add the sliders over a bundled recording, with the times of the machine that recorded it."""
    recording = NaiveRun.from_trace(recordings.read(scenario))
    verdict = markup()
    left, right = split()
    _sliders(lambda _: recording, "''", "count the passes", verdict, left, right, method, k, options)


def _sliders(
    find: Callable[[str], NaiveRun], source: str, load: str, verdict: gr.HTML, left: gr.Column, right: gr.Column,
    method: str = "", k: int = 6, options: Mapping[str, int] = FIRST,
) -> Opening:  # fmt: skip
    """Add sliders over the recording that `find` returns for the text that the script `source` returns; at first for ""."""
    dark, text = gr.Checkbox(False, visible=False), gr.Textbox("", visible=False)
    with right:
        fields = [
            gr.Radio(list(text_methods()), value=method or text_methods()[0], label="method", interactive=True),
            gr.Slider(0, KS[-1], k, step=1, label="draft length k", interactive=True),
            gr.Slider(1, 8, options["shortest"], step=1, label="shortest match, tokens", interactive=True),
            gr.Slider(1, 6, options["candidates"], step=1, label="candidates", interactive=True),
        ]
        update = gr.Button(load, size="sm", scale=0, min_width=160)
    with left:
        figure, rows = plot(), markup()
    draw = partial(_draw, find)
    script = f"(_, __, ...rest) => [{DARK}, {source}, ...rest]"
    # One event for all controls, so that no result arrives after that of a later change.
    changes, inputs = [*(field.change for field in fields), update.click], [dark, text, *fields]
    outputs = [verdict, rows, figure]
    gr.on(changes, draw, inputs, outputs, js=script, queue=False, trigger_mode="always_last", **QUIET)
    return Opening(draw, outputs, [text, *fields])


def _draw(find: Callable[[str], NaiveRun], dark: bool, text: str, method: str, *numbers: float) -> list[Any]:
    k, shortest, candidates = map(int, numbers)
    try:
        recording = find(text)
        settings = {"shortest": shortest, "longest": max(6, shortest), "candidates": candidates}
        options = {name: settings[name] for name in option_names(method) if name in settings}
        outcomes = what_if(recording, method, k, **options), oracle_outcome(recording, k)
        lines = [(what_if(recording, method, length, **options), oracle_outcome(recording, length)) for length in KS]
    except LookaheadError as error:
        return ["", error_line(error), plot_update(None)]
    figure = plot_update(charts.what_if(KS, lines, k, dark))
    return [answer_html(_sentence(recording, outcomes[0], lines)), _table(recording, outcomes), figure]


def _sentence(recording: NaiveRun, outcome: Outcome, lines: Sequence[tuple[Outcome, Outcome]]) -> str:
    best = max((line[0] for line in lines), key=lambda other: other.speedup)
    passes = (
        f"{outcome.method} with k = {outcome.k} needs {len(outcome.steps)} passes instead of {len(recording.tokens)}"
    )
    return f"{passes}. The fastest draft length for this text is {best.k}."


def _table(recording: NaiveRun, outcomes: Sequence[Outcome]) -> str:
    naive = len(recording.tokens)
    rows = [["naive", str(naive), decimal(1), "", seconds(recording.naive_s), ratio(1)]]
    for outcome in outcomes:
        rows.append([
            f"{outcome.method}, k = {outcome.k}", str(len(outcome.steps)), decimal(outcome.tokens_per_pass),
            percent(outcome.acceptance_rate), seconds(outcome.seconds), ratio(outcome.speedup),
        ])  # fmt: skip
    heads = ["drafter", "passes", "tokens per pass", "drafted tokens accepted", "time, predicted", "speedup, predicted"]
    return table(heads, rows, f"{naive} tokens of the recording, with its measured time for naive.")
