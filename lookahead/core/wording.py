"""Settings in words, as on chips and in captions: "temperature 1", "k = 4"; and other programs' errors."""

from collections.abc import Mapping
from typing import Any

LONGEST = 160  # characters of another program's words in a message
WORDS = {
    "max_new_tokens": "{} new tokens at most", "k": "k = {}", "temperature": "temperature {}", "seed": "seed {}",
    "rule": "rule: {}", "top_k": "top-k {}", "top_p": "top-p {}", "repetition_penalty": "repetition penalty {}",
    "stop": "stop at {}", "draft": "draft: {}", "costs": "costs: {}", "options": "{}", "family": "models: {}",
}  # fmt: skip


def in_words(settings: Mapping[str, Any]) -> list[str]:
    """Each of the settings that has words."""
    plain = {name: f"{value:g}" if isinstance(value, float) else value for name, value in settings.items()}
    return [text.format(plain[name]) for name, text in WORDS.items() if name in plain]


def remark(error: Exception) -> str:
    """Return an error of another program as a short remark."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:LONGEST]}"
