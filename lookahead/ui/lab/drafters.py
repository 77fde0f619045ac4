"""Drafter race: one prompt and one seed, several drafters. The text is the same in every lane, only the speed differs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import gradio as gr

from ... import skip
from ...events import MethodError, SettingsError
from ...race import race
from ...scenarios import SCENARIOS
from ..form import first_values
from ..racing import watched
from ..stage import Stage
from ..timeline import timeline
from .parts import QUIET, buttons, prose, runs

INTRO = (
    "Every lane has the same target, prompt and seed; what differs is who drafts. Also when sampling, the words are the "
    "target's: its draws come from noise that depends on the seed and the position alone, so a bad draft costs time and "
    "changes no word. Watch the texts, then the clocks."
)
WITHOUT = {
    "its own first layers": ("self", {}),
    "earlier text, n-grams": ("ngram", {}),
    "earlier text, suffixes": ("suffix", {}),
    "a window of its own guesses": ("lookahead", {}),
}
PROMPTS = {s.label: s for s in SCENARIOS if s.id in ("story", "tale", "records", "json", "code", "explain")}


def add(stage: Stage) -> None:
    """The section."""
    prose(INTRO)
    most = stage.limits.max_lanes - 1
    with gr.Row(elem_classes="la-do"):
        prompt = gr.Dropdown(list(PROMPTS), value=next(iter(PROMPTS)), label="prompt", filterable=False, min_width=140)
        temperature = gr.Slider(0, 1.5, 0.8, step=0.1, label="temperature", min_width=160)
        seed = gr.Number(0, label="seed", precision=0, min_width=100)
        start, stop = buttons("Race")
    chosen = gr.CheckboxGroup([], label=f"drafters, up to {most}")
    gr.on(None, lambda: _offered(stage, most), None, chosen, queue=False, **QUIET)  # those in use when a page is opened
    lanes = timeline("", stage.runs)

    def run(dark: bool, prompt: str, temperature: float, seed: float, chosen: list[str]) -> Iterator[str]:
        make = partial(_race, prompt=prompt, temperature=temperature, seed=seed, chosen=chosen)
        yield from watched(stage, make)

    runs(start, stop, run, [prompt, temperature, seed, chosen], lanes)


def _offered(stage: Stage, most: int) -> gr.CheckboxGroup:
    names = list(_drafters(stage))
    return gr.CheckboxGroup(names, value=names[:most])


def _drafters(stage: Stage) -> dict[str, tuple[str, dict[str, Any]]]:
    """Who may draft, in words: a method and its options."""
    return {f"draft model: {role}": ("draft", {"draft": role}) for role in stage.drafts} | {
        words: how for words, how in WITHOUT.items() if how[0] != "self" or skip.ROLE in stage.models.drafts
    }


def _race(stage: Stage, prompt: str, temperature: float, seed: float, chosen: list[str]) -> Any:
    most = stage.limits.max_lanes - 1
    if not 1 <= len(chosen) <= most:
        raise MethodError("drafters", len(chosen), f"choose from one to {most}.")
    if seed is None:
        raise SettingsError("seed", None, "the field holds no number; type one.")
    drafters, scenario = _drafters(stage), PROMPTS[prompt]
    if unknown := [name for name in chosen if name not in drafters]:
        raise MethodError("drafter", unknown[0], f"choose from {', '.join(drafters)}.")
    methods = ["naive", *(drafters[name] for name in chosen)]
    return race(
        stage.models, scenario.prompt, methods, temperature=temperature, seed=int(seed), chat=scenario.chat,
        max_new_tokens=first_values(stage.limits)["max_new_tokens"],
    )  # fmt: skip
