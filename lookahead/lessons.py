"""The lessons of the Learn tab: Markdown files that say where a live widget stands, and with what.

A lesson is `assets/lessons/NN-name.md`: front matter with a `title` and what its reader will `learn`, Markdown, and
at the end a quiz; `teacher.md` needs none. Prose links to lessons by file name (`03-rejection.md`) and to the page's
own queries (`?recording=story`), nowhere else. A widget is a fenced block, one field a line:

    ```widget race
    scenario: window
    k: 4
    say: Open a pass to see the window.
    ```

A value goes on in indented lines; after `name: |` these are taken as they stand, elsewhere `\\n` is a new line. Texts
are plain, without markup; lists have commas. Every kind may have `say`, a sentence to stand beside it. Brackets mark
what may be left out, a star what may be repeated.

| kind      | fields                                                                                                    |
|-----------|-----------------------------------------------------------------------------------------------------------|
| race      | a real race beside naive: `prompt` and `methods` names, or `scenario` id, which brings its own prompt,    |
|           | method and settings where the block has none; [`draft`] model; [`options`] of the methods, name=value;    |
|           | and `events.Settings` by name (`k`, `temperature`, `rule`, `max_new_tokens`, ...)                         |
| recording | a bundled one: `recording` scenario id; [`at`] pass of its last lane, a number or a word of `PASSES`      |
| guess     | will it stand? `case`* "token / p / q / draw": guessed from p and q, then the draw is shown; a score      |
| dice      | `lab.dice`: `p`, `q` numbers that add up to 1; [`tokens`] names; [`bug`] id; [`throws`] whole number      |
| bug       | `bug` id of `lab.bugs`: the test it names is run; where the harm can be seen, a race shows it: [`scenario`]|
|           | id, [`methods`] names, settings as for race                                                               |
| cost      | this machine's cost curve: `rows` whole numbers to read off; [`predict`] one of them, which the reader    |
|           | guesses first; [`alpha`] number and [`k`] whole number: the speedup `theory` expects at these costs       |
| whatif    | sliders: `recording` scenario id, whose naive lane is counted anew; `method` ngram or suffix; [`k`] whole |
|           | number; [`options`] name=value                                                                            |
| code      | a listing: `text`, or `source` "lookahead/file.py#function" or "#Class.method", read from that file;      |
|           | [`statement`] how one in it begins, to show it alone; [`title`]; [`mark`]* a text whose lines stand out   |
| quiz      | `question`; one `right`, `wrong`* "answer :: why", in the order in which they are shown                   |

What is written wrongly raises a `LessonError` that names file, line and field. Methods, bugs and options are taken
by name; a test holds that they exist, so that lessons can be read without models and without torch. Knows files
and fields. It does not know how a widget looks.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Any

from .events import LookaheadError, Settings, SettingsError
from .scenarios import SCENARIOS, Scenario
from .tree import is_chain

ROOT = Path(__file__).parent.parent
FOLDER, TRACES = ROOT / "assets" / "lessons", ROOT / "assets" / "traces"
TEACHER = FOLDER / "teacher.md"
WORDS_A_MINUTE = 200
HEAD = re.compile(r"---\ntitle: (?P<title>.+)\nlearn: (?P<learn>.+)\n---\n")
BLOCK = re.compile(r"^```widget (?P<kind>\w+)\n(?P<lines>.*?)^```$", re.DOTALL | re.MULTILINE)
LISTING = re.compile(r"^```(?!widget (?!code\n))\w.*?^```$", re.DOTALL | re.MULTILINE)  # a block nobody reads aloud
PASSES: dict[str, Callable[[int, int], bool]] = {  # by how many were drafted, and how many of them stood
    "partly": lambda drafted, stood: 0 < stood < drafted,
    "whole": lambda drafted, stood: stood == drafted >= 2,
    "refused": lambda drafted, stood: stood == 0 < drafted,
    "longest": lambda drafted, stood: stood > 0,  # of these the one where most stood
}


class LessonError(LookaheadError):
    """A lesson that cannot be read."""


def _must(fine: Any, name: str, value: Any, mend: str) -> None:
    if not fine:
        raise SettingsError(name, value, mend)


@dataclass(frozen=True, slots=True)
class Prose:
    """Markdown between the widgets."""

    markdown: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Widget:
    """What all kinds have."""

    say: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Race(Widget):
    """`methods` against naive, live. `settings` are those that differ from the defaults."""

    prompt: str = ""
    scenario: str = ""
    methods: tuple[str, ...] = ()
    draft: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        one = bool(self.prompt) != bool(self.scenario) and (self.methods or self.scenario)
        _must(one, "prompt", self.prompt, "give a scenario, or else a prompt and methods.")
        held = _scenario(self.scenario) if self.scenario else Scenario("", "", "", self.prompt, "", "")
        brought = {**({"chat": True} if held.chat else {}), **held.options}
        object.__setattr__(self, "prompt", held.prompt)
        object.__setattr__(self, "methods", self.methods or (held.method,))
        object.__setattr__(self, "draft", brought.pop("draft", "draft") if not self.draft else self.draft)
        object.__setattr__(self, "settings", {n: v for n, v in brought.items() if n != "draft"} | self.settings)
        Settings(**self.settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording(Widget):
    """A bundled recording, its playhead at a pass."""

    recording: str
    at: str = ""

    def __post_init__(self) -> None:
        found = _passes(self.recording) and (not self.at or self.pass_number())
        _must(found, "at", self.at, f"give a pass it has, by number or as one of {', '.join(PASSES)}.")

    def pass_number(self) -> int | None:
        """The pass that `at` means, counted from 1 in the last lane; None where it means none."""
        passes = _passes(self.recording)
        if self.at not in PASSES:
            return int(self.at) if self.at.isdecimal() and 1 <= int(self.at) <= len(passes) else None
        found = [(-stood, n) for n, (drafted, stood) in enumerate(passes, 1) if PASSES[self.at](drafted, stood)]
        return (min(found) if self.at == "longest" else found[0])[1] if found else None


@dataclass(frozen=True, slots=True)
class Case:
    """A drafted token under the rejection rule, and the number that will be drawn for it."""

    token: str
    p: float
    q: float
    draw: float

    def __post_init__(self) -> None:
        fine = 0 <= self.p <= 1 and 0 < self.q <= 1 and 0 <= self.draw < 1
        _must(fine, "case", self.token, "p, q and draw are from 0 to 1; q is not 0, the draw not 1.")

    @property
    def chance(self) -> float:
        """How likely it is to stand, before the draw is known."""
        return min(1.0, self.p / self.q)

    @property
    def stands(self) -> bool:
        """Whether it does."""
        return self.draw * self.q < self.p


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess(Widget):
    """Cases to be guessed one by one, with a score."""

    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dice(Widget):
    """The distribution test over a small vocabulary, honest or with a bug in the rule."""

    p: tuple[float, ...]
    q: tuple[float, ...]
    tokens: tuple[str, ...] = ()
    bug: str = ""
    throws: int = 4000

    def __post_init__(self) -> None:
        for name, values in (("p", self.p), ("q", self.q)):
            fine = min(values) >= 0 and abs(sum(values) - 1) < 1e-9 and len(values) == len(self.tokens or self.p)
            _must(fine, name, values, "give one number for every token; they add up to 1.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug(Widget):
    """A mistake of `lab.bugs`: its test fails, and a race of the scenario, if there is one, shows the harm."""

    bug: str
    scenario: str = ""
    methods: tuple[str, ...] = ("draft",)
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _must(not self.scenario or self.scenario in BY_ID, "scenario", self.scenario, "there is no such scenario.")
        Settings(**self.settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost(Widget):
    """What passes of so many `rows` cost on this machine, in one-row passes."""

    rows: tuple[int, ...]
    predict: int | None = None
    alpha: float | None = None
    k: int | None = None

    def __post_init__(self) -> None:
        fine = min(self.rows) >= 1 and self.predict in (None, *self.rows)
        _must(fine, "rows", self.rows, "rows begin at 1, and predict is one of them.")
        fine = (self.alpha is None) == (self.k is None) and 0 <= (self.alpha or 0) <= 1
        _must(fine, "alpha", self.alpha, "give alpha, from 0 to 1, together with k.")


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf(Widget):
    """The settings of a lookup drafter as sliders; the passes of a naive recording are counted anew."""

    recording: str
    method: str
    k: int = 4
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _must(_passes(self.recording) and self.method in ("ngram", "suffix"), "method", self.method, "ngram or suffix.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Code(Widget):
    """A listing: literal, or a part of this project's source, which is then filled in with its `first` line's number."""

    text: str = ""
    source: str = ""
    statement: str = ""
    title: str = ""
    marks: tuple[str, ...] = ()
    first: int = 1

    def __post_init__(self) -> None:
        _must(bool(self.text) != bool(self.source), "source", self.source, "give either a text or a source.")
        if self.source:
            for name, value in zip(("text", "first"), _source(self.source, self.statement), strict=True):
                object.__setattr__(self, name, value)
        for mark in self.marks:
            _must(mark in self.text, "mark", mark, "no line of the listing has it.")

    @property
    def marked(self) -> tuple[int, ...]:
        """Numbers of the lines that stand out."""
        lines = enumerate(self.text.split("\n"), self.first)
        return tuple(n for n, line in lines if any(mark in line for mark in self.marks))


@dataclass(frozen=True, slots=True)
class Answer:
    """One of a quiz's answers, and what to say to whoever gives it."""

    right: bool
    text: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiz(Widget):
    """A question with one right answer, and an explanation for each."""

    question: str
    answers: tuple[Answer, ...]

    def __post_init__(self) -> None:
        fine = len(self.answers) > 1 and sum(answer.right for answer in self.answers) == 1
        _must(fine, "right", len(self.answers), "give one right answer and at least one wrong one.")


@dataclass(frozen=True, slots=True)
class Lesson:
    """A lesson: its file's name without the ending, its parts in order, and how many `words` there are to read at most."""

    name: str
    title: str
    learn: str
    parts: tuple[Prose | Widget, ...]
    words: int


@cache
def lessons() -> tuple[Lesson, ...]:
    """All lessons, in order."""
    return tuple(read(path) for path in sorted(FOLDER.glob("[0-9][0-9]-*.md")))


def read(path: Path) -> Lesson:
    """A lesson from its file. Raises `LessonError`."""
    text = path.read_text(encoding="utf-8")
    head, parts = HEAD.match(text), []
    if not head or text.count("```widget") != len(BLOCK.findall(text)):
        raise LessonError(path.name, text[:40], "begin with lines of ---, title:, learn: and ---; end every block.")
    at = head.end()
    for block in BLOCK.finditer(text, at):
        parts.append(Prose(text[at : block.start()].strip()))
        at = block.end()
        try:
            parts.append(_widget(block["kind"], block["lines"]))
        except LookaheadError as error:
            line = text.count("\n", 0, block.start()) + 1
            raise LessonError(f"{path.name} line {line}, {error.field}", error.value, error.mend) from None
    parts = [part for part in (*parts, Prose(text[at:].strip())) if part != Prose("")]
    if path != TEACHER and not isinstance((None, *parts)[-1], Quiz):
        raise LessonError(path.name, "no quiz", "end with a quiz.")
    words = re.findall(r"[^\W_][^\s|]*", LISTING.sub("", text))
    return Lesson(path.stem, head["title"], head["learn"], tuple(parts), len(words))


def _widget(kind: str, text: str) -> Widget:
    _must(kind in KINDS, "widget", kind, f"choose one of {', '.join(KINDS)}.")
    types, made = {f.name: f.type for f in fields(KINDS[kind])}, {}
    for name, value in _lines(text):
        held, read = MANY.get(name, (name, READ.get(types.get(name))))
        setting = "settings" in types and name in Settings.names()
        known = (setting or (read and held in types)) and name not in {**made, **made.get("settings", {})}
        _must(known, name, value, f"{kind} has no such field, or has it already.")
        try:
            if held != name:
                made[held] = (*made.get(held, ()), read(value))
            elif setting:
                made["settings"] = {**made.get("settings", {}), name: _value(value)}
            else:
                made[name] = read(value)
        except (ValueError, TypeError) as error:
            raise SettingsError(name, value, getattr(error, "mend", "this is not what the field holds.")) from None
    needed = [f.name for f in fields(KINDS[kind]) if f.default is f.default_factory is MISSING]
    _must(made.keys() >= set(needed), kind, list(made), f"it needs {', '.join(needed)}.")
    return KINDS[kind](**made)


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Name and value of every field."""
    before, *pieces = re.split(r"^(\w+):", text, flags=re.MULTILINE)
    for name, value in zip(pieces[::2], pieces[1::2], strict=True):
        first, *more = value.split("\n")
        _must(all(line[:1] in ("", " ") for line in more), name, value, "indent what goes on in a new line.")
        if first.strip() == "|":
            yield name, dedent("\n".join(more)).strip("\n")
        else:
            yield name, " ".join(" ".join([first, *more]).split()).replace("\\n", "\n")
    _must(not before.strip(), "field", before, "begin with a field's name and a colon.")


def _value(text: str) -> Any:
    """A number, true or false where it looks like one; else text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _scenario(name: str) -> Scenario:
    _must(name in BY_ID, "scenario", name, f"choose one of {', '.join(BY_ID)}.")
    return BY_ID[name]


@cache
def _passes(recording: str) -> tuple[tuple[int, int], ...]:
    """Of every pass in the last lane of a bundled recording, how many were drafted, as a chain, and how many stood."""
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
    found = inner if statement else [node]
    _must(len(found) == 1, "statement", statement, f"{len(found)} statements begin so.")
    first = min(n.lineno for n in (found[0], *getattr(found[0], "decorator_list", ())))
    return dedent("\n".join(lines[first - 1 : found[0].end_lineno])), first


BY_ID = {scenario.id: scenario for scenario in SCENARIOS}
KINDS = {c.__name__.lower(): c for c in (Race, Recording, Guess, Dice, Bug, Cost, WhatIf, Code, Quiz)}
READ: dict[str, Callable[[str], Any]] = {  # by the type of the field
    "str": str, "int": int, "int | None": int, "float | None": float,
    "dict[str, Any]": lambda value: {n: _value(v) for n, v in (pair.split("=", 1) for pair in value.split())},
    **{f"tuple[{kind.__name__}, ...]": lambda value, kind=kind: tuple(kind(part.strip()) for part in value.split(",")) for kind in (str, int, float)},
}  # fmt: skip
MANY: dict[str, tuple[str, Callable[[str], Any]]] = {  # lines that may be repeated, and the field that holds them
    "mark": ("marks", str),
    "case": ("cases", lambda value: Case(value.split(" / ")[0], *map(float, value.split(" / ")[1:]))),
    "right": ("answers", lambda value: Answer(True, *value.split(" :: "))),
    "wrong": ("answers", lambda value: Answer(False, *value.split(" :: "))),
}
