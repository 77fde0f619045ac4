"""Convert text to token ids and back: prompts, stop strings, and the text that each token adds.

A token may be a part of a character. Its text is returned with the token that completes the character, so the joined pieces
are exactly the text.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..core.events import PromptError, SettingsError
from ..core.numbers import count
from ..core.wording import short_error

if TYPE_CHECKING:
    from transformers.tokenization_utils_base import PreTrainedTokenizerBase

MAX_CHARACTERS = 1_000_000
BROKEN = "\ufffd"
LEAD = 4  # earlier ids to decode with the new ones, because a character may begin in them


def encode_prompt(
    tokenizer: PreTrainedTokenizerBase, prompt: Any, *, chat: bool, vocab: int, context_length: int
) -> list[int]:
    """Return the ids of a prompt (text or ids). Raises `PromptError` if it is invalid or fills the model's context."""
    if isinstance(prompt, str):
        ids = _encode_text(tokenizer, prompt, chat, context_length)
    elif (isinstance(prompt, Sequence) and not isinstance(prompt, (bytes, bytearray))) or hasattr(prompt, "tolist"):
        ids = prompt.tolist() if hasattr(prompt, "tolist") else list(prompt)
        for token in ids if isinstance(ids, list) else [ids]:
            if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < vocab:
                raise PromptError("prompt", token, f"give token ids from 0 to {count(vocab - 1)}, in one flat list.")
    else:
        raise PromptError("prompt", prompt, "give text or a list of token ids.")
    if not ids:
        raise PromptError("prompt", prompt, "type some text to continue.")
    if unknown := [token for token in ids if token >= vocab]:
        text = tokenizer.decode(unknown[:1])
        raise PromptError("prompt", text, f"the model has no embedding for this token (id {unknown[0]}); remove it.")
    if len(ids) >= context_length:
        hint = f"it has {count(len(ids))} tokens and the model's context holds {count(context_length)}; shorten it."
        raise PromptError("prompt", prompt, hint)
    return ids


def check_ids(texts: Sequence[Sequence[int]], vocab: int) -> None:
    """Raise `SettingsError` if one of the earlier texts has an id outside the model's vocabulary."""
    if unknown := [token for text in texts for token in text if token >= vocab]:
        raise SettingsError("earlier", unknown[0], f"give token ids from 0 to {count(vocab - 1)}.")


def _encode_text(tokenizer: PreTrainedTokenizerBase, prompt: str, chat: bool, context_length: int) -> list[int]:
    if not prompt.strip():
        raise PromptError("prompt", prompt, "type some text to continue.")
    if len(prompt) > MAX_CHARACTERS:
        hint = f"it has {count(len(prompt))} characters and the model's context holds {count(context_length)} tokens; shorten it."
        raise PromptError("prompt", prompt, hint)
    for number, character in enumerate(prompt, start=1):
        if unicodedata.category(character) in ("Cc", "Cs") and character not in "\t\n\r\x85":
            hint = f"character {number} is the control character U+{ord(character):04X}; remove it."
            raise PromptError("prompt", prompt, hint)
    if not chat:
        return tokenizer(prompt, verbose=False)["input_ids"]
    return tokenizer(as_chat(tokenizer, prompt), add_special_tokens=False, verbose=False)["input_ids"]


def as_chat(tokenizer: PreTrainedTokenizerBase, message: str, *, reply: bool = True) -> str:
    """Return a user's message in the model's chat template, with the beginning of a `reply`.

    Raises `PromptError` if there is no template, or if it fails or gives no text.
    """
    if not tokenizer.chat_template:
        raise PromptError("chat", True, "this model has no chat template; switch chat off.")
    messages = [{"role": "user", "content": message}]
    try:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=reply)
        text.encode()  # a lone surrogate has no tokens
    except Exception as error:  # a template is a program by the model's authors
        hint = f"this model's chat template fails ({short_error(error)}); switch chat off, or choose another model."
        raise PromptError("chat", True, hint) from error
    if not text:
        raise PromptError("chat", True, "this model's chat template gives no text for this prompt; switch chat off.")
    return text


class StopStrings:
    """Test whether the newest of the ids generated after a prompt completes a stop string."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, stops: Sequence[str], prompt: Sequence[int] = ()):
        self._tokenizer, self._stops, self._before = tokenizer, tuple(stops), list(prompt[-LEAD:])
        # A token is at least one byte, so this many tokens cover the longest stop string.
        self._window = max((len(s.encode("utf-8", "surrogatepass")) for s in stops), default=0) + 1

    def __call__(self, generated: Sequence[int]) -> bool:
        ids = [*self._before, *generated]
        start = len(ids) - min(len(generated), self._window)
        lead = self._decode(ids[max(0, start - LEAD) : start]).rstrip(BROKEN)
        tail = self._decode(ids[max(0, start - LEAD) :])[len(lead) :]
        return any(stop in tail for stop in self._stops)

    def _decode(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(ids, clean_up_tokenization_spaces=False)


class IncrementalDetokenizer:
    """The text that each token of one growing sequence adds."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, prompt: Sequence[int] = ()):
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._start = self._read = 0  # decode from `_start`; the text of the ids before `_read` was returned
        for token in prompt:
            self.add(token)

    def _decode(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)

    def add(self, token: int) -> str:
        """Append a token; return the text that it completes, or "" within a character."""
        self._ids.append(token)
        text = self.flush()
        if text.endswith(BROKEN) and len(self._ids) - self._read < 8:
            return ""
        if text:
            self._start, self._read = self._read, len(self._ids)
        return text

    def flush(self) -> str:
        """Return the text that was not returned yet. It may end within a character."""
        returned = self._decode(self._ids[self._start : self._read])
        return self._decode(self._ids[self._start :])[len(returned) :]

    def decode_draft(self, tokens: Sequence[int], parents: Sequence[int]) -> list[str]:
        """Return the piece of every row of a draft, decoded after the row's ancestors."""
        tail = self._ids[self._start :]
        paths: list[list[int]] = []
        out = []
        for token, parent in zip(tokens, parents, strict=True):
            above = tail if parent < 0 else paths[parent]
            paths.append([*above, token])
            before, text = self._decode(above).rstrip(BROKEN), self._decode(paths[-1]).rstrip(BROKEN)
            out.append(text[len(before) :])
        return out
