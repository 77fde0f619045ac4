"""Measuring what passes cost again: because a visitor asks, or because what was measured cannot be and the machine is quiet now.

It is a job like any other, so no race runs meanwhile; those that have begun keep the costs they began with.

Knows the queue and families. It does not know the page.
"""

from __future__ import annotations

import os

from ..core.events import LookaheadError
from ..core.processor import cores
from ..family.models import Models, measured_again
from .queue import Job, queue
from .state import ServerState

QUIET_S = 20.0  # nothing computed or waiting, before it is tried by itself
BUSY = 0.5  # of the cores at work, by whatever runs on this machine: measuring would be disturbed again
MOST = 5  # times that it is tried by itself


def submit(server: ServerState, models: Models) -> Job[None]:
    """A job that measures these models again and puts them in their own place."""

    def work(job: Job[None]) -> None:
        server.families.renew(measured_again(server.families.named(models.spec).models))

    return queue.submit(Job("measure", work, limited=False))


def _busy() -> bool:
    """Whether others are at work on this machine, where it tells."""
    return hasattr(os, "getloadavg") and os.getloadavg()[0] > BUSY * cores()


class WhenQuiet:
    """Measures again what cannot be, once the machine has been quiet for a while; `tick(seconds)` is called now and then."""

    def __init__(self, server: ServerState):
        self._server, self._quiet_s, self._left = server, 0.0, MOST

    def tick(self, seconds: float) -> None:
        """So many seconds have passed."""
        self._quiet_s = self._quiet_s + seconds if queue.idle() and not _busy() else 0.0
        if self._quiet_s < QUIET_S or not self._left:
            return
        for family in self._server.families:
            if family.models.measured.faults:
                self._quiet_s, self._left = 0.0, self._left - 1
                try:
                    submit(self._server, family.models)
                except LookaheadError:  # shutting down
                    return
                return
