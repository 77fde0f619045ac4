"""One thread computes, for the whole process.

Torch keeps a team of threads for every thread that calls it, and once there are more of them
than cores they stop waiting actively for each other: on two cores a pass then takes nearly twice
as long. A server answers from many threads, so it hands its work to this one, which also loads
and measures the models. It is a queue too: two runs never share the cores.

Knows callables. It does not know what they compute.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")
_pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="lookahead-compute")


def submit(work: Callable[..., T], *arguments: Any) -> Future[T]:
    """Have `work` done after everything that was asked for before it."""
    return _pool.submit(work, *arguments)


def call(work: Callable[..., T], *arguments: Any) -> T:
    """Have `work` done, and wait for its result."""
    return submit(work, *arguments).result()
