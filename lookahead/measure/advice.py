"""Should I turn it on? From what was measured, the drafter and the draft length that should pay, or "don't".

Every drafter that has been seen at work leaves `Evidence`: how often a tested token was accepted, in how many
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
from dataclasses import dataclass, replace

from ..core.costs import PassCosts
from ..core.events import ACCEPTED, SettingsError
from ..core.numbers import decimal, power, ratio, seconds
from ..core.tree import branch_count, depths
from ..trace.schema import LaneRecord
from ..trace.trace import Trace
from .whatif import METHODS, Recording, what_if

WORTHWHILE = 1.05
KS = tuple(range(1, 17))


@dataclass(frozen=True, slots=True)
class Evidence:
    """A drafter at work.

    `acceptance` is the share of the positions in its drafts that were reached (`tested`) where a token was accepted, `share`
    that of the passes with a draft, `rows` how many rows a position took (more than 1 in a tree), `branching` the
    share of the drafts that were trees, `token_s` the seconds that drafting took for a position, and `drafter` the draft
    model.
    """

    method: str
    acceptance: float
    tested: int
    share: float
    token_s: float
    rows: float = 1.0
    branching: float = 0.0
    drafter: str | None = None


@dataclass(frozen=True, slots=True)
class Term:
    """One line of arithmetic: what it is, how it comes about with the numbers filled in, and what it is worth."""

    name: str
    formula: str
    value: float


@dataclass(frozen=True, slots=True)
class Option:
    """A drafter at its best draft length, with the arithmetic; `speedups` are those of all lengths in question."""

    method: str
    k: int
    speedup: float
    terms: tuple[Term, ...]
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
    return [one for lane in trace.lanes if not lane.opaque and (one := _of_lane(lane))]


def _of_lane(lane: LaneRecord) -> Evidence | None:
    drafted = [step for step in lane.verified if step.draft.tokens]
    if not drafted or any(step.draft.window for step in drafted):  # a window's rows do not grow with the draft
        return None
    levels = [max(depths(step.draft.parents)) for step in drafted]
    accepted = [step.origins.count(ACCEPTED) for step in drafted]
    # Where a text ends inside a draft, what follows was not tested.
    ended = [step.finish in ("eos", "stop") for step in drafted]
    tested = sum(a if end else min(n, a + 1) for n, a, end in zip(levels, accepted, ended, strict=True))
    drafting_s = sum(step.propose_s for step in lane.verified)
    return Evidence(
        lane.method, sum(accepted) / max(1, tested), tested, len(drafted) / len(lane.verified), drafting_s / sum(levels),
        sum(len(step.draft.tokens) for step in drafted) / sum(levels),
        sum(branch_count(step.draft.parents) > 1 for step in drafted) / len(drafted), lane.options.get("draft"),
    )  # fmt: skip


def priced_here(drafters: Iterable[Evidence], costs: PassCosts) -> list[Evidence]:
    """The same drafters with what drafting takes on the machine of these `costs`. Whose drafting is not known there is left out:
    what another machine took says nothing."""
    known = costs.drafters
    return [replace(one, token_s=known[one.drafter].token_s) for one in drafters if one.drafter in known]


def advise(
    drafters: Iterable[Evidence], costs: PassCosts, recording: Recording | None = None, ks: Sequence[int] = KS,
    elsewhere: str = "",
) -> Advice:  # fmt: skip
    """The best of the drafters at its best length, or "don't". Raises `LookaheadError` where nothing was measured.

    With a naive `recording` the lookup drafters are computed from it, whether or not they were raced. `elsewhere` names the
    machine that the race ran on, where that is another than this one: its seconds are then left out, and the sentence says so.
    """
    if elsewhere:
        drafters, recording = priced_here(drafters, costs), recording and recording.timed_by(costs)
    source = f" Accepted as in the recording from {elsewhere}; all times are this machine's." if elsewhere else ""
    options = [] if recording is None else [_replayed(recording, method, ks) for method in METHODS]
    replayed = {option.method for option in options}
    options += [_option(one, costs, ks) for one in drafters if one.method not in replayed]
    options.sort(key=lambda option: -option.speedup)
    if not options:
        raise SettingsError("evidence", "none", "race at least one drafting method, long enough to draft.")
    best = options[0]
    if best.speedup < WORTHWHILE:
        sentence = (
            f"Don't: the best there is, {best.method} with {best.k} drafted, should give {ratio(best.speedup)}, "
            f"and less than {ratio(WORTHWHILE)} is not worth having.{source}"
        )
        return Advice(None, 0, sentence, tuple(options))
    sentence = f"Yes: {best.method}, drafting {best.k}, should give {ratio(best.speedup)} here.{source}"
    return Advice(best.method, best.k, sentence, tuple(options))


def _option(one: Evidence, costs: PassCosts, ks: Sequence[int]) -> Option:
    speedups = tuple(_terms(one, costs, k)[-1].value for k in ks)
    best = max(range(len(ks)), key=lambda i: speedups[i])
    return Option(one.method, ks[best], speedups[best], tuple(_terms(one, costs, ks[best])), speedups)


def _replayed(recording: Recording, method: str, ks: Sequence[int]) -> Option:
    """A lookup drafter's option, from its exact passes."""
    outcomes = [what_if(recording, method, k) for k in ks]
    best = max(outcomes, key=lambda outcome: outcome.speedup)
    passes, plain = len(best.steps), recording.naive_s / len(recording.tokens)
    cost = best.seconds / passes / plain
    terms = (
        Term("tokens a pass", f"{len(recording.tokens)} tokens / {passes} passes", best.tokens_per_pass),
        Term("cost of a pass", f"{seconds(best.seconds / passes)} / {seconds(plain)}", cost),
        Term("speedup", f"{decimal(best.tokens_per_pass)} / {decimal(cost)}", best.speedup),
    )
    return Option(method, best.k, best.speedup, terms, tuple(outcome.speedup for outcome in outcomes))


def _terms(one: Evidence, costs: PassCosts, k: int) -> list[Term]:
    """The expected speedup of `k` drafted tokens in the share of passes that have a draft."""
    a, f = one.acceptance, one.share
    expected = costs.predict(
        a, k, one.drafter, token_s=one.token_s, rows_per_token=one.rows, branching=one.branching, share=f
    )
    plain, verify_s = expected.plain_s, expected.verify_s + expected.switch_s
    v, draft = verify_s / plain, expected.draft_s / plain
    return [
        Term("acceptance", f"of {one.tested} positions tested", a),
        Term("tokens of a drafted pass", f"1 + {decimal(a)} + ... + {decimal(a)}{power(k)}", expected.tokens),
        Term("verifying", f"{seconds(verify_s)} for {expected.rows} rows / {seconds(plain)} for 1", v),
        Term("drafting", f"{k} x {seconds(one.token_s)} / {seconds(plain)}", draft),
        Term("passes with a draft", "share of the passes measured", f),
        Term(
            "tokens a pass", f"{decimal(f)} x {decimal(expected.tokens)} + {decimal(1 - f)}", expected.tokens_per_pass
        ),
        Term("cost of a pass", f"{decimal(f)} x ({decimal(v)} + {decimal(draft)}) + {decimal(1 - f)}", expected.cost),
        Term("speedup", f"{decimal(expected.tokens_per_pass)} / {decimal(expected.cost)}", expected.speedup),
    ]
