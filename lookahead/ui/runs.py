"""Runs on the way to their pages: batches of events, and a memory to repair gaps from.

A page may miss updates (a hidden tab, a dropped connection). Every event has an index; the page
asks for what it lacks by run id and index. Ids cannot be guessed. Only so many runs are remembered that nobody follows
any more, the oldest forgotten first; a page that asks for one that is not known, because the server was restarted
meanwhile, is told so, and can keep what it has.

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
BEAT_S = 0.25  # Stop takes so long to be done, and a race that is asked for before that is not begun
MOST_RUNS = 64
MOST_CHARACTERS = 64_000_000
GONE = "The server does not know this run any more: it was restarted. What had arrived is shown, and can be taken home."


def _batch(run: str, first: int, events: list[str], ended: bool) -> str:
    end = ',"end":true' if ended else ""
    return f'{{"run":{_dump(run)},"i0":{first},"ev":[{",".join(events)}]{end}}}'


def whole(run: str, events: list[dict[str, Any]]) -> str:
    """A finished log as one batch: a recording."""
    return _batch(run, 0, [_dump(event) for event in events], True)


def _dump(event: Any) -> str:
    # No "<" leaves here, so nothing that handles a batch on its way can mistake text for markup.
    return json.dumps(event, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def refusal(message: str) -> str:
    """Words for a request that was not run; what the page shows stays."""
    return _dump({"error": message})


def gone(request: Any) -> str | None:
    """The end, with words, of a run that is not known: for a page that asks for what it lacks of it."""
    if not _asks(request):
        return None
    run_id, first = request
    end = {"kind": "end", "reason": "error", "message": GONE, "stats": [], "agreement": [], "verdict": None}
    return _batch(run_id, first, [_dump(end)], True)


def _asks(request: Any) -> bool:
    if not isinstance(request, list) or len(request) != 2:
        return False
    run_id, first = request
    return isinstance(run_id, str) and isinstance(first, int) and not isinstance(first, bool) and first >= 0


class Run:
    """One run's log, written by the thread that computes and read by the one that sends."""

    def __init__(self) -> None:
        self.id = secrets.token_urlsafe(12)
        self.followed = False  # somebody reads the batches
        self.size = 0  # characters
        self._events: list[str] = []
        self._sent = 0
        self._ended = False

    def add(self, event: dict[str, Any]) -> None:
        """Append an event; the one of kind "end" closes the log."""
        assert not self._ended, "nothing follows the end"
        self._append(event)
        self._ended = event["kind"] == "end"

    def _append(self, event: dict[str, Any]) -> None:
        self._events.append(_dump(event))
        self.size += len(self._events[-1])

    def batches(self, wait: Callable[[], str] = lambda: "") -> Iterator[str]:
        """New events as they come, a batch at a time, until the end.

        Until the first step, what `wait` says is told as it changes. Empty batches go out while nothing is
        new: only a generator that yields can be cancelled.
        """
        self.followed = True
        try:
            yield from self._batches(wait)
        finally:
            self.followed = False

    def _batches(self, wait: Callable[[], str]) -> Iterator[str]:
        beat, said = monotonic(), ""
        while True:
            ended = self._ended  # read before the events: what is added after the end, nobody adds
            words = wait() if not ended else ""
            if words and words != said:
                self._append({"kind": "status", "text": words})
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
        return self.remember(Run())

    def remember(self, run: Run) -> Run:
        """Keep this run, and forget what is oldest and too much; what somebody follows is kept."""
        with self._lock:
            self._runs[run.id] = run
            old = [one for one in self._runs.values() if not one.followed and one is not run]
            size = sum(one.size for one in old)
            for number, one in enumerate(old):
                if len(old) - number < self._most and size <= MOST_CHARACTERS:
                    break
                size -= one.size
                del self._runs[one.id]
        return run

    def resend(self, request: Any) -> str | None:
        """What a page lacks, for a request [run id, first index]; None if the run is not known."""
        if not _asks(request):
            return None
        run_id, first = request
        with self._lock:
            run = self._runs.get(run_id)
        return run.since(first) if run else None
