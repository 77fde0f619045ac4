"""The end of a text: an end-of-sequence token, a stop string, or a length."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ends:
    """What ends a text: end-of-sequence ids, a stop test on the generated ids, and two lengths."""

    eos: frozenset[int]
    most_new: int
    context_length: int
    stopped: Callable[[Sequence[int]], bool] | None = None

    def remaining(self, prompt: int, context: int) -> int:
        """How many more tokens a text of `context` tokens may get, after a prompt of `prompt` tokens."""
        return min(self.most_new - (context - prompt), self.context_length - context)

    def cut(self, prompt: int, context: list[int], emitted: Sequence[int]) -> tuple[int, str | None]:
        """How many of the emitted tokens are kept, and why the text ends there (None: it continues)."""
        room = self.remaining(prompt, len(context))
        for i, token in enumerate(emitted, start=1):
            if token in self.eos:
                return i, "eos"
            if self.stopped and self.stopped([*context[prompt:], *emitted[:i]]):
                return i, "stop"
            if i >= room:
                return i, "length" if room == self.most_new - (len(context) - prompt) else "context"
        return len(emitted), None
