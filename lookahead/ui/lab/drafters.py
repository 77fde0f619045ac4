"""Drafter race: one prompt and one seed, several drafters. The text is the same in every lane, only the speed differs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gradio as gr

from ... import skip
from ...events import MethodError, SettingsError
from ...race import MOST_LANES, race
from ...scenarios import SCENARIOS
from ..racing import watched
from ..stage import Stage
from ..timeline import timeline
from .parts import buttons, prose, runs

INTRO = (
    "Every lane has the same target, prompt and seed; what differs is who drafts. Also when sampling, the words are the "
    "target's: its draws come from noise that depends on the seed and the position alone, so a bad draft costs time and "
    "changes no word. Watch the texts, then the clocks."
)
MOST = MOST_LANES - 1
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
    drafters = _drafters(stage)
    with gr.Row(elem_classes="la-do"):
        prompt = gr.Dropdown(list(PROMPTS), value=next(iter(PROMPTS)), label="prompt", filterable=False, min_width=140)
        temperature = gr.Slider(0, 1.5, 0.8, step=0.1, label="temperature", min_width=160)
        seed = gr.Number(0, label="seed", precision=0, min_width=100)
        start, stop = buttons("Race")
    chosen = gr.CheckboxGroup(list(drafters), value=list(drafters)[:MOST], label=f"drafters, up to {MOST}")
    lanes = timeline("", stage.runs)

    def run(dark: bool, prompt: str, temperature: float, seed: float, chosen: list[str]) -> Iterator[str]:
        yield from watched(stage, lambda: _race(stage, prompt, temperature, seed, chosen))

    runs(start, stop, run, [prompt, temperature, seed, chosen], lanes)


def _drafters(stage: Stage) -> dict[str, tuple[str, dict[str, Any]]]:
    """Who may draft, in words: a method and its options."""
    return {f"draft model: {role}": ("draft", {"draft": role}) for role in stage.drafts} | {
        words: how for words, how in WITHOUT.items() if how[0] != "self" or skip.ROLE in stage.models.drafts
    }


def _race(stage: Stage, prompt: str, temperature: float, seed: float, chosen: list[str]) -> Any:
    if not 1 <= len(chosen) <= MOST:
        raise MethodError("drafters", len(chosen), f"choose from one to {MOST}.")
    if seed is None:
        raise SettingsError("seed", None, "the field holds no number; type one.")
    drafters, scenario = _drafters(stage), PROMPTS[prompt]
    if unknown := [name for name in chosen if name not in drafters]:
        raise MethodError("drafter", unknown[0], f"choose from {', '.join(drafters)}.")
    methods = ["naive", *(drafters[name] for name in chosen)]
    return race(stage.models, scenario.prompt, methods, temperature=temperature, seed=int(seed), chat=scenario.chat)
