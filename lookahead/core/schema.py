"""A schema that a text must match: a JSON schema, a list of choices, or a regular expression. It is stored as text."""

import json
from typing import Any, NamedTuple

from .numbers import count

JSON, CHOICES, REGEX = "JSON schema", "choices", "regular expression"
MAX_CHARACTERS = 20_000


class Schema(NamedTuple):
    """A schema of a `kind`. `source` is the text of a JSON schema or a regular expression; `choices` are the allowed texts."""

    kind: str
    source: str
    choices: tuple[str, ...] = ()

    @classmethod
    def from_text(cls, text: str) -> "Schema":
        """Return the schema of a text: a JSON object, a JSON list of texts, else a regular expression. Raises `ValueError`."""
        text = text.strip()
        try:
            value = json.loads(text)
        except RecursionError:
            raise ValueError("it is nested too deeply.") from None
        except json.JSONDecodeError as error:
            if text.startswith("{"):
                hint = f"it is not valid JSON in line {error.lineno}, column {error.colno}: {error.msg}."
                raise ValueError(hint) from None
            return cls(REGEX, text)
        if isinstance(value, dict):
            return cls(JSON, text)
        if isinstance(value, list) and value and all(isinstance(choice, str) for choice in value):
            return cls(CHOICES, text, tuple(value))
        return cls(REGEX, text)


def as_text(value: Any) -> str:
    """Return a schema as text; "" for no schema. Raises `ValueError` with a hint if it is none."""
    if isinstance(value, (dict, list, tuple)) and value:
        try:
            value = json.dumps(value, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError):
            raise ValueError("it has a value that is not JSON.") from None
    if not isinstance(value, str):
        raise ValueError("give a JSON schema, a list of choices or a regular expression.")
    if len(value) > MAX_CHARACTERS:
        raise ValueError(f"it has {count(len(value))} characters, and at most {count(MAX_CHARACTERS)} are allowed.")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise ValueError("it has half of a surrogate pair, which is no character; remove it.")
    if value := value.strip():
        Schema.from_text(value)
    return value
