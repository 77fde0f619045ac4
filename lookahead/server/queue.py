"""The queue: everything that computes for a visitor is a `Job`, and one thread does one job at a time, in order.

Torch keeps a team of threads for every thread that calls it, and once there are more of them than cores they stop waiting
actively for each other: on two cores a pass then takes nearly twice as long. So all computing is done by one thread, and
two visitors never measure each other. There is one queue in a process, `queue`, and the host's limits hold in it.

Work of minutes gives way: of `Slices` one is computed at a time, and whoever has come meanwhile comes before the next.

A job is ended between two passes: its work calls `publish` or `check` there, which raise `Stopped`. A single pass that
hangs cannot be ended from Python; `stuck` tells of it, and /healthz with it, so that whoever watches can restart the server.

Knows callables and limits. It does not know what is computed, or who waits for it.
"""

from __future__ import annotations

import secrets
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass
from statistics import median_low
from time import perf_counter
from typing import Any, Generic, TypeVar

from ..core.events import LookaheadError, Stopped
from ..core.numbers import count
from . import logging
from .limits import Limits

T = TypeVar("T")
FINISHED, LEFT, LIMIT, CLOSING, FAILED, REFUSED = "finished", "stopped", "limit", "closing", "failed", "refused"
FAULT = "This broke off because of a fault in Lookahead, not in what you typed. It is logged; what ran so far is shown."
GRACE_S = 10.0  # work that is not a race may take as long from one step to its next
EVERY_S = 0.2  # a follower looks so often, and who has gone is noticed within this
DURATIONS = 9  # of the last jobs of every kind, for an estimate
LOGGED_CHARS = 1000  # of a prompt that was turned away
THREAD = "lookahead-compute"


class ServerError(LookaheadError):
    """Something the server has to say, in a sentence that stands for itself."""

    def __init__(self, sentence: str):
        ValueError.__init__(self, sentence)
        self.field, self.value, self.mend = "server", None, sentence


def words_of(error: Exception) -> str:
    """Return the sentence that a visitor reads for the error that is being handled.

    An error that is not a `LookaheadError` is a bug. It is logged with its traceback.
    """
    if isinstance(error, (LookaheadError, Stopped)):
        return str(error) or "Stopped."
    logging.fault()
    return FAULT


class Refused(ServerError):
    """A job was not begun."""


class Ended(ServerError):
    """A job was begun and not finished."""


@dataclass(frozen=True, slots=True)
class Update:
    """What a follower has not heard yet: its place in the queue where that has changed, and what the work has published."""

    waiting: str = ""
    values: Sequence[Any] = ()


class Job(Generic[T]):
    """`work(job)`, to be done for one visitor. `kind` and `methods` are for the log; so is `prompt`, where the host allows.

    `limited=False` is for what takes as long as it takes, whoever wants it. `fault` is what the visitor reads when the work
    raises what is no `LookaheadError`; `{kind}` in it becomes the error's type. `paused` is set while it gives way to others.
    """

    paused, visitor = False, None  # whose it is: the queue knows who submits it

    def __init__(
        self, kind: str, work: Callable[[Job[T]], T], *, methods: Sequence[str] = (), prompt: str = "",
        limited: bool = True, fault: str = FAULT,
    ):  # fmt: skip
        self.id = secrets.token_hex(4)  # for the log; nobody can reach a run by it
        self.kind, self.work, self.methods, self.prompt = kind, work, tuple(methods), prompt
        self.limited, self.fault = limited, fault
        self.tokens = 0  # written so far; the work counts them
        self.done: Future[T | None] = Future()
        self.submitted_at = perf_counter()
        self._started_at: float | None = None
        self._started = threading.Event()
        self._waited_s = 0.0  # in the queue before its work began
        self._spent_s = 0.0  # computing, before it last gave way
        self._end_reason: str | None = None
        self._outcome: str | None = None
        self._values: list[Any] = []

    # -------------------------------------------------------------- for the work

    def publish(self, value: Any) -> None:
        """Hand a value to the follower. Raises `Stopped` when the job must end now."""
        self._values.append(value)
        self.check()

    def check(self) -> None:
        """Raise `Stopped` when the job must end now."""
        if self.end_reason:
            raise Stopped

    @property
    def end_reason(self) -> str | None:
        """Why the job must end before its work is done (LEFT, LIMIT or CLOSING), or None."""
        if self._end_reason is None:
            if queue.closed:
                self._end_reason = CLOSING
            elif self.limited and self.computed_s > queue.limits.max_run_s:
                self._end_reason = LIMIT
        return self._end_reason

    @property
    def end_words(self) -> str | None:
        """What to tell the visitor whose job the server has ended; None for any other."""
        if self._end_reason == LIMIT:
            limit = queue.limits.max_run_s
            return f"Ended by this server's limit of {count(limit)} s of computing; what ran so far is shown."
        if self._end_reason == CLOSING:
            return "Ended because this server is shutting down; what ran so far is shown."
        return None

    # -------------------------------------------------------------- for who waits

    def follow(self, every_s: float = EVERY_S, waiting_s: float = EVERY_S) -> Iterator[Update]:
        """Updates until the end: one at least every `every_s` seconds (`waiting_s` in the queue), an empty one if need be.

        Only a generator that yields can be cancelled: closing this one leaves the job. Raises what `result` raises.
        """
        place = ""
        try:
            while not self.done.done():
                before, place = place, self.waiting()
                yield Update(place if place != before else "", self._take())
                if self._started.is_set():
                    wait([self.done], every_s)
                else:
                    self._started.wait(waiting_s)
            if values := self._take():
                yield Update(values=values)
            self.result()
        finally:
            self.leave()

    def result(self) -> T | None:
        """What the work has returned, waited for. Raises `Stopped` where the job was left, `Ended` where the server ended it
        or the work failed (the log has the traceback), and the `LookaheadError` that the work raised."""
        try:
            value = self.done.result()
        except CancelledError:
            raise Stopped from None
        except LookaheadError:
            raise
        except Exception as error:
            raise Ended(self.fault.format(kind=type(error).__name__)) from None
        if self._outcome == FINISHED:
            return value
        raise Ended(words) if (words := self.end_words) else Stopped

    def leave(self) -> None:
        """Nobody waits for it any more. Returns at once: whoever closes a page must not wait for a pass."""
        self._end_reason = self._end_reason or LEFT
        if self.done.cancel():
            queue.count(self, LEFT)

    def waiting(self) -> str:
        """Its place in the queue, as a sentence; nothing once it computes."""
        if not (ahead := queue.ahead(self)):
            return ""
        about = f"; one takes about {max(1, round(s))} s" if (s := queue.usual_s({job.kind for job in ahead})) else ""
        if self.visitor and all(other.visitor == self.visitor for other in ahead):
            return f"Waiting: this begins after your own {'run' if len(ahead) == 1 else 'runs'}{about}."
        return f"Waiting: {_runs(len(ahead))} before yours{about}."

    @property
    def computed_s(self) -> float:
        """Seconds since its work began, or went on; 0 while nothing of it is computed."""
        started_at = self._started_at
        return perf_counter() - started_at if started_at is not None else 0.0

    def stuck(self) -> bool:
        """Whether it has computed for longer than it may, and than it should need to notice."""
        return self.limited and self.computed_s > queue.limits.max_run_s + GRACE_S

    def _take(self) -> list[Any]:
        values, self._values = self._values, []
        return values

    # -------------------------------------------------------------- for who runs it

    def run(self) -> T | None:
        """Do the work, in the thread that calls. Returns None where it was ended early: an exception that is kept would keep
        its frames, and what they hold, for as long as the job."""
        self._started_at, self._outcome = perf_counter(), FAILED
        if not self._started.is_set():
            self._waited_s = self._started_at - self.submitted_at
            self._started.set()
        try:
            value = self.work(self)
            self._outcome = FINISHED
            return value
        except Stopped:
            self._outcome = self._end_reason or LEFT
            return None
        except LookaheadError:
            self._outcome = REFUSED
            raise
        except Exception:
            logging.fault(id=self.id, kind=self.kind, prompt=self.prompt)
            raise

    def account(self) -> tuple[str, float, float]:
        """When its work is over or gives way: outcome, seconds in the queue, seconds of computing. Its clock stops here."""
        self._spent_s += self.computed_s
        self._started_at = None
        return self._outcome, self._waited_s, self._spent_s


class Slices(Job[None]):
    """A job that publishes what the generator `make()` yields, but None, and gives way after every value. The host's limit on
    seconds holds for each slice: what makes them knows when it has had enough."""

    def __init__(self, kind: str, make: Callable[[], Iterator[Any]], **options: Any):
        super().__init__(kind, Slices._slice, **options)
        self._make = make
        self._slices: Iterator[Any] | None = None

    def _slice(self) -> None:
        before, self.paused = self._slices, False
        try:
            self.check()
            self._slices = before or self._make()
            for value in self._slices:
                if value is not None:
                    self._values.append(value)
                self.check()
                self.paused = True
                break
        finally:
            if not self.paused and self._slices:
                self._slices.close()


class Queue:
    """First come, first served. `counts` is by (kind, outcome), `begun` by kind."""

    def __init__(self) -> None:
        self.limits, self.closed = Limits(), False
        self.visitor: Callable[[], str | None] = lambda: None  # who calls; the page can tell
        self.counts: Counter[tuple[str, str]] = Counter()
        self.begun: Counter[str] = Counter()
        self.tokens = 0
        self.waited_s = self.computed_s = 0.0
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=THREAD)
        self._jobs: list[Job] = []  # the one at work, then those that wait
        self._durations: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=DURATIONS))
        self._lock = threading.RLock()

    def open(self, limits: Limits) -> None:
        """Begin to serve, within these limits."""
        self.limits, self.closed = limits, False

    def close(self) -> None:
        """Let nobody in any more, and have every job ended at its next pass."""
        with self._lock:
            self.closed = True

    def submit(self, job: Job[T]) -> Job[T]:
        """Put a job at the end of the queue; returns it. Raises `Refused` where there is no place."""
        try:
            with self._lock:
                if self.closed:
                    raise Refused("This server is shutting down. Try again in a minute.")
                if self.waiting() >= self.limits.max_waiting:
                    raise Refused(self._full())
                job.submitted_at, job.visitor = perf_counter(), self.visitor()
                self._jobs.append(job)
                job.done.add_done_callback(lambda _: self._jobs.remove(job))
                self._executor.submit(self._run, job)
        except Refused as error:
            self.refuse(job.kind, error, job.prompt)
            raise
        return job

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """The answer of a function that is computed in the same thread, for the server itself: no job, in no statistics."""
        return self._executor.submit(function, *arguments).result()

    def refuse(self, kind: str, error: LookaheadError, prompt: str = "") -> None:
        """Count and log what was turned away. The error's own words may quote what was typed, so they are private."""
        with self._lock:
            self.counts[kind, REFUSED] += 1
        private = {"prompt": prompt[:LOGGED_CHARS], "words": str(error)}
        logging.event("refused", kind=kind, field=error.field, private=private)

    def count(self, job: Job, outcome: str, waited_s: float | None = None, computed_s: float = 0.0) -> None:
        """Count and log what became of a job."""
        waited_s = perf_counter() - job.submitted_at if waited_s is None else waited_s
        with self._lock:
            self.counts[job.kind, outcome] += 1
            self.tokens += job.tokens
            self.waited_s += waited_s
            self.computed_s += computed_s
        logging.event(
            "run", id=job.id, kind=job.kind, outcome=outcome, methods=list(job.methods), tokens=job.tokens,
            waited_s=round(waited_s, 3), computed_s=round(computed_s, 3), private={"prompt": job.prompt},
        )  # fmt: skip

    def ahead(self, job: Job) -> list[Job]:
        """The jobs that come before this one, the one at work included; none once it is at work, or over. Slices do not count:
        they are over in a moment, and those who wait for each other's take turns."""
        with self._lock:
            before = self._jobs[: self._jobs.index(job)] if job in self._jobs else []
            return [other for other in before if not isinstance(other, Slices)]

    def usual_s(self, kinds: Collection[str] = ()) -> float:
        """Seconds that jobs (of these kinds) have taken of late; 0 before the first was done."""
        with self._lock:
            took = [s for kind in kinds or [*self._durations] for s in self._durations[kind]]
        return median_low(took) if took else 0.0

    def waiting(self) -> int:
        """How many jobs wait behind the one at work."""
        return max(0, len(self._jobs) - 1)

    def computing_s(self) -> float:
        """For how long the job at work has computed; 0 while there is none."""
        return max((job.computed_s for job in list(self._jobs)), default=0.0)

    def idle(self) -> bool:
        """Whether nothing is at work or waits."""
        return not self._jobs

    def stuck(self) -> bool:
        """Whether a job computes that should have ended long ago: a pass hangs."""
        return any(job.stuck() for job in list(self._jobs))

    def alive(self) -> bool:
        """Whether a job would be done; the thread begins with the first one."""
        return self.idle() or any(thread.name.startswith(THREAD) for thread in threading.enumerate())

    def _run(self, job: Job[T]) -> None:
        """Do a job's work, or a slice of it, which puts what is left of it to the end of the queue."""
        if not job.paused:
            if not job.done.set_running_or_notify_cancel():
                return
            self.begun[job.kind] += 1
        try:
            value = job.run()
        except BaseException as error:
            self._account(job)
            job.done.set_exception(error)
            return
        if not job.paused:
            self._account(job)
            job.done.set_result(value)
            return
        job.account()
        with self._lock:
            self._jobs.remove(job)
            self._jobs.append(job)
            self._executor.submit(self._run, job)

    def _account(self, job: Job[T]) -> None:
        outcome, waited_s, computed_s = job.account()
        if not isinstance(job, Slices):  # whoever comes does not wait for all of them
            with self._lock:
                self._durations[job.kind].append(computed_s)
        self.count(job, outcome, waited_s, computed_s)

    def _full(self) -> str:
        waiting, minutes = self.waiting(), self.waiting() * self.usual_s() / 60
        again = f"in about {max(1, round(minutes))} min" if minutes else "later"
        return f"{_runs(waiting).capitalize()} waiting, as many as this server lets wait. Try again {again}."


def published(make: Callable[[], Iterator[Any]]) -> Callable[[Job], None]:
    """Work for a job that publishes what the generator `make()` yields, and ends it where the job must end; None is nothing to
    publish, but a place to end."""

    def work(job: Job) -> None:
        job.check()
        with closing(make()) as values:
            for value in values:
                if value is None:
                    job.check()
                else:
                    job.publish(value)

    return work


def _runs(number: int) -> str:
    return "one run is" if number == 1 else f"{count(number)} runs are"


queue = Queue()
