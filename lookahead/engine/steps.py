"""The rows of a draft that a pass can verify, and the outcome of each row."""

from collections.abc import Sequence

from ..core.events import ACCEPTED, REJECTED, UNVISITED, WINDOW, Draft, Test


def up_to_end(draft: Draft, eos: frozenset[int]) -> Draft:
    """The draft without rows after an end-of-sequence token; a lookup in a chat would draft the next turn too."""
    if draft.window or eos.isdisjoint(draft.tokens):
        return draft
    ended: set[int] = set()  # rows whose children go
    for row, (token, parent) in enumerate(zip(draft.tokens, draft.parents, strict=True)):
        if parent in ended or token in eos:
            ended.add(row)
    return draft.pruned([row for row, parent in enumerate(draft.parents) if parent not in ended])


def kept_tests(tests: Sequence[Test], kept: int) -> tuple[Test, ...]:
    """The tests up to the one that settled the last token that is kept."""
    settled = [i for i, test in enumerate(tests, start=1) if test.outcome != REJECTED]
    return tuple(tests[: settled[kept - 1]])


def statuses(draft: Draft, tests: Sequence[Test]) -> tuple[str, ...]:
    """The status of every drafted row."""
    out = [UNVISITED] * draft.tested + [WINDOW] * draft.window
    for test in tests:
        if test.row is not None:
            out[test.row] = test.outcome
    return tuple(out)


def origins(path: Sequence[int], kept: int, tests: Sequence[Test]) -> tuple[str, ...]:
    """Where each emitted token came from."""
    return (ACCEPTED,) * len(path) + ((tests[-1].outcome,) if kept > len(path) else ())
