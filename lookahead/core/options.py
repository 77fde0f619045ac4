"""The keyword options of `decode` and `race`, for type checkers and editors. `Settings` has their defaults and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from typing_extensions import TypedDict  # `extra_items` is newer than Python 3.11


class DecodeOptions(TypedDict, total=False, extra_items=Any):
    """The fields of `Settings`, the name of the draft model or trained head, and the options of the method."""

    max_new_tokens: int
    k: int | Literal["auto"]
    temperature: float
    top_k: int
    top_p: float
    repetition_penalty: float
    seed: int
    rule: Literal["auto", "greedy", "coupled", "rejection", "block-verification", "typical", "relaxed", "ensemble"]
    weight: float
    stop: str | Sequence[str]
    chat: bool
    details: bool
    costs: Literal["auto", "typical", "measured"]
    schema: str | Mapping[str, Any] | Sequence[str]
    draft: str
