"""Votes of a class: students answer a lesson's question on their phones, and the teacher shows the right answer.

A vote is stored in memory only, without names, and nothing is logged. The teacher's tab sends `close` when it closes. If the
tab sends no request for `SILENCE_S`, the vote is deleted. The web server's thread answers all requests, so they need no lock.
They do not wait in the queue of races.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from time import monotonic
from typing import Any

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse
from starlette.routing import Match, Route

from ..trace import assets
from .web import FRESH, NO_ICON

MAX_VOTES, MAX_ANSWERS = 50, 500  # per server, and per vote
MAX_S, SILENCE_S = 7200.0, 180.0  # browsers run the timers of a hidden tab once per minute
MAX_BODY = 1000  # bytes of a request
INVALID = "This request is not valid. Reload the page."
ENDED = "This vote has ended."


class VoteError(Exception):
    """A refused request, with its HTTP status."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Question:
    """A question, its options, the index of the right option, and the reason."""

    text: str
    options: tuple[str, ...]
    right: int
    why: str


@dataclass(slots=True)
class _Vote:
    round: int
    question: Question
    secret: bytes
    opened_s: float
    heard_s: float  # time of the teacher's last request
    is_shown: bool = False
    choices: dict[bytes, int] = field(default_factory=dict)

    def report(self, *, counts: bool, voter: bytes = b"") -> dict[str, Any]:
        """Return the vote for a page. The right answer is part of it after the teacher has shown it."""
        question, numbers = self.question, [0] * len(self.question.options)
        for choice in self.choices.values():
            numbers[choice] += 1
        report = {
            "open": True, "round": self.round, "text": question.text, "options": question.options,
            "answers": len(self.choices), "shown": self.is_shown, "chosen": self.choices.get(voter),
        }  # fmt: skip
        if counts or self.is_shown:
            report["counts"] = numbers
        if self.is_shown:
            report |= {"right": question.right, "why": question.why}
        return report


class Votes:
    """The open votes by code. `questions()` returns all questions by id; `clock()` returns seconds.

    A vote's code and secret come from the teacher's tab, which uses them for all its votes. Secrets, and the tokens of tabs that
    answer, are stored as hashes. Every method raises `VoteError` for a request that it refuses.
    """

    def __init__(self, questions: Callable[[], Mapping[str, Question]], clock: Callable[[], float] = monotonic):
        self._questions, self._clock = questions, clock
        self._votes: dict[str, _Vote] = {}
        self._rounds = count(1)

    def open(self, code: str, secret: str, question: str) -> dict[str, Any]:
        """Open a vote on a question. It replaces the vote of the same code and secret."""
        self._delete_ended()
        questions = self._questions()
        if question not in questions:
            raise VoteError(404, "There is no such question.")
        if code in self._votes:
            self._led(code, secret)
        elif len(self._votes) >= MAX_VOTES:
            raise VoteError(
                429, f"This server has {MAX_VOTES} open votes, which is its limit. Try again in some minutes."
            )
        now = self._clock()
        vote = _Vote(next(self._rounds), questions[question], _hash(secret), now, now)
        self._votes[code] = vote
        return vote.report(counts=True)

    def answer(self, code: str, voter: str, round: int, choice: int) -> dict[str, Any]:
        """Store the answer of a tab, or change it."""
        vote, key = self._current(code), _hash(voter)
        if vote is None:
            raise VoteError(410, ENDED)
        if round != vote.round:
            raise VoteError(409, "The question has changed. Answer the new one.")
        if vote.is_shown:
            raise VoteError(409, "The right answer is shown, so answers no longer change.")
        if not choice < len(vote.question.options):
            raise VoteError(400, INVALID)
        if key not in vote.choices and len(vote.choices) >= MAX_ANSWERS:
            raise VoteError(429, f"This vote has {MAX_ANSWERS} answers, which is its limit.")
        vote.choices[key] = choice
        return vote.report(counts=False, voter=key)

    def read(self, code: str, voter: str) -> dict[str, Any]:
        """Return the vote for a tab that answers."""
        vote = self._current(code)
        return vote.report(counts=False, voter=_hash(voter)) if vote else {"open": False}

    def watch(self, code: str, secret: str) -> dict[str, Any]:
        """Return the vote with its counts for the teacher's tab."""
        return self._led(code, secret).report(counts=True) if self._current(code) else {"open": False}

    def show(self, code: str, secret: str) -> dict[str, Any]:
        """Show the right answer to everyone. Answers no longer change."""
        vote = self._led(code, secret)
        vote.is_shown = True
        return vote.report(counts=True)

    def close(self, code: str, secret: str) -> dict[str, Any]:
        """Delete the vote."""
        self._led(code, secret)
        del self._votes[code]
        return {"open": False}

    def _led(self, code: str, secret: str) -> _Vote:
        """Return the vote for its teacher, whose request keeps it open."""
        vote = self._current(code)
        if vote is None:
            raise VoteError(410, ENDED)
        if not hmac.compare_digest(vote.secret, _hash(secret)):
            raise VoteError(403, "This vote belongs to another tab.")
        vote.heard_s = self._clock()
        return vote

    def _current(self, code: str) -> _Vote | None:
        self._delete_ended()
        return self._votes.get(code)

    def _delete_ended(self) -> None:
        now = self._clock()
        for code, vote in list(self._votes.items()):
            if now - vote.opened_s > MAX_S or now - vote.heard_s > SILENCE_S:
                del self._votes[code]


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


_ACTIONS = {
    "open": ("code", "secret", "question"), "answer": ("code", "voter", "round", "choice"), "read": ("code", "voter"),
    "watch": ("code", "secret"), "show": ("code", "secret"), "close": ("code", "secret"),
}  # fmt: skip
_FORMS = {"code": "[A-Z0-9]{4,8}", "secret": "[0-9a-f]{32}", "voter": "[0-9a-f]{32}", "question": "[a-z0-9-]{1,40}"}


def routes(votes: Votes) -> list[Route]:
    """Return the routes of the votes, and of the page with which students answer."""

    async def act(request: Request) -> JSONResponse:
        action = request.path_params["action"]
        try:
            arguments = _arguments(action, await _body(request))
            return JSONResponse(getattr(votes, action)(**arguments), headers=FRESH)
        except VoteError as error:
            return JSONResponse({"error": str(error)}, error.status, headers=FRESH)

    async def ballot(request: Request) -> HTMLResponse:
        page = assets.document(
            "ballot", "Lookahead: a vote", head=NO_ICON, allowed="connect-src 'self'; img-src data:; "
        )
        return HTMLResponse(page, headers=FRESH)

    return [Route("/votes/{action}", act, methods=["POST"]), _WithClass("/", ballot)]


class _WithClass(Route):
    """A route that matches only addresses with `?class=`. Others get the app's page, which is a hundred times larger."""

    def matches(self, scope: Any) -> tuple[Match, Any]:
        if scope["type"] != "http" or "class" not in QueryParams(scope["query_string"]):
            return Match.NONE, {}
        return super().matches(scope)


async def _body(request: Request) -> bytes:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY:
            raise VoteError(413, f"A request has at most {MAX_BODY} bytes.")
    return body


def _arguments(action: str, body: bytes) -> dict[str, Any]:
    """Return the arguments of an action from the body of its request. Raises `VoteError` if any is missing or invalid."""
    if action not in _ACTIONS:
        raise VoteError(404, f"Choose one of {', '.join(_ACTIONS)}.")
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        raise VoteError(400, INVALID) from None
    complete = isinstance(fields, dict) and fields.keys() == {*_ACTIONS[action]}
    if not complete or not all(_is_valid(name, value) for name, value in fields.items()):
        raise VoteError(400, INVALID)
    return fields


def _is_valid(name: str, value: Any) -> bool:
    if name in _FORMS:
        return isinstance(value, str) and re.fullmatch(_FORMS[name], value) is not None
    return type(value) is int and value >= 0
