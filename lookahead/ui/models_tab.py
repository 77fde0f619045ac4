"""The Models tab: what is in use, pairs worth trying, and a field for any pair of the hub, looked at before it is loaded.

What is loaded is loaded for everybody on this server; a host may restrict that or switch it off (`limits`). Bytes are
fetched outside the line of those who compute, the rest is done in it. Until the new models are measured and ready the
old ones stay; whatever goes wrong, they stay for good.

Knows Gradio, plans and the stage. What a plan is made of is hub's business.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import gradio as gr
import torch

from .. import hub, models, skip
from ..cost import BIT_EXACT
from ..events import LookaheadError
from ..suggested import SUGGESTED, Pair
from .desk import Refused
from .errand import STOPPED, Errand
from .lab.parts import QUIET, prose, refused, says, table
from .stage import Stage

NAME = "models"
BUNDLED = "pocket"
BOTH = (torch.bfloat16, torch.float32)
TOPICS = {
    "hub": "found", "weights": "weights", "code": "code", "cache": "rolling back", "vocabulary": "vocabulary", "memory": "memory",
    "disk": "disk", "host": "this server",
}  # fmt: skip
ROOMS = {"a processor": "For a processor", "one GPU": "For one GPU", "several GPUs": "For several GPUs"}
ANY = (
    "A target and a draft by their names on the hub. They must share one vocabulary, and their caches must allow rolling back. "
    "<b>Check</b> reads sizes, licences and tokenizers from the hub and loads nothing; <b>Load</b> checks, downloads and "
    "measures. Only safetensors are read, and no code that comes with a model is run."
)
EVERYBODY = (
    "What you load is loaded for everybody on this server: everybody's next race runs with it. Races go on while it is "
    "downloaded; then it is loaded and measured in its turn."
)
LISTED = " This host allows the suggested pairs only."
AT_MOST = " This host allows {most:g} GB of weights in memory at most."
OFF = (
    "The host of this server has switched loading off. To race a pair of your own, run Lookahead yourself: "
    "<code>python app.py --models organisation/target+organisation/draft</code>."
)
CARDS = (
    "Sizes and licences as their authors give them; each pair shares one tokenizer as far as we know. What is really there is "
    "read from the hub when you press Check."
)
BUILT = (
    "<b>Built with Llama.</b> The bundled models are ours, trained from scratch. Part of what they read was written by Llama 3.1, which is "
    "licensed under the Llama 3.1 Community License, Copyright © Meta Platforms, Inc. All Rights Reserved. Their card, "
    "<code>assets/models/pocket/README.md</code>, names every source and its licence."
)
BUSY = (
    "Somebody is loading models on this server, or a load that was stopped is coming to its end. Try again in a moment."
)
ARRIVED = '<p class="la-says" role="status" data-arrived>Ready. The page is loading anew.</p>'
RELOAD = f"() => {{ if (document.querySelector('#la-models [data-arrived]')) location.replace('?tab={NAME}'); }}"


def tab(stage: Stage) -> None:
    """Everything on the Models tab."""
    allowed = stage.limits.loading != "none"
    with gr.Column(elem_id="la-models", elem_classes="la-section"):
        gr.HTML(lambda: in_use(stage), apply_default_css=False)
        back = gr.Button(
            "back to the bundled models", size="sm", scale=0, elem_id="la-back", visible=False, interactive=allowed
        )
        gr.HTML("<h3>Any pair</h3>", apply_default_css=False)
        prose(OFF if not allowed else ANY)
        if allowed:
            prose(EVERYBODY + _restricted(stage))
        with gr.Row(elem_classes="la-do"):
            pair = gr.Textbox(
                "", label="target+draft", placeholder=SUGGESTED[0].spec, elem_id="la-pair", scale=1, min_width=280, interactive=allowed,
                max_lines=1,
            )  # fmt: skip
            check = gr.Button("Check", scale=0, min_width=96, interactive=allowed)
            load = gr.Button("Load", variant="primary", scale=0, min_width=96, interactive=allowed)
            stop = gr.Button("Stop", interactive=False, scale=0, min_width=96)
        line = gr.HTML("", apply_default_css=False)
        found = gr.HTML("", apply_default_css=False)
        gr.HTML("<h3>Pairs worth trying</h3>", apply_default_css=False)
        prose(CARDS)
        for room, title in ROOMS.items():
            gr.HTML(f'<h4 class="la-room">{title}</h4>', apply_default_css=False)
            for one in (one for one in SUGGESTED if one.room == room):
                _row(one, pair, allowed)
        gr.on(None, lambda: gr.Button(visible=stage.models.spec != BUNDLED), None, back, queue=False, **QUIET)
        if allowed:
            starts, shown = (check, load, back), [line, found]
            turned = {"outputs": [*starts, stop], "queue": False, **QUIET}
            working = [
                _wire([check.click, pair.submit], partial(_check, stage), [pair], shown, turned),
                _wire([load.click], partial(_load, stage), [pair], shown, turned),
                _wire([back.click], lambda: (yield from _load(stage, BUNDLED)), [], shown, turned),
            ]
            stopped = stop.click(lambda: says(STOPPED), None, line, cancels=working, queue=False, **QUIET)
            stopped.then(None, js=_on(len(starts), True), **turned)


def _wire(triggers: list, work: Callable, inputs: list, outputs: list, turned: dict[str, Any]) -> Any:
    """While one works, none can be started and Stop can be pressed."""
    starts = len(turned["outputs"]) - 1
    gr.on(triggers, None, js=_on(starts, False), **turned)  # first: listeners of one trigger wait for each other
    working = gr.on(triggers, work, inputs, outputs, concurrency_limit=None, trigger_mode="once", **QUIET)
    working.then(None, js=_on(starts, True), **turned)
    working.then(None, js=RELOAD, **QUIET)
    return working


def _on(starts: int, on: bool) -> str:
    return f"() => {json.dumps([{'__type__': 'update', 'interactive': able} for able in [on] * starts + [not on]])}"


def _restricted(stage: Stage) -> str:
    most = stage.limits.max_model_gb
    return (LISTED if stage.limits.loading == "listed" else "") + (AT_MOST.format(most=most) if most else "")


def _row(pair: Pair, field: gr.Textbox, allowed: bool) -> None:
    """A suggestion, with a button that types it."""
    sizes = " and ".join(f"{billions:g} B" if billions >= 1 else f"{1000 * billions:g} M" for billions in pair.sizes)
    with gr.Row(elem_classes="la-claim la-suggested"):
        gr.HTML(
            f"<b>{html.escape(pair.target)}</b><b>+ {html.escape(pair.draft)}</b>"
            f"<span>{sizes} parameters. {html.escape(pair.licence)}. {html.escape(pair.note)}</span>",
            apply_default_css=False,
        )
        if allowed:
            fill = gr.Button("fill in", size="sm", scale=0, min_width=80)
            focus = "document.querySelector('#la-pair input, #la-pair textarea').focus()"
            fill.click(None, js=f"() => {{ {focus}; return {json.dumps(pair.spec)}; }}", outputs=field, **QUIET)


# ---------------------------------------------------------------- what is there


def in_use(stage: Stage) -> str:
    """The models in use, in a table and two sentences."""
    held, rows = stage.models, []
    members = {"target": held.target, **held.drafts}
    curves = {"target": held.costs, **held.draft_costs}
    for role, lm in members.items():
        own = role == skip.ROLE
        weights = [p for p in lm.model.parameters() if not own]
        name = (
            _first(held.names["target"], lm.model.config.get_text_config().num_hidden_layers)
            if own
            else held.names[role]
        )
        rows.append([
            role, name, _count(sum(p.numel() for p in weights)) if weights else "the target's own",
            hub.size(sum(p.nbytes for p in weights) + lm.eight_bits) if weights or lm.eight_bits else "none of its own",
            f"{1e3 * curves[role].pass_s(1):.2f} ms{', in 8 bits' if lm.eight_bits else ''}",
            "" if own else _licence(stage, role),
        ])  # fmt: skip
    probe = held.probe
    tested, differ = probe.chain_rows + probe.tree_rows, probe.chain_differ + probe.tree_differ
    so = "drafting cannot change the text" if held.exactness == BIT_EXACT else "two tokens that are very close may swap"
    words = (
        f"{held.dtype} on {_where(held)}, {held.exactness}: of {tested} rows that were computed in company, "
        f"{differ or 'none'} differed from the same row computed alone, so {so}."
    )
    heads = ["", "model", "parameters", "memory", "a pass", "licence"]
    built = f'<p class="la-caption">{BUILT}</p>' if _bundled(held) else ""
    return f'<h3>In use</h3><p class="la-prose">{html.escape(words)}</p>{table(heads, rows)}{built}'


def _first(target: str, layers: int) -> str:
    return f"{target}, first {'layer' if layers == 1 else f'{layers} layers'}"


def _where(held: models.Models) -> str:
    spread = {str(place) for place in (getattr(held.target.model, "hf_device_map", None) or {}).values()}
    if len(spread) > 1:
        return f"{len(spread)} GPUs"
    device = held.target.model.device
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "the processor"


def _bundled(held: models.Models) -> bool:
    return held.spec == BUNDLED


def _licence(stage: Stage, role: str) -> str:
    if _bundled(stage.models):
        return "Built with Llama"
    return stage.licences.get(stage.models.names[role], "") or "see its page"


def _count(parameters: float) -> str:
    return f"{parameters / 1e9:,.2f} B" if parameters >= 1e9 else f"{parameters / 1e6:,.1f} M"


# ---------------------------------------------------------------- what is asked for


def _check(stage: Stage, spec: str) -> Iterator[list[Any]]:
    errand = Errand(lambda errand: _look(stage, spec, errand))
    yield from _told(errand, "Checked. Nothing was loaded.")


def _load(stage: Stage, spec: str) -> Iterator[list[Any]]:
    yield from _told(Errand(lambda errand: _bring(stage, spec, errand)), None)


def _told(errand: Errand, done: str | None) -> Iterator[list[Any]]:
    """What becomes of an errand: a line of progress, and the plan once there is one."""
    yield [says("Asking the hub."), ""]
    drawn = None
    try:
        for now in errand.follow():
            new, drawn = errand.shown is not drawn, errand.shown
            yield [says(*now) if now else gr.skip(), errand.shown if new else gr.skip()]
        yield [says(done) if done else ARRIVED, errand.shown or ""]
    except LookaheadError as error:
        yield [refused(error), errand.shown or ""]


def _look(stage: Stage, spec: str, errand: Errand) -> hub.Plan:
    dtype = stage.models.target.model.dtype  # chosen by measurement when the server started
    plan = hub.look(spec, limits=stage.limits, dtype=dtype, progress=errand.progress, compute=errand.compute)
    errand.shown = plan_shown(plan)
    return plan


def _bring(stage: Stage, spec: str, errand: Errand) -> None:
    """All the way, in the errand's thread; `changing` is held until its end, whoever has left meanwhile."""
    if not stage.changing.acquire(blocking=False):
        raise Refused(BUSY)
    try:
        plan = _look(stage, spec, errand)
        found = hub.download(plan, errand.progress)
        errand.compute(_swap, stage, plan, found, errand.progress)
    finally:
        stage.changing.release()


def _swap(stage: Stage, plan: hub.Plan, found: dict[str, Any], progress: models.Progress) -> None:
    ready = models.load(plan.spec, progress, dtype=plan.dtype, found=found)
    progress("Ready", 1.0)  # the last moment to leave
    stage.change(ready, {known.name: known.licence for known in plan.models})


def plan_shown(plan: hub.Plan) -> str:
    """A plan: the answer, the sizes, and everything that was looked at."""
    rows = [
        [one.role, one.name, one.architecture, _count(one.parameters) if one.parameters else "",
         hub.size(one.missing) if one.missing else "nothing" if one.bytes else "",
         *(hub.size(one.memory(dtype)) if one.parameters else "" for dtype in BOTH), one.licence + (", gated" if one.gated else "")]
        for one in plan.models
    ]  # fmt: skip
    if len(rows) > 1 and all(one.parameters for one in plan.models):
        whole = sum(one.parameters for one in plan.models)
        rows.append(["together", "", "", _count(whole), hub.size(plan.missing) if plan.missing else "nothing",
                     *(hub.size(plan.memory(dtype)) for dtype in BOTH), ""])  # fmt: skip
    types = [f"in {dtype}".replace("torch.", "") + (", used here" if dtype == plan.dtype else "") for dtype in BOTH]
    sizes = table(["", "model", "kind", "parameters", "to download", *types, "licence"], rows)
    words = "This pair cannot be used here." if plan.refused else "This pair can be loaded."
    if not plan.refused and plan.missing:
        words = f"This pair can be loaded: {hub.size(plan.missing)} to download."
    return f'<p class="la-answer">{words}</p>{sizes}{_checks(plan.checks)}'


def _checks(checks: tuple[hub.Check, ...]) -> str:
    items = []
    for check in checks:
        kind, mark = ("fails", "no") if check.error else ("passes", "yes")
        words = f"{check.error.value}: {check.error.mend}" if check.error else check.words
        items.append(
            f'<li class="la-{kind}"><span class="la-mark">{mark}</span><b>{TOPICS[check.topic]}</b><span>{html.escape(words)}</span></li>'
        )
    return f'<ul class="la-checks" aria-label="what was checked">{"".join(items)}</ul>'
