"""The rows of a draft that a pass can verify, and the outcome of each row."""

from collections.abc import Sequence

from ..core.events import ACCEPTED, REJECTED, UNVISITED, WINDOW, Draft, Test


def up_to_end(draft: Draft, eos: frozenset[int]) -> Draft:
    """Return the draft without rows after an end-of-sequence token, which lookup in a chat may draft."""
    if draft.window or eos.isdisjoint(draft.tokens):
        return draft
    ended: set[int] = set()  # rows whose descendants are removed
    for row, (token, parent) in enumerate(zip(draft.tokens, draft.parents, strict=True)):
        if parent in ended or token in eos:
            ended.add(row)
    return draft.pruned([row for row, parent in enumerate(draft.parents) if parent not in ended])


def tests_up_to(tests: Sequence[Test], kept: int) -> tuple[Test, ...]:
    """Return the tests up to the one that emitted the last of the first `kept` tokens."""
    emitting = [i for i, test in enumerate(tests, start=1) if test.outcome != REJECTED]
    return tuple(tests[: emitting[kept - 1]])


def statuses(draft: Draft, tests: Sequence[Test]) -> tuple[str, ...]:
    """Return the status of every drafted row."""
    out = [UNVISITED] * draft.tested + [WINDOW] * draft.window
    for test in tests:
        if test.row is not None:
            out[test.row] = test.outcome
    return tuple(out)


def origins(path: Sequence[int], kept: int, tests: Sequence[Test]) -> tuple[str, ...]:
    """Return the origin of each emitted token."""
    return (ACCEPTED,) * len(path) + ((tests[-1].outcome,) if kept > len(path) else ())
