"""A race as a job of the queue: `submit` makes it, `follow` sends it to a page in batches of events.

Limits of the host are checked before the race is made. A page reads batches, the API reads the trace.
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
from .form import Make, RaceForm, link
from .queue import FAULT, LEFT, Job, queue, words_of
from .runs import Run, refusal
from .state import ServerState

EVERY_S = 0.08  # faster than reading; sending shares the cores with computing
BEAT_S = 0.25  # Stop takes up to this long, because only a generator that yields can be cancelled


def submit(server: ServerState, make: Make, kind: str, run: Run | None = None) -> Job[Trace]:
    """Put the race that `make(server)` makes into the queue. Its events go into `run`; its trace is the job's result. Raises
    the `LookaheadError` that refuses the race, and logs it."""
    filled = isinstance(make, RaceForm)
    prompt = str(make.prompt) if filled else ""

    def begun(trace: Trace) -> None:
        if run is not None:
            query = link(make.prompt, make.methods, make.fields) if filled else None
            run.add(wire.Begin(trace=trace, live=True, link=query))

    try:
        race = make(server)
        prompt = race.prompt_text
        server.limits.check(max_new_tokens=race.settings.max_new_tokens, lanes=len(race.methods))
        begun(race.result())
        if zero.HERE:
            race = zero.ZeroGpuRace(race, server, make, begun)
    except LookaheadError as error:
        queue.refuse(kind, error, prompt)
        raise
    return queue.submit(Job(kind, partial(compute, race, run), methods=race.methods, prompt=prompt))


def follow(server: ServerState, make: Make) -> Iterator[str]:
    """Yield batches of the race that `make(server)` makes, also empty ones, until its end. A refused race yields one refusal.
    A form's family is loaded first if it comes with the app."""
    run, shown = Run(), False
    try:
        for words, share in loading_job.loaded(server, make.family if isinstance(make, RaceForm) else ""):
            run.add(wire.Status(text=words, fraction=share))
            server.runs.remember(run)  # a page that misses one of these asks for it
            shown = True
            yield run.batch()
        job = submit(server, make, "race", run)
    except Exception as error:
        words = words_of(error)
        if shown:  # the page waits for the run that it was shown
            run.add(wire.End(reason="error", message=words))
        yield run.batch() if shown else refusal(words)
        return
    server.runs.remember(run)
    run.followed, sent_at = True, monotonic()
    try:
        for update in job.follow(EVERY_S, BEAT_S):
            if update.waiting:
                run.add(wire.Status(text=update.waiting))
            if run.unsent or monotonic() - sent_at > BEAT_S:
                sent_at = monotonic()
                yield run.batch()
    except Cancelled:
        pass  # the run's last event has the reason
    except LookaheadError as error:
        run.add(wire.End(reason="error", message=str(error)))  # dropped if the race has written its end
    finally:  # finished, stopped, or the page has gone
        run.followed = False
    if run.unsent:
        yield run.batch()


def compute(race: Race | ServerRace | zero.ZeroGpuRace, run: Run | None, job: Job) -> Trace:
    """Compute a race as a part of a job, and return its trace. Its lane_steps and its end go into `run`."""

    def reading(share: float) -> None:
        if run is not None:
            run.add(wire.Status(text="Reading the prompt.", fraction=share))
        job.check()

    reason, words, lanes_left = "error", FAULT, len(race.methods)
    try:
        if isinstance(race, Race):
            race.reading = reading
        job.check()
        for lane_step in race:
            if lane_step is None:  # a server has sent nothing new
                job.check()
                continue
            if run is not None:
                run.add(lane_step)
            job.tokens += len(lane_step.step.emitted)
            lanes_left -= lane_step.step.finish is not None
            if lanes_left:
                job.check()
        reason, words = "finished", None
    except Cancelled:
        reason, words = ("stopped", None) if job.end_reason == LEFT else ("error", job.end_words)
        raise
    except LookaheadError as error:  # no GPU was lent, or a server failed
        words = str(error)
        raise
    finally:
        try:
            if run is not None:
                run.add(wire.End.of(race.result(), reason, words))
        finally:
            race.close()
    return race.result()
