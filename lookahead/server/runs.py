"""Batches of events for pages, and a store of runs from which a page requests missing events.

A page may miss updates (a hidden tab, a dropped connection). Every event has an index; the page requests missing events by
run id and index. Ids cannot be guessed. Of the runs without a page, only the last ones are stored.
"""

import json
import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from ..core.wording import setting_labels
from ..measure import recordings
from ..measure.scenarios import ALL_SCENARIOS, DEFAULT_FAMILY
from ..trace import wire
from ..trace.wire import End, Event

CAPTION = "Recorded on {cpu}; press Race to run it here."
REAL_TIME = "Recorded on {cpu}, and played at its real speed after the first passes; press Race to run it here."
MAX_RUNS = 64
MAX_CHARACTERS = 64_000_000
GONE = "The server was restarted and has lost this run. The results so far are shown, and you can export them."


def _batch(run: str, first: int, events: Iterable[str], ended: bool) -> str:
    """Return a batch of events that are already JSON text."""
    end = ',"end":true' if ended else ""
    return _safe(f'{{"run":{json.dumps(run)},"i0":{first},"ev":[{",".join(events)}]{end}}}')


def complete_batch(run: str, events: Iterable[Event]) -> str:
    """Return a finished log, such as a recording, as one batch."""
    return _batch(run, 0, map(Event.to_json, events), True)


def on_arrival(batch: str) -> str:
    """Mark a batch as the first of a page. After a reload the page ignores it, because it restores its last run."""
    return f'{{"arrival":true,{batch[1:]}'


def _safe(text: str) -> str:
    return text.replace("<", "\\u003c")  # so no program that handles a batch finds markup in it


def refusal(message: str, **more: Any) -> str:
    """Return the batch of a refused request: the page keeps its events. With `stop=1`, it expects no further ones."""
    return _safe(json.dumps({"error": message, **more}, separators=(",", ":")))


def recording(scenario: str, at: int | None = None, caption: str = "") -> str:
    """Return a scenario's bundled recording as one batch, with the playhead at pass `at`; "" if there is none."""
    trace = recordings.read(scenario)
    if trace is None:
        return ""
    preset = next(preset for preset in ALL_SCENARIOS if preset.id == scenario)
    changes = f" ({', '.join(setting_labels(preset.options))})" if setting_labels(preset.options) else ""
    caption = caption or f"{preset.note}{changes} {CAPTION if trace.models.spec == DEFAULT_FAMILY else REAL_TIME}"
    events = wire.events(trace, caption.format(cpu=trace.machine.cpu), link=f"?recording={scenario}", at=at)
    return complete_batch(f"recording-{scenario}" + (f"-{at}" if at else ""), events)


def parse_pass(text: str) -> int | None:
    """Return the number in the `pass=` of a link, or None."""
    return int(text) if text.isdecimal() and len(text) < 7 else None


class Run:
    """The events of one run. The computing thread adds them; the sending thread reads them."""

    def __init__(self) -> None:
        self.id = secrets.token_urlsafe(12)
        self.followed = False  # a page reads the batches
        self.size = 0  # characters
        self._events: list[str] = []
        self._sent = 0
        self._ended = False
        self._lock = threading.Lock()

    def add(self, event: Event) -> None:
        """Append an event. Events after an `End` are ignored."""
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
        """Return the events that were not sent yet as a batch."""
        with self._lock:
            first, self._sent = self._sent, len(self._events)
            return _batch(self.id, first, self._events[first:], self._ended)

    def since(self, first: int) -> str:
        """Return the events from index `first` on as a batch."""
        with self._lock:
            return _batch(self.id, first, self._events[first:], self._ended)


class Runs:
    """The last runs, by id."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._lock = threading.Lock()

    def remember(self, run: Run) -> None:
        """Store this run. Beyond the limits, drop the oldest runs that no page follows."""
        with self._lock:
            self._runs[run.id] = run
            old = [stored for stored in self._runs.values() if not stored.followed and stored is not run]
            while len(old) >= MAX_RUNS or sum(stored.size for stored in old) > MAX_CHARACTERS:
                del self._runs[old.pop(0).id]

    def resend(self, request: Any) -> str | None:
        """Return the batch for a request [run id, first index]: for an unknown run, its end. None for other values."""
        match request:
            case [str(run_id), int(first)] if first >= 0 and not isinstance(first, bool):
                with self._lock:
                    run = self._runs.get(run_id)
                if run:
                    return run.since(first)
                return _batch(run_id, first, [End(reason="error", message=GONE).to_json()], True)
        return None
