"""The cost model: what passes take on one machine, and what speculation should bring at that price.

`PassCosts` holds all of it: the target's seconds by rows, what branching adds, and for every draft model its own
curve, the choice of a token and the switch from one model to the other. It is measured by `family`, kept whole
in every trace, and each predicted figure that a reader sees comes from one of its two methods: `predict` expects from
an acceptance rate, `of_passes` prices the passes of a run. What it leaves out is the loop's own work, and passes that
were slower than when they were measured.

Knows numbers. It does not know models, clocks or how the numbers were measured.
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
    """Seconds that one model's pass takes, measured at some row counts (rising), and what branching rows add to it."""

    rows: tuple[int, ...]
    seconds: tuple[float, ...]
    branching_s: float = 0.0

    def pass_s(self, rows: int, branches: int = 1) -> float:
        """Seconds for one pass, between the measured points and past them by straight lines."""
        return theory.interpolate(self.rows, self.seconds, rows) + (self.branching_s if branches > 1 else 0.0)

    def ratio(self, rows: int) -> float:
        """A pass of so many rows in units of a one-row pass."""
        return self.pass_s(rows) / self.pass_s(1)

    def scaled(self, by: float) -> CostCurve:
        """The same on a machine that takes `by` times as long."""
        return CostCurve(self.rows, tuple(by * s for s in self.seconds), by * self.branching_s)


@dataclass(frozen=True, slots=True)
class DrafterCosts:
    """What drafting with a model takes beside its passes; all in seconds.

    `choose_s` is the choice of a token. `cold_s` is what each of a draft's first tokens takes longer than later ones,
    because the target's weights have pushed the draft model's out of the processor's cache, and `return_s` what the
    target's next pass takes longer because the draft model's have pushed out the target's.
    """

    curve: CostCurve
    choose_s: float = 0.0
    cold_s: tuple[float, ...] = ()
    return_s: float = 0.0

    @property
    def token_s(self) -> float:
        """Seconds for a further drafted token: a one-row pass and the choice."""
        return self.tokens_s(1)

    def tokens_s(self, k: int, texts: int = 1) -> float:
        """Seconds for `k` drafted tokens, of so many texts at once."""
        return k * (self.curve.pass_s(texts) + self.choose_s)

    def level_s(self, rows: int = 1) -> float:
        """Seconds for a level of a tree of so many rows; of one row, for a token of a chain."""
        return self.choose_s + self.curve.pass_s(rows, 2 if rows > 1 else 1)

    def switch_s(self, k: int) -> float:
        """Seconds that a draft of `k` tokens takes beyond its own: the switch to the draft model and back."""
        return sum(self.cold_s[:k]) + self.return_s if k else 0.0

    def scaled(self, by: float) -> DrafterCosts:
        """The same on a machine that takes `by` times as long."""
        cold_s = tuple(by * s for s in self.cold_s)
        return DrafterCosts(self.curve.scaled(by), by * self.choose_s, cold_s, by * self.return_s)


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a draft is expected to bring where a `share` of the passes has a draft.

    `tokens` is what a drafted pass emits, `rows` what it has. Its seconds: `verify_s` for the target's pass, `draft_s` for the drafted
    tokens, `switch_s` for the change of models; `plain_s` are those of a pass without a draft.
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
        """Tokens emitted per pass, drafted or not."""
        return self.share * self.tokens + 1 - self.share

    @property
    def cost(self) -> float:
        """A pass with its drafting, in passes without a draft."""
        return self.share * (self.verify_s + self.draft_s + self.switch_s) / self.plain_s + 1 - self.share

    @property
    def speedup(self) -> float:
        """How many times faster than naive."""
        return self.tokens_per_pass / self.cost

    @property
    def leviathan(self) -> float:
        """The same by Leviathan's formula, where verifying costs one pass whatever its rows."""
        return theory.speedup(self.tokens, 1, (self.draft_s + self.switch_s) / self.plain_s)


@dataclass(frozen=True, slots=True)
class PricedRun:
    """What a run should have taken that emitted so many `tokens`: seconds of the target's passes and of drafting;
    `plain_s` are those of a pass without a draft."""

    tokens: int
    plain_s: float
    verify_s: float
    draft_s: float

    @property
    def seconds(self) -> float:
        """Both together."""
        return self.verify_s + self.draft_s

    @property
    def speedup(self) -> float:
        """How many times faster than naive, which emits a token a pass."""
        return self.tokens * self.plain_s / self.seconds


@dataclass(frozen=True, slots=True)
class PassCosts:
    """The target's curve, and what each draft model costs, by its name in the family."""

    target: CostCurve
    drafters: dict[str, DrafterCosts] = field(default_factory=dict)

    def pass_s(self, rows: int, branches: int = 1) -> float:
        """Seconds for one pass of the target."""
        return self.target.pass_s(rows, branches)

    def scaled(self, by: float) -> PassCosts:
        """The same on a machine that takes `by` times as long."""
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
        """What drafting `k` tokens brings where each is accepted with chance `acceptance`.

        `drafter` names the draft model; without one drafting takes no time. What was measured of a run stands in for
        what would be expected: `tokens` emitted by a drafted pass, and `token_s` seconds a drafted token, the switch
        to the draft model included. `rows_per_token` is more than 1 in a tree, `branching` the share of the drafts
        that are trees, `share` that of the passes with a draft, and `texts` how many are continued in one pass.
        """
        rows = texts * (1 + round(k * rows_per_token))
        draft_s, switch_s, costs = 0.0, 0.0, self.drafters.get(drafter or "")
        if token_s is not None:
            draft_s, switch_s = k * token_s, costs.return_s if costs and k else 0.0
        elif costs:
            draft_s, switch_s = costs.tokens_s(k, texts), costs.switch_s(k)
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

        Every pass of either model counts at its measured cost, and every drafted token also at that of its choice. `draft`
        names the draft model. `level_rows` has the rows of its passes by source, as `drafting.level_rows` returns them;
        drafts of other sources are looked up and take no time. If the draft model's costs are unknown, as in an old trace,
        drafting takes the time that was measured.
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
