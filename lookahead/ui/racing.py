"""A race on its way to a page: made, run in the computing thread, sent as batches of events, stopped when nobody watches.

Whoever waits is told how many are ahead: everything that computes is done by one thread, one thing at a time, so two
people never measure each other.

Knows races, runs and the computing thread. It does not know which part of the page shows them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .. import log, worker
from ..events import LookaheadError
from ..race import Race, race
from . import form
from .jobs import waiting
from .runs import Run, refusal
from .stage import Stage

logger = logging.getLogger("lookahead")
FAULT = "The run broke off because of a fault in Lookahead, not in what you typed. What ran so far is shown."


def raced(stage: Stage, prompt: str, methods: Sequence[str], fields: Mapping[str, Any]) -> Iterator[str]:
    """A filled-in form raced: batches for a timeline."""
    link = form.link(prompt, methods, fields)
    yield from watched(stage, lambda: race(stage.models, prompt, methods, **form.options(fields)), link)


def watched(stage: Stage, make: Callable[[], Race], link: str | None = None) -> Iterator[str]:
    """Batches of the race that `make` makes, until its end or until this is closed; or one refusal, which clears nothing."""
    try:
        racing = make()
    except LookaheadError as error:
        yield refusal(str(error))
        return
    run = stage.runs.open()
    run.add(log.begin(racing.result(), live=True, link=link))
    done = worker.submit(_compute, run, racing)
    try:
        yield from run.batches(lambda: waiting(done))
    finally:  # finished, stopped, or the page has gone
        run.stopping = True
        if done.cancel():
            racing.close()
        else:
            done.result()


def _compute(run: Run, racing: Race) -> None:
    """What the computing thread does for one run: race, and write the log."""
    try:
        for lap in racing:
            run.add(log.step(lap.lane, lap.clock_s, lap.record))
            if run.stopping:
                break
        run.add(log.end(racing.result(), "stopped" if run.stopping else "finished"))
    except Exception:  # the page gets words, the log the traceback
        logger.exception("a race broke off")
        run.add(log.end(racing.result(), "error", FAULT))
    finally:
        racing.close()
