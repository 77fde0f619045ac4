"""Every method by name: the strategies that run in the loop, and generators with their own loop."""

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

DRAFT = "draft"  # the default draft model


def all_methods() -> tuple[str, ...]:
    """Return the names of all methods."""
    return (*DRAFTERS, *EXTERNAL)


def text_methods() -> tuple[str, ...]:
    """Return the names of strategies that draft from the text alone."""
    return tuple(name for name, cls in DRAFTERS.items() if cls.text_only() and name != Naive.name)


def method_label(method: str) -> str:
    """Return a method's name with a short description."""
    return f"{method}: {method_class(method).summary.removeprefix('drafts ')}"


def method_class(method: str) -> type[Drafter] | type[ExternalGenerator]:
    """Return the class of a method. Raises `MethodError` with all names if there is no such method."""
    if not isinstance(method, str) or method not in all_methods():
        raise MethodError("method", method, f"choose one of {', '.join(all_methods())}.")
    return DRAFTERS.get(method) or EXTERNAL[method]


def needed_by(method: str) -> str | None:
    """Return the default draft model or trained head of a method; None if it needs none."""
    cls = method_class(method)
    return (cls.draft_model or DRAFT) if cls.needs_draft else None


def drafter_for(method: str, name: str, drafters: Collection[str]) -> str:
    """Return the name of a method's draft model. If none is loaded, `DRAFT` selects a trained head that is accepted."""
    cls = method_class(method)
    if not isinstance(name, str):
        raise MethodError("draft", name, f"give the name of a draft model: {', '.join(sorted(drafters))}.")
    if name == DRAFT and DRAFT not in drafters and getattr(cls, "accepts_head", False):
        heads = (d.draft_model for d in reversed(DRAFTERS.values()) if d.in_hybrid and d.draft_model in drafters)
        return next(heads, name)
    return cls.draft_model or name


def methods_with(drafters: Collection[str]) -> tuple[str, ...]:
    """Return the methods that need no drafter, or one of these draft models and trained heads."""
    return tuple(m for m in all_methods() if not needed_by(m) or drafter_for(m, DRAFT, drafters) in drafters)


def methods_for(models: Models) -> tuple[str, ...]:
    """Return the methods that run with a family: their draft model or trained head is loaded."""
    return tuple(m for m in methods_with({*models.drafts, *models.heads}) if runs_with(method_class(m), models))


def runs_with(cls: type[Drafter] | type[ExternalGenerator], models: Models) -> bool:
    """Return whether a method runs with the target. transformers does not roll back recurrent layers."""
    return not (issubclass(cls, ExternalGenerator) and cls.rolls_back and models.target.is_recurrent)


def option_names(method: str) -> list[str]:
    """Return the names of a method's own options."""
    return [f.name for f in fields(method_class(method).Options)]


def read_options(pairs: Iterable[str]) -> dict[str, Any]:
    """Return `name=value` pairs as options. Whole numbers and decimals are converted; other values are strings."""
    out: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not name:
            raise MethodError("option", pair, "give NAME=VALUE.")
        whole, point, fraction = value.partition(".")
        is_number = whole.lstrip("-").isdecimal() and (fraction.isdecimal() or not point)
        out[name.replace("-", "_")] = (float if point else int)(value) if is_number else value
    return out


def options_of(method: str, options: Mapping[str, Any]) -> Any:
    """Return a method's `Options`. Raises `MethodError` for an unknown option."""
    known = option_names(method)
    for name in options:
        if name not in known:
            hint = f"its options are: {', '.join(known)}." if known else "it takes no options."
            raise MethodError("option", name, f'unknown to "{method}"; {hint}')
    return method_class(method).Options(**options)
