"""The Models tab: the loaded families, suggested pairs, and a field for any pair of the hub, checked before it is loaded.

A host may restrict loading or switch it off (`limits`). Errors leave the loaded families unchanged.
"""

import html
import json
from collections.abc import Iterator
from functools import partial
from itertools import groupby
from typing import Any

import gradio as gr
import torch

from ..core.numbers import counted, millions, seconds, size
from ..family import hub, sources
from ..family.suggested import SUGGESTED, Pair
from ..measure.scenarios import USUAL
from ..model import layer_skip
from ..server import loading_job
from ..server.state import Family, ServerState, described
from ..trace.race import describe_machine
from .parts import QUIET, exactness, markup, prose, says, table
from .running import run_and_stop

NAME = "models"
BOTH = (torch.bfloat16, torch.float32)
# Titles of checks; other topics are their own titles.
TOPICS = {"hub": "found", "cache": "rolling back", "head": "trained head", "host": "this server"}
ANY = (
    "A target and a draft by their names on the hub. They must share one vocabulary, and their caches must allow rolling back. "
    "In place of a draft model, or after it, you can give a trained head: EAGLE-3, DFlash, DSpark or Medusa, made for that target. "
    "<b>Check</b> reads sizes, licences and tokenizers from the hub and loads nothing; <b>Load</b> checks, downloads and "
    "measures. Only safetensors are read, and no code that comes with a model is run."
)
BESIDE = (
    "A loaded pair is added to the others: you race with it, and everybody can choose it in the Race tab. If memory runs low, "
    "the least used models of visitors are unloaded. Races go on during a download; then the pair is loaded and measured."
)
LISTED = " This host allows the suggested pairs only."
AT_MOST = " This host allows {most} of weights in memory at most."
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
ARRIVED = '<p class="la-says" role="status" data-arrived="{}">Ready. The page is loading anew.</p>'
STOPPED = "Stopped. The models in use are as they were."


def tab(server: ServerState, choosing: gr.Tab) -> None:
    """The Models tab `choosing`."""
    allowed = server.limits.loading != "none"
    with gr.Column(elem_id="la-models", elem_classes="la-section"):
        shown = markup(in_use(server))
        for event in (choosing.select, partial(gr.on, None)):  # `on` without triggers: when a page is opened
            event(lambda: in_use(server), None, shown, queue=False, **QUIET)
        markup("<h3>Any pair</h3>")
        prose(OFF if not allowed else ANY)
        if allowed:
            listed, most = server.limits.loading == "listed", server.limits.max_model_gb
            prose(BESIDE + LISTED * listed + AT_MOST.format(most=f"{most:g} GB") * bool(most))
        with gr.Row(elem_classes="la-do"):
            pair = gr.Textbox(
                "", label="target+draft", placeholder=SUGGESTED[0].spec, elem_id="la-pair", scale=1, min_width=280, interactive=allowed,
                max_lines=1,
            )  # fmt: skip
            check = gr.Button("Check", scale=0, min_width=96, interactive=allowed)
            load = gr.Button("Load", variant="primary", scale=0, min_width=96, interactive=allowed)
            stop = gr.Button("Stop", interactive=False, scale=0, min_width=96)
        line = markup()
        plan = markup()
        markup("<h3>Pairs worth trying</h3>")
        prose(CARDS)
        for device, pairs in groupby(SUGGESTED, lambda pair: pair.device):
            markup(f'<h4 class="la-room">For {device}</h4>')
            for one in pairs:
                _row(one, pair, allowed)
        if allowed:
            over = {"done": None, "stopped": (line, says(STOPPED)), "then": "lookaheadPage.models.reload"}
            begin = [check.click, pair.submit]
            shared = {"inputs": [pair], "outputs": [plan], "status": line, **over}
            run_and_stop(check, stop, partial(_check, server), triggers=begin, others=[load], **shared)
            run_and_stop(load, stop, partial(_load, server), others=[check], **shared)


def _row(pair: Pair, field: gr.Textbox, allowed: bool) -> None:
    sizes = " and ".join(millions(1e9 * billions) for billions in pair.sizes)
    with gr.Row(elem_classes="la-claim la-suggested"):
        markup(
            f"<b>{html.escape(pair.target)}</b><b>+ {html.escape(pair.draft)}</b>"
            f"<span>{sizes} parameters. {html.escape(pair.licence)}. {html.escape(pair.note)}</span>"
        )
        if allowed:
            fill = gr.Button("fill in", size="sm", scale=0, min_width=80)
            fill.click(None, js=f"() => lookaheadPage.models.fill({json.dumps(pair.spec)})", outputs=field, **QUIET)


def in_use(server: ServerState) -> str:
    """The loaded families, each with a table and two sentences."""
    families = list(server.families)
    together = size(sum(family.models.nbytes for family in families))
    words = f"{len(families)} families side by side, {together} of memory together." if len(families) > 1 else ""
    shown = "".join(_family(family, len(families) > 1) for family in families)
    return f'<h3>In use</h3><p class="la-prose">{words}</p>{shown}'


def _family(family: Family, titled: bool) -> str:
    loaded, rows = family.models, []
    members = {"target": loaded.target, **loaded.drafts}
    curves = {"target": loaded.costs.target, **{role: costs.curve for role, costs in loaded.costs.drafters.items()}}
    for role, lm in members.items():
        skip, passes = role == layer_skip.ROLE, lm.passes
        numbers, nbytes = (0, passes.copies) if skip else (passes.size, passes.nbytes + passes.copies)
        layers = counted(passes.shape.layers, "layer").removeprefix("1 ")
        name = f"{loaded.names['target']}, first {layers}" if skip else loaded.names[role]
        rows.append([
            role, name, millions(numbers) if numbers else "the target's own",
            size(nbytes) if nbytes else "none of its own",
            f"{seconds(curves[role].pass_s(1))}{', in 8 bits' if lm.eight_bits else ''}",
            "" if skip else _licence(family, role),
        ])  # fmt: skip
    for role, head in loaded.heads.items():
        took = loaded.costs.drafters[role]
        rows.append([
            role, f"{loaded.names[role]}, a trained head", millions(head.parameters), size(head.nbytes),
            f"{seconds(took.tokens_s(1) + sum(took.cold_s[:1]))} for the first token", _licence(family, role),
        ])  # fmt: skip
    gpus, device = len(loaded.target.passes.devices), describe_machine(loaded).device
    where = f"{gpus} GPUs" if gpus > 1 else device if device != "cpu" else "the processor"
    words = f"{loaded.dtype} on {where}, {loaded.exactness}. {exactness(loaded)}"
    heads = ["", "model", "parameters", "memory", "a pass", "licence"]
    built = f'<p class="la-caption">{BUILT}</p>' if loaded.spec == USUAL else ""
    title = f'<h4 class="la-familyname">{html.escape(described(loaded.spec))}</h4>' if titled else ""
    return f'{title}<p class="la-prose">{html.escape(words)}</p>{table(heads, rows)}{built}'


def _licence(family: Family, role: str) -> str:
    spec, name = family.models.spec, family.models.names[role]
    if spec == USUAL:
        return "Built with Llama"
    source = sources.named(spec)
    return family.licences.get(name, "") or (source.licence if source else "") or "see its page"


def _check(server: ServerState, spec: str) -> Iterator[list[Any]]:
    yield from _followed(loading_job.look(server, spec))
    yield [says("Checked. Nothing was loaded."), gr.skip()]


def _load(server: ServerState, spec: str) -> Iterator[list[Any]]:
    job = loading_job.load(server, spec)
    yield from _followed(job)
    yield [ARRIVED.format(html.escape(job.result())), gr.skip()]


def _followed(job: loading_job.DownloadJob) -> Iterator[list[Any]]:
    yield [says("Asking the hub."), ""]
    for update in job.start().follow():
        line, plan = says(update.waiting, 0.0) if update.waiting else gr.skip(), gr.skip()
        for value in update.values:
            if isinstance(value, hub.Plan):
                plan = plan_shown(value)
            elif not update.waiting:
                line = says(*value)
        yield [line, plan]


def plan_shown(plan: hub.Plan) -> str:
    """A plan: the answer, the sizes, and all checks."""
    rows = [
        [one.role, one.name, one.architecture, millions(one.parameters) if one.parameters else "",
         size(one.missing) if one.missing else "nothing" if one.bytes else "",
         *(size(one.memory(dtype)) if one.parameters else "" for dtype in BOTH), one.licence + (", gated" if one.gated else "")]
        for one in plan.models
    ]  # fmt: skip
    if len(rows) > 1 and all(one.parameters for one in plan.models):
        whole = sum(one.parameters for one in plan.models)
        rows.append(["together", "", "", millions(whole), size(plan.missing) if plan.missing else "nothing",
                     *(size(plan.memory(dtype)) for dtype in BOTH), ""])  # fmt: skip
    types = [f"in {dtype}".replace("torch.", "") + (", used here" if dtype == plan.dtype else "") for dtype in BOTH]
    sizes = table(["", "model", "kind", "parameters", "to download", *types, "licence"], rows)
    words = "This pair cannot be used here." if plan.refused else "This pair can be loaded."
    if not plan.refused and plan.missing:
        words = f"This pair can be loaded: {size(plan.missing)} to download."
    return f'<p class="la-answer">{words}</p>{sizes}{_checks(plan.checks)}'


def _checks(checks: tuple[hub.Check, ...]) -> str:
    items = ""
    for check in checks:
        kind, mark = ("fails", "no") if check.error else ("passes", "yes")
        words = f"{check.error.value}: {check.error.hint}" if check.error else check.message
        topic = TOPICS.get(check.topic, check.topic)
        items += f'<li class="la-{kind}"><span class="la-mark">{mark}</span><b>{topic}</b><span>{html.escape(words)}</span></li>'
    return f'<ul class="la-checks" aria-label="what was checked">{items}</ul>'
