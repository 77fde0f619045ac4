"""The cost model: seconds of passes and drafts on one machine, and the speedup that follows from them.

`family` measures a `PassCosts`, and every trace contains one. `predict` computes a speedup from an acceptance rate, and
`price_passes` computes the time of a run's passes. Both leave out the loop's own work and later changes of the machine's
speed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from . import theory
from .events import ACCEPTED
from .tree import branch_count, depths

SHORT_TEXT = 64  # cached tokens after which passes are timed


@dataclass(frozen=True, slots=True)
class CostCurve:
    """Seconds of one model's pass by row count, in rising order, after `SHORT_TEXT` tokens.

    `branching_s` is the extra time of a tree. `experts` are the distinct experts of a mixture that a pass activates, per layer
    on average; empty without experts. `context_s` are the extra seconds per further cached token, by row count; empty if they
    were not measured.
    """

    rows: tuple[int, ...]
    seconds: tuple[float, ...]
    branching_s: float = 0.0
    experts: tuple[float, ...] = ()
    context_s: tuple[float, ...] = ()

    def pass_s(self, rows: int, branches: int = 1) -> float:
        """Return the seconds of one pass, by linear interpolation and extrapolation."""
        return theory.interpolate(self.rows, self.seconds, rows) + (self.branching_s if branches > 1 else 0.0)

    def ratio(self, rows: int) -> float:
        """Return the time of a pass of `rows` rows, divided by that of one row."""
        return self.pass_s(rows) / self.pass_s(1)

    def scaled(self, by: float) -> CostCurve:
        """Return the costs of a machine that takes `by` times as long."""
        seconds, context_s = (tuple(by * s for s in part) for part in (self.seconds, self.context_s))
        return replace(self, seconds=seconds, branching_s=by * self.branching_s, context_s=context_s)

    def at(self, cached: int) -> CostCurve:
        """Return the costs of passes after `cached` tokens."""
        if not self.context_s or cached <= SHORT_TEXT:
            return self
        pairs = zip(self.seconds, self.context_s, strict=True)
        return replace(self, seconds=tuple(s + (cached - SHORT_TEXT) * per_token_s for s, per_token_s in pairs))


@dataclass(frozen=True, slots=True)
class DrafterCosts:
    """Seconds of drafting with a model.

    `choose_s` is the time to choose a token. After a switch of models the CPU's cache holds the weights of the other one.
    `cold_s` is the extra time of each of a draft's first tokens, and `return_s` that of the target's next pass.
    """

    curve: CostCurve
    choose_s: float = 0.0
    cold_s: tuple[float, ...] = ()
    return_s: float = 0.0

    @property
    def token_s(self) -> float:
        """Seconds of one more drafted token: a one-row pass and the choice of the token."""
        return self.curve.pass_s(1) + self.choose_s

    def level_s(self, rows: int = 1) -> float:
        """Return the seconds of a tree level of `rows` rows, or of a token of a chain."""
        return self.choose_s + self.curve.pass_s(rows, 2 if rows > 1 else 1)

    def switch_s(self, k: int) -> float:
        """Return the seconds to switch to the draft model and back when it drafts `k` tokens."""
        return sum(self.cold_s[:k]) + self.return_s if k else 0.0

    def scaled(self, by: float) -> DrafterCosts:
        cold_s = tuple(by * s for s in self.cold_s)
        return DrafterCosts(self.curve.scaled(by), by * self.choose_s, cold_s, by * self.return_s)

    def at(self, cached: int) -> DrafterCosts:
        """Return the costs of drafts after `cached` tokens."""
        return replace(self, curve=self.curve.at(cached))


FREE = DrafterCosts(CostCurve((1,), (0.0,)))


@dataclass(frozen=True, slots=True)
class Prediction:
    """The expected gain of drafting in a `share` of the passes.

    A pass with a draft has `rows` and emits `tokens`. It takes `verify_s` in the target, `draft_s` for the drafted tokens
    and `switch_s` for the change of models. A pass without a draft takes `naive_s`.
    """

    tokens: float
    rows: int
    naive_s: float
    verify_s: float
    draft_s: float
    switch_s: float = 0.0
    share: float = 1.0

    @property
    def tokens_per_pass(self) -> float:
        return self.share * self.tokens + 1 - self.share

    @property
    def cost(self) -> float:
        """The time of a pass with its drafting, divided by the time of a pass without a draft."""
        return self.share * (self.verify_s + self.draft_s + self.switch_s) / self.naive_s + 1 - self.share

    @property
    def speedup(self) -> float:
        return self.tokens_per_pass / self.cost

    @property
    def leviathan(self) -> float:
        """The speedup by Leviathan's formula, which assumes that extra rows are free."""
        return theory.speedup(self.tokens, 1, (self.draft_s + self.switch_s) / self.naive_s)


@dataclass(frozen=True, slots=True)
class PricedRun:
    """The expected seconds of a run: of all target passes, of all drafting, and of a pass without a draft, on average."""

    tokens: int
    naive_s: float
    verify_s: float
    draft_s: float

    @property
    def seconds(self) -> float:
        return self.verify_s + self.draft_s

    @property
    def speedup(self) -> float:
        return self.tokens * self.naive_s / self.seconds


@dataclass(frozen=True, slots=True)
class PassCosts:
    """The costs of the target, and of each draft model by its name in the family."""

    target: CostCurve
    drafters: dict[str, DrafterCosts] = field(default_factory=dict)

    def pass_s(self, rows: int, branches: int = 1) -> float:
        return self.target.pass_s(rows, branches)

    def scaled(self, by: float) -> PassCosts:
        return PassCosts(self.target.scaled(by), {name: costs.scaled(by) for name, costs in self.drafters.items()})

    def at(self, cached: int) -> PassCosts:
        """Return the costs after `cached` tokens."""
        return PassCosts(self.target.at(cached), {name: costs.at(cached) for name, costs in self.drafters.items()})

    def predict(
        self,
        acceptance: float,
        k: int,
        drafter: str | None = None,
        *,
        token_s: float | None = None,
        rows_per_token: float = 1.0,
        branching: float = 0.0,
        share: float = 1.0,
    ) -> Prediction:
        """Predict the speedup of drafting `k` tokens that are each accepted with probability `acceptance`.

        `drafter` names the draft model; without one drafting takes no time. `token_s` is the measured time per drafted
        token with the switch to the draft model, by default the expected time. `rows_per_token` is above 1 in a tree.
        `branching` is the share of drafts that are trees.
        """
        rows = 1 + round(k * rows_per_token)
        costs = self.drafters.get(drafter or "", FREE)
        if token_s is None:
            draft_s, switch_s = k * costs.token_s, costs.switch_s(k)
        else:
            draft_s, switch_s = k * token_s, costs.return_s if k else 0.0
        tokens = theory.expected_tokens(acceptance, k)
        verify_s = (1 - branching) * self.pass_s(rows) + branching * self.pass_s(rows, 2)
        return Prediction(tokens, rows, self.pass_s(1), verify_s, draft_s, switch_s, share)

    def price_passes(
        self, steps: Iterable[Any], draft: str | None, level_rows: Mapping[str, int], prompt: int = 0
    ) -> PricedRun:
        """Compute the expected time of a run's passes (`Step`s or their records, without prefill) after `prompt` tokens.

        `draft` names the draft model. `level_rows` has the rows of its passes by source (`drafting.level_rows`); other
        sources take no time. If the draft model's costs are unknown, the measured drafting time is used.
        """
        tokens, naive_s, verify_s, draft_s = 0, 0.0, 0.0, 0.0
        unread = 1  # tokens that are not in the draft model's cache
        for step in steps:
            parents, accepted, now = step.draft.parents, step.origins.count(ACCEPTED), self.at(prompt + tokens)
            costs = now.drafters.get(draft or "")
            naive_s += len(step.emitted) * now.pass_s(1)
            verify_s += now.pass_s(1 + len(parents), branch_count(parents))
            if parents and (rows := level_rows.get(step.draft.sources[0])):
                levels = max(depths(parents))
                if costs is None:
                    draft_s += step.propose_s
                else:
                    # One pass per level: the first one reads all unread tokens, the others one row of a chain or one level.
                    draft_s += costs.curve.pass_s(unread) + costs.choose_s + (levels - 1) * costs.level_s(rows)
                    draft_s += sum(costs.cold_s[:levels])
                    verify_s += costs.return_s
                unread = -min(accepted, levels - 1)  # accepted tokens that are already in its cache
            unread += len(step.emitted)
            tokens += len(step.emitted)
        return PricedRun(tokens, naive_s / tokens if tokens else self.pass_s(1), verify_s, draft_s)
