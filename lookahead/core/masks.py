"""Masks: the tokens that a schema allows after a text. Each row of a pass has a mask, which depends on its path.

`Masks` counts the seconds of all masks, and stores the newest ones, because a drafter and the target often use the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from time import perf_counter
from typing import Protocol

import numpy as np
import torch

from .events import MAX_DRAFTED, Draft

STORED = 4 * MAX_DRAFTED  # masks, the newest of a lane


class Grammar(Protocol):
    """A schema for one text; `family/grammar.py` implements it. `tokens` is the text without its prompt."""

    def allowed(self, tokens: Sequence[int]) -> bytes | None:
        """Return the allowed tokens as bits, the lowest first. None if the schema does not allow `tokens`, or after their end."""

    def forced(self, tokens: Sequence[int]) -> int | None:
        """Return the usual next token of the characters that must follow; None if no character must follow."""

    def satisfied(self, tokens: Sequence[int]) -> bool:
        """Return whether the text may end after `tokens`."""
        ...


class Mask:
    """The tokens that may follow a text: `allowed` of `vocab` tokens, and a tensor [vocab] of the `forbidden` ones."""

    def __init__(self, bits: bytes):
        self._bits, self.vocab = bits, 8 * len(bits)
        self.allowed = int.from_bytes(bits, "little").bit_count()

    def __contains__(self, token: int) -> bool:
        return token < self.vocab and bool(self._bits[token >> 3] >> (token & 7) & 1)

    @property
    def only(self) -> int | None:
        """The only allowed token; None if there are several."""
        return int.from_bytes(self._bits, "little").bit_length() - 1 if self.allowed == 1 else None

    @cached_property
    def forbidden(self) -> torch.Tensor:
        return torch.from_numpy(np.unpackbits(~np.frombuffer(self._bits, np.uint8), bitorder="little").view(np.bool_))


class Masks:
    """The masks of a lane, whose prompt has `prompt` tokens. `seconds` is the time of all masks so far."""

    def __init__(self, grammar: Grammar, prompt: int):
        self._grammar, self._prompt = grammar, prompt
        self._stored: dict[tuple[int, ...], Mask | None] = {}
        self.seconds = 0.0

    def forbidden(self, context: Sequence[int], above: Sequence[Sequence[int]], vocab: int) -> torch.Tensor:
        """Return the forbidden tokens [rows, vocab]. Row i follows `context` and `above[i]`.

        In a row that the text cannot reach, no token is forbidden.
        """
        begin, rows = perf_counter(), []
        for path in above:
            mask = self._after([*context, *path])
            row = mask.forbidden[:vocab] if mask else torch.zeros(vocab, dtype=torch.bool)
            rows.append(torch.nn.functional.pad(row, (0, vocab - len(row)), value=True) if len(row) < vocab else row)
        stacked = torch.stack(rows)
        self.seconds += perf_counter() - begin
        return stacked

    def next(self, text: Sequence[int]) -> tuple[int, bool] | None:
        """Return the token that must follow `text`, and whether all others are forbidden; None if nothing must follow."""
        begin, mask = perf_counter(), self._after(text)
        only = mask.only if mask else None
        token = self._grammar.forced(text[self._prompt :]) if mask and only is None else only
        self.seconds += perf_counter() - begin
        return None if token is None else (token, only is not None)

    def pruned(self, draft: Draft, context: Sequence[int]) -> Draft:
        """Return the draft without forbidden rows. Sampled rows stay, because a choice would change the distribution."""
        if draft.window or draft.q:
            return draft
        begin, texts = perf_counter(), {-1: list(context)}
        for row, (token, parent) in enumerate(zip(draft.tokens, draft.parents, strict=True)):
            if parent in texts and (mask := self._after(texts[parent])) and token in mask:
                texts[row] = [*texts[parent], token]
        self.seconds += perf_counter() - begin
        return draft.pruned([row for row in texts if row >= 0])

    def open(self, text: Sequence[int]) -> bool:
        """Return whether most tokens may follow `text`, as inside a string."""
        begin, mask = perf_counter(), self._after(text)
        self.seconds += perf_counter() - begin
        return mask is None or 2 * mask.allowed > mask.vocab

    def satisfied(self, text: Sequence[int]) -> bool:
        """Return whether `text` may end here."""
        return self._grammar.satisfied(text[self._prompt :])

    def _after(self, text: Sequence[int]) -> Mask | None:
        # Texts of a lane differ only in their lengths and in the tokens that may still be rejected.
        key = (len(text), *text[max(self._prompt, len(text) - MAX_DRAFTED - 1) :])
        if key not in self._stored:
            bits = self._grammar.allowed(text[self._prompt :])
            self._stored[key] = None if bits is None else Mask(bits)
            if len(self._stored) > STORED:
                del self._stored[next(iter(self._stored))]
        return self._stored[key]
