"""Runs on the way to their pages: batches of events, and a memory to repair gaps from.

A page may miss updates (a hidden tab, a dropped connection). Every event has an index; the page
asks for what it lacks by run id and index. Ids cannot be guessed, and only so many runs are
remembered, the oldest forgotten first.

Knows JSON and clocks. It does not know Gradio or what is in an event.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from time import monotonic, sleep
from typing import Any

EVERY_S = 0.08  # faster than that nobody reads, and sending shares the cores with computing
BEAT_S = 0.25
MOST_RUNS = 64


def _batch(run: str, first: int, events: list[str], ended: bool) -> str:
    end = ',"end":true' if ended else ""
    return f'{{"run":"{run}","i0":{first},"ev":[{",".join(events)}]{end}}}'


def whole(run: str, events: list[dict[str, Any]]) -> str:
    """A finished log as one batch: a recording."""
    return _batch(run, 0, [_dump(event) for event in events], True)


def _dump(event: dict[str, Any]) -> str:
    # No "<" leaves here, so nothing that handles a batch on its way can mistake text for markup.
    return json.dumps(event, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def refusal(message: str) -> str:
    """Words for a request that was not run; what the page shows stays."""
    return _dump({"error": message})


class Run:
    """One run's log, written by the thread that computes and read by the one that sends."""

    def __init__(self) -> None:
        self.id = secrets.token_urlsafe(12)
        self.stopping = False  # set by the reader, obeyed by the writer
        self._events: list[str] = []
        self._sent = 0
        self._ended = False

    def add(self, event: dict[str, Any]) -> None:
        """Append an event; the one of kind "end" closes the log."""
        assert not self._ended, "nothing follows the end"
        self._events.append(_dump(event))
        self._ended = event["kind"] == "end"

    def batches(self, wait: Callable[[], str] = lambda: "") -> Iterator[str]:
        """New events as they come, a batch at a time, until the end.

        Until the first step, what `wait` says is told as it changes. Empty batches go out while nothing is
        new: only a generator that yields can be cancelled.
        """
        beat, said = monotonic(), ""
        while True:
            ended = self._ended  # read before the events: what is added after the end, nobody adds
            words = wait() if not ended else ""
            if words and words != said:
                self._events.append(_dump({"kind": "status", "text": words}))
                said = words
            if len(self._events) > self._sent or monotonic() - beat > BEAT_S:
                first, self._sent, beat = self._sent, len(self._events), monotonic()
                yield _batch(self.id, first, self._events[first : self._sent], ended)
            if ended:
                return
            sleep(EVERY_S)

    def since(self, first: int) -> str:
        """The events from index `first` on, as a batch."""
        ended = self._ended
        return _batch(self.id, first, self._events[first:], ended)


class Runs:
    """The last runs by id."""

    def __init__(self, most: int = MOST_RUNS):
        self._most = most
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._lock = threading.Lock()

    def open(self) -> Run:
        """A new, remembered run."""
        run = Run()
        with self._lock:
            self._runs[run.id] = run
            while len(self._runs) > self._most:
                self._runs.popitem(last=False)
        return run

    def resend(self, request: Any) -> str | None:
        """What a page lacks, for a request [run id, first index]; None if the run is not known."""
        if not isinstance(request, list) or len(request) != 2:
            return None
        run_id, first = request
        if not isinstance(run_id, str) or isinstance(first, bool) or not isinstance(first, int) or first < 0:
            return None
        with self._lock:
            run = self._runs.get(run_id)
        return run.since(first) if run else None
