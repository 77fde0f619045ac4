"""Drafter race: one prompt and one seed, several drafters. All lanes write the same text; only the speed differs."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import gradio as gr

from ...core.events import MethodError
from ...drafting import DRAFTERS, drafter_with
from ...drafting.base import DRAFT_MODEL
from ...drafting.naive import Naive
from ...engine.methods import method_label
from ...family.models import Models
from ...measure.scenarios import SCENARIOS
from ...server import race_job
from ...server.form import initial_values, options
from ...server.state import ServerState
from ...trace.race import race
from ..parts import Follow
from ..running import STOP_LANES, buttons, run_and_stop
from ..timeline import timeline

INTRO = (
    "Every lane has the same target, prompt and seed, but another drafter. Even with sampling, only the target determines the "
    "text: its random numbers depend only on the seed and the position. So a bad draft costs time and changes no word. Watch "
    "the texts, then the clocks."
)
PROMPTS = {s.label: s for s in SCENARIOS if s.id in ("story", "tale", "records", "json", "code", "explain")}


def add(server: ServerState, follow: Follow) -> None:
    """Add the section."""
    max_drafters = server.limits.max_lanes - 1
    with gr.Row(elem_classes="la-do"):
        prompt = gr.Dropdown(list(PROMPTS), value=next(iter(PROMPTS)), label="prompt", filterable=False, min_width=140)
        temperature = gr.Slider(0, 1.5, 0.8, step=0.1, label="temperature", min_width=160)
        seed = gr.Number(0, label="seed", precision=0, min_width=100)
        start, stop = buttons("Race")

    def offered(models: Models) -> gr.CheckboxGroup:
        names = list(_drafters(models))
        return gr.CheckboxGroup(names, value=names[:max_drafters], label=f"drafters, up to {max_drafters}")

    chosen = offered(server.models)
    follow(offered, chosen)
    lanes = timeline("", server.runs)

    def run(request: gr.Request, prompt: str, temperature: float, seed: float, chosen: list[str]) -> Iterator[str]:
        family = server.models_for(request.session_hash).spec
        make = partial(_race, family=family, prompt=prompt, temperature=temperature, seed=seed, chosen=chosen)
        yield from race_job.follow(server, make)

    run_and_stop(start, stop, run, [prompt, temperature, seed, chosen], [lanes], stopped=(lanes, STOP_LANES))


def _drafters(models: Models) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return {title: (method, options)} of the drafters. Of strategies that share a model, only the first is listed."""
    chain = next(name for name, drafter in DRAFTERS.items() if drafter.technique == DRAFT_MODEL)
    draft_models = {f"draft model: {role}": (chain, {"draft": role}) for role in models.draft_models}
    fixed_roles = [drafter_with(role).name for role in models.drafts if role not in models.draft_models]
    without_model = [name for name, drafter in DRAFTERS.items() if not drafter.needs_draft and name != Naive.name]
    heads = {f"trained head: {kind}": (drafter_with(kind).name, {}) for kind in models.heads}
    return draft_models | {method_label(name): (name, {}) for name in (*fixed_roles, *without_model)} | heads


def _race(server: ServerState, family: str, prompt: str, temperature: float, seed: float, chosen: list[str]) -> Any:
    max_drafters, models = server.limits.max_lanes - 1, server.models_for(None, family)
    if not 1 <= len(chosen) <= max_drafters:
        raise MethodError("drafters", len(chosen), f"choose from one to {max_drafters}.")
    settings = options({"temperature": temperature, "seed": seed})
    drafters, scenario = _drafters(models), PROMPTS[prompt]
    if unknown := [name for name in chosen if name not in drafters]:
        raise MethodError("drafter", unknown[0], f"choose from {', '.join(drafters)}.")
    methods = ["naive", *(drafters[name] for name in chosen)]
    tokens = initial_values(server.limits)["max_new_tokens"]
    return race(models, scenario.prompt, methods, chat=scenario.chat, max_new_tokens=tokens, **settings)
