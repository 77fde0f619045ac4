"""Checks that lanes write the same text as naive decoding, as far as the machine's exactness guarantees it.

If the badge is bit-exact, the ids must be equal. Otherwise, and in lanes of transformers, a tie of two logits may be decided
differently. Then the badge must report the tie.
"""

from __future__ import annotations

from typing import Any

from conftest import finished

import lookahead
from lookahead.core.events import BIT_EXACT
from lookahead.trace.race import MAX_LANES


def assert_agrees(models: Any, prompt: Any, *lanes: str | tuple[str, dict[str, Any]], **options: Any) -> None:
    """Race lanes against naive decoding, with at most `MAX_LANES` lanes per race, and check their badges."""
    for first in range(0, len(lanes), MAX_LANES - 1):
        methods = lanes[first : first + MAX_LANES - 1]
        race = lookahead.race(models, prompt, methods=["naive", *methods], **{**options, "details": True})
        assert_badges(finished(race), methods, options)


def assert_badges(trace: lookahead.Trace, *context: Any) -> None:
    """Check that the lanes of a trace with details wrote the naive lane's text, or that their badges report a tie."""
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
