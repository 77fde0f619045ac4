"""What a decoding run says about itself: drafts, tests, steps, settings and errors.

Every strategy, naive decoding included, reports through these few frozen types, so whoever
watches a run (a trace, a page, a test) learns one vocabulary. Rejected tokens are first-class:
a `Step` holds every drafted row with what became of it.

Knows token ids only. It knows no text, no torch and no model: importing it costs nothing.

Errors a caller can cause form one tree, all of them `ValueError`:

    LookaheadError
      SettingsError   an option is out of range or of the wrong type
      PromptError     the prompt is empty, too long or not text
      MethodError     no such strategy, or an option it does not take
      ModelError      models missing, unusable, or not a pair
      TraceError      a file that is not a trace of ours
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from .numbers import count

ACCEPTED, REJECTED, UNVISITED, WINDOW = "accepted", "rejected", "unvisited", "window"
CORRECTION, BONUS = "correction", "bonus"
RULES = ("auto", "greedy", "coupled", "rejection")
BIT_EXACT, TIE_AWARE = "bit-exact", "tie-aware"  # what drafting can change: nothing, or which of two tied tokens wins
COSTS = ("auto", "typical", "measured")
MOST_NEW_TOKENS = 100_000
MOST_DRAFTED = 64
MOST_SEED = 2**53 - 1  # the largest that every part of a page can hold: a browser's whole numbers have 53 bits
LEAST_DIVISOR = 1e-4  # of logits, as temperature or penalty: by less they are no numbers of float32 any more


class LookaheadError(ValueError):
    """Something the caller can mend. The message names the field, the value and the mend."""

    def __init__(self, field: str, value: Any, mend: str):
        self.field, self.value, self.mend = field, value, mend
        blank = not value.strip() if isinstance(value, str) else isinstance(value, (list, tuple)) and not value
        shown = "empty" if blank else repr(value)
        if len(shown) > 80:
            shown = shown[:76] + "...'" if isinstance(value, str) else shown[:77] + "..."
        super().__init__(f"{field} is {shown}: {mend}")


class SettingsError(LookaheadError):
    """An option is out of range or of the wrong type."""


class PromptError(LookaheadError):
    """The prompt is empty, too long for the model, or not text."""


class MethodError(LookaheadError):
    """No such strategy, or an option that the strategy does not take."""


class ModelError(LookaheadError):
    """Models are missing, cannot be used for speculation, or do not form a pair."""


class TraceError(LookaheadError):
    """A file that is not a trace this version can read."""


class Stopped(Exception):
    """Raised out of long work, by what it reports its progress to, when nobody waits for it any more."""


@dataclass(frozen=True, slots=True)
class Draft:
    """Drafted tokens as a tree: row i hangs below row `parents[i]`, or below the last token (-1).

    A chain, several n-gram candidates and a top-b tree are all `parents`. A parent comes before
    its children. `q[i]` is the distribution row i was sampled from ([vocab] probabilities, given
    drafter put all its mass on that token. `sources[i]` says who drafted the row. `chances[i]` is
    the drafter's own estimate that row i is right where its parent is; empty when it has none.

    The last `window` rows are not drafts of the next tokens but guesses further ahead, run along
    in the same pass (lookahead decoding); they are never tested. `births[i]` says where row i's
    n-gram was found: (step, column) of that window, or None.
    """

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    q: tuple[Any, ...] | None = None
    sources: tuple[str, ...] = ()
    chances: tuple[float, ...] = ()
    window: int = 0
    births: tuple[tuple[int, int] | None, ...] = ()

    def __post_init__(self) -> None:
        n = len(self.tokens)
        assert len(self.parents) == n, "one parent for every drafted row"
        assert all(-1 <= p < i for i, p in enumerate(self.parents)), "parents come first"
        assert self.q is None or len(self.q) == n
        assert len(self.chances) in (0, n)
        assert len(self.births) in (0, n)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def tested(self) -> int:
        """How many rows, the first ones, are there to be tested."""
        return len(self.tokens) - self.window

    @classmethod
    def chain(
        cls, tokens: Sequence[int], source: str, q: Sequence[Any] | None = None, chances: Sequence[float] = ()
    ) -> Draft:
        """A draft without branches."""
        n = len(tokens)
        return cls(tuple(tokens), tuple(range(-1, n - 1)), tuple(q) if q else None, (source,) * n, tuple(chances))

    def pruned(self, rows: Sequence[int]) -> Draft:
        """Only these rows, which come in order and never without their parents."""
        if len(rows) == len(self.tokens):
            return self
        index = {-1: -1} | {row: i for i, row in enumerate(rows)}

        def of(values: Sequence[Any]) -> tuple[Any, ...]:
            return tuple(values[row] for row in rows) if values else ()

        return Draft(
            of(self.tokens), tuple(index[self.parents[row]] for row in rows), of(self.q) if self.q else None,
            of(self.sources), of(self.chances), 0, of(self.births),
        )  # fmt: skip


EMPTY = Draft()


@dataclass(frozen=True, slots=True)
class Test:
    """One look at one token: what the target thought of it and what came of it.

    `row` is the drafted row that was tested, or None for the token the target adds itself.
    `p` and `q` are the target's and the drafter's probability of `token`; `draw` is the uniform
    number the rejection rule drew. `entropy` (nats) and `top` (the target's favourites as
    (token, probability)) describe the target's distribution at this position; they are filled
    in for the test that settled the position, and empty for those before it. `margin` is how far
    the winner led the runner-up in the scores that decided (shared noise included); None where a
    draw decided.
    """

    __test__ = False  # a noun of the field, not a test case

    row: int | None
    token: int
    outcome: str
    p: float | None = None
    q: float | None = None
    draw: float | None = None
    entropy: float | None = None
    top: tuple[tuple[int, float], ...] = ()
    margin: float | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One pass of the target, and everything around it.

    `kind` is "prefill" (the prompt is read; nothing is emitted) or "verify". `path` holds the
    accepted rows in order, `emitted` the tokens this step added to the text and `origins` where
    each came from: "accepted" (drafted), "correction" (the target's own, after a rejection) or
    "bonus" (the target's own, nothing refused; every naive token is one). Times are seconds:
    drafting, the target's pass, and the rest of the loop. `finish` is None until the last step:
    "eos", "stop", "length" or "context".
    """

    kind: str
    index: int
    draft: Draft = EMPTY
    statuses: tuple[str, ...] = ()
    path: tuple[int, ...] = ()
    emitted: tuple[int, ...] = ()
    origins: tuple[str, ...] = ()
    tests: tuple[Test, ...] = ()
    propose_s: float = 0.0
    verify_s: float = 0.0
    other_s: float = 0.0
    finish: str | None = None

    @property
    def seconds(self) -> float:
        """All of the step's own time: what a lane's clock adds."""
        return self.propose_s + self.verify_s + self.other_s

    @property
    def accepted(self) -> int:
        """How many drafted tokens were emitted."""
        return self.origins.count(ACCEPTED)


def whole_number(name: str, value: Any, low: int, high: int) -> None:
    """A `SettingsError` unless the value is a whole number in that range."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise SettingsError(name, value, f"give a whole number from {count(low)} to {count(high)}.")


def _number(name: str, value: Any, low: float, high: float, *, above: bool = False) -> None:
    fits = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not fits or not math.isfinite(value) or not low <= value <= high or (above and value == low):
        least = f"above {count(low)}, at most" if above else f"from {count(low)} to"
        raise SettingsError(name, value, f"give a number {least} {count(high)}.")


@dataclass(frozen=True, slots=True)
class Settings:
    """How to decode. Checked on construction; anything out of range is a `SettingsError`.

    `k` is the most tokens to draft in a pass, or "auto". `temperature` 0 is greedy. `top_k` 0
    and `top_p` 1 switch those filters off. `rule` "auto" means greedy at temperature 0 and
    coupled above it. `stop` strings end the text at the token that completes one. `chat` wraps
    the prompt in the model's chat template. `details` records the target's favourites. `costs` selects the pass costs
    that `auto` decides with: "measured" on this machine, or of a "typical" one, with which a race has the same passes on
    every machine. "auto" is "typical" if the family ships such costs.
    """

    max_new_tokens: int = 128
    k: int | str = "auto"
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    seed: int = 0
    rule: str = "auto"
    stop: tuple[str, ...] = field(default=())
    chat: bool = False
    details: bool = True
    costs: str = "auto"

    def __post_init__(self) -> None:
        whole_number("max_new_tokens", self.max_new_tokens, 1, MOST_NEW_TOKENS)
        if self.k != "auto":
            if isinstance(self.k, str):
                raise SettingsError("k", self.k, f'give "auto" or a whole number up to {MOST_DRAFTED}.')
            whole_number("k", self.k, 0, MOST_DRAFTED)
        _number("temperature", self.temperature, 0.0, 100.0)
        whole_number("top_k", self.top_k, 0, 10_000_000)
        _number("top_p", self.top_p, 0.0, 1.0, above=True)
        _number("repetition_penalty", self.repetition_penalty, 0.0, 10.0, above=True)
        for name in ("temperature", "repetition_penalty"):
            if 0 < getattr(self, name) < LEAST_DIVISOR:
                zero = "0, which is greedy, or " if name == "temperature" else ""
                raise SettingsError(name, getattr(self, name), f"give {zero}at least {count(LEAST_DIVISOR)}.")
        whole_number("seed", self.seed, 0, MOST_SEED)
        if self.rule not in RULES:
            raise SettingsError("rule", self.rule, f"choose one of {', '.join(RULES)}.")
        if self.costs not in COSTS:
            raise SettingsError("costs", self.costs, f"choose one of {', '.join(COSTS)}.")
        if self.rule == "greedy" and self.temperature > 0:
            raise SettingsError("rule", self.rule, "greedy needs temperature 0; choose coupled or rejection.")
        if self.rule in ("coupled", "rejection") and self.temperature == 0:
            raise SettingsError("rule", self.rule, "sampling rules need a temperature above 0; choose greedy.")
        stop = (self.stop,) if isinstance(self.stop, str) else self.stop
        if not isinstance(stop, (tuple, list)):
            raise SettingsError("stop", self.stop, "give a text or a list of texts.")
        stop = tuple(stop)
        if len(stop) > 16 or not all(isinstance(s, str) and 0 < len(s) <= 200 for s in stop):
            raise SettingsError("stop", self.stop, "give at most 16 stop strings of 1 to 200 characters.")
        object.__setattr__(self, "stop", stop)
        for name in ("chat", "details"):
            if not isinstance(getattr(self, name), bool):
                raise SettingsError(name, getattr(self, name), "give true or false.")

    @property
    def acceptance(self) -> str:
        """The rule in force: "greedy", "coupled" or "rejection"."""
        if self.rule != "auto":
            return self.rule
        return "coupled" if self.temperature > 0 else "greedy"

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Every option's name."""
        return tuple(f.name for f in fields(cls))
