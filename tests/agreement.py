"""Whether a lane wrote what naive writes, as far as this machine promises it.

Where the badge says bit-exact the ids are naive's. Elsewhere, and where transformers decodes in passes of its own, two
logits that tie may fall either way, and then the trace must say so itself: the badge is looked at instead, never skipped.
"""

from __future__ import annotations

from typing import Any

from conftest import finished

import lookahead
from lookahead.core.events import BIT_EXACT
from lookahead.trace.race import MOST_LANES


def assert_agrees(models: Any, prompt: Any, *lanes: str | tuple[str, dict[str, Any]], **options: Any) -> None:
    """Race lanes against naive runs, as many at once as a race takes, and hold each to its badge."""
    for first in range(0, len(lanes), MOST_LANES - 1):
        some = lanes[first : first + MOST_LANES - 1]
        race = lookahead.race(models, prompt, methods=["naive", *some], **{**options, "details": True})
        assert_badges(finished(race), some, options)


def assert_badges(trace: lookahead.Trace, *context: Any) -> None:
    """A recorded race, made with details: its lanes wrote what naive wrote, or their badges say that it was a tie."""
    naive = trace.lanes[0].tokens
    for index, lane in enumerate(trace.lanes[1:], 1):
        agreement = trace.agreement(index)
        if trace.exactness == BIT_EXACT and not lane.opaque:
            assert lane.tokens == naive, (lane.method, *context, agreement)
            assert agreement["badge"] == "identical, bit-exact"
        elif lane.tokens == naive:
            assert agreement["badge"].startswith("identical")
        else:
            assert "a tie of" in agreement["badge"], (lane.method, *context, agreement)
            assert {"position", "margin", "pass", "rows"} <= agreement.keys()
