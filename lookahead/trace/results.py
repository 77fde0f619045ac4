"""Results of a recorded race: statistics, agreement, verdict and trust, as dataclasses that are also dictionaries."""

from __future__ import annotations

from dataclasses import dataclass, fields


class Result(dict):
    """The base of a frozen dataclass whose fields are also its items, so that `json.dumps` and `result["name"]` work."""

    def __post_init__(self) -> None:
        self.update({field.name: getattr(self, field.name) for field in fields(self)})  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Statistics(Result):
    """A lane's counts and rates, under the names that vLLM uses. Times are seconds without prefill.

    A rate is None if its denominator is 0. `accepted_histogram[n]` counts the passes that accepted n drafted tokens.
    `speedup` is relative to naive. `other_fraction` is the share of the time outside models and drafters, `mask_fraction` that
    of a schema's masks; None without a schema.
    """

    method: str
    new_tokens: int
    clock_s: float
    tokens_per_second: float | None
    prefill_s: float
    num_spec_steps: int
    num_draft_tokens: int
    num_accepted_draft_tokens: int
    mean_acceptance_length: float | None
    draft_acceptance_rate: float | None
    acceptance_rate_per_position: list[float]
    accepted_histogram: list[int]
    speedup: float | None
    finish: str | None
    other_fraction: float | None
    mask_fraction: float | None = None


@dataclass(frozen=True, eq=False)
class Badge(Result):
    """Whether a lane wrote naive's text. `identical` is None if the texts may differ.

    The other fields describe the first difference. `position` is the index of the token, and `margin` the distance of naive's
    two best tokens in logits. `pass_number` is the lane's pass that wrote the token, from 1, and `rows` its number of rows.
    """

    identical: bool | None
    badge: str
    detail: str | None = None
    position: int | None = None
    margin: float | None = None
    pass_number: int | None = None
    rows: int | None = None


@dataclass(frozen=True, eq=False)
class Verdict(Result):
    """One sentence on why a lane was fast or slow, and the lines of arithmetic that lead to it."""

    sentence: str
    arithmetic: list[str]


@dataclass(frozen=True, eq=False)
class Trust(Result):
    """Whether naive's passes took about equally long, with a sentence for the reader."""

    steady: bool
    sentence: str
