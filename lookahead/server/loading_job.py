"""A family that a visitor asks for, as a job: checked and downloaded outside the queue, measured in it, added to the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..core import memory
from ..family import hub, models
from ..servers import addresses
from .download_job import DownloadJob
from .families import bundled, described
from .queue import EVERY_S, Refused
from .state import ServerState

BUSY = (
    "Somebody is loading models on this server, or a load that was stopped is coming to its end. Try again in a moment."
)


def look(server: ServerState, spec: str) -> DownloadJob:
    """A job that publishes the plan of a family, and loads nothing."""
    return DownloadJob(lambda job: _look(server, spec, job))


def load(server: ServerState, spec: str, waits: bool = False) -> DownloadJob:
    """A job that loads a family beside the others, all the way; it publishes the plan when there is one. While somebody else
    loads models it is refused, or waits."""
    return DownloadJob(lambda job: _load(server, spec, job, waits))


def offered(server: ServerState) -> list[str]:
    """What a visitor may choose from: the families in use, those that come with the app and may be loaded, and servers."""
    in_use = [family.models.spec for family in server.families]
    return in_use + [spec for spec in bundled() if missing(server, spec)] + [*addresses.offered()]


def missing(server: ServerState, spec: str) -> bool:
    """Whether a family that comes with the app is asked for, may be loaded here, and is not loaded yet."""
    return spec not in server.families and server.limits.loading != "none" and spec in bundled()


def loaded(server: ServerState, spec: str) -> Iterator[tuple[str, float]]:
    """Load a family that comes with the app, unless it is there: (sentence, share done) meanwhile. Whoever comes while another
    visitor loads models waits for that. Raises `LookaheadError`."""
    if not missing(server, spec):
        return
    begun = f"Loading {described(spec).partition(':')[0]}, once. "
    for update in load(server, spec, waits=True).start().follow():
        if update.waiting:
            yield begun + update.waiting, 0.0
        for value in update.values:
            if not isinstance(value, hub.Plan):
                words, share = value
                yield f"{begun}{words}.", share


def _look(server: ServerState, spec: str, job: DownloadJob) -> hub.Plan:
    plan = hub.check(
        spec, limits=server.limits, progress=job.progress, compute=job.compute,
        spare_bytes=server.families.spare_bytes,
    )  # fmt: skip
    job.publish(plan)
    return plan


def _load(server: ServerState, spec: str, job: DownloadJob, waits: bool) -> str:
    """In the job's thread; `changing` is held until its end, whoever has left meanwhile. Returns what it is called."""
    while not server.changing.acquire(timeout=EVERY_S if waits else 0):
        if not waits:
            raise Refused(BUSY)
        job.progress("Somebody else is loading models at the moment", 0.0)
    try:
        if spec in server.families:  # whoever was waited for wanted the same
            return spec
        plan = _look(server, spec, job)
        files = hub.download(plan, job.progress)
        if plan.spec not in server.families:
            job.compute(_add, server, plan, files, job.progress)
        return plan.spec
    finally:
        server.changing.release()


def _add(server: ServerState, plan: hub.Plan, files: dict[str, Path], progress: Any) -> None:
    server.make_room(int(memory.SPARE * plan.memory(plan.dtype)))
    ready = models.load(plan.spec, progress, folder_of=files)
    progress("Ready", 1.0)  # the last moment to leave
    server.families.add(ready, {known.name: known.licence for known in plan.models})
