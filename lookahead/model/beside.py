"""The texts of a batch on all cores: a part of them on each, at the same time.

One text's pass keeps to one core, which reads its weights as fast as memory gives them to it. Of several texts every core
takes some, and reads the weights for these.

Knows threads. It does not know models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import accumulate
from typing import TypeVar

from ..hardware.processor import cores

Given, Answer = TypeVar("Given"), TypeVar("Answer")


def workers(texts: int) -> int:
    """How many cores so many texts keep busy."""
    return max(1, min(cores(), texts))


def balanced(rows: Sequence[int]) -> list[slice]:
    """Texts in order, of so many rows each, in a group for every core, with about as many rows in one as in another."""
    count, whole = workers(len(rows)), sum(rows)
    until = list(accumulate(rows))
    stops = [0]
    for group in range(1, count):
        wanted = whole * group / count
        least, most = stops[-1] + 1, len(rows) - (count - group)  # no group is empty
        stops.append(min(range(least, most + 1), key=lambda stop: abs(until[stop - 1] - wanted)))
    return [slice(first, last) for first, last in zip(stops, [*stops[1:], len(rows)], strict=True)]


def each(work: Callable[[Given], Answer], groups: Sequence[Given]) -> list[Answer]:
    """What `work` answers for each group, all at the same time; the first is done here."""
    others = [_pool().submit(work, group) for group in groups[1:]]
    first = work(groups[0])
    return [first, *(other.result() for other in others)]


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, cores() - 1), thread_name_prefix="batch")
