"""Masks: the tokens that a schema allows after a text. All rows of a pass get their mask along their own path.

A `Grammar` answers for one text after the other; `family/grammar.py` implements it. `Masks` counts the seconds of these answers,
and stores the newest ones, because a drafter and the target often ask for the same text.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Protocol

import torch

from .events import MAX_DRAFTED

STORED = 4 * MAX_DRAFTED  # masks, the newest of a lane


class Grammar(Protocol):
    """A schema for one text. `tokens` is the text without its prompt."""

    def mask(self, tokens: Sequence[int]) -> torch.Tensor | None:
        """Return the allowed tokens as a bool tensor [vocab]. None if the schema does not allow `tokens`, or they have ended."""

    def forced(self, tokens: Sequence[int]) -> int | None:
        """Return the next token of the characters that must follow. They may have other tokens. None if nothing must follow."""

    def satisfied(self, tokens: Sequence[int]) -> bool:
        """Return whether the text may end after `tokens`."""


class Masks:
    """The masks of a lane, whose prompt has `prompt` tokens. `seconds` is the time of all masks so far."""

    def __init__(self, grammar: Grammar, prompt: int):
        self._grammar, self._prompt = grammar, prompt
        self._stored: dict[tuple[int, ...], torch.Tensor | None] = {}
        self.seconds = 0.0

    def rows(self, context: Sequence[int], above: Sequence[Sequence[int]], vocab: int) -> torch.Tensor:
        """Return a mask [rows, vocab]: row i follows `context` and `above[i]`. A row that cannot be reached allows all tokens."""
        begin = perf_counter()
        out = torch.zeros(len(above), vocab, dtype=torch.bool)
        for row, path in zip(out, above, strict=True):
            mask = self._mask([*context, *path])
            if mask is None:
                row.fill_(True)
            else:
                row[: len(mask)] = mask[:vocab]
        self.seconds += perf_counter() - begin
        return out

    def next(self, text: Sequence[int]) -> tuple[int, bool] | None:
        """Return the token that must follow `text`, and whether no other token may follow; None if nothing must follow."""
        begin = perf_counter()
        mask, found = self._mask(text), None
        if mask is not None:
            if int(mask.sum()) == 1:
                found = int(mask.nonzero()), True
            elif (token := self._grammar.forced(text[self._prompt :])) is not None:
                found = token, False
        self.seconds += perf_counter() - begin
        return found

    def allows(self, text: Sequence[int], token: int) -> bool:
        """Return whether `token` may follow `text`."""
        begin = perf_counter()
        mask = self._mask(text)
        self.seconds += perf_counter() - begin
        return mask is not None and token < len(mask) and bool(mask[token])

    def satisfied(self, text: Sequence[int]) -> bool:
        """Return whether `text` may end here."""
        return self._grammar.satisfied(text[self._prompt :])

    def _mask(self, text: Sequence[int]) -> torch.Tensor | None:
        # Texts of a lane differ only in the tokens that may still be rejected, and in their lengths.
        key = (len(text), *text[max(self._prompt, len(text) - MAX_DRAFTED - 1) :])
        if key not in self._stored:
            self._stored[key] = self._grammar.mask(text[self._prompt :])
            if len(self._stored) > STORED:
                del self._stored[next(iter(self._stored))]
        return self._stored[key]
