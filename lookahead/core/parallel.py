"""Compute the texts of a batch, or the parts of a long prompt, on all cores."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import lru_cache
from heapq import heappop, heappush
from typing import TypeVar

from .processor import cores

Group, Result = TypeVar("Group"), TypeVar("Result")


def workers(texts: int) -> int:
    """Return the number of cores that `texts` texts can use."""
    return max(1, min(cores(), texts))


def balanced(rows: Sequence[int]) -> list[list[int]]:
    """Return a group of text indices for each core, so that all cores get about the same number of `rows`."""
    groups: list[tuple[int, int, list[int]]] = [(0, core, []) for core in range(workers(len(rows)))]
    for text in sorted(range(len(rows)), key=lambda text: -rows[text]):
        taken, core, texts = heappop(groups)
        heappush(groups, (taken + rows[text], core, [*texts, text]))
    return [texts for _, _, texts in groups]


def map_parallel(work: Callable[[Group], Result], groups: Sequence[Group]) -> list[Result]:
    """Return `work(group)` of every group, computed in parallel. An error is raised after all groups have ended."""
    others = [_pool().submit(work, group) for group in groups[1:]]
    try:
        first = work(groups[0])
    finally:
        wait(others)
    return [first, *(other.result() for other in others)]


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, cores() - 1), thread_name_prefix="parallel")
