"""Whether to turn speculative decoding on: a `Report`, and the functions that measure or predict it.

`decide` measures methods on a user's prompts within a time budget. `servers.decision` does the same on two servers. `advise`
predicts from a recorded race. `forecast` predicts other draft lengths from runs with two lengths.
"""

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import count as counter
from itertools import pairwise, takewhile
from math import log2
from time import perf_counter
from typing import Any, NamedTuple

from ..core import processor
from ..core.acceptance import Acceptance
from ..core.costs import PassCosts
from ..core.events import SAME_TEXT, SettingsError
from ..core.numbers import count, decimal, percent, power, ranged, ratio, seconds
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
from .tables import Table, report_markdown
from .timing import Entry, Question, Sample, Timing, check, lane_of, read_entry, time_lane
from .whatif import NaiveRun, what_if

PAYS = 1.03  # minimum measured speedup to turn speculation on
PAUSED = 0.2  # drafted tokens per pass
PREDICTED_PAYS = 1.05  # minimum predicted speedup: the prediction ignores the loop and the variation between runs
KS = tuple(range(1, 17))  # draft lengths for predictions from a race
SIZES = (1, 2, 4, 8, 16)  # texts at once
LENGTHS, LONG_K = tuple(range(1, 9)), 8  # draft lengths to predict from runs with k = 1 and k = `LONG_K`
FULL = 0.5  # if the mean draft is longer than this share of `LONG_K`, all drafts but a text's last have the same length
MIN_S, MAX_S, MAX_PROMPTS = 5.0, 600.0, 200
METHODS_SHARE, LENGTHS_SHARE = 0.5, 0.15  # of the budget
ENOUGH = 3  # prompts needed to drop a slower method
COLUMNS = ("method", *(column.name for column in fields(Row)))
MEANS = ("tokens_per_pass", "drafted_per_pass", "depth_per_pass", "pass_cost", "verify_cost", "draft_cost")
LIMITS = {  # the limit of a method, and the change with the largest gain
    "acceptance": ("the acceptance rate", "A drafter with a higher acceptance rate would gain most, such as one trained on the target's replies to such prompts."),
    "drafting": ("the draft cost", "A smaller draft model, or one that drafts all tokens in one pass, would gain most."),
    "cost": ("the cost of a pass with its draft", "Cheaper passes would gain most: a smaller draft model, fewer drafted tokens, or hardware with more compute per memory bandwidth."),
    "verifying": ("the verify cost", "Cheaper rows would gain most: shorter drafts, or hardware with more compute per memory bandwidth."),
}  # fmt: skip
Interval = tuple[float, float] | None
Pairs = Sequence[tuple[Timing, Timing]]  # for each prompt, a run and its naive run


class Level(NamedTuple):
    """The speedup with `at_once` texts in a batch, None if it was not measured."""

    at_once: int
    speedup: float | None
    interval: Interval = None


class Forecast(NamedTuple):
    """The predicted speedup with `k` drafted tokens per pass, as the median over prompts."""

    k: int
    speedup: float
    interval: Interval


class Term(NamedTuple):
    """One line of a calculation: a quantity, its formula with numbers, and its value."""

    name: str
    formula: str
    value: float


@dataclass(frozen=True, slots=True)
class Option:
    """A method and its speedup: the median over prompts, with its 90% interval.

    The other numbers are means over prompts, None if unknown. Costs are in naive passes. `dropped` is true for a method that
    was dropped because it is slower. A predicted option has a draft length `k` and the `terms` of its calculation.
    """

    method: str
    prompts: int
    speedup: float
    interval: Interval = None
    acceptance: float | None = None
    identical: bool | None = None
    dropped: bool = False
    tokens_per_pass: float | None = None
    drafted_per_pass: float | None = None
    depth_per_pass: float | None = None
    pass_cost: float | None = None
    verify_cost: float | None = None
    draft_cost: float | None = None
    k: int | None = None
    terms: tuple[Term, ...] = ()

    @property
    def paused(self) -> bool:
        """Whether the method drafted almost nothing, so that its speedup does not depend on its drafts."""
        return self.drafted_per_pass is not None and self.drafted_per_pass < PAUSED


@dataclass(frozen=True, slots=True)
class Report:
    """The result and its reasons.

    `options` has the fastest method first, and methods that were dropped or drafted almost nothing last. `rows` has a mapping
    for each method and prompt. `source` names the models and the machine or servers, `settings` the options of the
    measurement. In `sentence`, `drafting` follows the method.
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
        """Whether to turn the fastest method on."""
        return pays(self.best, PREDICTED_PAYS if self.best.terms else PAYS)

    @property
    def k(self) -> int | None:
        """The best fixed draft length, None if lengths were not predicted."""
        return max(self.lengths, key=lambda forecast: forecast.speedup).k if self.lengths else self.best.k

    @property
    def sentence(self) -> str:
        best = self.best
        if best.terms:
            predicted = f"the best predicted speedup is {ratio(best.speedup)} ({best.method}, k = {best.k})"
            if self.on:
                return f"Yes: {predicted}.{self.note}"
            return f"Don't: {predicted}, below the threshold of {ratio(PREDICTED_PAYS)}.{self.note}"
        speedup = with_interval(best) if best.interval else f"{with_interval(best)} on one prompt"
        if not self.on:
            return f"Off: the fastest method, {best.method}, has a speedup of {speedup}. This is not a reliable gain."
        fixed = f" (best fixed k: {self.k})" if self.lengths else ""
        return f"On: {best.method}{self.drafting}{fixed}. The speedup is {speedup} for one text at a time."

    @property
    def at_once(self) -> str | None:
        """A sentence on the number of texts at once up to which it pays; None for fewer than two measured numbers."""
        return texts_at_once(self.levels) if self.levels[1:] else None

    @property
    def limit(self) -> dict[str, Any] | None:
        """The part with the largest gain if it were perfect; None if unknown.

        Returns its `name`, the mean speedup `now`, and the one if that part were `perfect`.
        """
        best = self.best
        if best.pass_cost is None or best.depth_per_pass is None:
            return None
        tokens, cost = best.tokens_per_pass, best.pass_cost
        perfect = {"acceptance": (1 + best.depth_per_pass) / cost}  # at most one path of a tree is accepted
        if best.draft_cost is None:
            perfect["cost"] = tokens
        else:
            perfect["drafting"] = tokens / (cost - best.draft_cost)
            perfect["verifying"] = tokens / (cost - max(0.0, best.verify_cost - 1))
        name = max(perfect, key=perfect.get)
        return {"name": name, "now": tokens / cost, "perfect": perfect[name]}

    @property
    def change(self) -> str:
        """A sentence on the change with the largest gain, or on the tokens per pass needed to pay; "" if unknown."""
        best, limit = self.best, self.limit
        if limit is None:
            return ""
        if not best.drafted_per_pass:
            return "This method drafted no tokens for these prompts."
        if self.on:
            return LIMITS[limit["name"]][1]
        return (
            f"A pass with its draft costs {decimal(best.pass_cost)} naive passes, so it pays from "
            f"{decimal(best.pass_cost * PAYS)} tokens per pass. Here it wrote {decimal(best.tokens_per_pass)} tokens per pass."
        )

    def reasons(self) -> str:
        """Return sentences on several texts at once, the fastest method's limit and the change that gains most."""
        parts = [f"Several texts at once: {self.at_once}"] if self.at_once else []
        if limit := self.limit:
            parts.append(
                f"The limit is {LIMITS[limit['name']][0]}: if it were perfect, the mean speedup would be {ratio(limit['perfect'])} "
                f"instead of {ratio(limit['now'])}."
            )
        return " ".join([*parts, self.change]).strip()

    def table(self) -> Table:
        heads = [
            "method", "speedup", "90% interval", "prompts", "tokens per pass", "accepted", "draft cost (naive passes)",
            "verify cost (naive passes)", "identical",
        ]  # fmt: skip
        identical = {True: "yes", False: "no", None: "no text"}
        rows = [
            [
                option.method, ratio(option.speedup), ranged(option.interval),
                f"{option.prompts}{', dropped' if option.dropped else ', paused' if option.paused else ''}",
                decimal(option.tokens_per_pass),
                percent(option.acceptance), decimal(option.draft_cost), decimal(option.verify_cost),
                identical[option.identical],
            ]
            for option in self.options
        ]  # fmt: skip
        return heads, rows

    def markdown(self) -> str:
        """Return the sentence, its reasons and the tables, in Markdown."""
        shown, parts = [self.table()], ["# Should I turn it on?", self.sentence, self.reasons()]
        for title, points in (
            (["drafted tokens", f"speedup, predicted from runs with k = 1 and k = {LONG_K}"], self.lengths),
            (["texts at once", "speedup, measured"], self.levels),
        ):
            rows = [[str(number), ratio(speedup), ranged(between)] for number, speedup, between in points if speedup]
            shown.append(([*title, "90% interval"], rows))
        return "\n\n".join([*parts, report_markdown({**self.source, "note": self.note}, shown)]) + "\n"

    def csv(self) -> str:
        """Return a row for each method and prompt, as CSV (RFC 4180)."""
        return csv_text(COLUMNS, ([row.get(name) for name in COLUMNS] for row in self.rows))

    def document(self) -> dict[str, Any]:
        """Return the report as plain data, the document of `decide --json`."""
        methods = [asdict(option) for option in self.options]
        for method in methods:
            del method["k"], method["terms"]
        return {
            **self.source, "options": dict(self.settings), "on": self.on, "method": self.best.method, "best_fixed_k": self.k,
            "up_to": max([1, *(level.at_once for level in takewhile(pays, self.levels))]) if self.on else 0,
            "stops_paying_at": crossing(self.levels) if self.on else None, "speedup": self.best.speedup,
            "interval": self.best.interval, "sentence": self.sentence, "at_once": self.at_once, "limit": self.limit,
            "change": self.change, "methods": methods, "lengths": [forecast._asdict() for forecast in self.lengths],
            "levels": [level._asdict() for level in self.levels], "rows": [*self.rows], "note": self.note,
        }  # fmt: skip


def pays(result: Option | Level, least: float = PAYS) -> bool:
    """Return whether the speedup is at least `least` and its interval has no value below 1."""
    return (result.speedup or 0) >= least and (result.interval is None or result.interval[0] >= 1)


def levels_of(rows: Iterable[Mapping[str, Any]], load: str = "texts") -> list[Level]:
    """Return the levels in measured rows. `load` is the key of the number of texts at once."""
    return [Level(row[load], row["speedup"], row["interval"]) for row in rows]


def crossing(levels: Iterable[Level]) -> float | None:
    """Return the number of texts at once at which the speedup falls below 1, or None.

    Interpolates between measured levels, over the logarithm of the number.
    """
    for low, high in pairwise(level for level in levels if level.speedup):
        if low.speedup >= 1 > high.speedup:
            share = (low.speedup - 1) / (low.speedup - high.speedup)
            return 2 ** (log2(low.at_once) + log2(high.at_once / low.at_once) * share)
    return None


def texts_at_once(levels: Sequence[Level]) -> str:
    """Return a sentence on the number of texts at once up to which it pays, with speedups and intervals."""
    measured = [level for level in levels if level.speedup]
    if not measured:
        return "Nothing was measured: no text was written by both servers."
    names = {x: "one text at a time" if x.at_once == 1 else f"up to {x.at_once} at once" for x in measured}
    paying = [*takewhile(pays, measured)]
    if not paying:
        return f"Off: {with_interval(measured[0])} for {names[measured[0]]}."
    first, last, others = paying[0], paying[-1], measured[len(paying) :]
    sentence = f"On for {names[last]}: {with_interval(last)}"
    if first is not last:
        sentence += f", {with_interval(first)} for {names[first]}"
    if any(level.speedup < 1 for level in others):
        sentence += f"; off from {count(round(crossing(levels) or others[0].at_once))} on"
    elif others:
        sentence += f"; no clear difference with {others[0].at_once} ({with_interval(others[0])})"
    return f"{sentence}."


def with_interval(result: Option | Level | Forecast) -> str:
    """Return a speedup with its interval: 1.40x [1.35, 1.45]."""
    return ratio(result.speedup) + (f" [{', '.join(map(decimal, result.interval))}]" if result.interval else "")


def decide(
    models: Models, questions: Sequence[Question], budget_s: float, *, methods: Sequence[str] = (), **options: Any
) -> Iterator[Progress | None]:
    """Measure for about `budget_s` seconds and yield the `Report` so far. `methods` default to those that usually pay.

    Half of the budget compares all methods with naive decoding, prompt by prompt, and drops slower methods. Runs with a short
    and a long fixed draft then predict other draft lengths. The remaining time measures several texts at once. Yields None
    after each text and each pass of a batch. Raises `LookaheadError` for invalid input before the first measurement.
    """
    check_budget(questions, budget_s)
    naive, start = read_entry("naive"), perf_counter()
    candidates = [method for method in batches.shared_methods(models) if DRAFTERS[method].candidate]
    entries = [read_entry(method) for method in dict.fromkeys(methods or candidates)]
    check(models, questions, [naive, *entries], options, shared=True)
    samples: list[Sample] = []
    remaining, lengths, levels = [entry.label for entry in entries], (), ()

    def spent() -> float:
        return perf_counter() - start

    def timed(number: int, entry: Entry, **more: Any) -> Timing:
        return time_lane(lane_of(models, questions[number], entry, {**options, **more}))

    def now(text: str) -> Progress:
        measured = {entry.label: rows for entry in entries if (rows := rows_of(samples, entry.label))}
        out = []
        for label, rows in measured.items():
            arm = Arm.from_rows(label, label, rows)
            values = {name: arm.mean(name) for name in ("acceptance", *MEANS)}
            values |= {"identical": all(row.identical for row in rows), "dropped": label not in remaining}
            out.append(Option(label, len(rows), arm.median, arm.interval, **values))
        out.sort(key=lambda option: (option.dropped or option.paused, -option.speedup))
        has_k = next("k" in entry.settings for entry in entries if entry.label == out[0].method)
        report = Report(
            tuple(out), tuple(levels), tuple(lengths),
            tuple({"method": label, **asdict(row)} for label, rows in measured.items() for row in rows),
            measured_on(models), {"seconds": budget_s, **options}, "" if has_k else f", k = {options.get('k', 'auto')}",
            "each run is paired with a naive run of the same prompt, without prefill; medians over prompts with 90% intervals",
        )  # fmt: skip
        return Progress(round(min(budget_s, spent())), round(budget_s), text, report, "s")

    for entry in (naive, *entries):  # warm-up: kernels are compiled on first use
        timed(0, entry, max_new_tokens=8)
    for iteration in counter():
        number, start_s = iteration % len(questions), spent()
        naive_run = timed(number, naive)
        for entry in entries[:: 1 if iteration % 2 == 0 else -1]:
            if entry.label in remaining:
                yield None
                samples.append(Sample(number, questions[number], entry, timed(number, entry), naive_run))
        yield None
        needed = min(ENOUGH, len(questions)) - iteration - 1
        hurried = needed > 0 and needed * (spent() - start_s) > METHODS_SHARE * budget_s - spent()
        remaining = fastest_methods({label: rows_of(samples, label) for label in remaining}, hurried)
        yield now(f"prompt {number + 1} of {len(questions)}")
        if spent() > METHODS_SHARE * budget_s:
            break
    best = next(entry for entry in entries if entry.label == remaining[0])
    if best.settings.get("k", options.get("k", "auto")) == "auto":
        short, long = [], []
        for number in range(min(iteration + 1, len(questions))):
            naive_run, run = timed(number, naive), timed(number, best, k=LONG_K)
            if not run.drafted == run.depth > FULL * LONG_K * run.passes:
                break  # `forecast` is for chains of equal length
            long.append((run, naive_run))
            short.append((timed(number, best, k=1), naive_run))
            lengths = forecast(models.costs, (1, short), (LONG_K, long), LENGTHS)
            yield now("other draft lengths")
            if spent() > (METHODS_SHARE + LENGTHS_SHARE) * budget_s:
                break
    for progress in batches.measure(models, questions, [best.label], SIZES, **options):
        if progress:  # only sizes with an interval, which needs two groups of prompts
            levels = [level for level in levels_of(progress.result["rows"]) if level.interval]
        yield now(progress.text) if progress else None
        if spent() > budget_s:
            break
    yield now("done")


def check_budget(questions: Sequence[Question], budget_s: float) -> None:
    """Raise `SettingsError` if the seconds or the number of prompts are out of range."""
    if not MIN_S <= budget_s <= MAX_S:
        raise SettingsError("seconds", budget_s, f"give {count(round(MIN_S))} to {count(round(MAX_S))}.")
    if not 1 <= len(questions) <= MAX_PROMPTS:
        raise SettingsError("prompts", len(questions), f"give 1 to {MAX_PROMPTS}.")


def fastest_methods(rows: Mapping[str, Sequence[Row]], hurried: bool = False) -> list[str]:
    """Return the methods that may be the fastest, the fastest first. All have rows on the same prompts.

    Drops a method if its speed relative to the fastest has a 90% interval below 1. `hurried` drops the slower half.
    """
    order = sorted(rows, key=lambda method: -statistics.median(row.speedup for row in rows[method]))
    kept = []
    for method in order[: -(-len(order) // 2)] if hurried else order:
        ratios = [row.speedup / best.speedup for row, best in zip(rows[method], rows[order[0]], strict=True)]
        if len(ratios) < ENOUGH or interval(ratios, statistics.median)[1] >= 1:
            kept.append(method)
    return kept


def forecast(costs: PassCosts, short: tuple[int, Pairs], long: tuple[int, Pairs], ks: Sequence[int]) -> list[Forecast]:
    """Return the predicted speedups with `ks`, from runs with a short and a long draft length on the same prompts.

    `short` and `long` are (draft length, runs); prompts have the same order. The target's time follows the calibrated
    curve, scaled to both runs. Draft and loop time are linear in the length. Tokens follow from the acceptance rate
    by position. The prediction is for chains of equal length in homogeneous text.
    """
    (short_k, short_pairs), (long_k, long_pairs) = short, long
    parts = zip(*(_pass(run, costs, short_k) for run, _ in short_pairs), strict=True)
    short_pass = [statistics.mean(part) for part in parts]
    out = []
    for k in ks:
        share, speedups = (k - short_k) / (long_k - short_k), []
        for (short_run, _), (run, naive) in zip(short_pairs, long_pairs, strict=True):
            long_pass = _pass(run, costs, long_k)
            scale, draft_s, loop_s = (a + (b - a) * share for a, b in zip(short_pass, long_pass, strict=True))
            passes = (run.acceptance + short_run.acceptance).passes(k, len(naive.tokens))
            speedups.append(naive.seconds / (passes * (costs.pass_s(1 + k) * scale + draft_s + loop_s)))
        out.append(Forecast(k, statistics.median(speedups), interval(speedups, statistics.median)))
    return out


def _pass(run: Timing, costs: PassCosts, k: int) -> tuple[float, float, float]:
    """Return the parts of a mean pass: target time / calibrated time with `k` drafted tokens, draft and loop seconds."""
    verify_s, propose_s, total_s = (part_s / run.passes for part_s in (run.verify_s, run.propose_s, run.seconds))
    return verify_s / costs.pass_s(1 + k), propose_s, total_s - verify_s - propose_s


def advise(trace: Trace, costs: PassCosts, ks: Sequence[int] = KS) -> Report:
    """Predict the speedup of each drafter in a race at its best draft length, with the pass costs of this machine.

    Lookup drafters are recomputed on the naive lane. From a race on another machine, only acceptance is used. Raises a
    `LookaheadError` if no lane reports its drafts, or if there is no naive lane.
    """
    here, options = trace.machine.cpu == processor.name(), []
    if trace.settings.rule in SAME_TEXT:
        recording = NaiveRun.from_trace(trace, costs)
        recording = recording if here else recording.timed_by(costs)
        options = [_recomputed(recording, method, ks) for method in text_methods()]
    recomputed = {option.method for option in options}
    predicted = (_predicted(lane, costs, ks, here) for lane in trace.lanes if lane.method not in recomputed)
    options += [option for option in predicted if option]
    if not options:
        raise SettingsError("evidence", "none", "race a method that drafts, with enough new tokens.")
    note = "" if here else f" Acceptance is from the recording ({trace.machine.cpu}), all times are from this machine."
    return Report(tuple(sorted(options, key=lambda option: -option.speedup)), note=note)


def _recomputed(recording: NaiveRun, method: str, ks: Sequence[int]) -> Option:
    best = max((what_if(recording, method, k) for k in ks), key=lambda outcome: outcome.speedup)
    passes, naive_s = len(best.steps), recording.naive_s / len(recording.tokens)
    cost = best.seconds / passes / naive_s
    terms = (
        Term("tokens per pass", f"{len(recording.tokens)} tokens / {passes} passes", best.tokens_per_pass),
        Term("cost of a pass", f"{seconds(best.seconds / passes)} / {seconds(naive_s)}", cost),
        Term("speedup", f"{decimal(best.tokens_per_pass)} / {decimal(cost)}", best.speedup),
    )
    return Option(method, 1, best.speedup, k=best.k, terms=terms)


def _predicted(lane: LaneRecord, costs: PassCosts, ks: Sequence[int], here: bool) -> Option | None:
    """Predict a drafter's speedup, with one acceptance rate for all positions; None if drafts or times are unknown."""
    drafted, drafter = [step for step in lane.verified if step.draft.tokens], lane.options.get("draft")
    if lane.opaque or not drafted or any(step.draft.window for step in drafted):  # a window's rows do not grow with k
        return None
    if not here and drafter not in costs.drafters:
        return None
    acceptance, levels = Acceptance.from_steps(drafted), sum(max(depths(step.draft.parents)) for step in drafted)
    tested = sum(acceptance.tested)
    a, f = sum(acceptance.accepted) / max(1, tested), len(drafted) / len(lane.verified)
    token_s = sum(step.propose_s for step in lane.verified) / levels if here else costs.drafters[drafter].token_s
    trees = sum(branch_count(step.draft.parents) > 1 for step in drafted) / len(drafted)
    rows = sum(len(step.draft.tokens) for step in drafted) / levels
    by_k = [costs.predict(a, k, drafter, token_s=token_s, rows_per_token=rows, branching=trees, share=f) for k in ks]
    k, best = max(zip(ks, by_k, strict=True), key=lambda item: item[1].speedup)
    naive_s, verify_s = best.naive_s, best.verify_s + best.switch_s
    v, draft = verify_s / naive_s, best.draft_s / naive_s
    terms = (
        Term("acceptance", f"share of {tested} tested tokens", a),
        Term("tokens per drafted pass", f"1 + {decimal(a)} + ... + {decimal(a)}{power(k)}", best.tokens),
        Term("verify cost", f"{seconds(verify_s)} for {best.rows} rows / {seconds(naive_s)} for 1", v),
        Term("draft cost", f"{k} x {seconds(token_s)} / {seconds(naive_s)}", draft),
        Term("passes with a draft", "share of all passes", f),
        Term("tokens per pass", f"{decimal(f)} x {decimal(best.tokens)} + {decimal(1 - f)}", best.tokens_per_pass),
        Term("cost of a pass", f"{decimal(f)} x ({decimal(v)} + {decimal(draft)}) + {decimal(1 - f)}", best.cost),
        Term("speedup", f"{decimal(best.tokens_per_pass)} / {decimal(best.cost)}", best.speedup),
    )
    return Option(lane.method, 1, best.speedup, k=k, terms=terms)
