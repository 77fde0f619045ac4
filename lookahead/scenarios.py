"""Presets: a prompt, the method that suits it and what to look for. Data, no logic.

Prompts are of the kind the bundled models were trained on, and none of them is in the training
text. `chat` wraps the prompt in the model's chat template.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Scenario:
    """One preset. `options` are settings that differ from the defaults."""

    id: str
    label: str
    category: str
    prompt: str
    method: str
    note: str
    chat: bool = False
    options: dict[str, Any] = field(default_factory=dict)


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "story", "story", "story", "Once upon a time there was a small frog who", "draft",
        "Simple stories are what the small model knows best: most of its drafts stand.",
    ),
    Scenario(
        "records", "repeat", "repetitive",
        "Name: Anna\nAge: 23\nCity: Denver\n\nName: Ben\nAge: 31\nCity: Miami\n\nName: Lily\nAge:", "ngram",
        "Text that repeats itself needs no model to draft it: earlier text does.",
    ),
    Scenario(
        "json", "JSON", "repetitive",
        '[\n    {\n        "Name": "Anna",\n        "Age": 33,\n        "City": "Denver"\n    },\n    {\n        "Name": "Ben",',
        "ngram", "Keys come back in every record, so the n-grams soon know them.",
    ),
    Scenario(
        "code", "code", "code", "Calculate the area of a rectangle in Python.", "draft",
        "Brackets, indents and names are easy to guess; the idea behind them is not.", chat=True,
    ),
    Scenario(
        "explain", "explain", "explain", "Explain the moon like I'm five years old.", "draft",
        "Explanations wander more than stories, and drafts fail more often.", chat=True,
    ),
    Scenario(
        "hot", "hot", "sampled", "Once upon a time there was a small frog who", "draft",
        "At temperature 1 the target itself is undecided, so nobody can guess it well.",
        options={"temperature": 1.0},
    ),
)  # fmt: skip

BENCH: tuple[Scenario, ...] = (
    *SCENARIOS,
    Scenario("story-2", "story", "story", "Lily and Ben went to the park. They saw a big", "draft", ""),
    Scenario("story-3", "story", "story", "The old woman lived alone in a house by the sea. One morning", "draft", ""),
    Scenario("story-4", "story", "story", "Tom had a red kite. It was a windy day, so", "draft", ""),
    Scenario(
        "records-2", "repeat", "repetitive",
        "- City: Boston\n  Weather: Sunny\n- City: Miami\n  Weather: Rainy\n- City: Denver\n", "ngram", "",
    ),
    Scenario("code-2", "code", "code", "Write a Python function that adds two numbers.", "draft", "", chat=True),
    Scenario("hot-2", "hot", "sampled", "Lily and Ben went to the park. They saw a big", "draft", "", options={"temperature": 1.0}),
    Scenario("hot-3", "hot", "sampled", "Explain the wind like I'm five years old.", "draft", "", chat=True, options={"temperature": 1.0}),
    Scenario("explain-2", "explain", "explain", "Explain the wind like I'm five years old.", "draft", "", chat=True),
)  # fmt: skip
