"""The widgets of lessons: what an author may write in a block of each kind, and what is checked of it.

    race       a real race beside naive                code   a listing, literal or of this project's source
    recording  a bundled race at one of its passes     cost   this machine's cost curve
    bug        a classic mistake, switched on          whatif a lookup drafter's settings as sliders
    dice       the rejection rule, thrown              quiz   a question
    guess      will it be accepted?                          figure one to take hold of, drawn by the page

Methods, bugs and options are taken by name; a test holds that they exist, so that lessons can be read without models and
without torch. A check that fails raises what pydantic makes a `ValidationError` of.

Knows fields and bundled files. It does not know how a widget looks, nor the Markdown around it.
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
from ...core.tree import is_chain
from ...measure.scenarios import SCENARIOS, TAUGHT, Scenario

ROOT = Path(__file__).parents[3]
TRACES = ROOT / "assets" / "traces"
BY_ID = {scenario.id: scenario for scenario in (*SCENARIOS, *TAUGHT)}
PASSES: dict[str, Callable[[int, int], bool]] = {  # by how many tokens were drafted, and how many accepted
    "partly": lambda drafted, accepted: 0 < accepted < drafted,
    "whole": lambda drafted, accepted: accepted == drafted >= 2,
    "refused": lambda drafted, accepted: accepted == 0 < drafted,
    "longest": lambda drafted, accepted: accepted > 0,  # of these the one with most accepted
}


def _must(valid: Any, name: str, value: Any, mend: str) -> None:
    if not valid:
        raise SettingsError(name, value, mend)


def _decoding(settings: dict[str, Any]) -> dict[str, Any]:
    """`settings` as they are, if `Settings` takes them."""
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
    """What a lesson's author writes: nothing that is not a field, and nothing that changes afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Widget(Fields):
    """What all kinds have: `say` is a sentence to stand beside it."""

    kind: str
    say: str = ""


class Race(Widget):
    """`methods` against naive, live, on `prompt`; or a `scenario`, which brings its own prompt, method and settings where
    the block has none. `options` are the methods' own."""

    kind: Literal["race"] = "race"
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
    """A bundled recording by its scenario, its playhead `at` a pass of the last lane: a number or a word of `PASSES`."""

    kind: Literal["recording"] = "recording"
    recording: RecordingId
    at: int | str | None = None

    @model_validator(mode="after")
    def _exists(self) -> Self:
        passes = _passes(self.recording)
        mend = f"give a pass it has, by number up to {len(passes)} or as one of {', '.join(PASSES)}."
        _must(self.at is None or self.pass_number(), "at", self.at, mend)
        return self

    def pass_number(self) -> int | None:
        """The pass that `at` means, counted from 1; None where it means none."""
        passes = dict(enumerate(_passes(self.recording), 1))
        if self.at not in PASSES:
            return self.at if self.at in passes else None
        fitting = {n: accepted for n, (drafted, accepted) in passes.items() if PASSES[self.at](drafted, accepted)}
        return max(fitting, key=fitting.get, default=None) if self.at == "longest" else next(iter(fitting), None)


class Case(Fields):
    """A drafted token under the rejection rule, and the number that will be drawn for it."""

    token: str
    p: Share
    q: Annotated[float, Field(gt=0, le=1)]
    draw: Annotated[float, Field(ge=0, lt=1)]

    @computed_field
    @property
    def chance(self) -> float:
        """How likely it is to be accepted, before the draw is known."""
        return min(1.0, self.p / self.q)

    @computed_field
    @property
    def accepted(self) -> bool:
        """Whether it is."""
        return self.draw * self.q < self.p


class Guess(Widget):
    """Cases to be guessed one by one from p and q, with a score; then the draw is shown."""

    kind: Literal["guess"] = "guess"
    cases: tuple[Case, ...]


class Dice(Widget):
    """`measure.dice`: the distribution test over a small vocabulary, by the right rule or with a `bug` in it."""

    kind: Literal["dice"] = "dice"
    p: tuple[float, ...]
    q: tuple[float, ...]
    tokens: tuple[str, ...] = ()
    bug: str = ""
    throws: int = 4000

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        for name, values in (("p", self.p), ("q", self.q)):
            valid = min(values) >= 0 and abs(sum(values) - 1) < 1e-9 and len(values) == len(self.tokens or self.p)
            _must(valid, name, values, "give one number for every token; they add up to 1.")
        return self


class Bug(Widget):
    """A mistake of `measure.bugs`: its test fails, and a race of the scenario, if there is one, shows the harm."""

    kind: Literal["bug"] = "bug"
    bug: str
    scenario: ScenarioId = ""
    methods: tuple[str, ...] = ("draft",)
    settings: Decoding = {}


class Cost(Widget):
    """What passes of so many `rows` cost on this machine, in one-row passes. The reader guesses those of `predict` rows
    first. With `alpha` and `k`: the speedup that `theory` expects at these costs."""

    kind: Literal["cost"] = "cost"
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
    """A lookup drafter's settings as sliders; the passes of a scenario's naive recording are counted anew."""

    kind: Literal["whatif"] = "whatif"
    recording: RecordingId
    method: str
    k: int = 4
    options: dict[str, Any] = {}


class Code(Widget):
    """A listing: `text`, or `source`, "lookahead/room/file.py#function" or "#Class.method", which is read from that file,
    whole or the one `statement` in it that begins so; `first` is then its line's number. `marks`: texts whose lines stand
    out."""

    kind: Literal["code"] = "code"
    text: str
    source: str = ""
    statement: str = ""
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
        text, first = _source(str(fields["source"]), str(fields.get("statement", "")))
        return {**fields, "text": text, "first": first}

    @model_validator(mode="after")
    def _has_marks(self) -> Self:
        for mark in self.marks:
            _must(mark in self.text, "marks", mark, "no line of the listing has it.")
        return self

    @property
    def marked(self) -> tuple[int, ...]:
        """Numbers of the lines that stand out."""
        lines = enumerate(self.text.split("\n"), self.first)
        return tuple(n for n, line in lines if any(mark in line for mark in self.marks))


class Figure(Widget):
    """A figure to take hold of, which `assets/learn/figures` draws by its name."""

    kind: Literal["figure"] = "figure"
    figure: Literal["weights", "pencil", "shelf", "overlap", "matching", "window", "costs"]


class Answer(Fields):
    """One of a quiz's answers, and what to say to whoever gives it."""

    text: str
    why: str
    right: bool = False


class Quiz(Widget):
    """A question with one right answer, and an explanation for each, in the order in which they are shown."""

    kind: Literal["quiz"] = "quiz"
    question: str
    answers: Annotated[tuple[Answer, ...], Field(min_length=2)]

    @model_validator(mode="after")
    def _one_is_right(self) -> Self:
        right = sum(answer.right for answer in self.answers)
        _must(right == 1, "answers", f"{right} right ones", "give one right answer.")
        return self


WIDGETS = Race | Recording | Guess | Dice | Bug | Cost | WhatIf | Code | Figure | Quiz


def _scenario(name: str) -> Scenario:
    _must(name in list(BY_ID), "scenario", name, f"choose one of {', '.join(BY_ID)}.")
    return BY_ID[name]


@cache
def _passes(recording: str) -> tuple[tuple[int, int], ...]:
    """Of every pass in the last lane of a bundled recording: how many tokens were drafted, as a chain, and how many accepted."""
    path = TRACES / f"{_scenario(recording).id}.json"
    _must(path.is_file(), "recording", recording, "there is no bundled recording of this scenario.")
    steps = [s for s in json.loads(path.read_text(encoding="utf-8"))["lanes"][-1]["steps"] if s["kind"] == "verify"]
    parents = [step.get("draft", {}).get("parents", []) for step in steps]
    return tuple((len(p) if is_chain(p) else 0, len(s.get("path", []))) for p, s in zip(parents, steps, strict=True))


def _source(source: str, statement: str) -> tuple[str, int]:
    """The lines of a definition, or of one statement in it, and the number of the first."""
    file, _, name = source.partition("#")
    path = (ROOT / file).resolve()
    _must(path.is_relative_to(ROOT) and path.is_file(), "source", source, "there is no such file.")
    text = path.read_text(encoding="utf-8")
    lines, node = text.split("\n"), ast.parse(text)
    for part in name.split("."):
        node = next((n for n in node.body if getattr(n, "name", None) == part), None)
        _must(node, "source", source, "the file has no such definition.")
    inner = [n for n in ast.walk(node) if isinstance(n, ast.stmt) and lines[n.lineno - 1].strip().startswith(statement)]
    chosen = inner if statement else [node]
    _must(len(chosen) == 1, "statement", statement, f"{len(chosen)} statements begin so.")
    first = min(n.lineno for n in (chosen[0], *getattr(chosen[0], "decorator_list", ())))
    return dedent("\n".join(lines[first - 1 : chosen[0].end_lineno])), first
