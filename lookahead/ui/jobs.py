"""Long work for a page: done in the computing thread, watched from another, stopped when nobody watches.

`follow` hands over the newest value that the work has yielded, so a page that draws slowly leaves
some out and never lags behind. Work is ended where it yields: when nobody watches, when it has computed for as long as
the host allows, when the server shuts down. What it found stays with the page.

Knows generators and the desk. It does not know what is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from ..events import LookaheadError
from .desk import FAULT, Ended, Turn, desk

T = TypeVar("T")
EVERY_S = 0.2


def follow(make: Callable[[], Iterator[T]], kind: str = "lab", limited: bool = True) -> Iterator[T | str | None]:
    """The newest values of the generator `make()` until its end; words while its turn has not come.

    None goes out while there is nothing new: only a generator that yields can be cancelled. Closing this
    one closes the work, at its next value. A `LookaheadError` of the work is raised here; `Ended` says that the work was
    ended by the server, or by a fault in it. `limited=False` is for work that takes as long as it takes.
    """
    newest: list[T] = []

    def work(turn: Turn) -> str | None:
        values = make()
        try:
            why = turn.over()
            while not why:
                try:
                    newest[:] = [next(values)]
                except StopIteration:
                    return None
                why = turn.over()
            return why
        finally:
            values.close()

    try:
        turn, told = desk.turn(kind, work, limited=limited), None
    except LookaheadError as error:
        desk.refuse(kind, error)
        raise
    try:
        while not turn.done.done():
            now = turn.waiting() or (newest[0] if newest else None)
            yield None if now is told else now
            told = now
            turn.pause(EVERY_S)
        why = _result(turn)
        if newest and newest[0] is not told:
            yield newest[0]
        if words := turn.words(why):
            raise Ended(words)
    finally:
        turn.leave()


def _result(turn: Turn) -> str | None:
    try:
        return turn.done.result()
    except LookaheadError:
        raise
    except Exception:  # the page gets words; the log has the traceback
        raise Ended(FAULT) from None
