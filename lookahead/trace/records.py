"""What a recorded race is told about itself: where it ran, with which models and settings, on what, and what passes cost.

Also the types of all records: what a field may hold, so that a foreign file cannot ask for too much.

Knows records. It does not know what lanes did: that is `schema`.
"""

from __future__ import annotations

from dataclasses import asdict
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ..core.costs import CostCurve, DrafterCosts, PassCosts
from .parsing import at_most

MOST_STEPS = 100_000

Token = Annotated[int, Field(ge=0, lt=1 << 31)]
Row = Annotated[int, Field(ge=-1, lt=1 << 16)]
Text = Annotated[str, Field(max_length=10_000)]
Name = Annotated[str, Field(max_length=200)]
Place = Annotated[str, Field(max_length=10_000)]  # a model: a hub name, or folders of any length
Real = Annotated[float, Field(allow_inf_nan=False, ge=-1e12, le=1e12)]
Seconds = Annotated[float, Field(allow_inf_nan=False, ge=0, le=1e7)]
Whole = Annotated[int, Field(ge=0, lt=1 << 63)]
Tokens = Annotated[list[Token], Field(max_length=200_000, fail_fast=True)]
Rows = Annotated[list[Row], Field(max_length=4096, fail_fast=True)]
Texts = Annotated[list[Text], Field(max_length=200_000, fail_fast=True)]


class Record(BaseModel):
    """Base of the records: nothing unknown passes, nothing changes afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Machine(Record):
    """Where the race ran."""

    cpu: Name
    cores: Annotated[int, Field(ge=1, le=1 << 20)]
    threads: Annotated[int, Field(ge=1, le=1 << 20)]
    device: Name
    dtype: Name
    torch: Name
    price: Annotated[float, Field(gt=0, le=1000)] = 1.0  # a one-row pass in units of the format's quickest


class HeadRecord(Record):
    """A trained head: it reads the target's hidden states behind layers `taps` of `layers`, and drafts `slots` tokens in a
    pass. A `markov` head lets a slot know the token before it, a `confident` one says how likely a slot's token is accepted."""

    name: Name
    taps: Annotated[list[Whole], Field(max_length=4096, fail_fast=True)]
    layers: Annotated[Whole, Field(ge=1)]
    slots: Annotated[Whole, Field(ge=1)]
    markov: bool = False
    confident: bool = False


class ModelNames(Record):
    """Which models raced. `drafts` are draft models by role, `heads` trained heads by kind."""

    spec: Place
    target: Place
    drafts: Annotated[dict[Name, Place], at_most(64)] = {}
    heads: Annotated[dict[Name, HeadRecord], at_most(64)] = {}


class SettingsRecord(Record):
    """The settings in force; `rule` and `costs` are the ones applied, never "auto"."""

    max_new_tokens: Annotated[int, Field(ge=1, le=MOST_STEPS)]
    k: Literal["auto"] | Annotated[int, Field(ge=0, le=4096)]
    temperature: Real
    top_k: Whole
    top_p: Real
    repetition_penalty: Real
    seed: Annotated[int, Field(ge=0, lt=1 << 63)]
    rule: Literal["greedy", "coupled", "rejection"]
    stop: Annotated[list[Name], Field(max_length=16, fail_fast=True)]
    chat: bool
    costs: Literal["typical", "measured"] = "measured"  # traces from before 28 November 2026 lack it


class PromptRecord(Record):
    """What the lanes continued. `typed` is what somebody wrote, where a chat template has put words of its own around it."""

    text: Annotated[str, Field(max_length=2_000_000)]
    tokens: Tokens
    pieces: Texts
    typed: Annotated[str, Field(max_length=2_000_000)] | None = None  # nowhere in traces of before 28 November 2026

    @property
    def shown(self) -> str:
        """What to show of it."""
        return self.text if self.typed is None else self.typed


class CurveRecord(Record):
    """Seconds for one model's pass of so many rows on that machine; see `costs.CostCurve`."""

    rows: Annotated[list[Annotated[int, Field(ge=1, le=1 << 20)]], Field(min_length=1, max_length=64, fail_fast=True)]
    seconds: Annotated[list[Seconds], Field(min_length=1, max_length=64, fail_fast=True)]
    branching_s: Seconds | None = None  # unknown to traces of before November 2026

    @model_validator(mode="after")
    def _is_curve(self) -> CurveRecord:
        if len(self.rows) != len(self.seconds) or any(a >= b for a, b in pairwise(self.rows)):
            raise ValueError("a cost curve needs rising row counts, and seconds for each")
        return self

    def cost_curve(self) -> CostCurve:
        """The curve of the record."""
        return CostCurve(tuple(self.rows), tuple(self.seconds), self.branching_s or 0.0)


class DrafterCostsRecord(Record):
    """What drafting with a model costs; see `costs.DrafterCosts`."""

    curve: CurveRecord
    choose_s: Seconds = 0.0
    cold_s: Annotated[list[Seconds], Field(max_length=64, fail_fast=True)] = []
    return_s: Seconds = 0.0


class Costs(CurveRecord):
    """The cost model of that machine, the target's curve first; see `costs.PassCosts`. Traces of before November 2026
    do not know what draft models cost."""

    drafters: Annotated[dict[Name, DrafterCostsRecord], at_most(16)] = {}

    @classmethod
    def of(cls, costs: PassCosts) -> Self:
        """The record of a cost model."""
        return cls(**asdict(costs.target), drafters={name: asdict(drafter) for name, drafter in costs.drafters.items()})

    def pass_costs(self) -> PassCosts:
        """The cost model of the record."""
        drafters = {
            name: DrafterCosts(record.curve.cost_curve(), record.choose_s, tuple(record.cold_s), record.return_s)
            for name, record in self.drafters.items()
        }
        return PassCosts(self.cost_curve(), drafters)
