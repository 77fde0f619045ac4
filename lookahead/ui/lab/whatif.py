"""What if: from the naive lane of the race on show, the passes any lookup setting would have taken."""

from __future__ import annotations

from typing import Any

import gradio as gr

from ...events import LookaheadError, TraceError
from ...lab import charts
from ...lab.whatif import METHODS, Outcome, Recording, ceiling, over_k, what_if
from ...models import Models
from ...trace import Trace
from .parts import DARK, QUIET, TRACE, drawn, plot, prose, refused, table

INTRO = (
    "A drafter that looks at nothing but the text (<b>ngram</b>, <b>suffix</b>) can be recomputed from a recording, pass by "
    "pass and without the model: the text would have been the same. These are the very passes of a real run; only their times "
    "are predicted. The <b>oracle</b> knows the next tokens: nobody drafts better chains. It works on the race on show in the Race tab."
)
KS = tuple(range(1, 17))


def add(models: Models) -> None:
    """The section."""
    prose(INTRO)
    dark, shown = gr.Checkbox(False, visible=False), gr.Textbox("", visible=False)
    with gr.Row(elem_classes="la-do"):
        method = gr.Radio(list(METHODS), value=METHODS[0], label="method")
        k = gr.Slider(0, 16, 6, step=1, label="draft length k")
        shortest = gr.Slider(1, 8, 2, step=1, label="shortest match, tokens")
        candidates = gr.Slider(1, 6, 2, step=1, label="candidates")
        load = gr.Button("use the race on show", size="sm", scale=0, min_width=160)
    said = gr.HTML("", apply_default_css=False)
    figure = plot()

    def draw(dark: bool, text: str, *settings: Any) -> list[Any]:
        return _draw(models, dark, text, *settings)

    inputs, outputs = [dark, shown, method, k, shortest, candidates], [said, figure]
    fresh = f"(_, __, ...rest) => [{DARK}, {TRACE}, ...rest]"
    for change in (method.change, k.change, shortest.change, candidates.change, load.click):
        change(draw, inputs, outputs, js=fresh, queue=False, trigger_mode="always_last", **QUIET)


def _draw(
    models: Models, dark: bool, text: str, method: str, k: float, shortest: float, candidates: float
) -> list[Any]:
    try:
        if not text:
            raise TraceError("race", "nothing on show", "run one, or choose a recording, in the Race tab.")
        recording = Recording.of(Trace.from_json(text))
        options = {"shortest": int(shortest), "candidates": int(candidates)}
        if method == "ngram":
            options["longest"] = max(6, options["shortest"])
        mine, best = what_if(recording, method, int(k), **options), ceiling(recording, int(k))
        lines = list(over_k(recording, method, KS, **options))
    except LookaheadError as error:
        return [refused(error), drawn(None)]
    return [_table(recording, mine, best), drawn(charts.what_if(KS, lines, int(k), dark))]


def _table(recording: Recording, mine: Outcome, best: Outcome) -> str:
    naive = len(recording.tokens)
    rows = [["naive", str(naive), "1.00", "", f"{recording.naive_s:.2f} s", "1.00x"]]
    for outcome in (mine, best):
        stood = "" if outcome.acceptance_rate is None else f"{outcome.acceptance_rate:.0%}"
        rows.append(
            [
                f"{outcome.method}, k = {outcome.k}", str(len(outcome.steps)), f"{outcome.tokens_per_pass:.2f}", stood,
                f"{outcome.seconds:.2f} s", f"{outcome.speedup:.2f}x",
            ]
        )  # fmt: skip
    heads = ["", "passes", "tokens a pass", "drafted tokens that stood", "time, predicted", "speedup, predicted"]
    return table(heads, rows, f"{naive} tokens, as they were written; naive's time is the recording's own.")
