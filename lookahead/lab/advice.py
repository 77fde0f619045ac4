"""Should I turn it on? From what was measured, the drafter and the draft length that should pay, or "don't".

Every drafter that has been seen at work leaves `Evidence`: how often a tested token stood, in how many
passes it had a draft at all, and what a drafted token took. With the price of rows on this machine that
gives an expected speedup for every draft length. The arithmetic comes along as data, term by term.

What looks at nothing but the text (`ngram`, `suffix`) need not have been raced: a naive recording tells
exactly what every length of it would have done.

Speculation is advised against where the best expectation gains less than `WORTHWHILE`: a formula that
knows neither the loop nor a run's ups and downs is not to be trusted with the rest. Knows numbers and
records. It does not know how they were measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .. import theory
from ..cost import CostCurve
from ..events import ACCEPTED, SettingsError
from ..trace import LaneRecord, Trace
from ..tree import branch_count, depths
from .whatif import METHODS, Recording, what_if

WORTHWHILE = 1.05
KS = tuple(range(1, 17))


@dataclass(frozen=True, slots=True)
class Evidence:
    """A drafter at work.

    `acceptance` is the share of the positions in its drafts that were reached (`tested`) where a token stood, `share`
    that of the passes with a draft, `rows` how many rows a position took (more than 1 in a tree), `branching` the
    share of the drafts that were trees, and `token_s` the seconds that drafting took for a position.
    """

    method: str
    acceptance: float
    tested: int
    share: float
    token_s: float
    rows: float = 1.0
    branching: float = 0.0


@dataclass(frozen=True, slots=True)
class Term:
    """One line of arithmetic: what it is, how it comes about with the numbers filled in, and what it is worth."""

    name: str
    formula: str
    value: float


@dataclass(frozen=True, slots=True)
class Option:
    """A drafter at its best draft length, with the arithmetic; `speedups` are those of every length in `ks`."""

    method: str
    k: int
    speedup: float
    terms: tuple[Term, ...]
    ks: tuple[int, ...]
    speedups: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Advice:
    """`method` and `k` to use, or None and 0 for "don't"; a sentence; and every option, the best first."""

    method: str | None
    k: int
    sentence: str
    options: tuple[Option, ...]


def evidence(trace: Trace) -> list[Evidence]:
    """What the drafting lanes of a race tell; opaque ones, windows and those that never drafted tell nothing."""
    found = [_seen(lane) for lane in trace.lanes if not lane.opaque]
    return [one for one in found if one]


def _seen(lane: LaneRecord) -> Evidence | None:
    drafted = [step for step in lane.verified if step.draft.tokens]
    if not drafted or any(step.draft.window for step in drafted):  # a window's rows do not grow with the draft
        return None
    deep = [max(depths(step.draft.parents)) for step in drafted]
    stood = [step.origins.count(ACCEPTED) for step in drafted]
    # Where a text ends inside a draft, what follows was not looked at.
    cut = [step.finish in ("eos", "stop") for step in drafted]
    tested = sum(a if c else min(d, a + 1) for d, a, c in zip(deep, stood, cut, strict=True))
    spent = sum(step.propose_s for step in lane.verified)
    return Evidence(
        lane.method, sum(stood) / max(1, tested), tested, len(drafted) / len(lane.verified), spent / sum(deep),
        sum(len(step.draft.tokens) for step in drafted) / sum(deep),
        sum(branch_count(step.draft.parents) > 1 for step in drafted) / len(drafted),
    )  # fmt: skip


def advise(
    found: Iterable[Evidence], costs: CostCurve, recording: Recording | None = None, ks: Sequence[int] = KS
) -> Advice:
    """The best of the drafters at its best length, or "don't". Raises `LookaheadError` where nothing was measured.

    With a naive `recording` the lookup drafters are computed from it, whether or not they were raced.
    """
    known = [] if recording is None else [_replayed(recording, method, ks) for method in METHODS]
    replayed = {option.method for option in known}
    options = [*known, *(_option(one, costs, ks) for one in found if one.method not in replayed)]
    options.sort(key=lambda option: -option.speedup)
    if not options:
        raise SettingsError("evidence", "none", "race at least one drafting method, long enough to draft.")
    best = options[0]
    if best.speedup < WORTHWHILE:
        told = (
            f"Don't: the best there is, {best.method} with {best.k} drafted, should give {best.speedup:.2f}x, "
            f"and less than {WORTHWHILE:g}x is not worth having."
        )
        return Advice(None, 0, told, tuple(options))
    told = f"Yes: {best.method}, drafting {best.k}, should give {best.speedup:.2f}x here."
    return Advice(best.method, best.k, told, tuple(options))


def _option(one: Evidence, costs: CostCurve, ks: Sequence[int]) -> Option:
    speedups = tuple(_terms(one, costs, k)[-1].value for k in ks)
    best = max(range(len(ks)), key=lambda i: speedups[i])
    return Option(one.method, ks[best], speedups[best], tuple(_terms(one, costs, ks[best])), tuple(ks), speedups)


def _replayed(recording: Recording, method: str, ks: Sequence[int]) -> Option:
    """A lookup drafter's option, from its exact passes."""
    outcomes = [what_if(recording, method, k) for k in ks]
    best = max(outcomes, key=lambda outcome: outcome.speedup)
    passes, plain = len(best.steps), recording.naive_s / len(recording.tokens)
    cost = best.seconds / passes / plain
    terms = (
        Term("tokens a pass", f"{len(recording.tokens)} tokens / {passes} passes", best.tokens_per_pass),
        Term("cost of a pass", f"{best.seconds / passes * 1e3:.3g} ms / {plain * 1e3:.3g} ms", cost),
        Term("speedup", f"{best.tokens_per_pass:.2f} / {cost:.2f}", best.speedup),
    )
    return Option(method, best.k, best.speedup, terms, tuple(ks), tuple(outcome.speedup for outcome in outcomes))


def _terms(one: Evidence, costs: CostCurve, k: int) -> list[Term]:
    """The expected speedup of `k` drafted tokens in the share of passes that have a draft."""
    a, f, plain = one.acceptance, one.share, costs.pass_s(1)
    tokens = theory.expected_tokens(a, k)
    rows = 1 + round(k * one.rows)
    verify_s = (1 - one.branching) * costs.pass_s(rows) + one.branching * costs.pass_s(rows, 2)
    v, c = verify_s / plain, one.token_s / plain
    won, spent = f * tokens + 1 - f, f * (v + k * c) + 1 - f
    return [
        Term("acceptance", f"of {one.tested} positions tested", a),
        Term("tokens of a drafted pass", f"1 + {a:.2f} + ... + {a:.2f}^{k}", tokens),
        Term("verifying", f"{verify_s * 1e3:.3g} ms for {rows} rows / {plain * 1e3:.3g} ms for 1", v),
        Term("drafting", f"{k} x {one.token_s * 1e3:.3g} ms / {plain * 1e3:.3g} ms", k * c),
        Term("passes with a draft", "share of the passes measured", f),
        Term("tokens a pass", f"{f:.2f} x {tokens:.2f} + {1 - f:.2f}", won),
        Term("cost of a pass", f"{f:.2f} x ({v:.2f} + {k * c:.2f}) + {1 - f:.2f}", spent),
        Term("speedup", f"{won:.2f} / {spent:.2f}", won / spent),
    ]
