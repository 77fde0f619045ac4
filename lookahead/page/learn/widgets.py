"""The widgets of lessons: the fields of each kind, and their checks.

Methods, bugs and options are names, so that lessons can be read without models and torch; a test checks that they exist.
A failed check raises a `ValueError`, which pydantic turns into a `ValidationError`.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, computed_field, model_validator

from ...core.events import Settings, SettingsError
from ...core.folders import ASSETS
from ...core.tree import is_chain
from ...measure.scenarios import SCENARIOS, TAUGHT, Scenario

ROOT = Path(__file__).parents[3]
TRACES = ASSETS / "traces"
BY_ID = {scenario.id: scenario for scenario in (*SCENARIOS, *TAUGHT)}
PASSES: dict[str, Callable[[int, int], bool]] = {  # by the numbers of drafted and accepted tokens
    "partly": lambda drafted, accepted: 0 < accepted < drafted,
    "refused": lambda drafted, accepted: accepted == 0 < drafted,
    "longest": lambda drafted, accepted: accepted > 0,  # of these the one with most accepted
}


def _must(valid: Any, name: str, value: Any, mend: str) -> None:
    if not valid:
        raise SettingsError(name, value, mend)


def _decoding(settings: dict[str, Any]) -> dict[str, Any]:
    for name in settings.keys() - set(Settings.names()):
        raise SettingsError(name, settings[name], "there is no such setting.")
    Settings(**settings)
    return settings


Decoding = Annotated[dict[str, Any], AfterValidator(_decoding)]  # those of `events.Settings` that are not the default
Share = Annotated[float, Field(ge=0, le=1)]
Rows = Annotated[int, Field(ge=1)]
ScenarioId = Annotated[str, AfterValidator(lambda name: _scenario(name).id)]
RecordingId = Annotated[str, AfterValidator(lambda name: _passes(name) and name)]


class Fields(BaseModel):
    """Frozen fields, without unknown ones."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Widget(Fields):
    """The fields of all kinds: `say` is a sentence above the widget."""

    say: str = ""

    @property
    def kind(self) -> str:
        return type(self).__name__.lower()


class Race(Widget):
    """`methods` against naive, live, on `prompt`, or with the prompt, methods and settings of a `scenario`, unless the block
    has its own. `options` are those of the methods."""

    scenario: str = ""
    prompt: str
    methods: tuple[str, ...]
    draft: str = "draft"
    options: dict[str, Any] = {}
    settings: Decoding = {}

    @model_validator(mode="before")
    @classmethod
    def _with_scenario(cls, fields: dict[str, Any]) -> dict[str, Any]:
        one = ("scenario" in fields) != ("prompt" in fields) and fields.keys() & {"scenario", "methods"}
        _must(one, "prompt", fields.get("prompt"), "give a scenario, or else a prompt and methods.")
        if "scenario" not in fields:
            return fields
        scenario = _scenario(fields["scenario"])
        settings, changed = {"chat": True} if scenario.chat else {}, fields.get("settings", {})
        settings |= scenario.options
        draft = settings.pop("draft", "draft")
        settings = {**settings, **changed} if isinstance(changed, dict) else changed
        brought = {"methods": scenario.methods, "draft": draft}
        return {**brought, **fields, "prompt": scenario.prompt, "settings": settings}


class Recording(Widget):
    """A bundled recording by its scenario, with the playhead `at` a pass of the last lane: the first of a kind of `PASSES`, or
    the longest."""

    recording: RecordingId
    at: str

    @model_validator(mode="after")
    def _exists(self) -> Self:
        mend = f"give a pass it has, as one of {', '.join(PASSES)}."
        _must(self.at in PASSES and self.pass_number(), "at", self.at, mend)
        return self

    def pass_number(self) -> int | None:
        """The pass of `at`, counted from 1, or None."""
        passes = enumerate(_passes(self.recording), 1)
        fitting = {n: accepted for n, (drafted, accepted) in passes if PASSES[self.at](drafted, accepted)}
        return max(fitting, key=fitting.get, default=None) if self.at == "longest" else next(iter(fitting), None)


class Case(Fields):
    """A drafted token under the rejection rule, and the random number for its test."""

    token: str
    p: Share
    q: Annotated[float, Field(gt=0, le=1)]
    draw: Annotated[float, Field(ge=0, lt=1)]

    @computed_field
    @property
    def chance(self) -> float:
        return min(1.0, self.p / self.q)

    @computed_field
    @property
    def accepted(self) -> bool:
        return self.draw * self.q < self.p


class Guess(Widget):
    """Cases: the reader guesses each from p and q, then sees the draw."""

    cases: tuple[Case, ...]


class Dice(Widget):
    """`measure.dice`: the distribution test over a small vocabulary, with the correct rule or a `bug`."""

    bug: str = ""


class Bug(Widget):
    """A mistake of `measure.bugs`: its test, and a race of the scenario, if there is one."""

    bug: str
    scenario: ScenarioId = ""
    settings: Decoding = {}


class Cost(Widget):
    """The costs of passes of so many `rows` on this machine. The reader first guesses the one of `predict` rows. With `alpha`
    and `k`: the expected speedup at these costs."""

    rows: tuple[Rows, ...]
    predict: int | None = None
    alpha: Share | None = None
    k: int | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        _must(self.predict in (None, *self.rows), "predict", self.predict, "give one of the rows.")
        _must((self.alpha is None) == (self.k is None), "alpha", self.alpha, "give it together with k.")
        return self


class WhatIf(Widget):
    """A lookup drafter's settings as sliders, over a scenario's naive recording."""

    recording: RecordingId
    method: str
    k: int = 4
    options: dict[str, Any] = {}


class Code(Widget):
    """A listing: `text`, or the definition `source`, "lookahead/package/file.py#function" or "#Class.method". `first` is the
    number of its first line, and lines with one of `marks` are marked."""

    text: str
    source: str = ""
    title: str = ""
    marks: tuple[str, ...] = ()
    first: int = 1

    @model_validator(mode="before")
    @classmethod
    def _with_source(cls, fields: dict[str, Any]) -> dict[str, Any]:
        one = ("text" in fields) != ("source" in fields)
        _must(one, "source", fields.get("source"), "give either a text or a source.")
        if "source" not in fields:
            return fields
        text, first = _source(str(fields["source"]))
        return {**fields, "text": text, "first": first}

    @model_validator(mode="after")
    def _has_marks(self) -> Self:
        for mark in self.marks:
            _must(mark in self.text, "marks", mark, "no line of the listing has it.")
        return self

    @property
    def marked(self) -> tuple[int, ...]:
        lines = enumerate(self.text.split("\n"), self.first)
        return tuple(n for n, line in lines if any(mark in line for mark in self.marks))


class Figure(Widget):
    """An interactive figure, which `assets/learn/figures` draws by its name."""

    figure: Literal["weights", "pencil", "shelf", "overlap", "matching", "window", "costs"]


class Answer(Fields):
    """One of a quiz's answers, with its explanation."""

    text: str
    why: str
    right: bool = False


class Quiz(Widget):
    """A question with one right answer."""

    question: str
    answers: Annotated[tuple[Answer, ...], Field(min_length=2)]

    @model_validator(mode="after")
    def _one_is_right(self) -> Self:
        right = sum(answer.right for answer in self.answers)
        _must(right == 1, "answers", f"{right} right ones", "give one right answer.")
        return self


KINDS: dict[str, type[Widget]] = {one.__name__.lower(): one for one in Widget.__subclasses__()}


def _scenario(name: str) -> Scenario:
    _must(name in list(BY_ID), "scenario", name, f"choose one of {', '.join(BY_ID)}.")
    return BY_ID[name]


@cache
def _passes(recording: str) -> tuple[tuple[int, int], ...]:
    """For each pass in the last lane of a bundled recording: the numbers of tokens drafted in a chain, and accepted."""
    path = TRACES / f"{_scenario(recording).id}.json"
    _must(path.is_file(), "recording", recording, "there is no bundled recording of this scenario.")
    steps = [s for s in json.loads(path.read_text(encoding="utf-8"))["lanes"][-1]["steps"] if s["kind"] == "verify"]
    parents = [step.get("draft", {}).get("parents", []) for step in steps]
    return tuple((len(p) if is_chain(p) else 0, len(s.get("path", []))) for p, s in zip(parents, steps, strict=True))


def _source(source: str) -> tuple[str, int]:
    """The lines of a definition, and the number of the first."""
    file, _, name = source.partition("#")
    path = (ROOT / file).resolve()
    _must(path.is_relative_to(ROOT) and path.is_file(), "source", source, "there is no such file.")
    text = path.read_text(encoding="utf-8")
    node = ast.parse(text)
    for part in name.split("."):
        node = next((n for n in node.body if getattr(n, "name", None) == part), None)
        _must(node, "source", source, "the file has no such definition.")
    first = min(n.lineno for n in (node, *node.decorator_list))
    return dedent("\n".join(text.split("\n")[first - 1 : node.end_lineno])), first
