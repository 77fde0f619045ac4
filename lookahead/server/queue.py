"""The queue: all computing for visitors is a `Job`, and one thread computes one job at a time, in order.

Torch keeps a pool of threads for every thread that calls it. Pools with more threads than cores slow each other down, so
one thread does all computing. A job ends between two passes: its work calls `publish` or `check` there, or yields. A
pass that hangs cannot be ended from Python; /healthz reports it, so that the server can be restarted.
"""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Generic, TypeVar

from ..core.events import Cancelled, LookaheadError
from ..core.numbers import count
from . import logging
from .limits import Limits

T = TypeVar("T")
FINISHED, CANCELLED, LIMIT, CLOSING, FAILED, REFUSED = "finished", "stopped", "limit", "closing", "failed", "refused"
FAULT = "This failed because of an error in Lookahead, not in your input. The error is logged. The results so far are shown."
ENDED = {
    LIMIT: "Ended after {limit} s of computing, this server's limit. The results so far are shown.",
    CLOSING: "Ended because this server is shutting down. The results so far are shown.",
}
GRACE_S = 10.0  # by which a step of other work than a race may exceed the limit
POLL_S = 0.2  # between two updates of a follower, which then detects that its visitor has left
LOGGED_CHARS = 1000  # of a refused prompt
THREAD = "lookahead-compute"


class ServerError(LookaheadError):
    """A complete sentence from the server, without a field or a value."""

    def __init__(self, sentence: str):
        ValueError.__init__(self, sentence)
        self.field, self.value, self.hint = "server", None, sentence


class Refused(ServerError):
    """A job was not started."""


class Ended(ServerError):
    """A job was started and not finished."""


def error_message(error: Exception) -> str:
    """Return a sentence for a visitor. Any other error than a `LookaheadError` is a bug, which is logged with its traceback."""
    if isinstance(error, (LookaheadError, Cancelled)):
        return str(error) or "Stopped."
    logging.fault()
    return FAULT


@dataclass(frozen=True, slots=True)
class Update:
    """An update for a follower: its position in the queue if that has changed, and the values published since the last one."""

    waiting: str = ""
    values: Sequence[Any] = ()


class Job(Generic[T]):
    """`work(job)`, computed for one visitor. `kind`, `methods` and `prompt` are for the log.

    If `work` returns a generator, the job publishes its values, except None, and can end after each value. If the job is
    `preemptible`, all waiting jobs are computed before its next value. `limited=False` removes the limit on seconds, which
    applies to each value of a preemptible job. `fault` is the sentence for an unexpected error; `{kind}` is its class.
    """

    visitor: str | None = None  # set by the queue

    def __init__(
        self, kind: str, work: Callable[[Job[T]], T | Generator], *, methods: Sequence[str] = (), prompt: str = "",
        limited: bool = True, preemptible: bool = False, fault: str = FAULT,
    ):  # fmt: skip
        self.id = secrets.token_hex(4)  # for the log only; pages use `Run.id`
        self.kind, self.work, self.methods, self.prompt = kind, work, tuple(methods), prompt
        self.limited, self.preemptible, self.fault = limited, preemptible, fault
        self.tokens = 0  # that the work has counted so far
        self.done: Future[T | None] = Future()
        self.outcome: str | None = None
        self.paused = False  # between two values, while other jobs are computed
        self.submitted_at = perf_counter()
        self.waited_s = self.spent_s = 0.0  # in the queue before the work started; computing, up to the last value
        self._started_at: float | None = None  # while it is computed
        self._started = threading.Event()  # wakes the follower of a waiting job
        self._end_reason: str | None = None
        self._values: list[Any] = []
        self._steps: Generator | None = None

    def publish(self, value: Any) -> None:
        """Pass a value of the work to the follower. Raises `Cancelled` if the job must end now."""
        self._values.append(value)
        self.check()

    def check(self) -> None:
        """Raise `Cancelled` if the job must end now. The work calls this."""
        if self.end_reason:
            raise Cancelled

    @property
    def end_reason(self) -> str | None:
        """The reason why the job must end before its work is done (CANCELLED, LIMIT or CLOSING), or None."""
        if self._end_reason is None:  # it is never set back to None, because another thread may set it here
            if queue.closed:
                self._end_reason = CLOSING
            elif self.limited and self.computed_s > queue.limits.max_run_s:
                self._end_reason = LIMIT
        return self._end_reason

    @property
    def end_message(self) -> str | None:
        """The sentence for a visitor whose job the server has ended, else None."""
        message = ENDED.get(self._end_reason)
        return message and message.format(limit=count(queue.limits.max_run_s))

    def follow(self, interval_s: float = POLL_S, waiting_interval_s: float = POLL_S) -> Iterator[Update]:
        """Yield updates until the end. Raises the errors of `result`. Closing the generator cancels the job.

        An update comes at least every `interval_s` seconds (`waiting_interval_s` in the queue), even if it is empty. Only a
        generator that yields can be cancelled.
        """
        position = ""
        try:
            while not self.done.done():
                previous, position = position, self.waiting()
                yield Update(position if position != previous else "", self._take())
                if self._started.is_set():
                    wait([self.done], interval_s)
                else:
                    self._started.wait(waiting_interval_s)
            if values := self._take():
                yield Update(values=values)
            self.result()
        finally:
            self.cancel()

    def result(self) -> T | None:
        """Wait for the work and return its result.

        Raises `Cancelled` if the visitor cancelled the job, and `Ended` if the server ended it or the work failed. A
        `LookaheadError` of the work is raised unchanged.
        """
        try:
            value = self.done.result()
        except CancelledError:
            raise Cancelled from None
        if self.outcome == FINISHED:
            return value
        raise Ended(message) if (message := self.end_message) else Cancelled

    def cancel(self) -> None:
        """End the job at its next check, without waiting for it."""
        self._end_reason = self._end_reason or CANCELLED
        if self.done.cancel():
            self.waited_s, self.outcome = perf_counter() - self.submitted_at, CANCELLED
            queue.count(self)

    def waiting(self) -> str:
        """Return the job's position in the queue as a sentence, or "" once it computes."""
        if not (ahead := queue.ahead(self)):
            return ""
        if self.visitor and all(other.visitor == self.visitor for other in ahead):
            return f"Waiting: this starts after your own {'run' if len(ahead) == 1 else 'runs'}."
        return f"Waiting: {_runs(len(ahead))} before yours."

    def _take(self) -> list[Any]:
        values, self._values = self._values, []
        return values

    @property
    def computed_s(self) -> float:
        """Seconds since its work started or resumed; 0 while it is not computed."""
        started_at = self._started_at
        return perf_counter() - started_at if started_at is not None else 0.0

    def run(self) -> T | None:
        """Compute in this thread, up to the next value if it is preemptible. Returns None if it ended early."""
        self._started_at, self.outcome, self.paused = perf_counter(), FAILED, False
        if self._steps is None:
            self.waited_s = self._started_at - self.submitted_at
            self._started.set()
        try:
            result = self._steps or self.work(self)
            if isinstance(result, Generator):
                self._steps, result = result, None
                self.check()
                for value in self._steps:
                    if value is not None:
                        self._values.append(value)
                    self.check()
                    self.paused = self.preemptible and value is not None
                    if self.paused:
                        break
            self.outcome = FINISHED
            return result
        except Cancelled:
            self.outcome = self._end_reason or CANCELLED
            return None  # a stored exception would keep its frames alive
        except LookaheadError:
            self.outcome = REFUSED
            raise
        except Exception as error:
            logging.fault(id=self.id, kind=self.kind, prompt=self.prompt)
            raise Ended(self.fault.format(kind=type(error).__name__)) from None
        finally:
            if self._steps and not self.paused:
                self._steps.close()
            self.spent_s += self.computed_s
            self._started_at = None


class Queue:
    """A queue in the order of submission. `counts` is by (kind, outcome), `started` by kind."""

    def __init__(self) -> None:
        self.limits, self.closed = Limits(), False
        self.visitor: Callable[[], str | None] = lambda: None  # the visitor who submits; set by the page
        self.counts: Counter[tuple[str, str]] = Counter()
        self.started: Counter[str] = Counter()
        self.tokens = 0
        self.waited_s = self.computed_s = 0.0
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=THREAD)
        self._jobs: list[Job] = []  # the one that is computed, then those that wait
        self._lock = threading.RLock()

    def open(self, limits: Limits) -> None:
        self.limits, self.closed = limits, False

    def close(self) -> None:
        """Refuse new jobs, and end all others at their next check."""
        self.closed = True

    def submit(self, job: Job[T]) -> Job[T]:
        """Put a job at the end of the queue and return it. Raises `Refused` if the queue is full or closed."""
        try:
            with self._lock:
                if self.closed:
                    raise Refused("This server is shutting down. Try again in a minute.")
                if (waiting := self.waiting()) >= self.limits.max_waiting:
                    raise Refused(f"{_runs(waiting).capitalize()} waiting, this server's limit. Try again later.")
                job.submitted_at, job.visitor = perf_counter(), self.visitor()
                self._jobs.append(job)
                job.done.add_done_callback(lambda _: self._jobs.remove(job))
                self._executor.submit(self._run, job)
        except Refused as error:
            self.refuse(job.kind, error, job.prompt)
            raise
        return job

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Compute a function of the server in the queue's thread, without a job, and return its result."""
        return self._executor.submit(function, *arguments).result()

    def refuse(self, kind: str, error: LookaheadError, prompt: str = "") -> None:
        """Count and log a job that is not started because of `error`."""
        with self._lock:
            self.counts[kind, REFUSED] += 1
        private = {"prompt": prompt[:LOGGED_CHARS], "words": str(error)}
        logging.event("refused", kind=kind, field=error.field, private=private)

    def count(self, job: Job) -> None:
        """Count and log a job that has ended."""
        with self._lock:
            self.counts[job.kind, job.outcome] += 1
            self.tokens += job.tokens
            self.waited_s += job.waited_s
            self.computed_s += job.spent_s
        logging.event(
            "run", id=job.id, kind=job.kind, outcome=job.outcome, methods=list(job.methods), tokens=job.tokens,
            waited_s=round(job.waited_s, 3), computed_s=round(job.spent_s, 3), private={"prompt": job.prompt},
        )  # fmt: skip

    def ahead(self, job: Job) -> list[Job]:
        """Return the jobs before this one, without preemptible jobs; none once it is computed or ended."""
        with self._lock:
            before = self._jobs[: self._jobs.index(job)] if job in self._jobs else []
            return [other for other in before if not other.preemptible]

    def waiting(self) -> int:
        """Return the number of waiting jobs, without the current one."""
        return max(0, len(self._jobs) - 1)

    def computing_s(self) -> float:
        """Return the seconds that the current job has computed; 0 if there is none."""
        return max((job.computed_s for job in list(self._jobs)), default=0.0)

    def idle(self) -> bool:
        return not self._jobs

    def stuck(self) -> bool:
        """Return whether a job computes far beyond its limit, so that a pass must hang."""
        limit_s = self.limits.max_run_s + GRACE_S
        return any(job.limited and job.computed_s > limit_s for job in list(self._jobs))

    def alive(self) -> bool:
        """Return whether the computing thread exists. It starts with the first job."""
        return self.idle() or any(thread.name.startswith(THREAD) for thread in threading.enumerate())

    def _run(self, job: Job[T]) -> None:
        """Compute a job in the queue's thread. After each value, a preemptible job moves to the end of the queue."""
        if not job.paused:
            if not job.done.set_running_or_notify_cancel():
                return
            self.started[job.kind] += 1
        try:
            result = job.run()
        except BaseException as error:
            self.count(job)
            job.done.set_exception(error)
            return
        if job.paused:
            with self._lock:
                self._jobs.remove(job)
                self._jobs.append(job)
                self._executor.submit(self._run, job)
        else:
            self.count(job)
            job.done.set_result(result)


def _runs(number: int) -> str:
    return "one run is" if number == 1 else f"{count(number)} runs are"


queue = Queue()
