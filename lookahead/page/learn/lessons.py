"""The lessons of the Learn tab: Markdown files that say where a live widget stands, and with what.

A lesson is `assets/lessons/NN-name.md`: YAML front matter with a `title` and what its reader will `learn`, Markdown, and
at the end a quiz; `teacher.md` needs none. Prose links to lessons by file name (`03-rejection.md`) and to the page's
own queries (`?recording=story`), nowhere else. A widget is a fenced block of YAML with the fields of its kind's model:

    ```widget race
    scenario: window
    settings: {k: 4}
    say: Open a pass to see the window.
    ```

Texts are plain, without markup. What is written wrongly raises a `LessonError` that names file, line and field.

Knows Markdown files and YAML. What the fields mean is widgets.py's business.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, TypeAdapter, ValidationError

from ...core.events import LookaheadError
from .widgets import ROOT, WIDGETS, Fields, Quiz, Widget

FOLDER = ROOT / "assets" / "lessons"
TEACHER = FOLDER / "teacher.md"
WORDS_A_MINUTE = 200
HEAD = re.compile(r"---\n(?P<fields>.*?)^---\n", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"^```widget (?P<kind>\w+)\n(?P<fields>.*?)^```$", re.DOTALL | re.MULTILINE)
LISTING = re.compile(r"^```\w.*?^```$", re.DOTALL | re.MULTILINE)


class LessonError(LookaheadError):
    """A lesson that cannot be read."""


class Head(Fields):
    """A lesson's front matter."""

    title: str
    learn: str


@dataclass(frozen=True, slots=True)
class Prose:
    """Markdown between the widgets."""

    markdown: str


_HEAD = TypeAdapter(Head)
_WIDGET = TypeAdapter(Annotated[WIDGETS, Field(discriminator="kind")])


@dataclass(frozen=True, slots=True)
class Lesson:
    """A lesson: its file's name without the ending, its parts in order, and how many `words` there are to read."""

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
    match, parts = HEAD.match(text), []
    if not match or text.count("```widget") != len(BLOCK.findall(text)):
        raise LessonError(path.name, text[:40], "begin with front matter between lines of ---; end every block.")
    head, end = _fields(_HEAD, match["fields"], f"{path.name} line 1"), match.end()
    for block in BLOCK.finditer(text, end):
        line = text.count("\n", 0, block.start()) + 1
        widget = _fields(_WIDGET, block["fields"], f"{path.name} line {line}", kind=block["kind"])
        parts += [Prose(text[end : block.start()].strip()), widget]
        end = block.end()
    parts = [part for part in (*parts, Prose(text[end:].strip())) if part != Prose("")]
    if path != TEACHER and not isinstance((None, *parts)[-1], Quiz):
        raise LessonError(path.name, "no quiz", "end with a quiz.")
    words = sum(len(re.findall(r"[^\W_][^\s|]*", sentences)) for part in parts for sentences in _sentences(part))
    return Lesson(path.stem, head.title, head.learn, tuple(parts), words)


@cache
def plan() -> tuple[dict[str, Any], ...]:
    """The teacher's plan: {minute, title, recording, lesson} for every row of its table; None where a row links to none."""
    rows = re.findall(r"^\| (\d+) \| (.*?) \| (.*?) \|$", TEACHER.read_text(encoding="utf-8"), re.MULTILINE)
    return tuple(
        {
            "minute": int(minute), "title": title,
            "recording": (link := re.search(r"\(\?recording=([\w-]+)\)", shown)) and link[1],
            "lesson": (link := re.search(r"\((\d\d-[\w-]+)\.md\)", shown)) and link[1],
        }
        for minute, title, shown in rows
    )  # fmt: skip


def _sentences(part: Prose | Widget) -> Iterator[str]:
    """What there is to read in a part, listings left out."""
    if isinstance(part, Prose):
        yield LISTING.sub("", part.markdown)
        return
    yield part.say
    if isinstance(part, Quiz):
        yield from (part.question, *(f"{answer.text} {answer.why}" for answer in part.answers))


class _Loader(yaml.SafeLoader):
    """YAML in which a mapping has a key once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        if repeated := [key for key in keys if keys.count(key) > 1]:
            raise yaml.constructor.ConstructorError(None, None, f"{repeated[0]} is given twice", node.start_mark)
        return super().construct_mapping(node, deep)


def _fields(adapter: TypeAdapter, text: str, where: str, **more: str) -> Any:
    """What `adapter` makes of the YAML fields in `text`. Raises `LessonError` naming `where` and the field."""
    try:
        fields = yaml.load(text, _Loader) or {}
        if not isinstance(fields, dict):
            raise LessonError(f"{where}, fields", text[:40], "give a field a line: its name, a colon, its value.")
        return adapter.validate_python({**fields, **more})
    except yaml.YAMLError as error:
        raise LessonError(f"{where}, YAML", text[:40], f"{getattr(error, 'problem', error)}.") from None
    except ValidationError as error:
        name, value, mend = _first(error, len(more))
        raise LessonError(f"{where}, {name}", value, mend) from None


def _first(error: ValidationError, tags: int) -> tuple[str, Any, str]:
    """Field, value and mend of the first thing that pydantic found; `tags` parts of its place are no fields."""
    first = error.errors(include_url=False)[0]
    context, name = first.get("ctx", {}), ".".join(str(part) for part in first["loc"][tags:])
    if isinstance(context.get("error"), LookaheadError):
        return context["error"].field, context["error"].value, context["error"].mend
    if first["type"] == "union_tag_invalid":
        return "widget", context["tag"], f"choose one of {context['expected_tags']}."
    if first["type"] == "missing":
        return name, None, "it is needed."
    return name, first["input"], {"extra_forbidden": "there is no such field"}.get(first["type"], first["msg"]) + "."
