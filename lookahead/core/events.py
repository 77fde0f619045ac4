"""The types of a decoding run: drafts, tests, steps, settings and errors. They can be imported without torch.

All strategies, including naive decoding, report with these types. A `Step` contains every drafted row, also rejected ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from .numbers import count
from .schema import as_text

ACCEPTED, REJECTED, UNVISITED, WINDOW = "accepted", "rejected", "unvisited", "window"
CORRECTION, BONUS = "correction", "bonus"
SAME_TEXT, SAME_DISTRIBUTION = ("greedy", "coupled"), ("rejection", "block-verification")  # kept by these rules
LOSSY = ("typical", "relaxed", "ensemble")  # rules that change the text
RULES = ("auto", *SAME_TEXT, *SAME_DISTRIBUTION, *LOSSY)
BIT_EXACT, TIE_AWARE = "bit-exact", "tie-aware"  # drafting never changes a text, or it may swap two tied tokens
COSTS = ("auto", "typical", "measured")
MAX_NEW_TOKENS = 100_000
MAX_DRAFTED = 64
MAX_SEED = 2**53 - 1  # the largest whole number that a browser represents exactly
MIN_DIVISOR = 1e-4  # of logits, as temperature or penalty: smaller divisors overflow float32


class LookaheadError(ValueError):
    """The base of all errors that a caller can fix. The message names the field, the value and a hint."""

    def __init__(self, field: str, value: Any, hint: str):
        self.field, self.value, self.hint = field, value, hint
        blank = not value.strip() if isinstance(value, str) else isinstance(value, (list, tuple)) and not value
        shown = "empty" if blank else repr(value)
        if len(shown) > 80:
            shown = shown[:76] + "...'" if isinstance(value, str) else shown[:77] + "..."
        super().__init__(f"{field} is {shown}: {hint}")


class SettingsError(LookaheadError):
    """An option is out of range or of the wrong type."""


class PromptError(LookaheadError):
    """The prompt is empty, too long for the model, or not text."""


class MethodError(LookaheadError):
    """There is no such strategy, or the strategy has no such option."""


class ModelError(LookaheadError):
    """Models are missing, cannot be used for speculation, or cannot be used together."""


class TraceError(LookaheadError):
    """The file is not a trace that this version can read."""


class Cancelled(Exception):
    """Raised by a progress callback to cancel long work."""


@dataclass(frozen=True, slots=True)
class Translation:
    """The text that a draft model with another tokenizer drafted: the texts of the draft model's tokens.

    It begins after the context. The first `used` tokens gave tokens of the target. A token that ends within a character has
    no text.
    """

    pieces: tuple[str, ...]
    used: int


@dataclass(frozen=True, slots=True)
class Draft:
    """Drafted tokens as a tree: row i is a child of row `parents[i]`, or of the root (-1). Parents come first.

    `q[i]` is the distribution that row i was sampled from: probabilities [vocab] after its ancestors. `q` or `q[i]` is
    None without sampling. `sources[i]` names the drafter of the row. `chances[i]` is the drafter's estimate that row i is
    accepted if its parent is; empty without estimates. The last `window` rows are guesses further ahead (lookahead decoding)
    and are never tested. `ngram_origins[i]` is the (step, column) of the window that produced row i's n-gram, or None.
    `translation` is set if the draft model drafted text.
    """

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    q: tuple[Any, ...] | None = None
    sources: tuple[str, ...] = ()
    chances: tuple[float, ...] = ()
    window: int = 0
    ngram_origins: tuple[tuple[int, int] | None, ...] = ()
    translation: Translation | None = None

    def __post_init__(self) -> None:
        n = len(self.tokens)
        assert len(self.parents) == n, "every drafted row has one parent"
        assert all(-1 <= p < i for i, p in enumerate(self.parents)), "parents come before children"
        assert self.q is None or len(self.q) == n
        assert {len(self.chances), len(self.ngram_origins)} <= {0, n}

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def tested(self) -> int:
        """The number of rows that can be tested: all before the window."""
        return len(self.tokens) - self.window

    @classmethod
    def chain(
        cls, tokens: Sequence[int], source: str, q: Sequence[Any] | None = None, chances: Sequence[float] = (),
        translation: Translation | None = None,
    ) -> Draft:  # fmt: skip
        """Return a draft without branches, from one source."""
        n = len(tokens)
        return cls(
            tuple(tokens), tuple(range(-1, n - 1)), tuple(q) if q else None, (source,) * n, tuple(chances),
            translation=translation,
        )  # fmt: skip

    def continued(
        self, row: int, tokens: Sequence[int], sources: Sequence[str], chances: Sequence[float], q: Sequence[Any] | None = None
    ) -> Draft:  # fmt: skip
        """Return the draft with a chain after `row` (-1: the root)."""
        n, new = len(self.tokens), len(tokens)
        if not new:
            return self
        q = (*(self.q or [None] * n), *(q or [None] * new)) if self.q or q else None
        parents = (*self.parents, row, *range(n, n + new - 1))
        return replace(
            self, tokens=(*self.tokens, *tokens), parents=parents, q=q, sources=(*self.sources, *sources), chances=(*self.chances, *chances)
        )  # fmt: skip

    def pruned(self, rows: Sequence[int]) -> Draft:
        """Return a draft of only these rows, which are in order and include their parents."""
        if len(rows) == len(self.tokens):
            return self
        index = {-1: -1} | {row: i for i, row in enumerate(rows)}

        def selected(values: Sequence[Any]) -> tuple[Any, ...]:
            return tuple(values[row] for row in rows) if values else ()

        return Draft(
            selected(self.tokens), tuple(index[self.parents[row]] for row in rows), selected(self.q) if self.q else None,
            selected(self.sources), selected(self.chances), 0, selected(self.ngram_origins), self.translation,
        )  # fmt: skip


EMPTY = Draft()


@dataclass(frozen=True, slots=True)
class Change:
    """A difference from naive decoding: after the same text, naive writes `token` with probability `p`.

    `lost` is the log-probability of `token` minus that of the written token, in nats.
    """

    token: int
    p: float
    lost: float


@dataclass(frozen=True, slots=True)
class Test:
    """One test of one token.

    `row` is the drafted row, or None for the token that the target adds itself. `outcome` is "accepted", "rejected",
    "correction" or "bonus". `p` and `q` are the token's probabilities under the target and the drafter. `draw` is the random
    number of the rule. Block verification compares it with `limit`, the rejection rule with p/q. The last test of a position
    also has `entropy` (nats), `top` and `margin`. `top` has the target's likeliest tokens with probabilities. `margin` is the
    gap between the two highest scores with shared noise, or None if a random draw decided. `change` is set if a lossy rule
    wrote a token that naive would not have written.
    """

    __test__ = False  # not a test case of pytest

    row: int | None
    token: int
    outcome: str
    p: float | None = None
    q: float | None = None
    draw: float | None = None
    entropy: float | None = None
    top: tuple[tuple[int, float], ...] = ()
    margin: float | None = None
    limit: float | None = None
    change: Change | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One pass of the target.

    `kind` is "prefill" (nothing is emitted) or "verify". `statuses` has "accepted", "rejected", "unvisited" or "window"
    for each drafted row. `path` has the accepted rows in order, `emitted` the tokens added to the text. Their `origins`
    are "accepted" (drafted tokens), "correction" (the target's token after a rejection) or "bonus" (the target's token
    otherwise, as in naive decoding). `propose_s`, `verify_s`, `mask_s` and `other_s` are the seconds of drafting, of the
    target's pass, of the masks of a schema, and of other work. `finish` is None until the last step: "eos", "stop", "length" or "context". `experts` is the number
    of distinct experts that the rows activated, per layer on average. `satisfied` is whether the text matches the schema, in
    the last step of a run with one.
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
    experts: float | None = None
    mask_s: float = 0.0
    satisfied: bool | None = None

    @property
    def seconds(self) -> float:
        """The step's time on its lane's clock."""
        return self.propose_s + self.verify_s + self.mask_s + self.other_s

    @property
    def accepted(self) -> int:
        """The number of drafted tokens that were emitted."""
        return self.origins.count(ACCEPTED)


def whole_number(name: str, value: Any, low: int, high: int) -> None:
    """Raise `SettingsError` unless `value` is a whole number from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise SettingsError(name, value, f"give a whole number from {count(low)} to {count(high)}.")


def _number(name: str, value: Any, low: float, high: float, *, above: bool = False) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not low <= value <= high or (above and value == low):
        least = f"above {count(low)}, at most" if above else f"from {count(low)} to"
        raise SettingsError(name, value, f"give a number {least} {count(high)}.")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a run. Raises `SettingsError` for a value out of range.

    `k` is the most tokens to draft per pass; "auto" maximizes tokens per second. `temperature` 0 is greedy. `top_k` 0
    and `top_p` 1 switch those filters off. `rule` "auto" is greedy at temperature 0, else coupled. `weight`, from 0 to 1, is how
    much a rule of `LOSSY` may change the text. The text ends with a complete `stop` string. `chat` applies the chat template.
    `details` records the target's likeliest tokens. The text matches `schema`: a JSON schema, a list of choices, or a regular
    expression. "" allows any text.

    `costs` selects the pass costs for `k` "auto": "measured" on this machine, or those of a "typical" machine. With
    typical costs, a race has the same passes on every machine. "auto" selects typical costs if the family has them.
    """

    max_new_tokens: int = 128
    k: int | str = "auto"
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    seed: int = 0
    rule: str = "auto"
    weight: float = 0.0
    stop: tuple[str, ...] = field(default=())
    chat: bool = False
    details: bool = True
    costs: str = "auto"
    schema: str = ""

    def __post_init__(self) -> None:
        whole_number("max_new_tokens", self.max_new_tokens, 1, MAX_NEW_TOKENS)
        if self.k != "auto":
            if isinstance(self.k, str):
                raise SettingsError("k", self.k, f'give "auto" or a whole number up to {MAX_DRAFTED}.')
            whole_number("k", self.k, 0, MAX_DRAFTED)
        _number("temperature", self.temperature, 0.0, 100.0)
        whole_number("top_k", self.top_k, 0, 10_000_000)
        _number("top_p", self.top_p, 0.0, 1.0, above=True)
        _number("repetition_penalty", self.repetition_penalty, 0.0, 10.0, above=True)
        for name in ("temperature", "repetition_penalty"):
            if 0 < getattr(self, name) < MIN_DIVISOR:
                zero = "0, which is greedy, or " if name == "temperature" else ""
                raise SettingsError(name, getattr(self, name), f"give {zero}at least {count(MIN_DIVISOR)}.")
        whole_number("seed", self.seed, 0, MAX_SEED)
        for name, value, known in (("rule", self.rule, RULES), ("costs", self.costs, COSTS)):
            if value not in known:
                raise SettingsError(name, value, f"choose one of {', '.join(known)}.")
        if self.rule == "greedy" and self.temperature > 0:
            raise SettingsError("rule", self.rule, "greedy needs temperature 0; choose coupled or rejection.")
        if self.rule in ("coupled", *SAME_DISTRIBUTION) and self.temperature == 0:
            raise SettingsError("rule", self.rule, "sampling rules need a temperature above 0; choose greedy.")
        _number("weight", self.weight, 0.0, 1.0)
        if self.weight and self.rule not in LOSSY:
            raise SettingsError("weight", self.weight, f"only these rules change the text: {', '.join(LOSSY)}.")
        if not isinstance(self.stop, (str, tuple, list)):
            raise SettingsError("stop", self.stop, "give a text or a list of texts.")
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)
        if len(stop) > 16 or not all(isinstance(s, str) and 0 < len(s) <= 200 for s in stop):
            raise SettingsError("stop", self.stop, "give at most 16 stop strings of 1 to 200 characters.")
        object.__setattr__(self, "stop", stop)
        try:
            object.__setattr__(self, "schema", as_text(self.schema))
        except ValueError as error:
            raise SettingsError("schema", self.schema, str(error)) from None
        for name in ("chat", "details"):
            if not isinstance(getattr(self, name), bool):
                raise SettingsError(name, getattr(self, name), "give true or false.")

    @property
    def acceptance(self) -> str:
        """The selected rule, never "auto"."""
        if self.rule != "auto":
            return self.rule
        return "coupled" if self.temperature > 0 else "greedy"

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return tuple(f.name for f in fields(cls))
