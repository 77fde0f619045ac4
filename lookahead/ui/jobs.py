"""Long work for a page: done in the computing thread, watched from another, stopped when nobody watches.

`follow` hands over the newest value that the work has yielded, so a page that draws slowly leaves
some out and never lags behind.

Knows generators and the computing thread. It does not know what is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from threading import Event
from time import sleep
from typing import TypeVar

from .. import worker

T = TypeVar("T")
EVERY_S = 0.2


def waiting(work: Future) -> str:
    """What to tell someone whose work has its turn still to come; nothing when it has come."""
    ahead, usual = worker.ahead(work), worker.usual_s()
    if not ahead:
        return ""
    about = f"; one takes about {max(1, round(usual))} s" if usual else ""
    return f"Waiting: {'one run is' if ahead == 1 else f'{ahead} runs are'} before yours{about}."


def follow(make: Callable[[], Iterator[T]]) -> Iterator[T | str | None]:
    """The newest values of the generator `make()` until its end; words while its turn has not come.

    None goes out while there is nothing new: only a generator that yields can be cancelled. Closing this
    one closes the work. What the work raises is raised here.
    """
    newest: list[T] = []
    leave = Event()

    def work() -> None:
        values = make()
        try:
            for value in values:
                newest[:] = [value]
                if leave.is_set():
                    return
        finally:
            values.close()

    done, told = worker.submit(work), None
    try:
        while not done.done():
            now = waiting(done) or (newest[0] if newest else None)
            yield None if now is told else now
            told = now
            sleep(EVERY_S)
        done.result()
        if newest and newest[0] is not told:
            yield newest[0]
    finally:
        leave.set()
        if not done.cancel():
            wait([done])
