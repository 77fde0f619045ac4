"""THE loop. Every strategy is this loop with another drafter; naive is it with an empty draft.

    propose -> forward(root + drafted rows) -> verify -> keep(path) -> observe -> yield Step

The last token of the text is never in the cache: it is the root, the first row of the next pass.
So `cached == len(context) - 1` holds after every step and is asserted. The prompt but for its
last token is read in a step of its own, which the race does not put on the clock.

Knows token ids. Text, models' names and the other lane are not its business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

from ..core.accept import Rule
from ..core.events import ACCEPTED, REJECTED, UNVISITED, WINDOW, Draft, Step, Test
from ..core.tree import Limits
from ..drafting import Drafter
from ..drafting.draft_length import DraftLength
from ..model.lm import CachedLM


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
        """How many of the emitted tokens are kept, and why the text ends there (None: it goes on)."""
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
    drafter: Drafter,
    policy: DraftLength,
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
    drafter.start(context)
    yield Step("prefill", 0, propose_s=perf_counter() - read, verify_s=read - begin)

    step, finish, index = None, None, 0
    while finish is None:
        index += 1
        t0 = perf_counter()
        if step:
            policy.observe(step)
        draft = _limited(drafter.propose(context, ends.room(len(prompt), len(context)) - 1, policy), target.limits)
        t1 = perf_counter()
        logits = target.forward([context[-1], *draft.tokens], [-1, *(p + 1 for p in draft.parents)])
        t2 = perf_counter()
        verification = rule.verify(logits, draft, context)
        emitted = [*(draft.tokens[row] for row in verification.path), verification.token]
        kept, finish = ends.cut(len(prompt), context, emitted)
        path = verification.path[:kept]
        target.keep([0, *(row + 1 for row in path[: kept - 1])])
        context += emitted[:kept]
        assert target.cached() == len(context) - 1, "the cache holds every token but the last"
        t3 = perf_counter()
        drafter.observe(draft, logits, context)
        t4 = perf_counter()

        tests = _within(verification.tests, kept)
        if details:
            tests = rule.explain(logits, draft, context[:-kept], tests)
        step = Step(
            kind="verify", index=index, draft=draft, statuses=_statuses(draft, tests), path=path,
            emitted=tuple(emitted[:kept]), origins=_origins(path, kept, tests), tests=tests,
            propose_s=t1 - t0 + t4 - t3, verify_s=t2 - t1, other_s=t3 - t2, finish=finish,
        )  # fmt: skip
        yield step


def _limited(draft: Draft, limits: Limits) -> Draft:
    """The draft as far as one exact pass goes. A window is whole or useless: its pass is computed in parts."""
    most = limits.rows(draft.parents) - 1
    if draft.window or len(draft) <= most:
        return draft
    trunk = next((row for row, parent in enumerate(draft.parents) if parent != row - 1), len(draft))
    return draft.pruned(range(max(most, min(trunk, limits.chain_rows - 1))))


def _within(tests: Sequence[Test], kept: int) -> tuple[Test, ...]:
    """The tests up to the one that settled the last token that is kept."""
    settled = 0
    for i, test in enumerate(tests):
        settled += test.outcome != REJECTED
        if settled == kept:
            return tuple(tests[: i + 1])
    return tuple(tests)


def _statuses(draft: Draft, tests: Sequence[Test]) -> tuple[str, ...]:
    """What became of every drafted row."""
    statuses = [UNVISITED] * draft.tested + [WINDOW] * draft.window
    for test in tests:
        if test.row is not None:
            statuses[test.row] = test.outcome
    return tuple(statuses)


def _origins(path: Sequence[int], kept: int, tests: Sequence[Test]) -> tuple[str, ...]:
    """Where each emitted token came from."""
    return (ACCEPTED,) * len(path) + ((tests[-1].outcome,) if kept > len(path) else ())
