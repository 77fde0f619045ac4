"""Diagnose speculation on two servers within a time budget.

The phases and their shares of the budget are in `SHARES`. If a phase ends early, later phases share its time. A phase that takes
too long is cut off, and keeps its results.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import zip_longest
from time import perf_counter

from ..measure.decision import MAX_PROMPTS, check_budget
from ..measure.progress import Progress, questions
from ..measure.timing import Question
from . import report
from .addresses import RemoteError
from .background import stream
from .client import Client
from .diagnosis import TIME_OVER, Diagnosis, from_measurements
from .findings import Measurements
from .load import SIDES, Block, Plan, Sides, blocks
from .probes import long_prompt, probes

SHARES = {"texts": 0.3, "load": 0.25, "lengths": 0.1, "questions": 0.15, "context": 0.2}
MAX_TOKENS = 64  # per text
SLICE = 4  # prompts between two checks of the time
LOADS, LOADED = (8, 8, 2, 32), 16  # texts at once, in order; different prompts
ANSWER_TOKENS, PROBES_AT_ONCE = 48, 2
CONTEXTS = (1024, 2048, 4096, 8192, 16384, 32768)  # tokens of a prompt and its text
CONTEXT_TOKENS, MARGIN = 32, 0.9  # tokens of the text; share of the context that is used
CHARACTERS_PER_TOKEN, MAX_CHARACTERS_PER_TOKEN = 4.0, 8.0  # assumed without the server's counts; limit of its counts
TRIAL_KS, TRIAL_PROMPTS = (1, 2, 4, 8, 16), 4


def examine(
    sides: Sides, prompts: Sequence[Question], budget_s: float, most: int = MAX_TOKENS
) -> Iterator[Progress | None]:
    """Measure for about `budget_s` seconds, and yield the `Diagnosis` after each phase, or None while there is no news.

    Raises `LookaheadError` for invalid input, an unreachable server, or servers without any text.
    """
    prompts = [prompts[i] for i in in_turn([prompt.category for prompt in prompts])[:MAX_PROMPTS]]
    check_budget(prompts, budget_s)

    async def work(put: Callable[[Progress], None]) -> None:
        await _Examination(sides, prompts, budget_s, most, put).run()

    yield from stream(work)


class _Examination:
    """The phases. Each adds to `measured`, and to `missing` the reason why a section is incomplete."""

    def __init__(
        self, sides: Sides, prompts: Sequence[Question], budget_s: float, most: int, put: Callable[[Progress], None]
    ):
        self.sides, self.budget_s, self.most, self.put = sides, budget_s, most, put
        self.measured = Measurements(prompts)
        self.clients: Mapping[str, Client] = {}
        self.missing: dict[str, str] = {}
        self._start, self._until = perf_counter(), 0.0

    async def run(self) -> None:
        """Run all phases. The first one may use the whole budget for its first prompts."""
        for number, name in enumerate(SHARES):
            remaining_s = max(0.0, self.budget_s - self._spent())
            self._until = self._spent() + remaining_s * SHARES[name] / sum([*SHARES.values()][number:])
            limit_s = remaining_s if number == 0 else self._until - self._spent()
            try:
                async with asyncio.timeout(limit_s):
                    await getattr(self, f"_measure_{name}")()
            except TimeoutError:
                self.missing[name] = TIME_OVER
            except RemoteError as error:
                if number == 0:
                    raise
                self.missing[name] = str(error).rstrip(".")
            if not self.measured.pairs():
                raise self._no_text()
            self._show(name, self._diagnosis(complete=number + 1 == len(SHARES)))

    def _spent(self) -> float:
        return perf_counter() - self._start

    def _show(self, text: str, result: Diagnosis | None = None) -> None:
        self.put(Progress(round(min(self._spent(), self.budget_s)), round(self.budget_s), text, result, "s"))

    def _diagnosis(self, complete: bool) -> Diagnosis:
        settings = {"seconds": self.budget_s, "max_new_tokens": self.most, "prompts": len(self.measured.questions)}
        return from_measurements(self.measured, report.source(self.clients), settings, self.missing, complete=complete)

    def _no_text(self) -> RemoteError:
        errors = [text.error for block in self.measured.blocks for text in block.texts if text.error]
        name = self.sides[SIDES[1]].name
        return RemoteError(name, errors[0] if errors else "no prompt has text from both servers; allow more seconds.")

    async def _blocks(
        self,
        prompts: Sequence[Question],
        plan: Plan,
        most: int,
        add: Callable[[Block], None],
        sides: Sides | None = None,
    ) -> None:
        """Measure a plan, and pass each block to `add`."""
        async with aclosing(blocks(sides or self.sides, prompts, plan, most)) as items:
            async for item in items:
                if isinstance(item, Block):
                    add(item)
                    self._show(f"{item.side}, {item.at_once} at once")
                else:
                    self.clients = self.clients or item
                    self.measured.kinds = {side: client.kind.name for side, client in self.clients.items()}

    async def _measure_texts(self) -> None:
        """Measure one text at a time."""
        prompts = self.measured.questions

        def plan() -> Plan:
            for first in range(0, len(prompts), SLICE):
                if first and self._spent() > self._until:
                    return
                yield 1, range(first, min(first + SLICE, len(prompts)))

        await self._blocks(prompts, plan(), self.most, self.measured.blocks.append)

    async def _measure_load(self) -> None:
        """Measure several texts at once, with prompts that were measured alone."""
        seen = [*dict.fromkeys(text.prompt for block in self.measured.blocks for text in block.texts)][:LOADED]
        plan = [(at_once, seen) for at_once in LOADS]
        await self._blocks(self.measured.questions, plan, self.most, self.measured.blocks.append)

    async def _measure_questions(self) -> None:
        """Ask both servers the questions with known answers, those of all categories in turn."""
        all_probes, done = probes(), []
        order = in_turn([probe.question.category for probe in all_probes])
        plan = [(PROBES_AT_ONCE, order[first : first + SLICE]) for first in range(0, len(order), SLICE)]

        def add(block: Block) -> None:
            done.append(block)
            answers = Measurements([probe.question for probe in all_probes], blocks=done).by_prompt(PROBES_AT_ONCE)
            self.measured.answers = [(all_probes[i], pair) for i, pair in answers.items()]
            if errors := [text.error for text in block.texts if text.error]:
                self.missing["questions"] = errors[0].rstrip(".")

        await self._blocks([probe.question for probe in all_probes], plan, ANSWER_TOKENS, add)

    async def _measure_context(self) -> None:
        """Measure prompts of each length, up to the first one that a server refuses."""
        lengths = [
            (len(self.measured.questions[text.prompt].prompt), text.completion.prompt_tokens)
            for block in self.measured.blocks
            for text in block.texts
            if text.completion and text.completion.prompt_tokens
        ]
        per_token = sum(n for n, _ in lengths) / sum(n for _, n in lengths) if lengths else CHARACTERS_PER_TOKEN
        for length in CONTEXTS:
            per_token = min(per_token, MAX_CHARACTERS_PER_TOKEN)
            prompt = long_prompt(round((MARGIN * length - CONTEXT_TOKENS) * per_token))
            prompts, done = [Question(str(length), "context", prompt, False)], []
            try:
                await self._blocks(prompts, [(1, [0])], CONTEXT_TOKENS, done.append)
            except RemoteError as error:  # of the warm-up, which has the same prompt
                self.missing["context"] = f"{length} tokens: {error}".rstrip(".")
                return
            pairs = Measurements(prompts, blocks=done).pairs()
            if not pairs:
                return
            tokens = pairs[0][0][0].prompt_tokens or length
            per_token = len(prompt) / tokens
            self.measured.contexts.append((tokens, pairs[0]))

    async def _measure_lengths(self) -> None:
        """Measure other draft lengths if the server reads them from requests."""
        field = self.clients[SIDES[1]].kind.draft_length
        if not field:
            return
        prompts = self.measured.questions[:TRIAL_PROMPTS]
        for k in TRIAL_KS:
            fast = self.sides[SIDES[1]]
            sides = {**self.sides, SIDES[1]: replace(fast, request={**fast.request, field: k})}
            done: list[Block] = []
            await self._blocks(prompts, [(1, range(len(prompts)))], self.most, done.append, sides)
            trial = Measurements(prompts, blocks=done)
            drafts = [part.drafted for item in trial.completions(SIDES[1]) for part in item.passes if part.drafted]
            if not drafts or max(drafts) > k:
                return  # the server ignores the field
            self.measured.trials[k] = trial.pairs()


def bundled_questions() -> list[Question]:
    """Return the bundled prompts for greedy decoding."""
    return [question for question in questions() if "temperature" not in question.settings]


def in_turn(categories: Sequence[str]) -> list[int]:
    """Return the indices of prompts in an order in which the categories alternate."""
    groups: dict[str, list[int]] = {}
    for number, category in enumerate(categories):
        groups.setdefault(category, []).append(number)
    return [number for row in zip_longest(*groups.values()) for number in row if number is not None]
