"""A race as a job of the queue: `submit` creates it, `follow` yields it in batches of events for a page.

The limits of the host are checked before the race starts. A page reads batches, the API reads the trace.
"""

from collections.abc import Iterator
from functools import partial
from time import monotonic

from ..core.events import Cancelled, LookaheadError
from ..servers.race import ServerRace
from ..trace import wire
from ..trace.race import Race
from ..trace.trace import Trace
from . import loading_job, zero
from .form import RaceFactory, RaceForm, link
from .queue import CANCELLED, FAULT, Job, error_message, queue
from .runs import Run, refusal
from .state import ServerState

POLL_S = 0.08  # between two batches; sending uses the same cores as computing
HEARTBEAT_S = 0.25  # Stop takes up to this long, because only a generator that yields can be cancelled


def submit(server: ServerState, make: RaceFactory, kind: str, run: Run | None = None) -> Job[Trace]:
    """Submit the race of `make(server)`, and return its job; `run` gets events. Logs and raises `LookaheadError`."""
    is_form = isinstance(make, RaceForm)
    prompt = str(make.prompt) if is_form else ""

    def begin(trace: Trace) -> None:
        if run is not None:
            query = link(make.prompt, make.methods, make.fields) if is_form else None
            run.add(wire.Begin(trace=trace, live=True, link=query))

    try:
        race = make(server)
        prompt = race.prompt_text
        server.limits.check(max_new_tokens=race.settings.max_new_tokens, lanes=len(race.methods))
        begin(race.result())
        if zero.ENABLED:
            race = zero.ZeroGpuRace(race, server, make, begin)
    except LookaheadError as error:
        queue.refuse(kind, error, prompt)
        raise
    return queue.submit(Job(kind, partial(compute, race, run), methods=race.methods, prompt=prompt))


def follow(server: ServerState, make: RaceFactory) -> Iterator[str]:
    """Yield batches of the race that `make(server)` returns, even empty ones, until its end.

    A race that cannot start yields one refusal. A form's family is loaded first if it is a bundled one.
    """
    run, shown = Run(), False
    try:
        for sentence, share in loading_job.load_if_missing(server, make.family if isinstance(make, RaceForm) else ""):
            run.add(wire.Status(text=sentence, fraction=share))
            server.runs.remember(run)  # a page requests the events that it misses
            shown = True
            yield run.batch()
        job = submit(server, make, "race", run)
    except Exception as error:
        message = error_message(error)
        if shown:  # the page waits for the end of this run
            run.add(wire.End(reason="error", message=message))
        yield run.batch() if shown else refusal(message, field=getattr(error, "field", ""))
        return
    server.runs.remember(run)
    run.followed, sent_at = True, monotonic()
    try:
        for update in job.follow(POLL_S, HEARTBEAT_S):
            if update.waiting:
                run.add(wire.Status(text=update.waiting))
            if run.unsent or monotonic() - sent_at > HEARTBEAT_S:
                sent_at = monotonic()
                yield run.batch()
    except Cancelled:
        pass  # the run's last event has the reason
    except LookaheadError as error:
        run.add(wire.End(reason="error", message=str(error)))  # ignored if the race has already added its end
    finally:  # finished, stopped, or the page was closed
        run.followed = False
    if run.unsent:
        yield run.batch()


def compute(race: Race | ServerRace | zero.ZeroGpuRace, run: Run | None, job: Job) -> Trace:
    """Compute a race as part of a job, and return its trace. Its steps and its end are added to `run`."""

    def reading(share: float) -> None:
        if run is not None:
            run.add(wire.Status(text="Reading the prompt.", fraction=share))
        job.check()

    reason, message, lanes_left = "error", FAULT, len(race.methods)
    try:
        if isinstance(race, Race):
            race.on_prefill = reading
        job.check()
        for lane_step in race:
            if lane_step is None:  # no new event from a server
                job.check()
                continue
            if run is not None:
                run.add(lane_step)
            job.tokens += len(lane_step.step.emitted)
            lanes_left -= lane_step.step.finish is not None
            if lanes_left:
                job.check()
        reason, message = "finished", None
    except Cancelled:
        reason, message = ("stopped", None) if job.end_reason == CANCELLED else ("error", job.end_message)
        raise
    except LookaheadError as error:  # there was no GPU, or a server failed
        message = str(error)
        raise
    finally:
        try:
            if run is not None:
                run.add(wire.End.from_trace(race.result(), reason, message))
        finally:
            race.close()
    return race.result()
