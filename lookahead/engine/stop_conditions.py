"""The end of a text: an end-of-sequence token, a stop string, or a length limit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StopConditions:
    """The conditions that end a text: end-of-sequence ids, a stop test on the generated ids, and two length limits."""

    eos: frozenset[int]
    max_new_tokens: int
    context_length: int
    stopped: Callable[[Sequence[int]], bool] | None = None

    def remaining_tokens(self, prompt: int, context: int) -> int:
        """Return how many tokens may still be added to a text of `context` tokens with a prompt of `prompt` tokens."""
        return min(self.max_new_tokens - (context - prompt), self.context_length - context)

    def cut(self, prompt: int, context: list[int], emitted: Sequence[int]) -> tuple[int, str | None]:
        """Return the number of emitted tokens to keep, and the reason why the text ends there (None if it continues)."""
        remaining_tokens = self.remaining_tokens(prompt, len(context))
        for i, token in enumerate(emitted, start=1):
            if token in self.eos:
                return i, "eos"
            if self.stopped and self.stopped([*context[prompt:], *emitted[:i]]):
                return i, "stop"
            if i >= remaining_tokens:
                return i, "length" if remaining_tokens == self.max_new_tokens - (len(context) - prompt) else "context"
        return len(emitted), None
