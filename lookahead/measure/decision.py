"""Whether to turn speculative decoding on: one `Report`, its sources, and its text, Markdown, CSV and JSON.

`decide` measures methods on a user's prompts within a budget of seconds; `servers.decision` does the same on two servers.
`advise` predicts from a recorded race, `forecast` predicts other draft lengths from two runs.
"""

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import count as turns
from itertools import pairwise, takewhile
from math import log2
from time import perf_counter
from typing import Any, NamedTuple

from ..core import processor
from ..core.acceptance import Acceptance
from ..core.costs import PassCosts
from ..core.events import SettingsError
from ..core.numbers import UNKNOWN, count, decimal, percent, power, ranged, ratio, seconds
from ..core.text_files import csv_text
from ..core.tree import branch_count, depths
from ..drafting import DRAFTERS
from ..engine.methods import text_methods
from ..family.models import Models
from ..trace.race import measured_on
from ..trace.schema import LaneRecord
from ..trace.trace import Trace
from . import batches
from .intervals import interval
from .progress import Arm, Progress, Row, rows_of
from .tables import Table, of_report
from .timing import Entry, Question, Sample, Timing, check, lane_of, read_entry, time_lane
from .whatif import Recording, what_if

PAYS = 1.03  # a measured speedup that is worth having
PREDICTED_PAYS = 1.05  # a predicted one: the formula leaves out the loop, and how much runs vary
KS = tuple(range(1, 17))  # draft lengths that are predicted from a race
SIZES = (1, 2, 4, 8, 16)  # texts at once
LENGTHS, SEEN = tuple(range(1, 9)), 8  # draft lengths that are predicted from runs with 1 and `SEEN`
FULL = 0.5  # of `SEEN`: with a longer mean draft all drafts have one length, but for the last of a text
LEAST_S, MOST_S, MOST_PROMPTS = 5.0, 600.0, 200
RACING, LENGTHS_SHARE = 0.5, 0.15  # of the budget
SURE = 3  # prompts that show that a method is slower
COLUMNS = ("method", *(each.name for each in fields(Row)))
MEANS = ("tokens_per_pass", "drafted_per_pass", "depth_per_pass", "pass_cost", "verify_cost", "draft_cost")
LIMITS = {  # what limits a method, and the change that would gain most
    "acceptance": ("what is accepted", "A draft that knows these texts better would gain most: trained on what the target writes for them."),
    "drafting": ("what drafting takes", "A smaller draft, or one that drafts its tokens in one pass, would gain most."),
    "cost": ("what a pass with its draft takes", "Cheaper passes would gain most: a smaller draft, fewer drafted tokens, or a machine with more computing to its memory."),
    "verifying": ("what verifying takes", "Cheaper rows would gain most: shorter drafts, or a machine with more computing to its memory."),
}  # fmt: skip
Interval = tuple[float, float] | None
Pairs = Sequence[tuple[Timing, Timing]]  # a run and the naive run next to it, for every prompt


class Level(NamedTuple):
    """The speedup with `at_once` texts written together, None if it was not measured."""

    at_once: int
    speedup: float | None
    interval: Interval = None


class Forecast(NamedTuple):
    """The predicted speedup with `k` drafted tokens: the median over prompts."""

    k: int
    speedup: float
    interval: Interval


class Term(NamedTuple):
    """One line of arithmetic: a quantity, its formula with the numbers filled in, and its value."""

    name: str
    formula: str
    value: float


@dataclass(frozen=True, slots=True)
class Option:
    """A method and its speedup: the median over prompts, with its 90% interval.

    The other numbers are means over prompts, None if unknown; costs are in naive passes. A predicted option has a draft
    length `k` and the `terms` of its arithmetic.
    """

    method: str
    prompts: int
    speedup: float
    interval: Interval = None
    acceptance: float | None = None
    identical: bool | None = None
    let_go: bool = False
    tokens_per_pass: float | None = None
    drafted_per_pass: float | None = None
    depth_per_pass: float | None = None
    pass_cost: float | None = None
    verify_cost: float | None = None
    draft_cost: float | None = None
    k: int | None = None
    terms: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """The answer and its reasons. `options` has the fastest method first; `rows` has a mapping for each method and
    prompt. `source` is what was measured, `settings` how. `drafting` completes "On: METHOD" in the sentence.
    """

    options: tuple[Option, ...]
    levels: tuple[Level, ...] = ()
    lengths: tuple[Forecast, ...] = ()
    rows: tuple[Mapping[str, Any], ...] = ()
    source: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    drafting: str = ""
    note: str = ""

    @property
    def best(self) -> Option:
        return self.options[0]

    @property
    def on(self) -> bool:
        """Whether the fastest method is worth having."""
        return pays(self.best, PREDICTED_PAYS if self.best.terms else PAYS)

    @property
    def k(self) -> int | None:
        """The best draft length, None if lengths were not predicted."""
        return max(self.lengths, key=lambda one: one.speedup).k if self.lengths else self.best.k

    @property
    def sentence(self) -> str:
        best = self.best
        if best.terms:
            predicted = f"{best.method}, drafting {best.k}, should give {ratio(best.speedup)} here"
            if self.on:
                return f"Yes: {predicted}.{self.note}"
            return f"Don't: {predicted} at best, and less than {ratio(PREDICTED_PAYS)} is not worth having.{self.note}"
        speed = shown(best) if best.interval else f"{shown(best)}, of one prompt"
        if not self.on:
            return f"Off. The best there is, {best.method}, gives {speed}: no gain that is sure."
        fixed = f" (the best fixed one: {self.k})" if self.lengths else ""
        return f"On: {best.method}{self.drafting}{fixed}. {speed} for one text at a time."

    @property
    def at_once(self) -> str | None:
        """Up to how many texts at once it pays, in a sentence; None if only one load was measured."""
        return texts_at_once(self.levels) if self.levels[1:] else None

    @property
    def limit(self) -> dict[str, Any] | None:
        """The part that would gain most if it were perfect, and the speedups `now` and then; None if it is unknown."""
        best = self.best
        if best.pass_cost is None or best.depth_per_pass is None:
            return None
        tokens, cost = best.tokens_per_pass, best.pass_cost
        perfect = {"acceptance": (1 + best.depth_per_pass) / cost}  # a tree accepts at most one path
        if best.draft_cost is None:
            perfect["cost"] = tokens
        else:
            perfect["drafting"] = tokens / (cost - best.draft_cost)
            perfect["verifying"] = tokens / (cost - max(0.0, best.verify_cost - 1))
        name = max(perfect, key=perfect.get)
        return {"name": name, "now": tokens / cost, "perfect": perfect[name]}

    @property
    def change(self) -> str:
        """What would make it pay, or pay more; "" if that is unknown."""
        best, limit = self.best, self.limit
        if limit is None:
            return ""
        if not best.drafted_per_pass:
            return "Nothing was drafted: these prompts give this method nothing to go by."
        if self.on:
            return LIMITS[limit["name"]][1]
        return (
            f"A pass with its draft costs {decimal(best.pass_cost)} naive passes, so it pays from "
            f"{decimal(best.pass_cost * PAYS)} tokens per pass; here it wrote {decimal(best.tokens_per_pass)}."
        )

    def reasons(self) -> str:
        """Up to how many texts at once it pays, what limits it, and what would help."""
        parts = [f"Several texts at once: {self.at_once}"] if self.at_once else []
        if limit := self.limit:
            parts.append(
                f"It is limited by {LIMITS[limit['name']][0]}: were that perfect, the mean prompt would have {ratio(limit['perfect'])} and "
                f"not {ratio(limit['now'])}."
            )
        return " ".join([*parts, self.change]).strip()

    def table(self) -> Table:
        heads = [
            "method", "speedup", "90% interval", "prompts", "tokens per pass", "accepted", "draft cost", "verify cost",
            "identical",
        ]  # fmt: skip
        same = {True: "yes", False: "no", None: "no text"}
        rows = [
            [
                of.method, ratio(of.speedup), ranged(of.interval), f"{of.prompts}{', let go' if of.let_go else ''}",
                _known(of.tokens_per_pass), percent(of.acceptance), _known(of.draft_cost), _known(of.verify_cost),
                same[of.identical],
            ]
            for of in self.options
        ]  # fmt: skip
        return heads, rows

    def markdown(self) -> str:
        """The answer, its reasons, and the tables."""
        shown, parts = [self.table()], ["# Should I turn it on?", self.sentence, self.reasons()]
        for title, points in (
            (["drafted tokens", f"speedup, predicted from runs with 1 and {SEEN}"], self.lengths),
            (["texts at once", "speedup, measured"], self.levels),
        ):
            rows = [[str(at), ratio(speedup), ranged(sure)] for at, speedup, sure in points if speedup]
            shown.append(([*title, "90% interval"], rows))
        return "\n\n".join([*parts, of_report({**self.source, "note": self.note}, shown)]) + "\n"

    def csv(self) -> str:
        """A row for every method and prompt (RFC 4180)."""
        return csv_text(COLUMNS, ([row.get(name) for name in COLUMNS] for row in self.rows))

    def document(self) -> dict[str, Any]:
        """The report as plain data: what `decide --json` prints."""
        methods = [asdict(option) for option in self.options]
        for method in methods:
            del method["k"], method["terms"]
        return {
            **self.source, "options": dict(self.settings), "on": self.on, "method": self.best.method, "best_fixed_k": self.k,
            "up_to": max([1, *(level.at_once for level in takewhile(pays, self.levels))]) if self.on else 0,
            "stops_paying_at": crossing(self.levels) if self.on else None, "speedup": self.best.speedup,
            "interval": self.best.interval, "sentence": self.sentence, "at_once": self.at_once, "limit": self.limit,
            "change": self.change, "methods": methods, "lengths": [one._asdict() for one in self.lengths],
            "levels": [level._asdict() for level in self.levels], "rows": [*self.rows], "note": self.note,
        }  # fmt: skip


def _known(value: float | None) -> str:
    return UNKNOWN if value is None else decimal(value)


def pays(of: Option | Level, least: float = PAYS) -> bool:
    """Whether a speedup is worth having: it is at least `least`, and its interval does not reach below 1."""
    return (of.speedup or 0) >= least and (of.interval is None or of.interval[0] >= 1)


def levels_of(rows: Iterable[Mapping[str, Any]], load: str = "texts") -> list[Level]:
    """Return the levels in measured rows; `load` is their key for the number of texts at once."""
    return [Level(row[load], row["speedup"], row["interval"]) for row in rows]


def crossing(levels: Iterable[Level]) -> float | None:
    """Return the number of texts at which speculation stops paying, or None; interpolates over logarithms of loads."""
    for one, other in pairwise(level for level in levels if level.speedup):
        if one.speedup >= 1 > other.speedup:
            share = (one.speedup - 1) / (one.speedup - other.speedup)
            return 2 ** (log2(one.at_once) + log2(other.at_once / one.at_once) * share)
    return None


def texts_at_once(levels: Sequence[Level]) -> str:
    """Return a sentence: up to how many texts at once it pays, how much, and from how many on it does not."""
    known = [level for level in levels if level.speedup]
    if not known:
        return "Nothing was measured: no text was written by both servers."
    where = {level: "one text at a time" if level.at_once == 1 else f"up to {level.at_once} at once" for level in known}
    paying = [*takewhile(pays, known)]
    if not paying:
        return f"Off: {shown(known[0])} for {where[known[0]]}."
    first, last, rest = paying[0], paying[-1], known[len(paying) :]
    sentence = f"On for {where[last]}: {shown(last)}"
    if first is not last:
        sentence += f", {shown(first)} for {where[first]}"
    if any(level.speedup < 1 for level in rest):
        sentence += f"; off from {count(round(crossing(levels) or rest[0].at_once))} on"
    elif rest:
        sentence += f"; no sure difference with {rest[0].at_once} ({shown(rest[0])})"
    return f"{sentence}."


def shown(of: Option | Level | Forecast) -> str:
    """A speedup with its interval: 1.40x [1.35, 1.45]."""
    return ratio(of.speedup) + (f" [{', '.join(map(decimal, of.interval))}]" if of.interval else "")


def decide(
    models: Models, questions: Sequence[Question], budget_s: float, *, methods: Sequence[str] = (), **options: Any
) -> Iterator[Progress | None]:
    """Measure for about `budget_s` seconds and yield the `Report` so far. `methods` default to those that usually pay off.

    Half of the budget runs every method next to naive, prompt by prompt, and drops slower methods. Runs with a short and
    a long fixed draft then predict other draft lengths, and the rest of the time goes to several texts at once. Yields
    None after every text and every pass of a batch. Raises `LookaheadError` before anything is measured.
    """
    check_budget(questions, budget_s)
    naive, begun = read_entry("naive"), perf_counter()
    usual = [method for method in batches.shared_methods(models) if DRAFTERS[method].candidate]
    entries = [read_entry(method) for method in dict.fromkeys(methods or usual)]
    check(models, questions, [naive, *entries], options, shared=True)
    taken: list[Sample] = []
    racing, lengths, levels = [entry.label for entry in entries], (), ()

    def spent() -> float:
        return perf_counter() - begun

    def timed(number: int, entry: Entry, **more: Any) -> Timing:
        return time_lane(lane_of(models, questions[number], entry, {**options, **more}))

    def now(text: str) -> Progress:
        measured = {entry.label: rows for entry in entries if (rows := rows_of(taken, entry.label))}
        out = []
        for label, rows in measured.items():
            arm = Arm.of(label, label, rows)
            more = {name: arm.mean(name) for name in ("acceptance", *MEANS)}
            more |= {"identical": all(row.identical for row in rows), "let_go": label not in racing}
            out.append(Option(label, len(rows), arm.median, arm.interval, **more))
        out.sort(key=lambda one: (one.let_go, -one.speedup))
        named = next("k" in entry.settings for entry in entries if entry.label == out[0].method)
        report = Report(
            tuple(out), tuple(levels), tuple(lengths),
            tuple({"method": label, **asdict(row)} for label, rows in measured.items() for row in rows),
            measured_on(models), {"seconds": budget_s, **options}, "" if named else f", k = {options.get('k', 'auto')}",
            "every run is paired with a naive run of the same prompt, without reading prompts; medians over prompts with 90% intervals",
        )  # fmt: skip
        return Progress(round(min(budget_s, spent())), round(budget_s), text, report)

    for entry in (naive, *entries):  # kernels are compiled at first use
        timed(0, entry, max_new_tokens=8)
    for turn in turns():
        number, start_s = turn % len(questions), spent()
        plain = timed(number, naive)
        for entry in entries[:: 1 if turn % 2 == 0 else -1]:
            if entry.label in racing:
                yield None
                taken.append(Sample(number, questions[number], entry, timed(number, entry), plain))
        yield None
        left = min(SURE, len(questions)) - turn - 1
        hurried = left > 0 and left * (spent() - start_s) > RACING * budget_s - spent()
        racing = still_racing({label: rows_of(taken, label) for label in racing}, hurried)
        yield now(f"prompt {number + 1} of {len(questions)}")
        if spent() > RACING * budget_s:
            break
    best = next(entry for entry in entries if entry.label == racing[0])
    if best.settings.get("k", options.get("k", "auto")) == "auto":
        short, long = [], []
        for number in range(min(turn + 1, len(questions))):
            plain, run = timed(number, naive), timed(number, best, k=SEEN)
            if not run.drafted == run.depth > FULL * SEEN * run.passes:
                break  # neither trees nor drafts of different lengths can be predicted
            long.append((run, plain))
            short.append((timed(number, best, k=1), plain))
            lengths = forecast(models.costs, (1, short), (SEEN, long), LENGTHS)
            yield now("other draft lengths")
            if spent() > (RACING + LENGTHS_SHARE) * budget_s:
                break
    for progress in batches.measure(models, questions, [best.label], SIZES, **options):
        if progress:  # sizes with an interval: at least two groups of prompts were measured
            levels = [level for level in levels_of(progress.result["rows"]) if level.interval]
        yield now(progress.text) if progress else None
        if spent() > budget_s:
            break
    yield now("done")


def check_budget(questions: Sequence[Question], budget_s: float) -> None:
    """Raise `SettingsError` for seconds and numbers of prompts that make no sense."""
    if not LEAST_S <= budget_s <= MOST_S:
        raise SettingsError("seconds", budget_s, f"give {count(round(LEAST_S))} to {count(round(MOST_S))}.")
    if not 1 <= len(questions) <= MOST_PROMPTS:
        raise SettingsError("prompts", len(questions), f"give 1 to {MOST_PROMPTS}.")


def still_racing(rows: Mapping[str, Sequence[Row]], hurried: bool = False) -> list[str]:
    """Return the methods that may be the fastest, the fastest first, from their rows on the same prompts.

    A method is dropped if the interval of its ratio to the fastest is below 1, and if `hurried` also the slower half.
    """
    order = sorted(rows, key=lambda method: -statistics.median(row.speedup for row in rows[method]))
    kept = []
    for method in order[: -(-len(order) // 2)] if hurried else order:
        ratios = [row.speedup / best.speedup for row, best in zip(rows[method], rows[order[0]], strict=True)]
        if len(ratios) < SURE or interval(ratios, statistics.median)[1] >= 1:
            kept.append(method)
    return kept


def forecast(costs: PassCosts, short: tuple[int, Pairs], long: tuple[int, Pairs], ks: Sequence[int]) -> list[Forecast]:
    """Return the speedups of all `ks`, from runs with two draft lengths, the second larger, on the same prompts in order.

    The target's time follows the calibrated curve, scaled to both runs; drafting and the rest are linear between them.
    Tokens follow from the acceptance by position. This holds for chains of one length in a homogeneous text.
    """
    (few, short_pairs), (many, long_pairs) = short, long
    cheap = [statistics.mean(part) for part in zip(*(_pass(run, costs, few) for run, _ in short_pairs), strict=True)]
    out = []
    for k in ks:
        share, speedups = (k - few) / (many - few), []
        for (short_run, _), (run, naive) in zip(short_pairs, long_pairs, strict=True):
            dear = _pass(run, costs, many)
            scale, draft_s, rest_s = (a + (b - a) * share for a, b in zip(cheap, dear, strict=True))
            passes = (run.acceptance + short_run.acceptance).passes(k, len(naive.tokens))
            speedups.append(naive.seconds / (passes * (costs.pass_s(1 + k) * scale + draft_s + rest_s)))
        out.append(Forecast(k, statistics.median(speedups), interval(speedups, statistics.median)))
    return out


def _pass(run: Timing, costs: PassCosts, k: int) -> tuple[float, float, float]:
    """Return a pass with `k` drafted tokens: the target's time over the calibrated one, seconds of drafting and of all else."""
    verify_s, propose_s, whole_s = (part_s / run.passes for part_s in (run.verify_s, run.propose_s, run.seconds))
    return verify_s / costs.pass_s(1 + k), propose_s, whole_s - verify_s - propose_s


def advise(trace: Trace, costs: PassCosts, ks: Sequence[int] = KS) -> Report:
    """Predict the speedup of every drafter in a race at its best draft length, with the pass costs of this machine.

    Lookup drafters are replayed on the naive lane. A race on another machine gives acceptance only. Raises a
    `LookaheadError` if no lane has visible drafts, or if there is no naive lane.
    """
    here, options = trace.machine.cpu == processor.name(), []
    if trace.settings.rule != "rejection":
        recording = Recording.of(trace, costs)
        recording = recording if here else recording.timed_by(costs)
        options = [_replayed(recording, method, ks) for method in text_methods()]
    replayed = {option.method for option in options}
    predicted = (_predicted(lane, costs, ks, here) for lane in trace.lanes if lane.method not in replayed)
    options += [option for option in predicted if option]
    if not options:
        raise SettingsError("evidence", "none", "race at least one drafting method, long enough to draft.")
    note = "" if here else f" Accepted as in the recording from {trace.machine.cpu}; all times are this machine's."
    return Report(tuple(sorted(options, key=lambda option: -option.speedup)), note=note)


def _replayed(recording: Recording, method: str, ks: Sequence[int]) -> Option:
    best = max((what_if(recording, method, k) for k in ks), key=lambda outcome: outcome.speedup)
    passes, plain = len(best.steps), recording.naive_s / len(recording.tokens)
    cost = best.seconds / passes / plain
    terms = (
        Term("tokens per pass", f"{len(recording.tokens)} tokens / {passes} passes", best.tokens_per_pass),
        Term("cost of a pass", f"{seconds(best.seconds / passes)} / {seconds(plain)}", cost),
        Term("speedup", f"{decimal(best.tokens_per_pass)} / {decimal(cost)}", best.speedup),
    )
    return Option(method, 1, best.speedup, k=best.k, terms=terms)


def _predicted(lane: LaneRecord, costs: PassCosts, ks: Sequence[int], here: bool) -> Option | None:
    """Predict a drafter's option, if each token is accepted with the same chance; None if its drafts or times are unknown."""
    drafted, drafter = [step for step in lane.verified if step.draft.tokens], lane.options.get("draft")
    if lane.opaque or not drafted or any(step.draft.window for step in drafted):  # a window's rows do not grow with k
        return None
    if not here and drafter not in costs.drafters:
        return None
    acceptance, levels = Acceptance.from_steps(drafted), sum(max(depths(step.draft.parents)) for step in drafted)
    tested = sum(acceptance.tested)
    a, f = sum(acceptance.accepted) / max(1, tested), len(drafted) / len(lane.verified)
    token_s = sum(step.propose_s for step in lane.verified) / levels if here else costs.drafters[drafter].token_s
    branching = sum(branch_count(step.draft.parents) > 1 for step in drafted) / len(drafted)
    rows = sum(len(step.draft.tokens) for step in drafted) / levels
    by_k = [
        costs.predict(a, k, drafter, token_s=token_s, rows_per_token=rows, branching=branching, share=f) for k in ks
    ]
    k, best = max(zip(ks, by_k, strict=True), key=lambda item: item[1].speedup)
    plain, verify_s = best.plain_s, best.verify_s + best.switch_s
    v, draft = verify_s / plain, best.draft_s / plain
    terms = (
        Term("acceptance", f"of {tested} positions tested", a),
        Term("tokens of a drafted pass", f"1 + {decimal(a)} + ... + {decimal(a)}{power(k)}", best.tokens),
        Term("verifying", f"{seconds(verify_s)} for {best.rows} rows / {seconds(plain)} for 1", v),
        Term("drafting", f"{k} x {seconds(token_s)} / {seconds(plain)}", draft),
        Term("passes with a draft", "share of the passes measured", f),
        Term("tokens per pass", f"{decimal(f)} x {decimal(best.tokens)} + {decimal(1 - f)}", best.tokens_per_pass),
        Term("cost of a pass", f"{decimal(f)} x ({decimal(v)} + {decimal(draft)}) + {decimal(1 - f)}", best.cost),
        Term("speedup", f"{decimal(best.tokens_per_pass)} / {decimal(best.cost)}", best.speedup),
    )
    return Option(lane.method, 1, best.speedup, k=k, terms=terms)
