"""One thread computes, for the whole process.

Torch keeps a team of threads for every thread that calls it, and once there are more of them
than cores they stop waiting actively for each other: on two cores a pass then takes nearly twice
as long. A server answers from many threads, so it hands its work to this one, which also loads
and measures the models. It is a queue too, first come, first served: two runs never share the cores.

Knows callables. It does not know what they compute.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from statistics import median_low
from time import perf_counter
from typing import Any, TypeVar

T = TypeVar("T")
LENGTHS = 9
NAME = "lookahead-compute"
_pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=NAME)
_line: list[Future] = []  # what is being done, then what waits
_lengths: deque[float] = deque(maxlen=LENGTHS)  # seconds that the last few took
_began: float | None = None  # when what is being done was begun
_lock = threading.Lock()


class Full(RuntimeError):
    """As many wait as may wait."""


def submit(work: Callable[..., T], *arguments: Any, most: int | None = None) -> Future[T]:
    """Have `work` done after everything that was asked for before it. Raises `Full` where `most` wait already."""
    with _lock:
        if most is not None and len(_line) > most:
            raise Full
        future = _pool.submit(_timed, work, *arguments)
        _line.append(future)
    future.add_done_callback(_leave)
    return future


def ahead(future: Future) -> int:
    """How many things come before this one, the one being done included; 0 once its turn has come."""
    with _lock:
        return _line.index(future) if future in _line else 0


def usual_s() -> float:
    """Seconds that things have taken of late; 0 before the first was done."""
    with _lock:
        return median_low(_lengths) if _lengths else 0.0


def waiting() -> int:
    """How many things wait for their turn."""
    with _lock:
        return max(0, len(_line) - 1)


def computing_s() -> float:
    """For how long the thing being done has been; 0 while nothing is."""
    began = _began
    return perf_counter() - began if began is not None else 0.0


def alive() -> bool:
    """Whether what is asked for would be done; the thread begins with the first thing asked for."""
    threads = [thread for thread in threading.enumerate() if thread.name.startswith(NAME)]
    return bool(threads) or not _line


def _timed(work: Callable[..., T], *arguments: Any) -> T:
    global _began
    start = _began = perf_counter()
    try:
        return work(*arguments)
    finally:
        _began = None
        with _lock:
            _lengths.append(perf_counter() - start)


def _leave(future: Future) -> None:
    with _lock:
        _line.remove(future)


def call(work: Callable[..., T], *arguments: Any) -> T:
    """Have `work` done, and wait for its result."""
    return submit(work, *arguments).result()
