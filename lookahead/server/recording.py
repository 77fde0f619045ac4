"""A scenario's bundled recording as a batch, for the page and, without Gradio, for the loading page."""

from __future__ import annotations

from ..core.wording import in_words
from ..measure import recordings
from ..measure.scenarios import EVERY, USUAL
from ..trace import wire
from .runs import whole

CAPTION = "Recorded on {cpu}; press Race to run it here."
REAL_TIME = "Recorded on {cpu}, and as fast as it really was behind its first passes; press Race to run it here."


def recording(scenario: str, at: int | None = None, caption: str = "") -> str:
    """A scenario's recording as one batch, with the playhead at pass `at`; "" if there is none."""
    trace = recordings.read(scenario)
    if trace is None:
        return ""
    caption = caption or f"{described(scenario)} {CAPTION if trace.models.spec == USUAL else REAL_TIME}"
    events = wire.events(trace, caption.format(cpu=trace.machine.cpu), link=f"?recording={scenario}", at=at)
    return whole(f"recording-{scenario}" + (f"-{at}" if at else ""), events)


def described(scenario: str) -> str:
    """A scenario's note and its settings."""
    one = next(one for one in EVERY if one.id == scenario)
    changes = ", ".join(in_words(one.options))
    return f"{one.note} ({changes})" if changes else one.note


def passed(text: str) -> int | None:
    """The number in a link's `pass=`."""
    return int(text) if text.isdecimal() and len(text) < 7 else None
