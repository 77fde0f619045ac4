"""The lessons of the Learn tab: Markdown files with live widgets.

A lesson is `assets/lessons/NN-name.md`: YAML front matter with the fields `title` and `learn`, then Markdown, and at the
end a quiz. Other files have no quiz. Prose links to lessons by file name (`03-rejection.md`) and to the page's own
queries (`?recording=story`). A link to `#draft` or to another part outlines it in the lesson's drawing of a pass. A widget
is a fenced block of YAML with the fields of its kind's model (widgets.py):

    ```widget race
    scenario: window
    settings: {k: 4}
    say: Open a pass to see the window.
    ```

Texts are plain, without markup. Invalid fields raise a `LessonError` with the file, the line and the field.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from ...core.events import LookaheadError
from ...core.folders import ASSETS
from .widgets import KINDS, Fields, Quiz, Widget

FOLDER = ASSETS / "lessons"
TEACHER = FOLDER / "teacher.md"
ANSWERS = FOLDER / "answers.md"  # only the teacher's page links to it
REFERENCE = (FOLDER / "glossary.md", FOLDER / "bibliography.md")
WORDS_PER_MINUTE = 200
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
class Lesson:
    """A lesson: its file's name without the ending, its parts in order (Markdown is text), and its number of `words`."""

    name: str
    title: str
    learn: str
    parts: tuple[str | Widget, ...]
    words: int


@cache
def lessons() -> tuple[Lesson, ...]:
    """Return all lessons, in order."""
    return tuple(read(path) for path in sorted(FOLDER.glob("[0-9][0-9]-*.md")))


def read(path: Path) -> Lesson:
    """Return the lesson in a file. Raises `LessonError`."""
    text = path.read_text(encoding="utf-8")
    match, parts = HEAD.match(text), []
    if not match or text.count("```widget") != len(BLOCK.findall(text)):
        raise LessonError(path.name, text[:40], "begin with front matter between lines of ---; end every block.")
    head, end = fields_of(Head, match["fields"], f"{path.name} line 1"), match.end()
    for block in BLOCK.finditer(text, end):
        location = f"{path.name} line {text.count(chr(10), 0, block.start()) + 1}"
        if block["kind"] not in KINDS:
            raise LessonError(f"{location}, widget", block["kind"], f"choose one of {', '.join(KINDS)}.")
        widget = fields_of(KINDS[block["kind"]], block["fields"], location)
        parts += [text[end : block.start()].strip(), widget]
        end = block.end()
    parts = [part for part in (*parts, text[end:].strip()) if part]
    if path.name[0].isdecimal() and not isinstance((None, *parts)[-1], Quiz):
        raise LessonError(path.name, "no quiz", "end with a quiz.")
    words = sum(len(re.findall(r"[^\W_][^\s|]*", sentences)) for part in parts for sentences in _sentences(part))
    return Lesson(path.stem, head.title, head.learn, tuple(parts), words)


def pages() -> tuple[Lesson, ...]:
    """Return the pages that the Learn tab lists: the lessons, the teacher's page, the glossary and the bibliography."""
    return (*lessons(), *map(read, (TEACHER, *REFERENCE)))


def _sentences(part: str | Widget) -> Iterator[str]:
    if isinstance(part, str):
        yield LISTING.sub("", part)
        return
    yield part.say
    if isinstance(part, Quiz):
        yield from (part.question, *(f"{answer.text} {answer.why}" for answer in part.answers))


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        if repeated := [key for key in keys if keys.count(key) > 1]:
            raise yaml.constructor.ConstructorError(None, None, f"{repeated[0]} is given twice", node.start_mark)
        return super().construct_mapping(node, deep)


def fields_of(model: type[Fields], text: str, location: str) -> Any:
    """Read and check the YAML fields in `text`. Raises `LessonError` with `location` and the first wrong field."""
    try:
        fields = yaml.load(text, _Loader) or {}
        if not isinstance(fields, dict):
            raise LessonError(f"{location}, fields", text[:40], "write one field per line: name, colon, value.")
        return model.model_validate(fields)
    except yaml.YAMLError as error:
        raise LessonError(f"{location}, YAML", text[:40], f"{getattr(error, 'problem', error)}.") from None
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "fields"
        raise LessonError(f"{location}, {field}", first["input"], first["msg"]) from None
