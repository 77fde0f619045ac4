"""A family that a visitor asks for, as a job: checked and downloaded outside the queue, measured in it, added to the others.

Its costs can be measured again. Races that have begun keep the costs they began with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from ..core import memory
from ..family import hub, models
from ..servers import addresses
from .queue import EVERY_S, Job, Refused, queue
from .state import ServerState, bundled, described

T = TypeVar("T")
BUSY = (
    "Somebody is loading models on this server, or a load that was stopped is coming to its end. Try again in a moment."
)
FAULT = "This broke off because of a fault in Lookahead or in the model's files ({kind}). The models in use are as they were."


class DownloadJob(Job[None]):
    """`work(job)` in a thread of its own, because a download must not delay other jobs. It publishes (sentence, share done) and
    other values. Models are measured in the queue, by `compute`."""

    def __init__(self, work: Callable[[DownloadJob], Any]):
        super().__init__("models", work, limited=False, fault=FAULT)
        self._part: Job | None = None  # in the queue

    def start(self) -> DownloadJob:
        self.done.set_running_or_notify_cancel()
        Thread(target=self._run, name="lookahead-download", daemon=True).start()
        return self

    def progress(self, sentence: str, share: float) -> None:
        """Publish the progress. Raises `Cancelled` if the job must end now."""
        self.publish((sentence, share))

    def compute(self, function: Callable[..., T], *arguments: Any) -> T:
        part = Job(self.kind, lambda _: function(*arguments), limited=False, fault=self.fault)
        self._part = queue.submit(part)
        try:
            if self.end_reason:
                part.leave()
            return part.result()
        finally:
            self._part = None

    def waiting(self) -> str:
        return part.waiting() if (part := self._part) else ""

    def leave(self) -> None:
        super().leave()
        if part := self._part:
            part.leave()

    def _run(self) -> None:
        try:
            self.done.set_result(self.run())
        except Exception as error:
            self.done.set_exception(error)


def look(server: ServerState, spec: str) -> DownloadJob:
    """A job that publishes the plan of a family, and loads nothing."""
    return DownloadJob(lambda job: _look(server, spec, job))


def load(server: ServerState, spec: str, waits: bool = False) -> DownloadJob:
    """A job that loads a family, and publishes its plan. While another visitor loads models it is refused, or waits."""
    return DownloadJob(lambda job: _load(server, spec, job, waits))


def offered(server: ServerState) -> list[str]:
    """What a visitor may choose: the families in use, the bundled ones that may be loaded, and servers."""
    in_use = [family.models.spec for family in server.families]
    return in_use + [spec for spec in bundled() if missing(server, spec)] + [*addresses.offered()]


def missing(server: ServerState, spec: str) -> bool:
    """Whether this is a bundled family that may be loaded here and is not loaded yet."""
    return spec not in server.families and server.limits.loading != "none" and spec in bundled()


def loaded(server: ServerState, spec: str) -> Iterator[tuple[str, float]]:
    """Load a bundled family unless it is loaded, and yield (sentence, share done). Waits while another visitor loads models.
    Raises `LookaheadError`."""
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
    """In the job's thread. Holds `changing` until its end, also after the visitor has left. Returns the family's name."""
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


def measure_again(server: ServerState, spec: str) -> Job[None]:
    """Submit a job that measures a family again and replaces its costs."""

    def work(job: Job[None]) -> None:
        server.families.renew(models.measured_again(server.families.named(spec).models))

    return queue.submit(Job("measure", work, limited=False))
