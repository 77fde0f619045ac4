"""A batch: several texts advance together, a pass for the rows of all of them.

It is the loop of `decode`, with as many texts as have not ended. Every text has its own drafter, draft length, rule and
end, and gets what it would get alone. A pass that is filled by others' rows turns compute-bound, and a drafted row then
costs what it computes; so drafts compete: of all rows those stay that are likeliest to be accepted, for as long as they
bring more tokens than time. Where nothing pays, nothing is drafted, and texts are hardly asked any more.

Knows token ids. It does not know why these texts are written together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from time import perf_counter

from ..core.events import Draft, SettingsError, Step, whole_number
from ..core.tree import branch_count, depths
from ..drafting.draft_length import AdaptiveLength, reaches
from ..drafting.history import UNSTATED
from ..model.beside import workers
from ..model.lm import together
from .decode import Text
from .lane import Lane

MOST_TEXTS = 256
VAIN = 4  # passes in which asking for drafts took longer than these spared, after which texts of full passes are asked
ASK_EVERY = ((0.9, 16), (0.5, 4))  # so rarely, where as many rows again take more than this share of a pass
PassSeconds = Callable[[int, int, int], float]  # of so many rows in so many branches, the most of them one text's


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass of a batch: the step of each text that took part, by its number, and the seconds of all of it. A step's
    `verify_s` is the text's share of the pass."""

    steps: Mapping[int, Step]
    seconds: float

    @property
    def tokens(self) -> int:
        """Tokens emitted."""
        return sum(len(step.emitted) for step in self.steps.values())

    @property
    def rows(self) -> int:
        """Rows of the pass, roots included."""
        return sum(1 + len(step.draft) for step in self.steps.values())


class SharedCost:
    """What rows cost one of `texts` that share a pass: its part of a pass without drafts, and all that further rows add.

    So whoever weighs them as one weighs a pass of his own settles on what is best for all of them.
    """

    def __init__(self, pass_s: PassSeconds):
        self._pass_s, self._cached = pass_s, lru_cache(maxsize=512)(self._seconds)
        self.texts, self._others = 1, 0

    def share(self, texts: int, rows: int) -> None:
        """From now on so many texts share a pass, which last had so many rows, at least one each."""
        others = round(rows * (texts - 1) / texts)
        if (texts, others) != (self.texts, self._others):
            self.texts, self._others = texts, others
            self._cached.cache_clear()

    def __call__(self, rows: int, branches: int = 1) -> float:
        return self._cached(rows, branches)

    def _seconds(self, rows: int, branches: int) -> float:
        without = self._pass_s(self._others + 1, 1, 1)
        return without / self.texts + self._pass_s(self._others + rows, branches, rows) - without


class Batch:
    """Lanes of one family, whose texts are written together, `at_once` of them (None: all); where one ends, the next begins.
    Iterate for passes, and for the reading of prompts, which is a pass of one; may be closed at any of them.

    Raises `SettingsError` for none, too many, and for a lane that runs a loop of its own.
    """

    def __init__(self, lanes: Sequence[Lane], at_once: int | None = None):
        self._at_once = len(lanes) if at_once is None else at_once
        whole_number("texts", self._at_once, 1, MOST_TEXTS)
        for lane in lanes:
            if lane.opaque:
                raise SettingsError(
                    "method", lane.method, "it runs a loop of its own, which writes one text at a time."
                )
        self._lanes, self._batches = lanes, lanes[0].models.target.passes.batches
        self._cost = SharedCost(self.pass_s)
        self._vain = self._unasked = 0  # passes: asked in vain one after the other, and since texts were asked

    def pass_s(self, rows: int, branches: int = 1, longest: int = 1) -> float:
        """Seconds of a pass of the texts that are left, on as many cores as they keep busy. It lasts as long as the fullest core,
        and the text with the most rows, `longest`, is on one."""
        on_one = max(longest, ceil(rows / workers(self._cost.texts))) if self._batches else rows
        return self._lanes[0].models.costs.pass_s(on_one, branches)

    def __iter__(self) -> Iterator[Pass]:
        waiting, texts, rows = list(enumerate(self._lanes)), {}, 1
        while waiting or texts:
            while waiting and len(texts) < self._at_once:
                number, lane = waiting.pop(0)
                text = texts[number] = lane.text(self._cost)
                step = text.read()
                yield Pass({number: step}, step.seconds)
            self._cost.share(len(texts), max(rows, len(texts)))
            passed = self._pass(texts)
            rows = passed.rows
            texts = {number: text for number, text in texts.items() if text.finish is None}
            yield passed

    def _pass(self, texts: Mapping[int, Text]) -> Pass:
        begin = perf_counter()
        asks = self._asks(texts.values())
        for text in texts.values():
            text.propose() if asks else text.rest()
        if asks and len(texts) > 1:
            adaptive = [
                text for text in texts.values() if isinstance(text.policy, AdaptiveLength) and not text.draft.window
            ]
            compete(adaptive, len(texts), self.pass_s)
        proposed = perf_counter()
        logits = together([text.target for text in texts.values()], [text.rows for text in texts.values()])
        verified = perf_counter()
        costs = [self._cost(1 + len(text.draft), branch_count(text.draft.parents)) for text in texts.values()]
        second = (verified - proposed) / sum(costs)
        answered = zip(texts.items(), logits, costs, strict=True)
        steps = {number: text.settle(part, second * cost) for (number, text), part, cost in answered}
        passed = Pass(steps, perf_counter() - begin)
        if asks:
            # An accepted row has spared a text a row of another pass, which asking must not take more than.
            spared_s = sum(step.accepted for step in steps.values()) * (verified - proposed) / passed.rows
            self._vain = 0 if spared_s > proposed - begin else self._vain + 1
        return passed

    def _asks(self, texts: Collection[Text]) -> bool:
        """Whether texts are asked for drafts in this pass. The fuller a pass, the less an accepted row spares, and the asking
        itself, a few millionths of a second a text, may cost more."""
        rows = len(texts)
        dearer = self.pass_s(2 * rows) / self.pass_s(rows) - 1
        every = next((every for least, every in ASK_EVERY if dearer > least), 1)
        rests = rows > 1 and self._vain >= VAIN and all(isinstance(text.policy, AdaptiveLength) for text in texts)
        self._unasked = (self._unasked + 1) % every if rests else 0
        return not self._unasked


def compete(texts: Sequence[Text], roots: int, pass_s: PassSeconds) -> None:
    """Cut the drafts of some texts to the rows that pay in a pass of so many roots: the likeliest of all."""
    offers = [
        (-chance, number, row)
        for number, text in enumerate(texts)
        for row, chance in enumerate(_chances(text.draft, text.policy.chance))
    ]
    offers.sort()
    branches = max((branch_count(text.draft.parents) for text in texts), default=1)
    tokens, best, stay, longest = float(roots), roots / pass_s(roots, 1, 1), 0, 1
    of_text = [1] * len(texts)
    for count, (chance, number, _) in enumerate(offers, start=1):
        tokens -= chance
        of_text[number] += 1
        longest = max(longest, of_text[number])
        rate = tokens / pass_s(roots + count, branches, longest)
        if rate > best:
            best, stay = rate, count
    rows: list[list[int]] = [[] for _ in texts]
    for _, number, row in offers[:stay]:
        rows[number].append(row)
    for text, kept in zip(texts, rows, strict=True):
        if len(kept) < len(text.draft):
            text.draft = text.draft.pruned(sorted(kept))


def _chances(draft: Draft, chance: Callable[[str, float], float]) -> list[float]:
    """The chance that each row is accepted. Sampled rows are judged by their depth alone: were one dropped for what was drawn,
    the text's distribution would change."""
    if draft.q is None:
        return reaches(draft, chance)
    return [UNSTATED**depth for depth in depths(draft.parents[: draft.tested])]
