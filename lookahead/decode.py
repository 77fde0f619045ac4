"""THE loop. Every strategy is this loop with another proposer; naive is it with an empty draft.

    propose -> forward(root + drafted rows) -> judge -> keep(path) -> observe -> yield Step

The last token of the text is never in the cache: it is the root, the first row of the next pass.
So `cached == len(context) - 1` holds after every step and is asserted. The prompt but for its
last token is read in a step of its own, which the race does not put on the clock.

Knows token ids. Text, models' names and the other lane are not its business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

from .accept import Rule
from .events import ACCEPTED, REJECTED, UNVISITED, WINDOW, Draft, Step, Test
from .lm import CachedLM
from .pace import Auto, Fixed
from .proposers import Proposer


@dataclass(frozen=True, slots=True)
class Ends:
    """What ends a text: end-of-sequence ids, a stop test on the generated ids, and two lengths."""

    eos: frozenset[int]
    most_new: int
    context_length: int
    stopped: Callable[[Sequence[int]], bool] | None = None

    def room(self, prompt: int, context: int) -> int:
        """How many more tokens a text of `context` tokens, `prompt` of them given, may take."""
        return min(self.most_new - (context - prompt), self.context_length - context)

    def cut(self, prompt: int, context: list[int], emitted: Sequence[int]) -> tuple[int, str | None]:
        """How many of the emitted tokens stand, and why the text ends there (None: it goes on)."""
        room = self.room(prompt, len(context))
        for i, token in enumerate(emitted, start=1):
            if token in self.eos:
                return i, "eos"
            if self.stopped and self.stopped([*context[prompt:], *emitted[:i]]):
                return i, "stop"
            if i >= room:
                return i, "length" if room == self.most_new - (len(context) - prompt) else "context"
        return len(emitted), None


def decode(
    target: CachedLM,
    proposer: Proposer,
    pace: Auto | Fixed,
    rule: Rule,
    prompt: Sequence[int],
    ends: Ends,
    *,
    details: bool = True,
) -> Iterator[Step]:
    """Continue `prompt` until it ends, one `Step` a pass. `details` (off the clock) adds favourites."""
    context = list(prompt)
    begin = perf_counter()
    target.reset()
    if len(context) > 1:
        target.extend(context[:-1])
    read = perf_counter()
    proposer.start(context)
    yield Step("prefill", 0, propose_s=perf_counter() - read, verify_s=read - begin)

    step, finish, index = None, None, 0
    while finish is None:
        index += 1
        t0 = perf_counter()
        if step:
            pace.observe(step)
        draft = proposer.propose(context, ends.room(len(prompt), len(context)) - 1, pace)
        t1 = perf_counter()
        logits = target.forward([context[-1], *draft.tokens], [-1, *(p + 1 for p in draft.parents)])
        t2 = perf_counter()
        verdict = rule.judge(logits, draft, context)
        emitted = [*(draft.tokens[row] for row in verdict.path), verdict.token]
        stands, finish = ends.cut(len(prompt), context, emitted)
        path = verdict.path[:stands]
        target.keep([0, *(row + 1 for row in path[: stands - 1])])
        context += emitted[:stands]
        assert target.cached() == len(context) - 1, "the cache holds every token but the last"
        t3 = perf_counter()
        proposer.observe(draft, logits, context)
        t4 = perf_counter()

        tests = _within(verdict.tests, stands)
        if details:
            tests = rule.explain(logits, draft, context[:-stands], tests)
        step = Step(
            kind="verify", index=index, draft=draft, statuses=_statuses(draft, tests), path=path,
            emitted=tuple(emitted[:stands]), origins=_origins(path, stands, tests), tests=tests,
            propose_s=t1 - t0 + t4 - t3, verify_s=t2 - t1, other_s=t3 - t2, finish=finish,
        )  # fmt: skip
        yield step


def _within(tests: Sequence[Test], stands: int) -> tuple[Test, ...]:
    """The tests up to the one that settled the last token that stands."""
    settled = 0
    for i, test in enumerate(tests):
        settled += test.outcome != REJECTED
        if settled == stands:
            return tuple(tests[: i + 1])
    return tuple(tests)


def _statuses(draft: Draft, tests: Sequence[Test]) -> tuple[str, ...]:
    """What became of every drafted row."""
    statuses = [UNVISITED] * draft.tested + [WINDOW] * draft.window
    for test in tests:
        if test.row is not None:
            statuses[test.row] = test.outcome
    return tuple(statuses)


def _origins(path: Sequence[int], stands: int, tests: Sequence[Test]) -> tuple[str, ...]:
    """Where each emitted token came from."""
    own = (tests[-1].outcome,) if stands > len(path) else ()
    return (ACCEPTED,) * len(path) + own
