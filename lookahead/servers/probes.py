"""Questions whose answers can be checked, which detect corrupted text, and prompts of a given length."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

from ..measure.timing import Question

COPYING, COUNTING, SCHEMA = "copying", "counting", "JSON by schema"
TEXTS = (
    "seven green boats near the old bridge", "Q7-ZX19-0042-LM", "Anna, Ben, Clara, David, Emma", "3.14159 2.71828 1.41421",
    "def area(width, height): return width * height", "the small bell rings at half past nine", "blue-17 red-04 green-93 gold-58",
)  # fmt: skip
SERIES = ((1, 1), (11, 1), (2, 2), (5, 5), (30, 10), (100, 100))  # first number and step
SHOWN, COUNTED = 3, 9  # numbers of a series in the question, and up to the end
PEOPLE = (
    ("Anna", 23, "Denver"), ("Ben", 31, "Miami"), ("Clara", 40, "Boston"), ("David", 19, "Austin"), ("Emma", 57, "Seattle"),
    ("Felix", 64, "Dallas"), ("Grace", 38, "Chicago"),
)  # fmt: skip
WORD = {"type": "string", "maxLength": 24}
PERSON = {
    "type": "object", "properties": {"name": WORD, "age": {"type": "integer", "minimum": 0, "maximum": 150}, "city": WORD},
    "required": ["name", "age", "city"], "additionalProperties": False,
}  # fmt: skip
PARTS = (
    ("near the harbor", "on the hill", "before noon", "after the storm", "at the market"),
    ("a red kite", "two wooden chairs", "the green lamp", "an empty bottle", "three letters", "a small boat"),
    ("carried", "painted", "repaired", "counted", "sold", "borrowed", "washed", "lost", "wrapped", "drew"),
    ("The old baker", "A young sailor", "My neighbor", "The teacher", "Our guide", "A quiet girl", "The farmer"),
)
TASK = "\nContinue this list with further sentences of the same kind:"


@dataclass(frozen=True, slots=True)
class Probe:
    """A question, and a function that returns whether an answer is correct."""

    question: Question
    is_correct: Callable[[str], bool]


def probes() -> list[Probe]:
    """Return twenty questions: copying, counting, and JSON by schema."""
    return [*map(_copying, TEXTS), *(_counting(*series) for series in SERIES), *(_schema(*person) for person in PEOPLE)]


def _copying(text: str) -> Probe:
    return Probe(_question(COPYING, f"Copy this text exactly: {text}"), lambda answer: text in answer)


def _counting(first: int, step: int) -> Probe:
    numbers = [first + step * i for i in range(COUNTED)]
    missing = numbers[SHOWN:]

    def is_correct(answer: str) -> bool:
        written = [int(number) for number in re.findall(r"\d{1,9}", answer)]
        return any(written[i : i + len(missing)] == missing for i in range(len(written)))

    shown = ", ".join(map(str, numbers[:SHOWN]))
    return Probe(_question(COUNTING, f"Continue this series up to {numbers[-1]}, with commas: {shown}"), is_correct)


def _schema(name: str, age: int, city: str) -> Probe:
    def is_correct(answer: str) -> bool:
        try:
            return json.loads(answer) == {"name": name, "age": age, "city": city}
        except (ValueError, RecursionError):
            return False

    prompt = f"Write this as JSON with the keys name, age and city: {name} is {age} years old and lives in {city}."
    return Probe(_question(SCHEMA, prompt, schema=PERSON), is_correct)


def _question(category: str, prompt: str, **settings: Any) -> Question:
    return Question(prompt, category, prompt, True, settings)


def long_prompt(characters: int) -> str:
    """Return a prompt of about `characters` characters: numbered sentences, which differ, and a task."""
    lines, length = [], len(TASK)
    while length < characters:
        for number, (place, thing, did, who) in enumerate(product(*PARTS), start=len(lines) + 1):
            line = f"{number}. {who} {did} {thing} {place}."
            length += len(line) + 1
            if length >= characters:
                break
            lines.append(line)
    return "\n".join(lines) + TASK
