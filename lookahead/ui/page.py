"""The page: what is where, and what happens when it is pressed.

The Race tab starts one generator per press. Everything that computes shares one queue, so two
people never measure each other. Errors a user can cause become a message in the timeline; the
prompt and what was shown stay.
"""

from __future__ import annotations

import html
import json
import logging
from collections.abc import Iterator
from typing import Any

import gradio as gr

from .. import log, skip, worker
from ..cost import BIT_EXACT, cores
from ..events import RULES, LookaheadError
from ..methods import METHODS, method_class
from ..models import Models
from ..race import Race, race
from ..scenarios import SCENARIOS
from ..trace import Trace
from ..version import VERSION
from . import form
from .runs import Run, Runs, refusal, whole
from .timeline import ASSETS, STYLES, timeline

logger = logging.getLogger("lookahead")
COMPUTE = {"concurrency_limit": 1, "concurrency_id": "compute"}
DEFAULT_METHOD = "hybrid"
FIELDS = (
    "max_new_tokens", "k", "temperature", "top_k", "top_p", "repetition_penalty", "rule", "seed", "stop", "chat", "draft",
)  # fmt: skip
DEFAULTS: dict[str, Any] = {
    "max_new_tokens": 128, "k": "auto", "temperature": 0, "top_k": 0, "top_p": 1, "repetition_penalty": 1,
    "rule": "auto", "seed": 0, "stop": "", "chat": False, "draft": "draft",
}  # fmt: skip
TOGGLE = """() => {
    const open = document.getElementById('la-more').classList.toggle('la-open');
    document.getElementById('la-more-button').setAttribute('aria-expanded', open);
}"""
NOTES = json.dumps([scenario.note for scenario in SCENARIOS])
LABELS = (
    "() => { const notes = "
    + NOTES
    + """;
    const more = document.getElementById('la-more-button');
    more.setAttribute('aria-expanded', 'false');
    more.setAttribute('aria-controls', 'la-more');
    document.querySelectorAll('.la-chip').forEach((chip, i) => { if (notes[i]) chip.title = notes[i]; });
}"""
)
FAULT = "The run broke off because of a fault in Lookahead, not in what you typed. What ran so far is shown."
CAPTION = "A recording from {cpu}. Press Race to run it here."


def build(models: Models) -> gr.Blocks:
    """The whole app over one set of models."""
    runs = Runs()
    with gr.Blocks(
        title="Lookahead: speculative decoding, seen and measured", analytics_enabled=False, fill_width=True
    ) as page:
        gr.HTML(_header(models), apply_default_css=False, elem_id="la-header")
        with gr.Row(elem_id="la-ask"):
            prompt = gr.Textbox(
                SCENARIOS[0].prompt, label="Prompt", lines=1, max_lines=3, elem_id="la-prompt", scale=1,
                placeholder="Type the beginning of a text",
            )  # fmt: skip
            start = gr.Button("Race", variant="primary", elem_id="la-race", scale=0)
            stop = gr.Button("Stop", interactive=False, elem_id="la-stop", scale=0)
        with gr.Row(elem_id="la-choose"):
            chips = [gr.Button(s.label, size="sm", elem_classes="la-chip", scale=0) for s in SCENARIOS]
            own = gr.Button("your own", size="sm", elem_classes="la-chip", scale=0)
            method = gr.Dropdown(
                [(f"{m}: {method_class(m).summary.removeprefix('drafts ')}", m) for m in METHODS if m != "naive"], value=DEFAULT_METHOD,
                label="Method", filterable=False, elem_id="la-method", scale=1,
            )  # fmt: skip
            more = gr.Button("more", size="sm", elem_id="la-more-button", scale=0)
        with gr.Column(elem_id="la-more"):
            fields = _fields(models)
        status = gr.HTML("", elem_id="la-status", apply_default_css=False)

        def resend(request: list) -> str | None:
            return runs.resend(request)

        lanes = timeline(_recording(), resend, elem_id="la-race-timeline")
        gr.HTML(_footer(), apply_default_css=False, elem_id="la-footer")

        def run(text: str, chosen: str, *values: Any) -> Iterator[str]:
            yield from _run(models, runs, text, chosen, dict(zip(FIELDS, values, strict=True)))

        form_values = [fields[name] for name in FIELDS]
        buttons = {"outputs": [start, stop], "show_progress": "hidden", "api_visibility": "private", "queue": False}
        # First, since listeners of one trigger wait for each other.
        gr.on([start.click, prompt.submit], None, js=_interactive(False, True), **buttons)
        started = gr.on(
            [start.click, prompt.submit], run, [prompt, method, *form_values], lanes, trigger_mode="once", show_progress="minimal", show_progress_on=status,
            api_visibility="private", **COMPUTE,
        )  # fmt: skip
        started.then(None, js=_interactive(True, False), **buttons)
        stop.click(
            None,
            js="() => JSON.stringify({stop: 1})",
            outputs=lanes,
            show_progress="hidden",
            api_visibility="private",
        )
        stopped = stop.click(
            lambda: None, cancels=[started], show_progress="hidden", api_visibility="private", queue=False
        )
        stopped.then(None, js=_interactive(True, False), **buttons)

        more.click(None, js=TOGGLE, show_progress="hidden", api_visibility="private")
        page.load(None, js=LABELS, show_progress="hidden", api_visibility="private")
        targets = [prompt, method, *form_values]
        for chip, scenario in zip(chips, SCENARIOS, strict=True):
            values = {**DEFAULTS, **scenario.options, "chat": scenario.chat}
            preset = [scenario.prompt, scenario.method, *(values[name] for name in FIELDS)]
            chip.click(
                None,
                js=f"() => {json.dumps(preset)}",
                outputs=targets,
                show_progress="hidden",
                api_visibility="private",
            )
        focus = "() => { document.querySelector('#la-prompt textarea').focus(); return ''; }"
        own.click(None, js=focus, outputs=prompt, show_progress="hidden", api_visibility="private")

        _api(models)
    return page.queue(default_concurrency_limit=1)


def _fields(models: Models) -> dict[str, Any]:
    drafts = [name for name in models.drafts if name != skip.ROLE]
    with gr.Row():
        fields = {
            "max_new_tokens": gr.Number(DEFAULTS["max_new_tokens"], label="new tokens, at most", min_width=120),
            "k": gr.Textbox(DEFAULTS["k"], label='k: tokens drafted in a pass, or "auto"', min_width=120),
            "temperature": gr.Number(DEFAULTS["temperature"], label="temperature (0: greedy)", step=0.1, min_width=120),
            "seed": gr.Number(DEFAULTS["seed"], label="seed", min_width=120),
            "rule": gr.Dropdown(
                list(RULES), value=DEFAULTS["rule"], label="acceptance rule", filterable=False, min_width=120
            ),
        }
    with gr.Row():
        fields |= {
            "top_k": gr.Number(DEFAULTS["top_k"], label="top-k (0: off)", min_width=120),
            "top_p": gr.Number(DEFAULTS["top_p"], label="top-p (1: off)", step=0.05, min_width=120),
            "repetition_penalty": gr.Number(
                DEFAULTS["repetition_penalty"], label="repetition penalty (1: off)", step=0.1, min_width=120
            ),
            "stop": gr.Textbox(DEFAULTS["stop"], label="stop at (one a line)", lines=1, max_lines=4, min_width=120),
            "chat": gr.Checkbox(DEFAULTS["chat"], label="as a chat message", min_width=120),
            "draft": gr.Dropdown(
                drafts,
                value=DEFAULTS["draft"] if drafts else None,
                label="draft model",
                filterable=False,
                min_width=120,
            ),
        }
    return fields


def _interactive(race_on: bool, stop_on: bool) -> str:
    update = [{"__type__": "update", "interactive": on} for on in (race_on, stop_on)]
    return f"() => {json.dumps(update)}"


def _run(models: Models, runs: Runs, prompt: str, method: str, fields: dict[str, Any]) -> Iterator[str]:
    """One press of Race: batches of events until the end or a Stop; or one refusal, which clears nothing."""
    try:
        racing = race(models, prompt, ["naive", method], **form.options(fields))
    except LookaheadError as error:
        yield refusal(str(error))
        return
    run = runs.open()
    done = worker.submit(_compute, run, racing)
    try:
        yield from run.batches()
    finally:  # finished, stopped, or the page has gone
        run.stopping = True
        done.result()


def _compute(run: Run, racing: Race) -> None:
    """What the computing thread does for one run: race, and write the log."""
    try:
        run.add(log.begin(racing.result(), live=True))
        for lap in racing:
            run.add(log.step(lap.lane, lap.clock_s, lap.record))
            if run.stopping:
                break
        run.add(log.end(racing.result(), "stopped" if run.stopping else "finished"))
    except Exception:  # the page gets words, the log the traceback
        logger.exception("a race broke off")
        run.add(log.end(racing.result(), "error", FAULT))
    finally:
        racing.close()


def _api(models: Models) -> None:
    """Named endpoints for gradio_client: the same engine, the same queue."""

    def race_api(
        prompt: str,
        method: str = DEFAULT_METHOD,
        max_new_tokens: int = 128,
        k: str = "auto",
        temperature: float = 0.0,
        seed: int = 0,
    ) -> dict:
        """Race a method against naive decoding on one prompt; returns the trace.

        Args:
            prompt: the beginning of a text.
            method: one of the names that /methods lists.
            max_new_tokens: at most so many new tokens.
            k: tokens to draft in a pass, or "auto".
            temperature: 0 is greedy.
            seed: picks the noise when sampling.
        """
        given = {"max_new_tokens": max_new_tokens, "k": k, "temperature": temperature, "seed": seed}
        try:
            trace = worker.call(_whole_race, models, prompt, method, form.options(given))
        except LookaheadError as error:
            raise gr.Error(str(error), print_exception=False) from None
        return json.loads(trace.to_json())

    def methods_api() -> list:
        """The strategies: name, summary, and whether a draft model is needed."""
        classes = {m: method_class(m) for m in METHODS}
        return [{"name": m, "summary": c.summary, "needs_draft": c.needs_draft} for m, c in classes.items()]

    gr.api(race_api, api_name="race", **COMPUTE)
    gr.api(methods_api, api_name="methods", queue=False)


def _whole_race(models: Models, prompt: str, method: str, options: dict[str, Any]) -> Trace:
    racing = race(models, prompt, list(dict.fromkeys(["naive", method])), **options)
    for _ in racing:
        pass
    return racing.result()


def _recording() -> str:
    """The bundled recording that plays at first sight, or nothing."""
    path = ASSETS / "traces" / "story.json"
    if not path.is_file():
        return ""
    trace = Trace.from_json(path.read_bytes())
    return whole("recording", log.events(trace, CAPTION.format(cpu=trace.machine.cpu)))


def _header(models: Models) -> str:
    """The name, and what was measured of this machine at start."""
    probe, costs = models.probe, models.costs
    rows = "".join(
        f"<tr><td>{n}</td><td>{s * 1e3:.2f} ms</td><td>{costs.ratio(n):.2f}</td></tr>"
        for n, s in zip(costs.rows, costs.seconds, strict=True)
    )
    differ, tested = probe.chain_differ + probe.tree_differ, probe.chain_rows + probe.tree_rows
    exact = (
        f"At start, {tested} rows were computed in passes of several rows, as chains and as trees, and each was compared "
        f"with the same row computed alone: {differ} differed"
        + (", bit for bit. Drafting cannot change the text here." if models.exactness == BIT_EXACT
           else f", by {probe.worst:.2g} at most. Two tokens that close may swap; the page says so when it happens.")
    )  # fmt: skip
    names = html.escape(", ".join(f"{role}: {name}" for role, name in models.names.items()))
    return (
        '<header class="la-header"><h1>Lookahead</h1>'
        "<p>One model writes the same text twice: a token a pass, and with drafts.</p>"
        f'<details class="la-machine"><summary>{models.exactness} · {models.dtype} · {cores()} cores</summary>'
        f"<div><p>{exact}</p><p>What a pass of so many rows costs the target:</p>"
        f"<table><thead><tr><th>rows</th><th>a pass</th><th>in one-row passes</th></tr></thead><tbody>{rows}</tbody></table>"
        f"<p>{names}</p></div></details></header>"
    )


def _footer() -> str:
    return (
        f'<footer class="la-footer">Lookahead {VERSION}. The bundled models are small and were trained from scratch; '
        "they invent what they write. Built with Llama.</footer>"
    )


def launch_options() -> dict[str, Any]:
    """What the page needs of `Blocks.launch`."""
    fonts = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "Helvetica Neue", "sans-serif"]
    mono = ["ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "monospace"]
    return {
        "theme": gr.themes.Default(primary_hue="blue", neutral_hue="stone", font=fonts, font_mono=mono),
        "css_paths": [ASSETS / name for name in STYLES],
        "footer_links": ["api"],
        "run_history": False,
        "show_error": False,
        "ssr_mode": False,
    }
