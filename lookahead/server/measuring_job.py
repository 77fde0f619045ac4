"""Measuring the costs of passes again, for a visitor.

Races that have begun keep the costs they began with.
"""

from __future__ import annotations

from ..family.models import Models, measured_again
from .queue import Job, queue
from .state import ServerState


def submit(server: ServerState, models: Models) -> Job[None]:
    """A job that measures these models again and replaces them."""

    def work(job: Job[None]) -> None:
        server.families.renew(measured_again(server.families.named(models.spec).models))

    return queue.submit(Job("measure", work, limited=False))
