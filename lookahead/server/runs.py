"""Runs on the way to their pages: batches of events, and a memory to repair gaps from.

A page may miss updates (a hidden tab, a dropped connection). Every event has an index; the page
asks for what it lacks by run id and index. Ids cannot be guessed. Only so many runs are remembered that nobody follows
any more, the oldest forgotten first; a page that asks for one that is not known, because the server was restarted
meanwhile, is told so, and can keep what it has.

"""

from __future__ import annotations

import json
import secrets
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from ..trace.wire import End, Event

MOST_RUNS = 64
MOST_CHARACTERS = 64_000_000
GONE = "The server does not know this run any more: it was restarted. What had arrived is shown, and can be taken home."


def _text(event: Event) -> str:
    return _safe(event.to_json())


def _batch(run: str, first: int, events: list[str], ended: bool) -> str:
    end = ',"end":true' if ended else ""
    return f'{{"run":{_dump(run)},"i0":{first},"ev":[{",".join(events)}]{end}}}'


def whole(run: str, events: Sequence[Event]) -> str:
    """A finished log as one batch: a recording."""
    return _batch(run, 0, [_text(event) for event in events], True)


def on_arrival(batch: str) -> str:
    """The same batch, marked as what a page shows first. After a reload the page ignores it, because it restores its last run."""
    return f'{{"arrival":true,{batch[1:]}'


def _safe(text: str) -> str:
    # No "<" leaves here, so nothing that handles a batch on its way can mistake text for markup.
    return text.replace("<", "\\u003c")


def _dump(data: Any) -> str:
    return _safe(json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")))


def refusal(message: str) -> str:
    """Words for a request that was not run; what the page shows stays."""
    return _dump({"error": message})


def failed(message: str) -> str:
    """Return the refusal of a run that may have begun: the page keeps what has arrived and expects no more."""
    return _dump({"error": message, "stop": 1})


class Run:
    """One run's events, written by the thread that computes and read by the one that sends."""

    def __init__(self) -> None:
        self.id = secrets.token_urlsafe(12)
        self.followed = False  # somebody reads the batches
        self.size = 0  # characters
        self._events: list[str] = []
        self._sent = 0
        self._ended = False
        self._lock = threading.Lock()

    def add(self, event: Event) -> None:
        """Append an event. An `End` is the last: what comes after it is dropped."""
        text = _text(event)
        with self._lock:
            if not self._ended:
                self._events.append(text)
                self.size += len(text)
                self._ended = isinstance(event, End)

    @property
    def unsent(self) -> bool:
        """Whether there is something new for the next batch."""
        return len(self._events) > self._sent

    def batch(self) -> str:
        """The events since the last batch."""
        with self._lock:
            first, self._sent = self._sent, len(self._events)
            return _batch(self.id, first, self._events[first:], self._ended)

    def since(self, first: int) -> str:
        """The events from index `first` on, as a batch."""
        with self._lock:
            return _batch(self.id, first, self._events[first:], self._ended)


class Runs:
    """The last runs by id."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._lock = threading.Lock()

    def remember(self, run: Run) -> None:
        """Keep this run, and forget what is oldest and too much; what somebody follows is kept."""
        with self._lock:
            self._runs[run.id] = run
            old = [one for one in self._runs.values() if not one.followed and one is not run]
            size = sum(one.size for one in old)
            for number, one in enumerate(old):
                if len(old) - number < MOST_RUNS and size <= MOST_CHARACTERS:
                    break
                size -= one.size
                del self._runs[one.id]

    def resend(self, request: Any) -> str | None:
        """What a page lacks, for a request [run id, first index]: of a run that is not known its end, with words."""
        match request:
            case [str(run_id), int(first)] if first >= 0 and not isinstance(first, bool):
                with self._lock:
                    run = self._runs.get(run_id)
                if run:
                    return run.since(first)
                return _batch(run_id, first, [_text(End(reason="error", message=GONE))], True)
        return None
