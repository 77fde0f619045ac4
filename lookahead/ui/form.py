"""From what a form holds to options: numbers out of text, empty fields named, nothing guessed.

Knows field names and types. Ranges are the settings' business.
"""

from __future__ import annotations

from typing import Any

from ..events import SettingsError

WHOLE = ("max_new_tokens", "top_k", "seed")
REAL = ("temperature", "top_p", "repetition_penalty")


def options(fields: dict[str, Any]) -> dict[str, Any]:
    """Form values by name -> options for `race`. Raises `SettingsError` for what is not a number."""
    out = dict(fields)
    for name in (*WHOLE, *REAL):
        if name in out:
            out[name] = _number(name, out[name], whole=name in WHOLE)
    if not out.get("draft", True):  # no draft model was loaded
        del out["draft"]
    if "k" in out:
        out["k"] = _k(out["k"])
    if "stop" in out:
        out["stop"] = tuple(line for line in str(out["stop"] or "").split("\n") if line)
    return out


def _number(name: str, value: Any, *, whole: bool) -> Any:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise SettingsError(name, value, "give a number.") from None
    if value is None or isinstance(value, bool) or not isinstance(value, (int, float)):
        raise SettingsError(name, value, "the field holds no number; type one.")
    return int(value) if whole and float(value).is_integer() else value


def _k(value: Any) -> Any:
    text = str(value).strip().lower() if value is not None else ""
    if text in ("auto", ""):
        return "auto"
    try:
        number = float(text)
    except ValueError:
        raise SettingsError("k", value, 'give "auto" or a whole number.') from None
    return int(number) if number.is_integer() else number
