"""The widgets of lessons: the fields of each kind, and their checks.

Methods, bugs and options are names, so that lessons can be read without models and torch; a test checks that they exist.
A failed check raises a `ValueError`, which pydantic turns into a `ValidationError`.
"""

import ast
from pathlib import Path
from textwrap import dedent
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, computed_field, model_validator

from ...core.events import Settings
from ...core.folders import ASSETS
from ...measure.scenarios import SCENARIOS, TAUGHT, Scenario

ROOT = Path(__file__).parents[3]
BY_ID = {scenario.id: scenario for scenario in (*SCENARIOS, *TAUGHT)}


def _require(valid: Any, hint: str) -> None:
    if not valid:
        raise ValueError(hint)


def _decoding(settings: dict[str, Any]) -> dict[str, Any]:
    unknown = settings.keys() - set(Settings.names())
    _require(not unknown, f"there is no setting {', '.join(unknown)}.")
    Settings(**settings)
    return settings


Decoding = Annotated[dict[str, Any], AfterValidator(_decoding)]  # the `events.Settings` that differ from the defaults
Share = Annotated[float, Field(ge=0, le=1)]
Rows = Annotated[int, Field(ge=1)]
ScenarioId = Annotated[str, AfterValidator(lambda name: _scenario(name).id)]
RecordingId = Annotated[str, AfterValidator(lambda name: _recorded(name))]


class Fields(BaseModel):
    """Frozen fields. Unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Widget(Fields):
    """The fields of all kinds: `say` is a sentence above the widget."""

    say: str = ""

    @property
    def kind(self) -> str:
        return type(self).__name__.lower()


class Race(Widget):
    """A live race of `methods` against naive on `prompt`. `options` are those of the methods.

    A `scenario` sets the prompt, and the methods and settings that the block does not set.
    """

    scenario: str = ""
    prompt: str
    methods: tuple[str, ...]
    draft: str = "draft"
    options: dict[str, Any] = {}
    settings: Decoding = {}

    @model_validator(mode="before")
    @classmethod
    def _with_scenario(cls, fields: dict[str, Any]) -> dict[str, Any]:
        complete = ("scenario" in fields) != ("prompt" in fields) and fields.keys() & {"scenario", "methods"}
        _require(complete, "give a scenario, or else a prompt and methods.")
        if "scenario" not in fields:
            return fields
        scenario = _scenario(fields["scenario"])
        settings, changed = {"chat": True} if scenario.chat else {}, fields.get("settings", {})
        settings |= scenario.options
        draft = settings.pop("draft", "draft")
        settings = {**settings, **changed} if isinstance(changed, dict) else changed
        defaults = {"methods": scenario.methods, "draft": draft}
        return {**defaults, **fields, "prompt": scenario.prompt, "settings": settings}


class Recording(Widget):
    """A bundled recording by its scenario, with the playhead `at` a pass of the last lane.

    `partly`: first partly accepted draft; `mixed`: first draft with several accepted tokens, a rejected one, and one that is
    not tested; `refused`: first fully rejected draft; `longest`: most accepted tokens; `window`: first accepted n-gram that a
    full window of `lookahead` found.
    """

    recording: RecordingId
    at: Literal["partly", "mixed", "refused", "longest", "window"]


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
    """Cases. The reader guesses the outcome of each case from p and q, then sees the draw."""

    cases: tuple[Case, ...]


class Dice(Widget):
    """`measure.dice`: the distribution test over a small vocabulary, with the correct rule, and next to it a `bug`."""

    bug: str = ""


class Bug(Widget):
    """A bug of `measure.bugs`, with its test, and with a race of the scenario if there is one."""

    bug: str
    scenario: ScenarioId = ""
    settings: Decoding = {}


class Cost(Widget):
    """The costs of passes by their number of `rows` on this machine. The reader first guesses the cost of `predict` rows.

    With `alpha` and `k`, it also shows the predicted speedup at these costs.
    """

    rows: tuple[Rows, ...]
    predict: int | None = None
    alpha: Share | None = None
    k: int | None = None

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        _require(self.predict in (None, *self.rows), "predict one of the rows.")
        _require((self.alpha is None) == (self.k is None), "give alpha together with k.")
        return self


class WhatIf(Widget):
    """A lookup drafter's settings as sliders, over a scenario's naive recording."""

    recording: RecordingId
    method: str
    k: int = 4
    options: dict[str, Any] = {}


class Code(Widget):
    """A listing: `text`, or the definition `source`, "lookahead/package/file.py#function" or "#Class.method".

    `first` is the number of its first line. Lines that contain one of `marks` are marked; with `ask`, only after the reader
    has selected lines.
    """

    text: str
    source: str = ""
    title: str = ""
    marks: tuple[str, ...] = ()
    first: int = 1
    ask: bool = False

    @model_validator(mode="before")
    @classmethod
    def _with_source(cls, fields: dict[str, Any]) -> dict[str, Any]:
        exclusive = ("text" in fields) != ("source" in fields)
        _require(exclusive, "give either a text or a source.")
        if "source" not in fields:
            return fields
        text, first = _source(str(fields["source"]))
        return {**fields, "text": text, "first": first}

    @model_validator(mode="after")
    def _has_marks(self) -> Self:
        for mark in self.marks:
            _require(mark in self.text, f"no line of the listing has {mark!r}.")
        return self

    @property
    def marked(self) -> tuple[int, ...]:
        lines = enumerate(self.text.split("\n"), self.first)
        return tuple(n for n, line in lines if any(mark in line for mark in self.marks))


class Figure(Widget):
    """An interactive figure, which `assets/learn/figures` draws by its name. The other fields are those of `pass`.

    `text` and `draft` are words. `rules` has the target's next word after a word, or after two. The reader predicts the number
    that `ask` names before the outcome is shown, makes the draft if `build` is set, and can switch the `bugs` on.
    """

    figure: Literal["weights", "pass", "overlap", "matching", "window", "costs", "towers", "counters", "tree", "state"]
    text: str = ""
    draft: str = ""
    rules: dict[str, str] = {}
    ask: Literal["", "tokens", "cache"] = ""
    build: bool = False
    bugs: tuple[Literal["prefix-dropped", "bonus-lost", "no-rollback"], ...] = ()

    @model_validator(mode="after")
    def _has_rules(self) -> Self:
        if self.figure != "pass":
            _require(self.model_fields_set <= {"figure", "say"}, "only the figure pass has these fields.")
            return self
        words = " ".join((self.text, self.draft, *self.rules, *self.rules.values())).lower().split()
        _require(self.text, "give a text.")
        _require(not (missing := sorted({*words} - {*self.rules})), f"give a rule for {', '.join(missing)}.")
        return self


class Exercise(Widget):
    """Two functions that the reader writes. The tests of `assets/learn/checks.js` grade them in the browser."""


class Answer(Fields):
    """An answer of a quiz, with its explanation."""

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
        _require(right == 1, "give one right answer.")
        return self


class Plan(Widget):
    """A table of the teacher's plan (`deck.py`): the frames of a session, or the misconceptions that they correct."""

    shows: Literal["1", "2", "short", "misconceptions"]


KINDS: dict[str, type[Widget]] = {kind.__name__.lower(): kind for kind in Widget.__subclasses__()}


def _scenario(name: str) -> Scenario:
    _require(name in list(BY_ID), f"choose one of {', '.join(BY_ID)}.")
    return BY_ID[name]


def _recorded(name: str) -> str:
    path = ASSETS / "traces" / f"{_scenario(name).id}.json"
    _require(path.is_file(), "there is no bundled recording of this scenario.")
    return name


def _source(source: str) -> tuple[str, int]:
    file, _, name = source.partition("#")
    path = (ROOT / file).resolve()
    _require(path.is_relative_to(ROOT) and path.is_file(), "there is no such file.")
    text = path.read_text(encoding="utf-8")
    node = ast.parse(text)
    for part in name.split("."):
        node = next((n for n in node.body if getattr(n, "name", None) == part), None)
        _require(node, "the file has no such definition.")
    first = min(n.lineno for n in (node, *node.decorator_list))
    return dedent("\n".join(text.split("\n")[first - 1 : node.end_lineno])), first
