"""A class: eight texts written together, first a token a pass, then with drafts; every pass kept, so that it can be played.

Both times the same prompts share their passes from the first to the last text's end. Seconds are those of the passes, with
drafting and the loop; reading prompts is left out on both sides.

Knows batches. It does not know how they are played.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

from ..core.events import SettingsError
from ..family.models import Models
from ..race.batch import Batch
from ..race.text import Pieces
from ..trace.race import measured_on
from .progress import Progress
from .timing import Entry, Question, check, lane_of, read_entry

MOST = 16


def write(models: Models, questions: Sequence[Question], method: str, **options: Any) -> Iterator[Progress | None]:
    """Both ways; None at every pass, where it may be closed, and at last the document that the page plays.

    Raises `LookaheadError` for bad input before the first second is spent.
    """
    if not 2 <= len(questions) <= MOST:
        raise SettingsError("texts", len(questions), f"give 2 to {MOST} prompts.")
    arms = [read_entry("naive"), read_entry(method)]
    check(models, questions, arms, options, shared=True)
    for entry in arms:  # once for nothing: kernels are made at first use
        for _ in Batch([lane_of(models, q, entry, {**options, "max_new_tokens": 8}) for q in questions]):
            yield None
    written = []
    for number, entry in enumerate(arms):
        yield Progress(number, len(arms), f"{len(questions)} texts together: {entry.label}", None)
        written.append((yield from _arm(models, questions, entry, options)))
    naive, drafted = written
    yield Progress(len(arms), len(arms), "done", {
        **measured_on(models), "texts": [{"id": q.id, "prompt": q.prompt} for q in questions], "arms": written,
        "speedup": naive["seconds"] / drafted["seconds"], "identical": naive["ids"] == drafted["ids"],
    })  # fmt: skip


def _arm(
    models: Models, questions: Sequence[Question], entry: Entry, options: Mapping[str, Any]
) -> Generator[None, None, dict[str, Any]]:
    """All texts by one method: of every pass its seconds, and of each text in it [its number, tokens drafted, tokens accepted,
    the pieces it wrote]."""
    lanes = [lane_of(models, q, entry, options) for q in questions]
    pieces = [Pieces(models.tokenizer, lane.prompt) for lane in lanes]
    passes: list[dict[str, Any]] = []
    ids: list[list[int]] = [[] for _ in lanes]
    for passed in Batch(lanes):
        yield None
        if any(step.kind == "prefill" for step in passed.steps.values()):
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
