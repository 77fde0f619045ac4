"""An errand: work for a page that mostly waits for the network, in a thread of its own, with its computing done at the desk.

A download must not hold up other people's races, and what computes must not disturb them, so an errand waits for its
bytes outside the line and stands in it like everybody for the rest. It is left by closing `follow`; what it is doing
then ends at its next word of progress.

Knows threads and the desk. It does not know what is fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from threading import Event, Thread
from typing import Any, TypeVar

from ..events import LookaheadError
from ..fetch import Stopped
from . import journal
from .desk import LEFT, Ended, Turn, desk

T = TypeVar("T")
EVERY_S = 0.2
STOPPED = "Stopped. The models in use are as they were."
BROKEN = "This broke off because of a fault in Lookahead or in the model's files ({kind}). The models in use are as they were."


class Errand:
    """`work(errand)` is done once somebody follows; `shown` is what it has for the page besides its progress."""

    def __init__(self, work: Callable[[Errand], Any]):
        self.shown: str | None = None
        self._work = work
        self._now: tuple[str, float] | None = None
        self._error: Exception | None = None
        self._left = Event()
        self._turn: Turn | None = None

    def progress(self, text: str, share: float) -> None:
        """Tell how far it is; raises `Stopped` when nobody waits for it any more."""
        turn = self._turn
        if self._left.is_set() or desk.closed or (turn and turn.over()):
            raise Stopped
        self._now = (text, share)

    def compute(self, work: Callable[..., T], *arguments: Any) -> T:
        """The answer of work that is done in the computing thread, in its turn."""
        got: list[T] = []

        def do(turn: Turn) -> str | None:
            try:
                got.append(work(*arguments))
            except Stopped:
                return turn.over() or LEFT
            return None

        turn = self._turn = desk.turn("models", do, limited=False)
        try:
            if self._left.is_set():
                turn.leave()
            why = turn.done.result()
        except CancelledError:
            raise Stopped from None
        except LookaheadError:
            raise
        except Exception as error:  # the desk has logged it
            raise Ended(BROKEN.format(kind=type(error).__name__)) from None
        finally:
            self._turn = None
        if not got:
            raise Ended(words) if (words := turn.words(why)) else Stopped
        return got.pop()

    def follow(self) -> Iterator[tuple[str, float] | None]:
        """(words, share of it done) as they change, None while nothing is new, until its end; raises what it raised."""
        thread, told = Thread(target=self._run, name="lookahead-errand", daemon=True), None
        thread.start()
        try:
            while thread.is_alive():
                thread.join(EVERY_S)
                turn = self._turn
                waiting = turn.waiting() if turn else ""
                now = (waiting, 0.0) if waiting else self._now
                yield None if now == told else now
                told = now
            if self._error:
                raise self._error
        finally:
            self._left.set()
            if turn := self._turn:
                turn.leave()

    def _run(self) -> None:
        try:
            self._work(self)
        except Stopped:
            self._error = Ended(STOPPED)
        except LookaheadError as error:
            self._error = error
        except Exception as error:  # the page gets words, the log the traceback
            journal.fault(kind="models")
            self._error = Ended(BROKEN.format(kind=type(error).__name__))
