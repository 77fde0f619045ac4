"""The texts of a batch, or the parts of a long prompt, on all cores at the same time.

One text's pass keeps to one core, which reads its weights as fast as memory gives them to it. Of several texts every core
takes some, and reads the weights for these.

Knows threads. It does not know models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import lru_cache
from heapq import heappop, heappush
from typing import TypeVar

from .processor import cores

Given, Answer = TypeVar("Given"), TypeVar("Answer")


def workers(texts: int) -> int:
    """How many cores so many texts keep busy."""
    return max(1, min(cores(), texts))


def balanced(rows: Sequence[int]) -> list[list[int]]:
    """Texts by number, of so many rows each, in a group for every core, with about as many rows in one as in another: the
    longest first, each to the core that has least."""
    groups: list[tuple[int, int, list[int]]] = [(0, core, []) for core in range(workers(len(rows)))]
    for text in sorted(range(len(rows)), key=lambda text: -rows[text]):
        taken, core, texts = heappop(groups)
        heappush(groups, (taken + rows[text], core, [*texts, text]))
    return [texts for _, _, texts in groups]


def each(work: Callable[[Given], Answer], groups: Sequence[Given]) -> list[Answer]:
    """What `work` answers for each group, all at the same time; the first is done here. An error is raised when nobody computes
    any more."""
    others = [_pool().submit(work, group) for group in groups[1:]]
    try:
        first = work(groups[0])
    finally:
        wait(others)
    return [first, *(other.result() for other in others)]


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, cores() - 1), thread_name_prefix="beside")
