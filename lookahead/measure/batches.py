"""Decode batches of texts naively and with drafts: compare the speed by batch size (`measure`), or play one (`play`).

A batch has a fixed number of slots. When a text ends, the next text takes its slot. Only passes with all slots in use are
counted, including drafting and the loop. Prefill is excluded on both sides. Each group of prompts is decoded naively and with
drafts, in alternating order. Small batches are measured on more groups.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice, product
from math import ceil
from typing import Any

from ..core.events import SettingsError, whole_number
from ..core.numbers import count, counted, decimal, ranged, ratio, seconds
from ..core.parallel import workers
from ..drafting import DRAFTERS
from ..drafting.naive import Naive
from ..engine.batch import MAX_TEXTS, Batch, Pass
from ..engine.methods import methods_for, needed_by
from ..engine.text import IncrementalDetokenizer
from ..family.models import Models
from ..trace.race import measured_on
from .intervals import interval
from .progress import Progress
from .tables import Table
from .timing import Entry, Question, check, lane_of, read_entry

MAX_PLAYED = 16  # texts in a batch for playback
MIN_TEXTS, MIN_GROUPS = 8, 3  # minimum for each batch size: slots over all groups of prompts, and groups
SHOWN_PASSES = 24  # passes that a result keeps for display
TEXTS_PER_SLOT = 2  # with more than one, all slots are in use most of the time


@dataclass(frozen=True, slots=True)
class BatchRun:
    """The texts of a batch, and sums over its full passes: those with all slots in use.

    `steps` is the sum over these passes of the texts in each. For the first of these passes, `shown` has the number of drafted
    and of accepted tokens in each text.
    """

    texts: tuple[tuple[int, ...], ...]
    seconds: float
    tokens: int
    passes: int
    rows: int
    drafted: int
    accepted: int
    steps: int
    shown: tuple[tuple[tuple[int, int], ...], ...]


Runs = list[tuple[BatchRun, BatchRun]]  # repetitions on one group of prompts, each with drafts and naively


def shared_methods(models: Models) -> list[str]:
    """Return the methods of a family that support batches: those that run in our loop, except naive."""
    return [method for method in methods_for(models) if method in DRAFTERS and method != Naive.name]


def write(
    models: Models, questions: Sequence[Question], at_once: int, entry: Entry, options: Mapping[str, Any]
) -> Generator[None, None, BatchRun]:
    """Write a text for each question in a batch of `at_once` slots. Yields after each pass, returns the `BatchRun`."""
    texts: list[list[int]] = [[] for _ in questions]
    full = []
    for passed in Batch([lane_of(models, q, entry, options) for q in questions], at_once):
        for number, step in passed.steps.items():
            texts[number] += step.emitted
        if len(passed.steps) == at_once and _decodes(passed):
            full.append(passed)
        yield
    steps = [step for passed in full for step in passed.steps.values()]
    return BatchRun(
        texts=tuple(map(tuple, texts)), seconds=sum(passed.seconds for passed in full),
        tokens=sum(passed.tokens for passed in full), passes=len(full), rows=sum(passed.rows for passed in full),
        drafted=sum(len(step.draft) for step in steps), accepted=sum(step.accepted for step in steps), steps=len(steps),
        shown=tuple(
            tuple((len(step.draft), step.accepted) for _, step in sorted(passed.steps.items()))
            for passed in full[:SHOWN_PASSES]
        ),
    )  # fmt: skip


def _decodes(passed: Pass) -> bool:
    return all(step.kind == "verify" for step in passed.steps.values())


def measure(
    models: Models, questions: Sequence[Question], methods: Sequence[str], sizes: Sequence[int], *, repeat: int = 1,
    **options: Any,
) -> Iterator[Progress | None]:  # fmt: skip
    """Measure each method at each batch size. Yields the document of `batch --json` so far, and None after each pass.

    Raises `LookaheadError` for invalid input before the first measurement.
    """
    whole_number("repeat", repeat, 1, 1000)
    for size in sizes:
        whole_number("texts", size, 1, MAX_TEXTS)
    if not questions or not sizes:
        raise SettingsError("texts", list(sizes), "give at least one number of texts and one prompt.")
    naive, entries = read_entry("naive"), [read_entry(m) for m in dict.fromkeys(methods) if m != "naive"]
    check(models, questions, (naive, *entries), options, shared=True)
    groups = {size: _groups(questions, size) for size in sizes}
    total, done = sum(map(len, groups.values())) * repeat * (1 + len(entries)), 0
    runs_by_size: dict[tuple[int, str], list[Runs]] = {}
    for entry in (naive, *entries):
        yield from write(models, questions[:2], 2, entry, options)
    for size in sorted(sizes):
        for repetition, (number, group) in product(range(repeat), enumerate(groups[size])):
            order, by_label = [naive, *entries], {}
            for entry in order if (repetition + number) % 2 == 0 else reversed(order):
                by_label[entry.label] = yield from write(models, group, size, entry, options)
                done += 1
                text = f"{counted(size, 'text')} at once: {entry.label}"
                yield Progress(done, total, text, _document(models, runs_by_size, repeat, options))
            for entry in entries or [naive]:
                runs = runs_by_size.setdefault((size, entry.label), [[] for _ in groups[size]])
                runs[number].append((by_label[entry.label], by_label[naive.label]))
    yield Progress(total, total, "done", _document(models, runs_by_size, repeat, options))


def _groups(questions: Sequence[Question], size: int) -> list[list[Question]]:
    """Return groups of consecutive questions, each with `TEXTS_PER_SLOT` texts for each slot."""
    groups, endless = max(MIN_GROUPS, ceil(MIN_TEXTS / size)), cycle(questions)
    return [list(islice(endless, TEXTS_PER_SLOT * size)) for _ in range(groups)]


def _document(
    models: Models, runs_by_size: Mapping[tuple[int, str], Sequence[Runs]], repeat: int, options: Mapping[str, Any]
) -> dict[str, Any]:  # fmt: skip
    rows = [_row(size, method, [runs for runs in groups if runs]) for (size, method), groups in runs_by_size.items()]
    for row in rows:
        smallest = next(first for first in rows if first["method"] == row["method"])
        row["theory"] = theory(models, smallest, row["texts"])
    return {
        **measured_on(models),
        "options": {"repeat": repeat, **options},
        "note": "only full passes, without prefill; each batch with drafts is paired with a naive batch of the same prompts; medians over the repetitions; 90% intervals over groups of prompts",
        "rows": rows,
    }


def _row(size: int, method: str, groups: Sequence[Runs]) -> dict[str, Any]:
    runs = [run for group in groups for run in group]
    with_drafts, pairs = [run for run, _ in runs], [medians(group) for group in groups]
    accepted, steps = sum(run.accepted for run in with_drafts), sum(run.steps for run in with_drafts)
    drafted = sum(run.drafted for run in with_drafts)
    return {
        "texts": size, "method": method, "tokens_per_second": _rate([run for run, _ in pairs]),
        "naive_tokens_per_second": _rate([naive for _, naive in pairs]), "speedup": speedup(pairs),
        "interval": interval(pairs, speedup), "identical": all(run.texts == naive.texts for run, naive in runs),
        "mean_acceptance_length": 1 + accepted / steps, "draft_acceptance_rate": accepted / drafted if drafted else None,
        "rows_per_pass": sum(run.rows for run in with_drafts) / sum(run.passes for run in with_drafts),
        "drafted_per_text": drafted / steps, "pass_s": _pass_s(with_drafts), "naive_pass_s": _pass_s([naive for _, naive in runs]),
        "passes": with_drafts[-1].shown,
    }  # fmt: skip


def medians(runs: Runs) -> tuple[BatchRun, BatchRun]:
    """Return the run of median speed with drafts, and the naive one. Of two median runs, it is the slower one.

    The median excludes runs that other programs slowed down.
    """
    with_drafts, naive = (sorted(side, key=lambda run: _rate([run])) for side in zip(*runs, strict=True))
    middle = (len(runs) - 1) // 2
    return with_drafts[middle], naive[middle]


def theory(models: Models, row: Mapping[str, Any], texts: int) -> float:
    """Return the predicted speedup of a batch of `texts`, from this machine's cost curve.

    Every text drafts and accepts as in `row`, which was measured in a smaller batch. Passes and drafting run in parallel on
    `workers(texts)` cores.
    """
    cores = workers(texts) if models.target.passes.batches else 1
    drafter = models.costs.drafters.get(needed_by(read_entry(row["method"]).method) or "")
    drafted = row["drafted_per_text"]
    draft_s = drafter.token_s * drafted + drafter.switch_s(round(drafted)) if drafter else 0.0
    naive_s, verify_s = (models.costs.pass_s(ceil(texts * rows / cores)) for rows in (1, 1 + drafted))
    return row["mean_acceptance_length"] * naive_s / (verify_s + ceil(texts / cores) * draft_s)


def _pass_s(runs: Sequence[BatchRun]) -> float:
    return sum(run.seconds for run in runs) / sum(run.passes for run in runs)


def _rate(runs: Sequence[BatchRun]) -> float:
    return sum(run.tokens for run in runs) / sum(run.seconds for run in runs)


def speedup(pairs: Sequence[tuple[BatchRun, BatchRun]]) -> float:
    """Return the total tokens per second of the first runs, divided by that of the second runs."""
    return _rate([run for run, _ in pairs]) / _rate([naive for _, naive in pairs])


def table(rows: Iterable[Mapping[str, Any]]) -> Table:
    """Return a table with a row for each batch size, from one method's `rows`."""
    heads = [
        "texts at once", "tokens/s, naive", "tokens/s, with drafts", "tokens/s per text", "speedup", "90% interval",
        "tokens per text and pass", "rows per pass", "time per pass, naive", "with drafts", "identical",
    ]  # fmt: skip
    return heads, [
        [
            str(row["texts"]), decimal(row["naive_tokens_per_second"]), decimal(row["tokens_per_second"]),
            decimal(row["tokens_per_second"] / row["texts"]), ratio(row["speedup"]), ranged(row["interval"]),
            decimal(row["mean_acceptance_length"]), decimal(row["rows_per_pass"]), seconds(row["naive_pass_s"]),
            seconds(row["pass_s"]), "yes" if row["identical"] else "no",
        ]
        for row in rows
    ]  # fmt: skip


def overview(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table with a row for each batch size, and the speedups of all methods with their intervals."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    lines = []
    for size in dict.fromkeys(row["texts"] for row in rows):
        by_method = {row["method"]: row for row in rows if row["texts"] == size}
        rate = count(round(max(row["naive_tokens_per_second"] for row in by_method.values())))
        chosen = [by_method[method] for method in methods]
        lines.append([str(size), rate, *(f"{ratio(row['speedup'])} [{ranged(row['interval'])}]" for row in chosen)])
    return ["texts at once", "naive, tokens/s", *(f"`{method}`" for method in methods)], lines


def play(models: Models, questions: Sequence[Question], method: str, **options: Any) -> Iterator[Progress | None]:
    """Write one batch naively, then with drafts; the last result is the document that the page plays back.

    Yields None after each pass. Raises `LookaheadError` for invalid input before the first pass.
    """
    if not 2 <= len(questions) <= MAX_PLAYED:
        raise SettingsError("texts", len(questions), f"give 2 to {MAX_PLAYED} prompts.")
    arms = [read_entry("naive"), read_entry(method)]
    check(models, questions, arms, options, shared=True)
    for entry in arms:  # warm-up: kernels are compiled on first use
        yield from write(models, questions, len(questions), entry, {**options, "max_new_tokens": 8})
    results = []
    for number, entry in enumerate(arms):
        yield Progress(number, len(arms), f"{len(questions)} texts at once: {entry.label}", None)
        results.append((yield from _played(models, questions, entry, options)))
    naive, drafted = results
    yield Progress(len(arms), len(arms), "done", {
        **measured_on(models), "texts": [{"id": q.id, "prompt": q.prompt} for q in questions], "arms": results,
        "speedup": naive["seconds"] / drafted["seconds"], "identical": naive["ids"] == drafted["ids"],
    })  # fmt: skip


def _played(
    models: Models, questions: Sequence[Question], entry: Entry, options: Mapping[str, Any]
) -> Generator[None, None, dict[str, Any]]:
    """Write all texts with one method. A pass has its seconds, and [number, drafted, accepted, pieces] per text."""
    lanes = [lane_of(models, q, entry, options) for q in questions]
    pieces = [IncrementalDetokenizer(models.tokenizer, lane.prompt) for lane in lanes]
    passes: list[dict[str, Any]] = []
    ids: list[list[int]] = [[] for _ in questions]
    for passed in Batch(lanes):
        yield None
        if not _decodes(passed):
            continue
        texts = []
        for number, step in passed.steps.items():
            ids[number] += step.emitted
            emitted = [pieces[number].add(token) for token in step.emitted]
            if step.finish and emitted:
                emitted[-1] += pieces[number].flush()
            texts.append([number, len(step.draft), step.accepted, emitted])
        passes.append({"seconds": round(passed.seconds, 7), "texts": texts})
    return {
        "method": entry.label, "seconds": sum(record["seconds"] for record in passes), "tokens": sum(map(len, ids)),
        "passes": passes, "ids": ids,
    }  # fmt: skip
