"""The cost model: what passes take on one machine, and the speedup that follows from it.

`family` measures a `PassCosts`, and every trace contains one. `predict` expects a speedup from an acceptance rate, and
`of_passes` prices the passes of a run. Both leave out the loop's own work, and passes slower than when they were measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import theory
from .events import ACCEPTED
from .tree import branch_count, depths


@dataclass(frozen=True, slots=True)
class CostCurve:
    """Seconds of one model's pass, measured at some row counts (rising), and what branches add to them."""

    rows: tuple[int, ...]
    seconds: tuple[float, ...]
    branching_s: float = 0.0

    def pass_s(self, rows: int, branches: int = 1) -> float:
        """Seconds of one pass, by linear interpolation and extrapolation."""
        return theory.interpolate(self.rows, self.seconds, rows) + (self.branching_s if branches > 1 else 0.0)

    def ratio(self, rows: int) -> float:
        return self.pass_s(rows) / self.pass_s(1)

    def scaled(self, by: float) -> CostCurve:
        """The costs of a machine that takes `by` times as long."""
        return CostCurve(self.rows, tuple(by * s for s in self.seconds), by * self.branching_s)


@dataclass(frozen=True, slots=True)
class DrafterCosts:
    """What drafting with a model costs, in seconds.

    `choose_s` is the choice of a token. After a switch of models the processor's cache holds the other one's weights:
    `cold_s` is what each of a draft's first tokens takes longer, `return_s` what the target's next pass takes longer.
    """

    curve: CostCurve
    choose_s: float = 0.0
    cold_s: tuple[float, ...] = ()
    return_s: float = 0.0

    @property
    def token_s(self) -> float:
        """Seconds of one more drafted token: a one-row pass and the choice."""
        return self.tokens_s(1)

    def tokens_s(self, k: int, texts: int = 1) -> float:
        """Seconds of `k` drafted tokens, of so many texts at once."""
        return k * (self.curve.pass_s(texts) + self.choose_s)

    def level_s(self, rows: int = 1) -> float:
        """Seconds of a level of a tree with so many rows, or of a token of a chain."""
        return self.choose_s + self.curve.pass_s(rows, 2 if rows > 1 else 1)

    def switch_s(self, k: int) -> float:
        """Seconds of switching to the draft model and back, for a draft of `k` tokens."""
        return sum(self.cold_s[:k]) + self.return_s if k else 0.0

    def scaled(self, by: float) -> DrafterCosts:
        cold_s = tuple(by * s for s in self.cold_s)
        return DrafterCosts(self.curve.scaled(by), by * self.choose_s, cold_s, by * self.return_s)


FREE = DrafterCosts(CostCurve((1,), (0.0,)))


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a draft is expected to bring if a `share` of the passes has a draft.

    A drafted pass has `rows` and emits `tokens`. It takes `verify_s` in the target, `draft_s` for the drafted tokens and
    `switch_s` for the change of models; a pass without a draft takes `plain_s`.
    """

    tokens: float
    rows: int
    plain_s: float
    verify_s: float
    draft_s: float
    switch_s: float = 0.0
    share: float = 1.0

    @property
    def tokens_per_pass(self) -> float:
        return self.share * self.tokens + 1 - self.share

    @property
    def cost(self) -> float:
        """A pass with its drafting, in passes without a draft."""
        return self.share * (self.verify_s + self.draft_s + self.switch_s) / self.plain_s + 1 - self.share

    @property
    def speedup(self) -> float:
        return self.tokens_per_pass / self.cost

    @property
    def leviathan(self) -> float:
        """The speedup by Leviathan's formula, in which a pass costs the same for any number of rows."""
        return theory.speedup(self.tokens, 1, (self.draft_s + self.switch_s) / self.plain_s)


@dataclass(frozen=True, slots=True)
class PricedRun:
    """The seconds that a run should have taken in the target's passes and in drafting, and those of a pass without a draft."""

    tokens: int
    plain_s: float
    verify_s: float
    draft_s: float

    @property
    def seconds(self) -> float:
        return self.verify_s + self.draft_s

    @property
    def speedup(self) -> float:
        return self.tokens * self.plain_s / self.seconds


@dataclass(frozen=True, slots=True)
class PassCosts:
    """The target's curve, and what each draft model costs, by its name in the family."""

    target: CostCurve
    drafters: dict[str, DrafterCosts] = field(default_factory=dict)

    def pass_s(self, rows: int, branches: int = 1) -> float:
        return self.target.pass_s(rows, branches)

    def scaled(self, by: float) -> PassCosts:
        return PassCosts(self.target.scaled(by), {name: costs.scaled(by) for name, costs in self.drafters.items()})

    def predict(
        self,
        acceptance: float,
        k: int,
        drafter: str | None = None,
        *,
        tokens: float | None = None,
        token_s: float | None = None,
        rows_per_token: float = 1.0,
        branching: float = 0.0,
        share: float = 1.0,
        texts: int = 1,
    ) -> Prediction:
        """What drafting `k` tokens brings if each is accepted with probability `acceptance`.

        `drafter` names the draft model; without one drafting takes no time. `tokens` emitted per drafted pass, and
        `token_s` seconds per drafted token (with the switch to the draft model), replace expected values by measured ones.
        `rows_per_token` is above 1 in a tree, `branching` the share of drafts that are trees. `texts` share one pass.
        """
        rows = texts * (1 + round(k * rows_per_token))
        costs = self.drafters.get(drafter or "", FREE)
        if token_s is None:
            draft_s, switch_s = costs.tokens_s(k, texts), costs.switch_s(k)
        else:
            draft_s, switch_s = k * token_s, costs.return_s if k else 0.0
        return Prediction(
            tokens=theory.expected_tokens(acceptance, k) if tokens is None else tokens,
            rows=rows,
            plain_s=self.pass_s(texts),
            verify_s=(1 - branching) * self.pass_s(rows) + branching * self.pass_s(rows, 2),
            draft_s=draft_s,
            switch_s=switch_s,
            share=share,
        )

    def of_passes(self, steps: Iterable[Any], draft: str | None, level_rows: Mapping[str, int]) -> PricedRun:
        """What a run's passes (`Step`s or their records, without prefill) should take.

        `draft` names the draft model. `level_rows` has the rows of its passes by source (`drafting.level_rows`); other
        sources take no time. If the draft model's costs are unknown, drafting takes the measured time.
        """
        tokens, verify_s, draft_s, costs = 0, 0.0, 0.0, self.drafters.get(draft or "")
        unread = 1  # tokens that the draft model has not read yet
        for step in steps:
            parents, accepted = step.draft.parents, step.origins.count(ACCEPTED)
            verify_s += self.pass_s(1 + len(parents), branch_count(parents))
            if parents and (rows := level_rows.get(step.draft.sources[0])):
                levels = max(depths(parents))
                if costs is None:
                    draft_s += step.propose_s
                else:
                    # One pass per level: the first also reads what is new, the others one row of a chain or a level.
                    draft_s += costs.curve.pass_s(unread) + costs.choose_s + (levels - 1) * costs.level_s(rows)
                    draft_s += sum(costs.cold_s[:levels])
                    verify_s += costs.return_s
                unread = -min(accepted, levels - 1)
            unread += len(step.emitted)
            tokens += len(step.emitted)
        return PricedRun(tokens, self.pass_s(1), verify_s, draft_s)
