"""An online suffix automaton with counts: where has the text's present ending stood before, and
what followed it there, how often?

Blumer et al. 1985; a state stands for all strings with the same set of endings. A token is added in
constant amortised time, and the longest earlier ending of the text is always one link away.

Knows token ids. It does not know what a draft is.
"""

from __future__ import annotations

MOST_LINKS = 32  # shorter endings beyond so many are not counted: they have been counted often enough


class SuffixAutomaton:
    """States are whole numbers; 0 is the empty string."""

    def __init__(self):
        self._next: list[dict[int, int]] = [{}]
        self._follows: list[dict[int, int]] = [{}]
        self._link: list[int] = [-1]
        self._length: list[int] = [0]
        self._last = 0

    def break_off(self) -> None:
        """What comes next does not continue what came before."""
        self._last = 0

    def extend(self, token: int) -> None:
        """Add a token to the text."""
        state = self._last
        for _ in range(MOST_LINKS):
            if state < 0:
                break
            self._follows[state][token] = self._follows[state].get(token, 0) + 1
            state = self._link[state]
        known = self._next[self._last].get(token)
        if known is not None:  # only after a break: this text begins as another did
            self._last = self._split(self._last, token, known)
            return
        state, new = self._last, self._add(self._length[self._last] + 1)
        while state >= 0 and token not in self._next[state]:
            self._next[state][token] = new
            state = self._link[state]
        self._link[new] = 0 if state < 0 else self._split(state, token, self._next[state][token])
        self._last = new

    def _add(self, length: int, like: int | None = None) -> int:
        self._next.append({} if like is None else dict(self._next[like]))
        self._follows.append({} if like is None else dict(self._follows[like]))
        self._link.append(0 if like is None else self._link[like])
        self._length.append(length)
        return len(self._length) - 1

    def _split(self, state: int, token: int, target: int) -> int:
        """The state of `state`'s longest string and `token`, made out of `target` if need be."""
        length = self._length[state] + 1
        if self._length[target] == length:
            return target
        clone = self._add(length, like=target)
        self._link[target] = clone
        while state >= 0 and self._next[state].get(token) == target:
            self._next[state][token] = clone
            state = self._link[state]
        return clone

    def seen(self) -> tuple[int, int]:
        """(state, length) of the longest ending of the text that something has followed; (0, 0) for none."""
        return self.followed(self._link[self._last] if self._last else 0)

    def followed(self, state: int) -> tuple[int, int]:
        """(state, length) of the longest ending of a state's strings that something has followed; (0, 0) for none."""
        while state > 0 and not self._follows[state]:
            state = self._link[state]
        return (state, self._length[state]) if state > 0 else (0, 0)

    def follows(self, state: int) -> dict[int, int]:
        """What followed this state's strings: token -> how often."""
        return self._follows[state]

    def after(self, state: int, token: int) -> int:
        """The state that `token` leads to."""
        return self._next[state][token]

    def __len__(self) -> int:
        return len(self._length)
