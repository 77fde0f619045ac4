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
from ..measure.scenarios import DEFAULT_FAMILY
from ..model import layer_skip
from ..server import loading_job
from ..server.state import Family, ServerState, family_title
from ..trace.race import describe_machine
from .parts import QUIET, exactness, markup, prose, status_line, table
from .running import buttons, run_and_stop

NAME = "models"
BOTH = (torch.bfloat16, torch.float32)
# Titles of checks; other topics are their own titles.
TOPICS = {"hub": "found", "cache": "rollback", "head": "trained head", "host": "this server"}
ANY = (
    "Enter the names of a target and a draft model on the hub. If their vocabularies differ, the draft model drafts text. Instead "
    "of a draft model, or after it, you can name a trained head for that target: EAGLE-3, MTP, DFlash, DSpark or Medusa. <b>Check</b> "
    "reads sizes, licenses and tokenizers from the hub and loads nothing. <b>Load</b> checks, downloads and measures. A model may "
    "also be a GGUF file: <code>organization/repository/file.gguf</code>. Only safetensors and GGUF files are read, and no code of a "
    "model is run."
)
LOADING = (
    "A loaded pair is added to the others. Your races use it, and all visitors can choose it in the Race tab. If memory runs "
    "low, the least-used visitor models are unloaded. Races continue during a download. Then the pair is loaded and measured."
)
LISTED = " This host allows the suggested pairs only."
AT_MOST = " This host allows at most {most} of weights in memory."
OFF = (
    "The host of this server has switched loading off. To race a pair of your own, run Lookahead yourself: "
    "<code>python app.py --models organization/target+organization/draft</code>."
)
CARDS = "The authors state these sizes and licenses. Each pair should share a tokenizer. Check reads the actual files."
BUILT = (
    "<b>Built with Llama.</b> We trained the bundled models from scratch. Part of their training text was written by Llama 3.1, which is "
    "licensed under the Llama 3.1 Community License, Copyright © Meta Platforms, Inc. All Rights Reserved. Their card, "
    "<code>assets/models/pocket/README.md</code>, names every source and its license."
)
ARRIVED = '<p class="la-status-line" role="status" data-arrived="{}">Ready. The page is reloading.</p>'
STOPPED = "Stopped. The loaded models have not changed."


def tab(server: ServerState, choosing: gr.Tab) -> None:
    """Fill the Models tab `choosing`."""
    allowed = server.limits.loading != "none"
    with gr.Column(elem_id="la-models", elem_classes="la-section"):
        shown = markup(in_use(server))
        for event in (choosing.select, partial(gr.on, None)):  # `on` without triggers: when a page is opened
            event(lambda: in_use(server), None, shown, queue=False, **QUIET)
        markup("<h2>Any pair</h2>")
        prose(OFF if not allowed else ANY)
        if allowed:
            listed, most = server.limits.loading == "listed", server.limits.max_model_gb
            prose(LOADING + LISTED * listed + AT_MOST.format(most=f"{most:g} GB") * bool(most))
        with gr.Row(elem_classes="la-do"):
            pair = gr.Textbox(
                "", label="target+draft", placeholder=SUGGESTED[0].spec, elem_id="la-pair", scale=1, min_width=280, interactive=allowed,
                max_lines=1,
            )  # fmt: skip
            check = gr.Button("Check", scale=0, min_width=96, interactive=allowed)
            load, stop = buttons("Load", 96, interactive=allowed)
        line, plan = markup(), markup()
        markup("<h2>Suggested pairs</h2>")
        prose(CARDS)
        for device, suggestions in groupby(SUGGESTED, lambda suggestion: suggestion.device):
            markup(f'<h3 class="la-device">For {device}</h3>')
            for suggestion in suggestions:
                _row(suggestion, pair, allowed)
        if allowed:
            at_end = {"done": None, "stopped": (line, status_line(STOPPED)), "then": "lookaheadPage.models.reload"}
            triggers = [check.click, pair.submit]
            shared = {"inputs": [pair], "outputs": [plan], "status": line, **at_end}
            run_and_stop(check, stop, partial(_check, server), triggers=triggers, others=[load], **shared)
            run_and_stop(load, stop, partial(_load, server), others=[check], **shared)


def _row(pair: Pair, field: gr.Textbox, allowed: bool) -> None:
    sizes = " and ".join(millions(1e9 * billions) for billions in pair.sizes)
    with gr.Row(elem_classes="la-claim la-suggested"):
        markup(
            f"<b>{html.escape(pair.target)}</b><b>+ {html.escape(pair.draft)}</b>"
            f"<span>{sizes} parameters. {html.escape(pair.license)}. {html.escape(pair.note)}</span>"
        )
        if allowed:
            fill = gr.Button("fill in", size="sm", scale=0, min_width=80)
            fill.click(None, js=f"() => lookaheadPage.models.fill({json.dumps(pair.spec)})", outputs=field, **QUIET)


def in_use(server: ServerState) -> str:
    """Return the loaded families as HTML, each with a table and two sentences."""
    families = list(server.families)
    total = size(sum(family.models.nbytes for family in families))
    summary = f"{len(families)} families are loaded, {total} of memory in total." if len(families) > 1 else ""
    shown = "".join(_family(family, len(families) > 1) for family in families)
    return f'<h2>In use</h2><p class="la-prose">{summary}</p>{shown}'


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
            role, name, millions(numbers) if numbers else "shared with the target",
            size(nbytes) if nbytes else "no extra memory",
            f"{seconds(curves[role].pass_s(1))}{', in 8 bits' if lm.eight_bits else ''}",
            "" if skip else _license(family, role),
        ])  # fmt: skip
    for role, head in loaded.heads.items():
        costs = loaded.costs.drafters[role]
        rows.append([
            role, f"{loaded.names[role]}, a trained head", millions(head.parameters), size(head.nbytes),
            f"{seconds(costs.token_s + sum(costs.cold_s[:1]))} for the first token", _license(family, role),
        ])  # fmt: skip
    gpus, device = len(loaded.target.passes.devices), describe_machine(loaded).device
    hardware = f"{gpus} GPUs" if gpus > 1 else device if device != "cpu" else "the processor"
    facts = f"{loaded.dtype} on {hardware}, {loaded.exactness}. {exactness(loaded)} {loaded.target.passes.rollback.sentence}"
    heads = ["role", "model", "parameters", "memory", "time per pass", "license"]
    built = f'<p class="la-caption">{BUILT}</p>' if loaded.spec == DEFAULT_FAMILY else ""
    title = f'<h3 class="la-familyname">{html.escape(family_title(loaded.spec))}</h3>' if titled else ""
    return f'{title}<p class="la-prose">{html.escape(facts)}</p>{table(heads, rows)}{built}'


def _license(family: Family, role: str) -> str:
    spec, name = family.models.spec, family.models.names[role]
    if spec == DEFAULT_FAMILY:
        return "Built with Llama"
    source = sources.named(spec)
    return family.licenses.get(name, "") or (source.license if source else "") or "see the model's page"


def _check(server: ServerState, spec: str) -> Iterator[list[Any]]:
    yield from _followed(loading_job.check(server, spec))
    yield [status_line("Checked. Nothing was loaded."), gr.skip()]


def _load(server: ServerState, spec: str) -> Iterator[list[Any]]:
    job = loading_job.load(server, spec)
    yield from _followed(job)
    yield [ARRIVED.format(html.escape(job.result())), gr.skip()]


def _followed(job: loading_job.DownloadJob) -> Iterator[list[Any]]:
    yield [status_line("Requesting data from the hub."), ""]
    for update in job.start().follow():
        line, plan = status_line(update.waiting, 0.0) if update.waiting else gr.skip(), gr.skip()
        for value in update.values:
            if isinstance(value, hub.Plan):
                plan = plan_html(value)
            elif not update.waiting:
                line = status_line(*value)
        yield [line, plan]


def plan_html(plan: hub.Plan) -> str:
    """Return a plan as HTML: the result, the sizes, and all checks."""
    rows = [
        [model.role, model.name, model.architecture, millions(model.parameters) if model.parameters else "",
         size(model.missing) if model.missing else "nothing" if model.bytes else "",
         *(size(model.memory(dtype)) if model.parameters else "" for dtype in BOTH),
         model.license + (", gated" if model.gated else "")]
        for model in plan.models
    ]  # fmt: skip
    if len(rows) > 1 and all(model.parameters for model in plan.models):
        total = sum(model.parameters for model in plan.models)
        rows.append(["total", "", "", millions(total), size(plan.missing) if plan.missing else "nothing",
                     *(size(plan.memory(dtype)) for dtype in BOTH), ""])  # fmt: skip
    types = [f"in {dtype}".replace("torch.", "") + (", used here" if dtype == plan.dtype else "") for dtype in BOTH]
    sizes = table(["role", "model", "kind", "parameters", "to download", *types, "license"], rows)
    result = "This pair cannot be used here." if plan.refused else "This pair can be loaded."
    if not plan.refused and plan.missing:
        result = f"This pair can be loaded: {size(plan.missing)} to download."
    return f'<p class="la-answer">{result}</p>{sizes}{_checks(plan.checks)}'


def _checks(checks: tuple[hub.Check, ...]) -> str:
    items = ""
    for check in checks:
        kind, mark = ("fails", "no") if check.error else ("passes", "yes")
        detail = f"{check.error.value}: {check.error.hint}" if check.error else check.message
        topic = TOPICS.get(check.topic, check.topic)
        items += f'<li class="la-{kind}"><span class="la-mark">{mark}</span><b>{topic}</b><span>{html.escape(detail)}</span></li>'
    return f'<ul class="la-checks" aria-label="checks">{items}</ul>'
