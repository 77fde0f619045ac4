"""Read a user's prompts: JSON lines, Spec-Bench files, or plain text with one prompt per line."""

import json
from pathlib import Path
from typing import Any

from ..core.events import SettingsError
from ..core.text_files import decoded, lines
from .timing import Question


def read(path: str) -> list[Question]:
    """Return the prompts in a file of JSON lines; see `parse`. Raises a `SettingsError` if the file cannot be read."""
    return parse(text_of("prompts", path), str(path))


def text_of(name: str, path: str) -> str:
    """Return the text of a file. Raises a `SettingsError` for the setting `name` if it cannot be read."""
    try:
        return decoded(Path(path).read_bytes())
    except OSError as error:
        raise SettingsError(name, path, f"it cannot be read ({error.__class__.__name__}).") from None
    except UnicodeError as error:
        raise SettingsError(name, path, str(error)) from None


def parse(text: str, name: str) -> list[Question]:
    """Parse JSON lines `{"id", "category", "prompt", "chat", "schema"}`, or Spec-Bench's `{"question_id", "category", "turns"}`.

    The first of `turns` is the prompt. Raises a `SettingsError` that names the file `name` and the invalid line.
    """
    questions = []
    for number, line in enumerate(lines(text), start=1):
        if not line.strip():
            continue
        try:
            questions.append(_question(json.loads(line), number))
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            hint = f'line {number} must be {{"id": ..., "category": ..., "prompt": "text", "chat": true or false}}.'
            raise SettingsError("prompts", name, hint) from None
    if not questions:
        raise SettingsError("prompts", name, "it has no prompts.")
    return questions


def pasted(text: str, chat: bool) -> list[Question]:
    """Parse pasted text: JSON lines if it begins with a brace, else one prompt per line. Raises `SettingsError`."""
    text = decoded(text)
    if text.lstrip().startswith("{"):
        return parse(text, "the pasted text")
    prompts = [line.strip() for line in lines(text) if line.strip()]
    if not prompts:
        raise SettingsError("prompts", "nothing", "paste prompts, one per line, or JSON lines.")
    return [Question(str(number), "yours", prompt, chat) for number, prompt in enumerate(prompts, start=1)]


def _question(data: dict[str, Any], number: int) -> Question:
    spec_bench = "turns" in data and "prompt" not in data
    question = Question(
        _encodable(data.get("question_id" if spec_bench else "id", number)), _encodable(data.get("category", "all")),
        data["turns"][0] if spec_bench else data["prompt"], data.get("chat", spec_bench),
        {"schema": data["schema"]} if "schema" in data else {},
    )  # fmt: skip
    if not isinstance(question.prompt, str) or not isinstance(question.chat, bool):
        raise TypeError
    return question


def _encodable(name: Any) -> str:
    """Return a name without lone surrogates: JSON allows them, UTF-8 does not."""
    return str(name).encode(errors="replace").decode()
