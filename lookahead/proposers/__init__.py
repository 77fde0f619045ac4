"""The strategies: one file each, and this registry, the only place that knows all of them.

A proposer drafts; it never verifies and never sees the loop. Adding a strategy is adding a file
and a line here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ..accept import Rule
from ..events import MethodError
from ..lm import CachedLM
from .base import Proposer
from .draft import DraftModel
from .naive import Naive
from .ngram import NGram

PROPOSERS: dict[str, type[Proposer]] = {p.name: p for p in (Naive, DraftModel, NGram)}
METHODS: tuple[str, ...] = tuple(PROPOSERS)


def proposer_class(method: str) -> type[Proposer]:
    """The strategy of that name, or a `MethodError` that lists them all."""
    if method not in METHODS:
        raise MethodError("method", method, f"choose one of {', '.join(METHODS)}.")
    return PROPOSERS[method]


def build(method: str, rule: Rule, draft: CachedLM | None, options: Mapping[str, Any]) -> Proposer:
    """A fresh proposer for one run; unknown options raise."""
    cls = proposer_class(method)
    known = [f.name for f in fields(cls.Options)]
    for name in options:
        if name not in known:
            mend = f"its options are: {', '.join(known)}." if known else "it takes no options."
            raise MethodError("option", name, f'unknown to "{method}"; {mend}')
    return cls(rule, draft, cls.Options(**options))


__all__ = ["METHODS", "PROPOSERS", "Proposer", "build", "proposer_class"]
