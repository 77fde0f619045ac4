"""A race as a job: made of a form, checked against the host's limits, run in its place in the queue, sent in batches.

Whatever is more than the host allows is refused before anything is made of it. The page gets batches of events, the API
the trace.

Knows races, runs and the queue. It does not know which part of the page shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Any

from ..core.events import LookaheadError, SettingsError, Stopped
from ..core.numbers import count
from ..servers.addresses import is_servers
from ..servers.race import ServerRace, race_of
from ..trace import wire
from ..trace.race import Race, race
from ..trace.trace import Trace
from . import form, loading_job, zero
from .queue import FAULT, LEFT, Job, queue, words_of
from .runs import Run, refusal
from .state import ServerState

EVERY_S = 0.08  # faster than that nobody reads, and sending shares the cores with computing
BEAT_S = 0.25  # Stop takes so long to be done, and a race requested before that is not begun


def form_race(
    server: ServerState, prompt: Any, methods: Sequence[str], fields: Mapping[str, Any], visitor: str | None = None
) -> Race | ServerRace:
    """The race that a form describes, of methods or of servers. Raises for whatever is wrong with it, or more than the host allows."""
    if len(str(fields.get("options") or "")) > form.LONGEST_OPTIONS:
        raise SettingsError("options", fields["options"], f"give at most {count(form.LONGEST_OPTIONS)} characters.")
    options = form.options(fields)
    server.limits.check(prompt, options.get("max_new_tokens"), len(methods))
    family = str(fields.get("family") or "")
    if is_servers(family):
        return race_of(family, prompt, options)
    return race(server.models_for(visitor, family), prompt, methods, **options)


def race_form(
    server: ServerState, prompt: str, methods: Sequence[str], fields: Mapping[str, Any], visitor: str | None = None
) -> Iterator[str]:
    """A filled-in form raced: batches for a timeline. A `visitor`'s races run with the head that the visitor keeps. A family
    that comes with the app is loaded first if needed."""
    make = partial(form_race, prompt=prompt, methods=methods, fields=fields, visitor=visitor)
    family = str(fields.get("family") or "")
    yield from race_batches(server, make, lambda: form.link(prompt, methods, fields), family)


def race_batches(
    server: ServerState, make: zero.Make, link: Callable[[], str] | None = None, family: str = ""
) -> Iterator[str]:
    """Batches of the race that `make(server)` makes, until its end or until this is closed; or one refusal, which clears
    nothing. `link` gives the query that brings the race back. `family` is loaded first, if it comes with the app."""
    run, shown = Run(), False
    try:
        for words, share in loading_job.loaded(server, family):
            run.add(wire.status(words, share))
            if not shown:  # a page that misses one of these asks for it
                server.runs.remember(run)
            shown = True
            yield run.batch()
        job = submit(server, make, "race", run=run, link=link)
    except Exception as error:
        words = words_of(error)
        if shown:  # the page waits for what it was told of
            run.add(wire.end(None, "error", words))
        yield run.batch() if shown else refusal(words)
        return
    server.runs.remember(run)
    yield from batches(job, run)


def submit(
    server: ServerState, make: zero.Make, kind: str, *, prompt: Any = "", run: Run | None = None,
    link: Callable[[], str] | None = None,
) -> Job[Trace]:  # fmt: skip
    """Put the race that `make(server)` makes into the queue; its events go into `run`, its trace is the job's result.

    Raises the `LookaheadError` that made it impossible; `prompt` is logged with that, where the host allows."""
    begun = (lambda trace: None) if run is None else partial(_begin, run, link)
    try:
        race = make(server)
        prompt = race.prompt_text
        server.limits.check(max_new_tokens=race.settings.max_new_tokens, lanes=len(race.methods))
        begun(race.result())
        race = zero.lent(race, server, make, begun)
    except LookaheadError as error:
        queue.refuse(kind, error, str(prompt))
        raise
    return queue.submit(Job(kind, partial(_run_race, race, run), methods=race.methods, prompt=prompt))


def batches(job: Job, run: Run) -> Iterator[str]:
    """What a job writes into a run, a batch at a time, until its end. Empty batches go out while nothing is new."""
    run.followed, sent_at = True, monotonic()
    try:
        for update in job.follow(EVERY_S, BEAT_S):
            if update.waiting:
                run.add(wire.status(update.waiting))
            if run.unsent or monotonic() - sent_at > BEAT_S:
                sent_at = monotonic()
                yield run.batch()
    except Stopped:
        pass  # the run's last event says it
    except LookaheadError as error:
        run.add(wire.end(None, "error", str(error)))  # dropped where the race itself has said it
    finally:  # finished, stopped, or the page has gone
        run.followed = False
    if run.unsent:
        yield run.batch()


def _begin(run: Run, link: Callable[[], str] | None, trace: Trace) -> None:
    run.add(wire.begin(trace, live=True, link=link() if link else None))


def _run_race(race: Race | ServerRace | zero.Lent, run: Run | None, job: Job[Trace]) -> Trace:
    """In the computing thread: every lap, and how the race ended."""
    reason, words = "error", FAULT
    try:
        _laps(race, run, job)
        reason, words = "finished", None
    except Stopped:
        reason, words = ("stopped", None) if job.end_reason == LEFT else ("error", job.end_words)
        raise
    except LookaheadError as error:  # no GPU was lent, or a server failed
        words = str(error)
        raise
    finally:
        try:
            if run is not None:
                run.add(wire.end(race.result(), reason, words))
        finally:
            race.close()
    return race.result()


def _laps(race: Race | ServerRace | zero.Lent, run: Run | None, job: Job[Trace]) -> None:
    def reading(share: float) -> None:
        if run is not None:
            run.add(wire.status("Reading the prompt.", share))
        job.check()

    lanes_left = len(race.methods)
    if isinstance(race, Race):
        race.reading = reading
    job.check()
    for lap in race:
        if lap is None:  # a server has nothing new
            job.check()
            continue
        if run is not None:
            run.add(wire.step(lap.lane, lap.clock_s, lap.record))
        job.tokens += len(lap.record.emitted)
        lanes_left -= lap.record.finish is not None
        if lanes_left:
            job.check()
