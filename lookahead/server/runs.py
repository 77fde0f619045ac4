"""Runs on the way to their pages: batches of events, and a store from which a page repairs gaps.

A page may miss updates (a hidden tab, a dropped connection). Every event has an index; the page requests missing ones by
run id and index. Ids cannot be guessed. Of the runs that no page follows, only the last are kept.
"""

import json
import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from ..core.wording import setting_labels
from ..measure import recordings
from ..measure.scenarios import EVERY, USUAL
from ..trace import wire
from ..trace.wire import End, Event

CAPTION = "Recorded on {cpu}; press Race to run it here."
REAL_TIME = "Recorded on {cpu}, and played at its real speed after the first passes; press Race to run it here."
MOST_RUNS = 64
MOST_CHARACTERS = 64_000_000
GONE = "The server does not know this run any more: it was restarted. What had arrived is shown, and can be taken home."


def _batch(run: str, first: int, events: Iterable[str], ended: bool) -> str:
    """A batch of events that are JSON text already."""
    end = ',"end":true' if ended else ""
    return _safe(f'{{"run":{json.dumps(run)},"i0":{first},"ev":[{",".join(events)}]{end}}}')


def whole(run: str, events: Iterable[Event]) -> str:
    """A finished log as one batch: a recording."""
    return _batch(run, 0, map(Event.to_json, events), True)


def on_arrival(batch: str) -> str:
    """The batch marked as the first of a page. After a reload the page ignores it, because it restores its last run."""
    return f'{{"arrival":true,{batch[1:]}'


def _safe(text: str) -> str:
    # Without "<", nothing that handles a batch on its way can mistake text for markup.
    return text.replace("<", "\\u003c")


def refusal(message: str, **more: Any) -> str:
    """The batch for a request that was not run; the page keeps what it shows."""
    return _safe(json.dumps({"error": message, **more}, separators=(",", ":")))


def failed(message: str) -> str:
    """The refusal of a run that may have begun: the page keeps what has arrived and expects no more."""
    return refusal(message, stop=1)


def recording(scenario: str, at: int | None = None, caption: str = "") -> str:
    """A scenario's bundled recording as one batch, with the playhead at pass `at`; "" if there is none."""
    trace = recordings.read(scenario)
    if trace is None:
        return ""
    one = next(one for one in EVERY if one.id == scenario)
    changes = f" ({', '.join(setting_labels(one.options))})" if setting_labels(one.options) else ""
    caption = caption or f"{one.note}{changes} {CAPTION if trace.models.spec == USUAL else REAL_TIME}"
    events = wire.events(trace, caption.format(cpu=trace.machine.cpu), link=f"?recording={scenario}", at=at)
    return whole(f"recording-{scenario}" + (f"-{at}" if at else ""), events)


def passed(text: str) -> int | None:
    """The number in a link's `pass=`."""
    return int(text) if text.isdecimal() and len(text) < 7 else None


class Run:
    """One run's events, written by the computing thread and read by the thread that sends."""

    def __init__(self) -> None:
        self.id = secrets.token_urlsafe(12)
        self.followed = False  # a page reads the batches
        self.size = 0  # characters
        self._events: list[str] = []
        self._sent = 0
        self._ended = False
        self._lock = threading.Lock()

    def add(self, event: Event) -> None:
        """Append an event. Events after an `End` are dropped."""
        text = event.to_json()
        with self._lock:
            if not self._ended:
                self._events.append(text)
                self.size += len(text)
                self._ended = isinstance(event, End)

    @property
    def unsent(self) -> bool:
        return len(self._events) > self._sent

    def batch(self) -> str:
        with self._lock:
            first, self._sent = self._sent, len(self._events)
            return _batch(self.id, first, self._events[first:], self._ended)

    def since(self, first: int) -> str:
        with self._lock:
            return _batch(self.id, first, self._events[first:], self._ended)


class Runs:
    """The last runs by id."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._lock = threading.Lock()

    def remember(self, run: Run) -> None:
        """Keep this run, and drop the oldest runs without a follower beyond the limits."""
        with self._lock:
            self._runs[run.id] = run
            old = [one for one in self._runs.values() if not one.followed and one is not run]
            while len(old) >= MOST_RUNS or sum(one.size for one in old) > MOST_CHARACTERS:
                del self._runs[old.pop(0).id]

    def resend(self, request: Any) -> str | None:
        """The batch for a request [run id, first index]; the end of an unknown run, with a sentence; None for other values."""
        match request:
            case [str(run_id), int(first)] if first >= 0 and not isinstance(first, bool):
                with self._lock:
                    run = self._runs.get(run_id)
                if run:
                    return run.since(first)
                return _batch(run_id, first, [End(reason="error", message=GONE).to_json()], True)
        return None
