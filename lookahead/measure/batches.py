"""Texts written together, naively and with drafts: batches of several sizes (`measure`), and a class to be played (`play`).

A batch has a fixed number of places; when a text ends, the next begins in its place. Only passes with all places taken count,
with their drafting and the loop; prefill is left out on both sides. Every group of prompts is written naively and with drafts
in alternating order; small batches are measured on more groups.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice, product
from math import ceil
from typing import Any

from ..core.events import SettingsError, whole_number
from ..core.numbers import count, counted, decimal, ranged, ratio
from ..core.parallel import workers
from ..drafting import DRAFTERS
from ..drafting.naive import Naive
from ..engine.batch import MOST_TEXTS, Batch, Pass
from ..engine.methods import methods_for, needed_by
from ..engine.text import Pieces
from ..family.models import Models
from ..trace.race import measured_on
from .intervals import interval
from .progress import Progress
from .tables import Table
from .timing import Entry, Question, check, lane_of, read_entry

MOST_PLAYED = 16  # texts of a class
LEAST_TEXTS, LEAST_GROUPS = 8, 3  # places that every size is measured on, and groups of prompts
PICTURES = 24  # passes that are kept to be looked at
TURNS = 2  # texts for every place, so that all are taken most of the time


@dataclass(frozen=True, slots=True)
class Written:
    """Texts that were written in a batch, and the sums over its full passes, in which all places were taken.

    `steps` counts the texts of all these passes. `pictures` has, for the first of them, the tokens drafted and accepted of
    every text.
    """

    texts: tuple[tuple[int, ...], ...]
    seconds: float
    tokens: int
    passes: int
    rows: int
    drafted: int
    accepted: int
    steps: int
    pictures: tuple[tuple[tuple[int, int], ...], ...]


Runs = list[tuple[Written, Written]]  # of one group of prompts: with drafts, and naively


def shared_methods(models: Models) -> list[str]:
    """Return the methods of a family that can share a pass: those that run in our loop, except naive."""
    return [method for method in methods_for(models) if method in DRAFTERS and method != Naive.name]


def write(
    models: Models, questions: Sequence[Question], at_once: int, entry: Entry, options: Mapping[str, Any]
) -> Generator[None, None, Written]:
    """Write a text for each question, so many at once. Yields at every pass."""
    texts: list[list[int]] = [[] for _ in questions]
    full = []
    for passed in Batch([lane_of(models, q, entry, options) for q in questions], at_once):
        for number, step in passed.steps.items():
            texts[number] += step.emitted
        if len(passed.steps) == at_once and _decodes(passed):
            full.append(passed)
        yield
    steps = [step for passed in full for step in passed.steps.values()]
    return Written(
        texts=tuple(map(tuple, texts)), seconds=sum(passed.seconds for passed in full),
        tokens=sum(passed.tokens for passed in full), passes=len(full), rows=sum(passed.rows for passed in full),
        drafted=sum(len(step.draft) for step in steps), accepted=sum(step.accepted for step in steps), steps=len(steps),
        pictures=tuple(
            tuple((len(step.draft), step.accepted) for _, step in sorted(passed.steps.items())) for passed in full[:PICTURES]
        ),
    )  # fmt: skip


def _decodes(passed: Pass) -> bool:
    return all(step.kind == "verify" for step in passed.steps.values())


def measure(
    models: Models, questions: Sequence[Question], methods: Sequence[str], sizes: Sequence[int], *, repeat: int = 1,
    **options: Any,
) -> Iterator[Progress | None]:  # fmt: skip
    """Measure every method at every size, largest last; yields the document that `batch --json` prints, and None at every pass.

    Raises `LookaheadError` for bad input before anything is measured.
    """
    whole_number("repeat", repeat, 1, 1000)
    for size in sizes:
        whole_number("texts", size, 1, MOST_TEXTS)
    if not questions or not sizes:
        raise SettingsError("texts", list(sizes), "give numbers of texts, and prompts to begin them with.")
    naive, entries = read_entry("naive"), [read_entry(m) for m in dict.fromkeys(methods) if m != "naive"]
    check(models, questions, (naive, *entries), options, shared=True)
    groups = {size: _groups(questions, size) for size in sizes}
    total, done = sum(map(len, groups.values())) * repeat * (1 + len(entries)), 0
    taken: dict[tuple[int, str], list[Runs]] = {}
    for entry in (naive, *entries):
        yield from write(models, questions[:2], 2, entry, options)
    for size in sorted(sizes):
        for turn, (number, group) in product(range(repeat), enumerate(groups[size])):
            order, written = [naive, *entries], {}
            for entry in order if (turn + number) % 2 == 0 else reversed(order):
                written[entry.label] = yield from write(models, group, size, entry, options)
                done += 1
                text = f"{counted(size, 'text')} at once: {entry.label}"
                yield Progress(done, total, text, _document(models, taken, repeat, options))
            for entry in entries or [naive]:
                runs = taken.setdefault((size, entry.label), [[] for _ in groups[size]])
                runs[number].append((written[entry.label], written[naive.label]))
    yield Progress(total, total, "done", _document(models, taken, repeat, options))


def _groups(questions: Sequence[Question], size: int) -> list[list[Question]]:
    """Return groups of questions in turn, each of a few texts for every place."""
    groups, endless = max(LEAST_GROUPS, ceil(LEAST_TEXTS / size)), cycle(questions)
    return [list(islice(endless, TURNS * size)) for _ in range(groups)]


def _document(
    models: Models, taken: Mapping[tuple[int, str], Sequence[Runs]], repeat: int, options: Mapping[str, Any]
) -> dict[str, Any]:  # fmt: skip
    rows = [_row(size, method, [runs for runs in groups if runs]) for (size, method), groups in taken.items()]
    for row in rows:
        alone = next(first for first in rows if first["method"] == row["method"])
        row["theory"] = theory(models, alone, row["texts"])
    return {
        **measured_on(models),
        "options": {"repeat": repeat, **options},
        "note": "only full passes count, without reading prompts; every drafted batch is paired with a naive batch of the same prompts; medians over the repetitions; 90% intervals over groups of prompts",
        "rows": rows,
    }


def _row(size: int, method: str, groups: Sequence[Runs]) -> dict[str, Any]:
    runs = [run for group in groups for run in group]
    drafted, pairs = [one for one, _ in runs], [medians(group) for group in groups]
    accepted, steps = sum(one.accepted for one in drafted), sum(one.steps for one in drafted)
    tested = sum(one.drafted for one in drafted)
    return {
        "texts": size, "method": method, "tokens_per_second": _rate([one for one, _ in pairs]),
        "naive_tokens_per_second": _rate([plain for _, plain in pairs]), "speedup": speedup(pairs),
        "interval": interval(pairs, speedup), "identical": all(one.texts == plain.texts for one, plain in runs),
        "mean_acceptance_length": 1 + accepted / steps, "draft_acceptance_rate": accepted / tested if tested else None,
        "rows_per_pass": sum(one.rows for one in drafted) / sum(one.passes for one in drafted),
        "drafted_per_text": tested / steps, "passes": drafted[-1].pictures,
    }  # fmt: skip


def medians(runs: Runs) -> tuple[Written, Written]:
    """Return the run of median speed (the lower of two) with drafts, and the naive one: other programs can slow a pass."""
    drafted, plain = (sorted(side, key=lambda one: _rate([one])) for side in zip(*runs, strict=True))
    middle = (len(runs) - 1) // 2
    return drafted[middle], plain[middle]


def theory(models: Models, row: Mapping[str, Any], texts: int) -> float:
    """Return the speedup with so many texts if all drafted as in the `row` of a smaller batch, by this machine's cost curve.

    Passes and drafting run on as many cores as the texts keep busy.
    """
    cores = workers(texts) if models.target.passes.batches else 1
    drafter = models.costs.drafters.get(needed_by(read_entry(row["method"]).method) or "")
    drafted = row["drafted_per_text"]
    draft_s = drafter.tokens_s(1) * drafted + drafter.switch_s(round(drafted)) if drafter else 0.0
    plain_s, full_s = (models.costs.pass_s(ceil(texts * rows / cores)) for rows in (1, 1 + drafted))
    return row["mean_acceptance_length"] * plain_s / (full_s + ceil(texts / cores) * draft_s)


def _rate(batches: Sequence[Written]) -> float:
    return sum(one.tokens for one in batches) / sum(one.seconds for one in batches)


def speedup(pairs: Sequence[tuple[Written, Written]]) -> float:
    """Return how much faster the first of each pair are than the second, together."""
    return _rate([one for one, _ in pairs]) / _rate([plain for _, plain in pairs])


def table(rows: Iterable[Mapping[str, Any]]) -> Table:
    """Return a table with a row for every size, of one method's `rows`."""
    heads = [
        "texts at once", "tokens/s, naive", "with drafts", "a text", "speedup", "90% interval", "tokens a text and pass",
        "rows a pass", "same texts",
    ]  # fmt: skip
    return heads, [
        [
            str(row["texts"]), decimal(row["naive_tokens_per_second"]), decimal(row["tokens_per_second"]),
            decimal(row["tokens_per_second"] / row["texts"]), ratio(row["speedup"]), ranged(row["interval"]),
            decimal(row["mean_acceptance_length"]), decimal(row["rows_per_pass"]), "yes" if row["identical"] else "no",
        ]
        for row in rows
    ]  # fmt: skip


def overview(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table with a row for every size, and the speedups of all methods with their intervals."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    lines = []
    for size in dict.fromkeys(row["texts"] for row in rows):
        of = {row["method"]: row for row in rows if row["texts"] == size}
        rate = count(round(max(row["naive_tokens_per_second"] for row in of.values())))
        cells = [f"{ratio(of[method]['speedup'])} [{ranged(of[method]['interval'])}]" for method in methods]
        lines.append([str(size), rate, *cells])
    return ["texts at once", "naive, tokens/s", *(f"`{method}`" for method in methods)], lines


def play(models: Models, questions: Sequence[Question], method: str, **options: Any) -> Iterator[Progress | None]:
    """Write a class of texts together, first naively, then with drafts; the last result is the document that the page plays.

    Yields None at every pass. Raises `LookaheadError` for bad input before anything is measured.
    """
    if not 2 <= len(questions) <= MOST_PLAYED:
        raise SettingsError("texts", len(questions), f"give 2 to {MOST_PLAYED} prompts.")
    arms = [read_entry("naive"), read_entry(method)]
    check(models, questions, arms, options, shared=True)
    for entry in arms:  # kernels are compiled at first use
        yield from write(models, questions, len(questions), entry, {**options, "max_new_tokens": 8})
    written = []
    for number, entry in enumerate(arms):
        yield Progress(number, len(arms), f"{len(questions)} texts together: {entry.label}", None)
        written.append((yield from _played(models, questions, entry, options)))
    naive, drafted = written
    yield Progress(len(arms), len(arms), "done", {
        **measured_on(models), "texts": [{"id": q.id, "prompt": q.prompt} for q in questions], "arms": written,
        "speedup": naive["seconds"] / drafted["seconds"], "identical": naive["ids"] == drafted["ids"],
    })  # fmt: skip


def _played(
    models: Models, questions: Sequence[Question], entry: Entry, options: Mapping[str, Any]
) -> Generator[None, None, dict[str, Any]]:
    """Write all texts by one method. A pass has its seconds, and [number, tokens drafted, accepted, pieces] of each text."""
    lanes = [lane_of(models, q, entry, options) for q in questions]
    pieces = [Pieces(models.tokenizer, lane.prompt) for lane in lanes]
    passes: list[dict[str, Any]] = []
    ids: list[list[int]] = [[] for _ in questions]
    for passed in Batch(lanes):
        yield None
        if not _decodes(passed):
            continue
        texts = []
        for number, step in passed.steps.items():
            ids[number] += step.emitted
            words = [pieces[number].add(token) for token in step.emitted]
            if step.finish and words:
                words[-1] += pieces[number].flush()
            texts.append([number, len(step.draft), step.accepted, words])
        passes.append({"seconds": round(passed.seconds, 7), "texts": texts})
    return {
        "method": entry.label, "seconds": sum(one["seconds"] for one in passes), "tokens": sum(map(len, ids)),
        "passes": passes, "ids": ids,
    }  # fmt: skip
