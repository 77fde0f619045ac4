"""What if: from the naive lane of the race on show, the passes any lookup setting would have taken."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import gradio as gr

from ...core.events import LookaheadError
from ...core.numbers import decimal, percent, ratio, seconds
from ...engine.methods import option_names, text_methods
from ...measure import charts, recordings
from ...measure.whatif import Outcome, Recording, ceiling, what_if
from ...server.state import ServerState
from ...trace.trace import Trace
from ..parts import DARK, QUIET, TRACE, Follow, Opening, drawn, markup, plot, refused, table

INTRO = (
    f"A drafter that looks at nothing but the text ({', '.join(f'<b>{method}</b>' for method in text_methods())}) can be recomputed from a recording, pass by "
    "pass and without the model: the text would have been the same. These are the very passes of a real run; only their times "
    "are predicted. The <b>oracle</b> knows the next tokens: nobody drafts better chains. It works on the race on show in the Race tab, or where none is, on the recorded story."
)
KS = tuple(range(1, 17))
FIRST = {"shortest": 2, "candidates": 2}


def add(server: ServerState, follow: Follow) -> Opening:
    """The section."""

    def shown(text: str) -> Recording:
        recording = Recording.from_trace(Trace.from_json(text) if text else recordings.read("story"))
        server.limits.check(list(recording.prompt), len(recording.tokens))
        return recording

    return _sliders(shown, TRACE, "use the race on show")


def of_recording(scenario: str, method: str, k: int, options: Mapping[str, int]) -> None:
    """The sliders over a bundled recording; its times are those of the machine it was made on."""
    recording = Recording.from_trace(recordings.read(scenario))
    _sliders(lambda _: recording, "''", "count the passes", method, k, options)


def _sliders(
    find: Callable[[str], Recording], source: str, load: str, method: str = "", k: int = 6,
    options: Mapping[str, int] = FIRST,
) -> Opening:  # fmt: skip
    """Sliders over the recording that `find` returns for the text that the script `source` returns."""
    dark, text = gr.Checkbox(False, visible=False), gr.Textbox("", visible=False)
    with gr.Row(elem_classes="la-do"):
        fields = [
            gr.Radio(list(text_methods()), value=method or text_methods()[0], label="method", interactive=True),
            gr.Slider(0, KS[-1], k, step=1, label="draft length k", interactive=True),
            gr.Slider(1, 8, options["shortest"], step=1, label="shortest match, tokens", interactive=True),
            gr.Slider(1, 6, options["candidates"], step=1, label="candidates", interactive=True),
        ]
        begin = gr.Button(load, size="sm", scale=0, min_width=160)
    rows, figure = markup(), plot()
    draw = partial(_draw, find)
    fresh = f"(_, __, ...rest) => [{DARK}, {source}, ...rest]"
    # One event for all controls: a result never arrives after that of a later change.
    changes, given = [*(field.change for field in fields), begin.click], [dark, text, *fields]
    gr.on(changes, draw, given, [rows, figure], js=fresh, queue=False, trigger_mode="always_last", **QUIET)
    return Opening(draw, [rows, figure], [text, *fields], f"given => [{source}, ...given.slice(1)]")


def _draw(
    find: Callable[[str], Recording], dark: bool, text: str, method: str, k: float, shortest: float, candidates: float
) -> list[Any]:
    try:
        recording = find(text)
        given = {"shortest": int(shortest), "longest": max(6, int(shortest)), "candidates": int(candidates)}
        options = {name: given[name] for name in option_names(method) if name in given}
        outcomes = what_if(recording, method, int(k), **options), ceiling(recording, int(k))
        lines = [(what_if(recording, method, each, **options), ceiling(recording, each)) for each in KS]
    except LookaheadError as error:
        return [refused(error), drawn(None)]
    return [_table(recording, outcomes), drawn(charts.what_if(KS, lines, int(k), dark))]


def _table(recording: Recording, outcomes: Sequence[Outcome]) -> str:
    naive = len(recording.tokens)
    rows = [["naive", str(naive), decimal(1), "", seconds(recording.naive_s), ratio(1)]]
    for outcome in outcomes:
        rows.append([
            f"{outcome.method}, k = {outcome.k}", str(len(outcome.steps)), decimal(outcome.tokens_per_pass),
            percent(outcome.acceptance_rate), seconds(outcome.seconds), ratio(outcome.speedup),
        ])  # fmt: skip
    heads = ["", "passes", "tokens per pass", "drafted tokens accepted", "time, predicted", "speedup, predicted"]
    return table(heads, rows, f"{naive} tokens, as they were written; naive's time is the recording's own.")
