"""Labels of settings, as on chips and in captions: "temperature 1", "k = 4"; and short forms of other programs' errors."""

from collections.abc import Mapping
from typing import Any

LONGEST = 160  # characters of another program's message
LABELS = {
    "max_new_tokens": "{} new tokens at most", "k": "k = {}", "temperature": "temperature {}", "seed": "seed {}",
    "rule": "rule: {}", "weight": "weight {}", "top_k": "top-k {}", "top_p": "top-p {}", "repetition_penalty": "repetition penalty {}",
    "stop": "stop at {}", "schema": "with a schema", "draft": "draft: {}", "costs": "costs: {}", "options": "{}", "family": "models: {}",
}  # fmt: skip


def setting_labels(settings: Mapping[str, Any]) -> list[str]:
    """Return a label for each of the settings that has one."""
    values = {name: f"{value:g}" if isinstance(value, float) else value for name, value in settings.items()}
    return [label.format(values[name]) for name, label in LABELS.items() if name in values]


def short_error(error: Exception) -> str:
    """Return the type and the message of another program's error in one short line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:LONGEST]}"
