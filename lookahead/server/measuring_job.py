"""Measuring the costs of passes again: for a visitor, or after an implausible measurement once the machine is quiet.

Races that have begun keep the costs they began with.
"""

from __future__ import annotations

import os
from contextlib import suppress

from ..core.events import LookaheadError
from ..core.processor import cores
from ..family.models import Models, measured_again
from .queue import Job, queue
from .state import ServerState

QUIET_S = 20.0  # without a job, before an implausible measurement is repeated
BUSY = 0.5  # of the cores in use by any process: measuring would be disturbed again
MOST = 5  # repetitions


def submit(server: ServerState, models: Models) -> Job[None]:
    """A job that measures these models again and replaces them."""

    def work(job: Job[None]) -> None:
        server.families.renew(measured_again(server.families.named(models.spec).models))

    return queue.submit(Job("measure", work, limited=False))


def _busy() -> bool:
    return hasattr(os, "getloadavg") and os.getloadavg()[0] > BUSY * cores()


class WhenQuiet:
    """Repeats implausible measurements once the machine has been quiet for a while."""

    def __init__(self, server: ServerState):
        self._server, self._quiet_s, self._left = server, 0.0, MOST

    def tick(self, seconds: float) -> None:
        """Call this every `seconds`."""
        self._quiet_s = self._quiet_s + seconds if queue.idle() and not _busy() else 0.0
        doubtful = next((one.models for one in self._server.families if one.models.measured.faults), None)
        if doubtful and self._quiet_s >= QUIET_S and self._left:
            self._quiet_s, self._left = 0.0, self._left - 1
            with suppress(LookaheadError):  # shutting down
                submit(self._server, doubtful)
