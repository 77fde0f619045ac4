"""Every method by name: the strategies that run in the loop, and the generators that run in their own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from ..core.events import MethodError
from ..drafting import DRAFTERS, Drafter
from ..drafting.naive import Naive
from .external import EXTERNAL, ExternalGenerator

if TYPE_CHECKING:
    from ..family.models import Models

DRAFT = "draft"  # the draft model of a method that leaves the choice to the caller


def all_methods() -> tuple[str, ...]:
    """The names of all methods."""
    return (*DRAFTERS, *EXTERNAL)


def text_methods() -> tuple[str, ...]:
    """The strategies that draft from the text alone."""
    return tuple(name for name, cls in DRAFTERS.items() if cls.text_only() and name != Naive.name)


def method_label(method: str) -> str:
    """A method's name and what it does, for a list to choose from."""
    return f"{method}: {method_class(method).summary.removeprefix('drafts ')}"


def method_class(method: str) -> type[Drafter] | type[ExternalGenerator]:
    """The method of that name, or a `MethodError` that lists them all."""
    if not isinstance(method, str) or method not in all_methods():
        raise MethodError("method", method, f"choose one of {', '.join(all_methods())}.")
    return DRAFTERS.get(method) or EXTERNAL[method]


def needed_by(method: str) -> str | None:
    """The draft model or trained head that a method drafts with by default; None if it needs none."""
    cls = method_class(method)
    return (cls.draft_model or DRAFT) if cls.needs_draft else None


def drafter_for(method: str, name: str, drafters: Collection[str]) -> str:
    """The draft model that a method drafts with. `DRAFT` is a trained head if no such model is loaded and it accepts heads."""
    cls = method_class(method)
    if not isinstance(name, str):
        raise MethodError("draft", name, f"give the name of a draft model: {', '.join(sorted(drafters))}.")
    if name == DRAFT and DRAFT not in drafters and getattr(cls, "accepts_head", False):
        heads = (d.draft_model for d in reversed(DRAFTERS.values()) if d.in_hybrid and d.draft_model in drafters)
        return next(heads, name)
    return cls.draft_model or name


def methods_with(drafters: Collection[str]) -> tuple[str, ...]:
    """The methods whose drafter is among these draft models and trained heads."""
    return tuple(m for m in all_methods() if not needed_by(m) or drafter_for(m, DRAFT, drafters) in drafters)


def methods_for(models: Models) -> tuple[str, ...]:
    """The methods whose draft model or trained head is loaded."""
    return methods_with({*models.drafts, *models.heads})


def option_names(method: str) -> list[str]:
    """The options of a method that are not settings of the run."""
    return [f.name for f in fields(method_class(method).Options)]


def read_options(pairs: Iterable[str]) -> dict[str, Any]:
    """`name=value` pairs as options: whole numbers become numbers, the rest stays text."""
    out: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not name:
            raise MethodError("option", pair, "give NAME=VALUE.")
        out[name.replace("-", "_")] = int(value) if value.lstrip("-").isdecimal() else value
    return out


def options_of(method: str, given: Mapping[str, Any]) -> Any:
    """A method's options. Raises `MethodError` for unknown ones."""
    known = option_names(method)
    for name in given:
        if name not in known:
            hint = f"its options are: {', '.join(known)}." if known else "it takes no options."
            raise MethodError("option", name, f'unknown to "{method}"; {hint}')
    return method_class(method).Options(**given)
