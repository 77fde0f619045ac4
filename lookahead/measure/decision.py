"""Should I turn it on? One's own prompts, this machine, and a budget of seconds: on or off, which method, up to how many at once.

Half the budget races every candidate beside naive on one prompt after another, and lets go of those that are surely worse.
Then runs with a short and a long fixed draft predict the other lengths, and what is left goes to batches, smallest first. What
limits the winner is what would gain most if it were perfect: acceptance, drafting for nothing, or verifying for nothing.

Knows lanes and seconds. It does not know who asks.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any

from ..core.events import SettingsError
from ..core.numbers import count, decimal, ratio
from ..family.models import Models
from ..race.methods import methods_for
from ..trace.race import measured_on
from . import batches
from .forecast import forecast
from .intervals import interval
from .paying import PAYS, Level, advice, crossing
from .progress import Progress, Row, row_of
from .timing import Entry, Question, Timing, check, lane_of, read_entry, time_lane

CANDIDATES = ("hybrid", "draft", "block", "block-tree", "eagle", "suffix")
CHAINS = ("draft", "block", "eagle")  # draft a chain of any length
SIZES = (1, 2, 4, 8, 16)
LENGTHS, SEEN = tuple(range(1, 9)), 8
LEAST_S, MOST_S, MOST_PROMPTS = 5.0, 600.0, 200
RACING, LENGTHS_SHARE = 0.5, 0.15  # of the budget
SURE = 3  # prompts before a candidate may be let go


@dataclass(slots=True)
class _Candidate:
    """A method, and its runs with the naive ones beside them, by prompt."""

    entry: Entry
    runs: dict[int, list[tuple[Timing, Timing]]] = field(default_factory=dict)

    def speedups(self) -> list[float]:
        """One for each prompt: the median of its repetitions."""
        return [statistics.median(_speedup(*pair) for pair in pairs) for pairs in self.runs.values()]

    def surely_worse(self, than: _Candidate) -> bool:
        """Whether it is slower on the prompts that both wrote, by the interval of one to the other."""
        each, other = (dict(zip(one.runs, one.speedups(), strict=True)) for one in (self, than))
        ratios = [each[number] / other[number] for number in each]
        return len(ratios) >= SURE and interval(ratios, statistics.median)[1] < 1

    def rows(self, questions: Sequence[Question]) -> list[Row]:
        """What the Lab's sentences are made of."""
        return [row_of(questions[number], *zip(*pairs, strict=True)) for number, pairs in self.runs.items()]


def decide(
    models: Models, questions: Sequence[Question], budget_s: float, *, methods: Sequence[str] = (), **options: Any
) -> Iterator[Progress | None]:
    """Answer within about so many seconds; the result so far is the document of `decide --json`. None at every pass of a batch,
    where it may be closed, as after every text. `methods` stand in for all of `CANDIDATES` that the family has.

    Raises `LookaheadError` for prompts, methods and budgets that make no sense, before the first second is spent.
    """
    check_budget(questions, budget_s)
    known = methods_for(models)
    chosen = dict.fromkeys(methods or (method for method in CANDIDATES if method in known))
    candidates = [_Candidate(read_entry(method)) for method in chosen]
    naive, begun = read_entry("naive"), perf_counter()
    check(models, questions, [naive, *(one.entry for one in candidates)], options, shared=True)
    state = _State(models, questions, options, candidates)

    def now(text: str) -> Progress:
        spent = min(budget_s, perf_counter() - begun)
        return Progress(round(spent), round(budget_s), text, state.document(budget_s))

    for entry in (naive, *(one.entry for one in candidates)):  # once for nothing: kernels are made at first use
        time_lane(lane_of(models, questions[0], entry, {**options, "max_new_tokens": 8}))
    for turn in itertools.count():
        number = turn % len(questions)
        plain = time_lane(lane_of(models, questions[number], naive, options))
        order = state.racing if turn % 2 == 0 else state.racing[::-1]
        for one in order:
            run = time_lane(lane_of(models, questions[number], one.entry, options))
            one.runs.setdefault(number, []).append((run, plain))
            yield None
        state.let_go()
        yield now(f"prompt {number + 1} of {len(questions)}")
        if perf_counter() - begun > RACING * budget_s:
            break
    best = state.best
    if best.entry.method in CHAINS and options.get("k", "auto") == "auto":
        pairs: tuple[list, list] = [], []
        for number in best.runs:
            plain = time_lane(lane_of(models, questions[number], naive, options))
            for k, runs in zip((1, SEEN), pairs, strict=True):
                runs.append((time_lane(lane_of(models, questions[number], best.entry, {**options, "k": k})), plain))
            lengths = forecast(models.costs, (1, pairs[0]), (SEEN, pairs[1]), LENGTHS)
            state.lengths = [asdict(one) for one in lengths]
            yield now("other draft lengths")
            if perf_counter() - begun > (RACING + LENGTHS_SHARE) * budget_s:
                break
    for progress in batches.measure(models, questions, [best.entry.label], SIZES, **options):
        if progress:
            state.levels = _levels(progress.result["rows"])
            yield now(progress.text)
        else:
            yield None
        if perf_counter() - begun > budget_s:
            break
    yield now("done")


def check_budget(questions: Sequence[Question], budget_s: float) -> None:
    """Raise `SettingsError` for seconds and numbers of prompts that make no sense."""
    if not LEAST_S <= budget_s <= MOST_S:
        raise SettingsError("seconds", budget_s, f"give {count(round(LEAST_S))} to {count(round(MOST_S))}.")
    if not 1 <= len(questions) <= MOST_PROMPTS:
        raise SettingsError("prompts", len(questions), f"give 1 to {MOST_PROMPTS}.")


def _levels(rows: Sequence[Mapping[str, Any]]) -> list[Level]:
    """Sizes with an interval: those that have been measured on two groups of prompts at least."""
    return [Level(row["texts"], row["speedup"], row["interval"]) for row in rows if row["interval"]]


def _speedup(run: Timing, naive: Timing) -> float:
    return (naive.seconds / len(naive.tokens)) / (run.seconds / len(run.tokens))


class _State:
    """What is known so far."""

    def __init__(
        self, models: Models, questions: Sequence[Question], options: Mapping[str, Any], candidates: list[_Candidate]
    ):
        self.models, self.questions, self.options = models, questions, options
        self.candidates, self.racing = candidates, list(candidates)
        self.lengths: list[dict[str, Any]] = []
        self.levels: list[Level] = []

    @property
    def best(self) -> _Candidate:
        """The fastest of those that still race."""
        return max(self.racing, key=lambda one: statistics.median(one.speedups()))

    def let_go(self) -> None:
        """Drop who is surely worse than the best."""
        best = self.best
        self.racing = [one for one in self.racing if not one.surely_worse(best)]

    def document(self, budget_s: float) -> dict[str, Any]:
        """All of it, as plain data."""
        best, methods = self.best, []
        for one in (one for one in self.candidates if one.runs):
            rows = one.rows(self.questions)
            mean = {name: statistics.mean(getattr(row, name) for row in rows) for name in _COSTS}
            tested = [row.acceptance for row in rows if row.acceptance is not None]
            methods.append({
                "method": one.entry.label, "prompts": len(rows), "speedup": statistics.median(one.speedups()),
                "interval": interval(one.speedups(), statistics.median), "acceptance": statistics.mean(tested) if tested else None,
                "identical": all(row.identical for row in rows), "let_go": one not in self.racing, **mean,
            })  # fmt: skip
        methods.sort(key=lambda one: (one["let_go"], -one["speedup"]))
        winner = next(one for one in methods if one["method"] == best.entry.label)
        sure = winner["interval"] is None or winner["interval"][0] >= 1
        on, limit = winner["speedup"] >= PAYS and sure, limits(winner)
        k = max(self.lengths, key=lambda one: one["speedup"])["k"] if self.lengths else None
        return {
            **measured_on(self.models),
            "options": {"seconds": budget_s, **self.options}, "on": on, "method": winner["method"], "best_fixed_k": k,
            "up_to": up_to(self.levels) if on else 0, "stops_paying_at": crossing(self.levels) if on else None,
            "speedup": winner["speedup"], "interval": winner["interval"],
            "sentence": sentence(on, winner, f", k = auto (the best fixed one: {k})" if k else ", k = auto"), "at_once": advice(self.levels) if self.levels else None, "limit": limit, "change": change(winner, limit["name"], on),
            "methods": methods, "lengths": self.lengths, "levels": [level._asdict() for level in self.levels],
            "rows": [
                {"method": one.entry.label, **asdict(row)} for one in self.candidates for row in one.rows(self.questions)
            ],
            "note": "every run beside a naive one of the same prompt, reading prompts left out; medians over prompts with 90% intervals over them",
        }  # fmt: skip


_COSTS = ("tokens_per_pass", "drafted_per_pass", "depth_per_pass", "pass_cost", "verify_cost", "draft_cost")


def limits(of: Mapping[str, Any]) -> dict[str, Any]:
    """What a method gains most from if it were perfect, and the speedup then; of its means by pass, in naive passes. Where
    drafting and verifying are not known apart, they are one cost."""
    tokens, cost = of["tokens_per_pass"], of["pass_cost"]
    perfect = {"acceptance": (1 + of["depth_per_pass"]) / cost}  # a tree accepts at most one path
    if of["draft_cost"] is None:
        perfect["cost"] = tokens
    else:
        perfect["drafting"] = tokens / (cost - of["draft_cost"])
        perfect["verifying"] = tokens / (cost - max(0.0, of["verify_cost"] - 1))
    name = max(perfect, key=perfect.get)
    return {"name": name, "now": tokens / cost, "perfect": perfect[name]}


def change(of: Mapping[str, Any], limit: str, on: bool) -> str:
    """What would have to be otherwise: for it to pay, or to pay more."""
    needed = of["pass_cost"] * PAYS
    if not of["drafted_per_pass"]:
        return "Nothing was drafted: these prompts give this method nothing to go by."
    if not on:
        return (
            f"A pass with its draft costs {decimal(of['pass_cost'])} naive passes, so it pays from {decimal(needed)} tokens a pass on; here it "
            f"wrote {decimal(of['tokens_per_pass'])}. Text that is easier to guess, or a draft that knows it better, would do it."
        )
    return {
        "acceptance": "A draft that knows these texts better would gain most: trained on what the target writes for them.",
        "drafting": "A smaller draft, or one that drafts its tokens in one pass, would gain most.",
        "cost": "Cheaper passes would gain most: a smaller draft, fewer drafted tokens, or a machine with more computing to its memory.",
        "verifying": "Cheaper rows would gain most: shorter drafts, or a machine with more computing to its memory.",
    }[limit]


def up_to(levels: Sequence[Level]) -> int:
    """The largest measured number of texts at once up to which it pays; 1 where batches were not measured."""
    paying = 1
    for level in levels:
        if (level.speedup or 0) < PAYS or (level.interval and level.interval[0] < 1):
            break
        paying = level.at_once
    return paying


def sentence(on: bool, winner: Mapping[str, Any], length: str) -> str:
    """The answer; `length` says how much is drafted."""
    between = winner["interval"]
    sure = f" [{ratio(between[0])[:-1]}, {ratio(between[1])[:-1]}]" if between else ", of one prompt"
    speed = f"{ratio(winner['speedup'])}{sure}"
    if not on:
        return f"Off. The best there is, {winner['method']}, gives {speed}: no gain that is sure."
    return f"On: {winner['method']}{length}. {speed} for one text at a time."
