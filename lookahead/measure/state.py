"""A recurrent state for any target, which shows how a state is rolled back.

Recurrent layers keep a state instead of keys. It is a sum over all tokens that were read, so it cannot be cut to fewer
tokens. The state here is the simplest one: a decaying count of tokens. It is added to the logits, so recent tokens become
likelier. `model/recurrent.py` rolls back the states of real layers in the same way: a snapshot, and a replay in the next pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

DECAY = 0.9  # per token
WEIGHT = 1.0  # logits per count


class Wrapped:
    """A part of the engine with some methods replaced."""

    def __init__(self, part: Any):
        self._part = part

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part, name)


class State:
    """A decaying count of the tokens that were read, [vocab], which is rolled back correctly."""

    def __init__(self, vocab: int):
        self.counts = torch.zeros(vocab)
        self._unread: list[int] = []  # accepted tokens to read in the next pass
        self._rows: list[torch.Tensor] = []  # the states after the rows of the last pass
        self._tokens: list[int] = []

    def read(self, tokens: Sequence[int], parents: Sequence[int]) -> torch.Tensor:
        """Return the states after the rows of a pass, [rows, vocab]. Until `keep`, the state before them is the snapshot."""
        for token in self._unread:
            self.counts = _after(self.counts, token)
        self._unread, self._tokens, self._rows = [], list(tokens), []
        for token, parent in zip(tokens, parents, strict=True):
            self._rows.append(_after(self._rows[parent] if parent >= 0 else self.counts, token))
        return torch.stack(self._rows)

    def keep(self, path: Sequence[int]) -> None:
        """Return to the snapshot. The next pass reads the accepted tokens `path` again, before its own rows."""
        self._unread = [self._tokens[row] for row in path]


class NotRestored(State):
    """A state that stays as the last row left it, so it has read rejected tokens too."""

    def keep(self, path: Sequence[int]) -> None:
        self.counts = self._rows[-1]


def _after(counts: torch.Tensor, token: int) -> torch.Tensor:
    following = DECAY * counts
    following[token] += 1
    return following


class Recurrent(Wrapped):
    """A target with a recurrent state. `kind` is the state's class."""

    def __init__(self, part: Any, kind: type[State] = State):
        super().__init__(part)
        self._kind, self._state = kind, kind(part.vocab)

    def reset(self) -> None:
        self._state = self._kind(self._part.vocab)
        self._part.reset()

    def extend(self, tokens: Sequence[int]) -> torch.Tensor:
        """See `core.lm.LanguageModel`."""
        logits = self.forward(tokens, range(-1, len(tokens) - 1))[-1:]
        self.keep(range(len(tokens)))
        return logits

    def forward(self, tokens: Sequence[int], parents: Sequence[int]) -> torch.Tensor:
        """See `core.lm.LanguageModel`."""
        logits = self._part.forward(tokens, parents)
        return logits + WEIGHT * self._state.read(tokens, parents).to(logits)

    def keep(self, path: Sequence[int]) -> None:
        """See `core.lm.LanguageModel`."""
        self._state.keep(path)
        self._part.keep(path)

    def can_copy_from(self, other: Any) -> bool:
        """Return False: the prompt is read again, because the state is not copied."""
        return False
