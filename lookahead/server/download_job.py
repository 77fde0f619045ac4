"""A job that mostly waits for the network: done in a thread of its own, outside the queue, but for what it computes.

A download must not hold up other people's races, and what computes must not disturb them. So the work of a `DownloadJob`
fetches where it is, and hands what computes to `compute`, which puts that into the queue like anybody's job.

Knows jobs and threads. It does not know what is fetched.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any, TypeVar

from .queue import Job, queue

T = TypeVar("T")
FAULT = "This broke off because of a fault in Lookahead or in the model's files ({kind}). The models in use are as they were."


class DownloadJob(Job[None]):
    """`work(job)`, begun by `start`. It publishes (sentence, share done) as progress, and whatever else its reader wants."""

    def __init__(self, work: Callable[[DownloadJob], Any]):
        super().__init__("models", work, limited=False, fault=FAULT)
        self._part: Job | None = None  # what it has in the queue

    def start(self) -> DownloadJob:
        """Begin; returns itself."""
        self.done.set_running_or_notify_cancel()
        Thread(target=self._run, name="lookahead-download", daemon=True).start()
        return self

    def progress(self, sentence: str, share: float) -> None:
        """Tell how far it is. Raises `Stopped` when it must end now."""
        self.publish((sentence, share))

    def compute(self, function: Callable[..., T], *arguments: Any) -> T:
        """The answer of a function that is computed in the queue."""
        part = Job(self.kind, lambda _: function(*arguments), limited=False, fault=self.fault)
        self._part = queue.submit(part)
        try:
            if self.end_reason:
                part.leave()
            return part.result()
        finally:
            self._part = None

    def waiting(self) -> str:
        """The place in the queue of what it has there, as a sentence; else nothing."""
        return part.waiting() if (part := self._part) else ""

    def leave(self) -> None:
        """Nobody waits for it any more; it ends at its next word of progress."""
        super().leave()
        if part := self._part:
            part.leave()

    def _run(self) -> None:
        try:
            self.done.set_result(self.run())
        except Exception as error:
            self.done.set_exception(error)
