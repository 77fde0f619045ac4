"""A race on its way to a page: made, run in the computing thread, sent as batches of events, stopped when nobody watches.

Whoever waits is told how many are ahead: everything that computes is done by one thread, one thing at a time, so two
people never measure each other. Whatever is more than the host allows is refused before anything is made of it.

Knows races, runs and the desk. It does not know which part of the page shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from .. import log
from ..events import LookaheadError, SettingsError
from ..race import Lap, Race, race
from . import form, zero
from .desk import FAULT, LEFT, Turn, desk
from .runs import Run, refusal
from .stage import Stage


def raced(stage: Stage, prompt: str, methods: Sequence[str], fields: Mapping[str, Any]) -> Iterator[str]:
    """A filled-in form raced: batches for a timeline."""
    make = partial(made, prompt=prompt, methods=methods, fields=fields)
    yield from watched(stage, make, lambda: form.link(prompt, methods, fields))


def made(stage: Stage, prompt: Any, methods: Sequence[str], fields: Mapping[str, Any]) -> Race:
    """The race that a form asks for. Raises for whatever is wrong with it, or more than the host allows."""
    if len(str(fields.get("options") or "")) > form.LONGEST_OPTIONS:
        raise SettingsError("options", fields["options"], f"give at most {form.LONGEST_OPTIONS:,} characters.")
    options = form.options(fields)
    stage.limits.check(prompt, options.get("max_new_tokens"), len(methods))
    return race(stage.models, prompt, methods, **options)


def watched(stage: Stage, make: zero.Make, link: Callable[[], str] | None = None) -> Iterator[str]:
    """Batches of the race that `make(stage)` makes, until its end or until this is closed; or one refusal, which clears nothing."""
    racing = None
    try:
        racing = make(stage)
        stage.limits.check(max_new_tokens=racing.settings.max_new_tokens, lanes=len(racing.methods))
        run = Run()
        begin, at = log.begin, link() if link else None
        run.add(begin(racing.result(), live=True, link=at))
        racing = zero.lent(racing, stage, make, lambda trace: run.add(begin(trace, live=True, link=at)))
        turn = desk.turn("race", partial(_compute, run, racing), racing.methods, prompt=racing.prompt_text)
    except LookaheadError as error:
        desk.refuse("race", error, racing.prompt_text if racing else "")
        yield refusal(str(error))
        return
    stage.runs.remember(run)
    try:
        yield from run.batches(turn.waiting)
    finally:  # finished, stopped, or the page has gone
        turn.leave()


def run_laps(racing: Race, turn: Turn, each: Callable[[Lap], Any] = lambda _: None) -> str | None:
    """Run a race in its turn, for as long as it may: why it was ended before its end, or None."""
    left, why = len(racing.methods), turn.over()
    if why:
        return why
    for lap in racing:
        each(lap)
        turn.tokens += len(lap.record.emitted)
        left -= lap.record.finish is not None
        if left and (why := turn.over()):
            return why
    return None


def _compute(run: Run, racing: Race, turn: Turn) -> str | None:
    """What the computing thread does for one run: race, and write the log."""
    try:
        why = run_laps(racing, turn, lambda lap: run.add(log.step(lap.lane, lap.clock_s, lap.record)))
        reason = "stopped" if why == LEFT else "error" if why else "finished"
        run.add(log.end(racing.result(), reason, turn.words(why)))
        return why
    except LookaheadError as error:  # no GPU was lent
        run.add(log.end(racing.result(), "error", str(error)))
        raise
    except Exception:  # the page gets words, the log the traceback
        run.add(log.end(racing.result(), "error", FAULT))
        raise
    finally:
        racing.close()
