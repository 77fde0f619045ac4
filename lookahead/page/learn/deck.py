"""The teacher's plan as frames for a projector: `assets/lessons/deck.yaml`, with three sessions.

A frame has a title, its length in minutes, notes for the teacher, and one stage: a `recording`, a `figure`, a widget of a
lesson (`guess`, `quiz` or `cost`, by the lesson's name), a `question`, or two things to `compare`. A `figure` has its own name, or
the name of the lesson whose drawing of a pass is shown. A frame starts when the frame before it ends. Invalid fields raise a `LessonError` with the file and the field.
"""

import html
import json
from functools import cache
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from ...family.models import Models
from ...measure import recordings
from . import games
from .lanes import pass_number
from .lessons import FOLDER, fields_of, lessons
from .widgets import Fields, Figure, RecordingId, Widget

FILE = FOLDER / "deck.yaml"
STAGES = ("recording", "figure", "guess", "quiz", "cost", "question", "compare")
COMPARED = 24  # tokens of a compared recording


class Side(Fields):
    """One of two compared things: a `text`, or the first passes of the last lane of a `recording`."""

    name: str
    text: str = ""
    recording: RecordingId | None = None

    @model_validator(mode="after")
    def _has_one(self) -> Self:
        if bool(self.text) == bool(self.recording):
            raise ValueError("give either a text or a recording.")
        return self

    def passes(self) -> list[str]:
        """Return the text of each pass, at most `COMPARED` tokens in total; an empty list without a recording."""
        texts, left = [], COMPARED
        for step in recordings.read(self.recording).lanes[-1].verified if self.recording else ():
            texts += ["".join(step.pieces[:left]).replace("\n", " ")] if left > 0 else []
            left -= len(step.pieces)
        return texts


class Frame(Fields):
    """A frame of a session.

    `at` is the pass of a recording, from 1, or 0 to play it from its start, or a choice as in `Recording`. With `hide`, the
    screen hides results until the teacher reveals them. `corrects` is a misconception of students.
    """

    title: str
    minutes: Annotated[float, Field(gt=0, multiple_of=0.5)]
    notes: Annotated[str, Field(min_length=1)]
    hide: bool = False
    corrects: str = ""
    recording: RecordingId | None = None
    at: Annotated[int, Field(ge=0)] | Literal["partly", "refused", "longest"] = 0
    figure: str | None = None
    guess: str | None = None
    quiz: str | None = None
    cost: str | None = None
    question: str | None = None
    compare: tuple[Side, Side] | None = None
    answer: str = ""

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if sum(getattr(self, kind) is not None for kind in STAGES) != 1:
            raise ValueError(f"give one of {', '.join(STAGES)}.")
        if (self.kind in ("question", "compare")) != bool(self.answer):
            raise ValueError("give an answer to a question and to compare, and only to these.")
        if self.recording and self.title.endswith("?") and not self.hide:
            raise ValueError("a question about a recording needs `hide: true`.")
        if self.recording:
            self.pass_number()
        elif self.kind not in ("question", "compare"):
            self._widget()
        return self

    @property
    def kind(self) -> str:
        """The name of the stage."""
        return next(kind for kind in STAGES if getattr(self, kind) is not None)

    def pass_number(self) -> int:
        """Return the pass at which the recording is shown; 0 for its start."""
        lane = recordings.read(self.recording).lanes[-1]
        if isinstance(self.at, int) and self.at > len(lane.verified):
            raise ValueError(f"the recording has {len(lane.verified)} passes.")
        return self.at if isinstance(self.at, int) else pass_number(lane, self.at)

    def _widget(self) -> Widget:
        lesson = next((lesson for lesson in lessons() if lesson.name == getattr(self, self.kind)), None)
        for part in lesson.parts if lesson else ():
            is_shown = not isinstance(part, Figure) or part.figure == "pass"
            if isinstance(part, Widget) and part.kind == self.kind and is_shown:
                return part
        if self.figure:
            return Figure(figure=self.figure)
        raise ValueError(f"there is no lesson of this name with a {self.kind}.")

    def stage(self, models: Models) -> dict[str, Any]:
        """Return the fields that the page needs to show the stage."""
        match self.kind:
            case "recording":
                return {"kind": "recording", "recording": self.recording, "pass": self.pass_number()}
            case "question":
                return {"kind": "question", "text": self.question}
            case "compare":
                sides = [{"name": side.name, "text": side.text, "passes": side.passes()} for side in self.compare or ()]
                return {"kind": "compare", "sides": sides}
        return {**games.data(self._widget(), models), "say": ""}


class Session(Fields):
    """A session of `minutes` in total."""

    title: str
    minutes: int
    frames: tuple[Frame, ...]

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        if (total := sum(frame.minutes for frame in self.frames)) != self.minutes:
            raise ValueError(f"the frames have {total} minutes in total, not {self.minutes}.")
        return self

    def starts(self) -> list[float]:
        """Return the minute at which each frame starts."""
        return [sum(frame.minutes for frame in self.frames[:i]) for i in range(len(self.frames))]


class Deck(Fields):
    """All sessions, by the name in their address (`?present=1`)."""

    sessions: dict[Literal["1", "2", "short"], Session]


@cache
def sessions() -> dict[str, Session]:
    """Return the sessions by name. Raises `LessonError`."""
    return fields_of(Deck, FILE.read_text(encoding="utf-8"), FILE.name).sessions


def session_json(name: Any, models: Models) -> str:
    """Return a session for the page, as JSON; "" for an unknown name."""
    if not isinstance(name, str) or not (session := sessions().get(name)):
        return ""
    frames = [
        {
            **frame.model_dump(include={"title", "minutes", "notes", "answer"}),
            "start": start, "hides": frame.hide or bool(frame.answer), "stage": frame.stage(models),
        }
        for frame, start in zip(session.frames, session.starts(), strict=True)
    ]  # fmt: skip
    return json.dumps({"name": name, "title": session.title, "minutes": session.minutes, "frames": frames})


def plan_html(shows: str) -> str:
    """Return the frames of a session as a table, or all "misconceptions", each with a link to the frame that corrects it."""
    if shows == "misconceptions":
        heads = ("misconception", "frame that corrects it")
        rows = [
            (html.escape(frame.corrects), _link(name, i, f"session {name}, frame {i}"))
            for name in ("1", "2") for i, frame in enumerate(sessions()[name].frames, 1) if frame.corrects
        ]  # fmt: skip
    else:
        session, heads = sessions()[shows], ("time", "frame")
        rows = [
            (minute(start), _link(shows, i, frame.title))
            for i, (frame, start) in enumerate(zip(session.frames, session.starts(), strict=True), 1)
        ]
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    body = "".join(f"<tr><td>{first}</td><td>{second}</td></tr>" for first, second in rows)
    return (
        '<div class="la-read"><div class="la-tablebox" tabindex="0" role="group" aria-label="table"><table class="la-table">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></div>"
    )


def minute(start: float) -> str:
    """Return a time in minutes as text, such as "12:30"."""
    return f"{int(start)}:{int(start % 1 * 60):02}"


def _link(session: str, frame: int, text: str) -> str:
    return f'<a href="?present={session}#{frame}" target="_blank" rel="noopener">{html.escape(text)}</a>'
