"""A lane's steps as they come, turned into records with the text of every token.

Knows steps and records. It does not know tokenizers: whoever makes a recorder says how ids become text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.events import Step
from .schema import DraftRecord, StepRecord, TestRecord


class Recorder:
    """Turns one lane's steps into records. `pieces` adds text: see `text.Pieces`; `word` names an id."""

    def __init__(self, pieces: Any, word: Callable[[int], str]):
        self._pieces, self._word = pieces, word

    def record(self, step: Step) -> StepRecord:
        """The step with the text of every token in it."""
        draft = step.draft
        drafted = self._pieces.drafted(draft.tokens, draft.parents) if draft.tokens else []
        pieces = [self._pieces.add(token) for token in step.emitted]
        if step.finish and pieces:
            pieces[-1] += self._pieces.flush() if not pieces[-1] else ""
        return StepRecord(
            kind=step.kind,
            index=step.index,
            draft=DraftRecord(
                tokens=draft.tokens,
                parents=draft.parents,
                pieces=drafted,
                sources=draft.sources,
                chances=[round(chance, 4) for chance in draft.chances],
                window=draft.window,
                births=draft.births,
            ),
            statuses=step.statuses,
            path=step.path,
            emitted=step.emitted,
            pieces=pieces,
            origins=step.origins,
            tests=[self._test(t) for t in step.tests],
            propose_s=round(step.propose_s, 7),
            verify_s=round(step.verify_s, 7),
            other_s=round(step.other_s, 7),
            finish=step.finish,
        )

    def _test(self, test: Any) -> TestRecord:
        top = [(token, self._word(token), round(p, 4)) for token, p in test.top]
        small = {
            name: None if getattr(test, name) is None else round(getattr(test, name), 4)
            for name in ("p", "q", "draw", "entropy", "margin")
        }
        return TestRecord(row=test.row, token=test.token, outcome=test.outcome, top=top, **small)
