"""The desk: who wants something computed is let in or turned away here, told the place in the line, and entered in the log.

Races and all other long work come past it, so the host's limits hold for whatever a visitor asks for. There is one desk
in a process, as there is one thread that computes.

A turn is ended between two passes: its work asks `over` there, and obeys. A single pass that hangs cannot be ended from
Python; `stuck` tells of it, and /healthz with it, so that whoever watches the server can start it anew.

Knows callables, limits and the computing thread. It does not know what is computed, or who asks.
"""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from time import perf_counter

from .. import worker
from ..events import LookaheadError
from ..limits import Limits
from . import journal

FINISHED, LEFT, LIMIT, CLOSING, FAILED, REFUSED = "finished", "stopped", "limit", "closing", "failed", "refused"
FAULT = "The run broke off because of a fault in Lookahead, not in what you typed. What ran so far is shown."
GRACE_S = 10.0  # work that is not a race may take as long from one step to its next
MOST_LOGGED = 1000  # characters of a prompt that was turned away


class Said(LookaheadError):
    """Something the server has to say, in words that stand for themselves."""

    def __init__(self, words: str):
        ValueError.__init__(self, words)
        self.field, self.value, self.mend = "server", None, words


class Refused(Said):
    """What was asked for was not begun."""


class Ended(Said):
    """What was begun was not finished."""


class Turn:
    """Something to be computed for somebody: in the line, at work, or over. Made by `Desk.turn`."""

    def __init__(self, desk: Desk, kind: str, methods: Sequence[str], limited: bool, prompt: str):
        self.id = secrets.token_hex(4)  # for the log; nobody can reach a run by it
        self.kind, self.methods, self.prompt = kind, tuple(methods), prompt
        self.tokens = 0  # written so far; whoever does the work counts
        self.done: Future[str | None] = Future()
        self._desk, self._limited = desk, limited
        self._asked = perf_counter()
        self._began: float | None = None
        self._come = threading.Event()
        self._end: str | None = None

    @property
    def computed_s(self) -> float:
        """Seconds since its turn came; 0 before."""
        return perf_counter() - self._began if self._began is not None else 0.0

    def waiting(self) -> str:
        """What to tell someone whose turn is still to come; nothing when it has come."""
        ahead, usual = worker.ahead(self.done), worker.usual_s()
        if not ahead:
            return ""
        about = f"; one takes about {max(1, round(usual))} s" if usual else ""
        return f"Waiting: {'one run is' if ahead == 1 else f'{ahead} runs are'} before yours{about}."

    def pause(self, seconds: float, waiting_s: float | None = None) -> None:
        """Wait for news, or so long; `waiting_s` while its turn is still to come."""
        if worker.ahead(self.done):
            self._come.wait(waiting_s or seconds)
        else:
            wait([self.done], seconds)

    def over(self) -> str | None:
        """Asked by the work between two passes: why it must end now, or None."""
        if self._end is None and self._limited and self.computed_s > self._desk.limits.max_run_s:
            self._end = LIMIT
        return self._end

    def end(self, why: str) -> None:
        """Have it ended at the next pass."""
        self._end = self._end or why

    def leave(self) -> None:
        """Nobody waits for it any more. Returns at once: whoever closes a page must not wait for a pass."""
        self.end(LEFT)
        if self.done.cancel():
            self._desk.enter(self, LEFT, perf_counter() - self._asked, 0.0)

    def words(self, why: str | None) -> str | None:
        """What to tell someone whose run was ended by the server, for the reason its work has returned."""
        if why == LIMIT:
            limit = self._desk.limits.max_run_s
            return f"Ended by this server's limit of {limit:g} s of computing; what ran so far is shown."
        return "Ended because this server is shutting down; what ran so far is shown." if why == CLOSING else None

    def stuck(self) -> bool:
        """Whether it has computed for longer than it may, and than it should need to notice."""
        return self._limited and self.computed_s > self._desk.limits.max_run_s + GRACE_S

    def run(self, work: Callable[[Turn], str | None]) -> str | None:
        """The turn has come: do the work, in the computing thread; its answer is why it was ended early, or None."""
        self._began, outcome = perf_counter(), FAILED
        self._come.set()
        self._desk.begun[self.kind] += 1
        try:
            why = work(self)
            outcome = why or FINISHED
            return why
        except LookaheadError:
            outcome = REFUSED
            raise
        except Exception:
            journal.fault(id=self.id, kind=self.kind, prompt=self.prompt)
            raise
        finally:
            computed, waited = self.computed_s, self._began - self._asked
            self._began = None
            self._desk.enter(self, outcome, waited, computed)


class Desk:
    """Lets in, turns away, closes, counts. `counts` is by (kind, outcome)."""

    def __init__(self) -> None:
        self.limits = Limits()
        self.counts: Counter[tuple[str, str]] = Counter()
        self.begun: Counter[str] = Counter()
        self.tokens = 0
        self.waited_s = self.computed_s = 0.0
        self._closed = False
        self._turns: set[Turn] = set()
        self._lock = threading.Lock()

    def open(self, limits: Limits) -> None:
        """Begin to serve, within these limits."""
        self.limits, self._closed = limits, False

    def close(self) -> None:
        """Let nobody in any more, and have everything ended at its next pass."""
        with self._lock:
            self._closed, turns = True, list(self._turns)
        for turn in turns:
            turn.end(CLOSING)

    @property
    def closed(self) -> bool:
        """Whether nobody is let in any more."""
        return self._closed

    def turn(
        self,
        kind: str,
        work: Callable[[Turn], str | None],
        methods: Sequence[str] = (),
        limited: bool = True,
        prompt: str = "",
    ) -> Turn:
        """Take a place in the line. Raises `Refused` where there is none.

        `limited=False` is for what takes as long as it takes, whoever asks: loading a model.
        """
        turn = Turn(self, kind, methods, limited, prompt)
        with self._lock:
            if self._closed:
                raise Refused("This server is shutting down. Try again in a minute.")
            try:
                turn.done = worker.submit(turn.run, work, most=self.limits.max_waiting)
            except worker.Full:
                raise Refused(self._full()) from None
            self._turns.add(turn)
        turn.done.add_done_callback(lambda _: self._turns.discard(turn))
        return turn

    def refuse(self, kind: str, error: LookaheadError, prompt: str = "") -> None:
        """Enter that something was turned away. The error's own words may quote what was typed: they are not for the log."""
        with self._lock:
            self.counts[kind, REFUSED] += 1
        journal.say(
            "refused", kind=kind, field=error.field, private={"prompt": prompt[:MOST_LOGGED], "words": str(error)}
        )

    def enter(self, turn: Turn, outcome: str, waited_s: float, computed_s: float) -> None:
        """Enter what became of a turn."""
        with self._lock:
            self.counts[turn.kind, outcome] += 1
            self.tokens += turn.tokens
            self.waited_s += waited_s
            self.computed_s += computed_s
        journal.say(
            "run", id=turn.id, kind=turn.kind, outcome=outcome, methods=list(turn.methods), tokens=turn.tokens,
            waited_s=round(waited_s, 3), computed_s=round(computed_s, 3), private={"prompt": turn.prompt},
        )  # fmt: skip

    def idle(self) -> bool:
        """Whether nothing is at work or in the line."""
        return not self._turns

    def stuck(self) -> bool:
        """Whether something computes that should have ended long ago: a pass hangs."""
        return any(turn.stuck() for turn in list(self._turns))

    def _full(self) -> str:
        waiting, usual = worker.waiting(), worker.usual_s()
        about = f" Try again in about {max(1, round(waiting * usual / 60))} min." if usual else " Try again later."
        return f"{waiting} runs are waiting, as many as this server lets wait.{about}"


desk = Desk()
