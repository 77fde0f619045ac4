"""A job that loads a family for a visitor: checked and downloaded outside the queue, and measured in it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from ..core import memory
from ..family import hub, models
from ..servers import addresses
from .queue import POLL_S, Job, Refused, queue
from .state import ServerState, bundled, family_title

T = TypeVar("T")
BUSY = "Another visitor is loading models on this server, or a stopped load is ending. Try again in a moment."
FAULT = "This failed because of an error in Lookahead or in the model's files ({kind}). Loaded models are unchanged."


class DownloadJob(Job[None]):
    """`work(job)` in a separate thread, so that downloads delay no job. It publishes (sentence, share) and plans."""

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
        """Compute a part of the work in the queue."""
        part = Job(self.kind, lambda _: function(*arguments), limited=False, fault=self.fault)
        self._part = queue.submit(part)
        try:
            if self.end_reason:
                part.cancel()
            return part.result()
        finally:
            self._part = None

    def waiting(self) -> str:
        return part.waiting() if (part := self._part) else ""

    def cancel(self) -> None:
        super().cancel()
        if part := self._part:
            part.cancel()

    def _run(self) -> None:
        try:
            self.done.set_result(self.run())
        except Exception as error:
            self.done.set_exception(error)


def check(server: ServerState, spec: str) -> DownloadJob:
    """Return a job that publishes the plan of a family and loads nothing."""
    return DownloadJob(lambda job: _check(server, spec, job))


def load(server: ServerState, spec: str, waits: bool = False) -> DownloadJob:
    """Return a job that loads a family and publishes its plan. While another visitor loads, it is refused, or waits."""
    return DownloadJob(lambda job: _load(server, spec, job, waits))


def offered(server: ServerState) -> list[str]:
    """Return the choices of a visitor: the loaded families, the bundled families that may be loaded, and servers."""
    loaded = [family.models.spec for family in server.families]
    return loaded + [spec for spec in bundled() if missing(server, spec)] + [*addresses.offered()]


def missing(server: ServerState, spec: str) -> bool:
    """Return whether this is a bundled family that may be loaded here and is not loaded yet."""
    return spec not in server.families and server.limits.loading != "none" and spec in bundled()


def load_if_missing(server: ServerState, spec: str) -> Iterator[tuple[str, float]]:
    """Load a bundled family if necessary, after other loads, and yield (sentence, share). Raises errors of a load."""
    if not missing(server, spec):
        return
    title = f"Loading {family_title(spec).partition(':')[0]}, once. "
    for update in load(server, spec, waits=True).start().follow():
        if update.waiting:
            yield title + update.waiting, 0.0
        for value in update.values:
            if not isinstance(value, hub.Plan):
                sentence, share = value
                yield f"{title}{sentence}.", share


def _check(server: ServerState, spec: str, job: DownloadJob) -> hub.Plan:
    limits, spare = server.limits, server.families.spare_bytes
    plan = hub.check(spec, limits=limits, progress=job.progress, compute=job.compute, spare_bytes=spare)
    job.publish(plan)
    return plan


def _load(server: ServerState, spec: str, job: DownloadJob, waits: bool) -> str:
    """Load a family in the job's thread and return its name. It holds `changing` until the end, even if the visitor leaves."""
    while not server.changing.acquire(timeout=POLL_S if waits else 0):
        if not waits:
            raise Refused(BUSY)
        job.progress("Another visitor is loading models", 0.0)
    try:
        if spec in server.families:  # the other visitor has loaded it
            return spec
        plan = _check(server, spec, job)
        files = hub.download(plan, job.progress)
        if plan.spec not in server.families:
            job.compute(_add, server, plan, files, job.progress)
        return plan.spec
    finally:
        server.changing.release()


def _add(server: ServerState, plan: hub.Plan, files: dict[str, Path], progress: Any) -> None:
    server.free_memory(int(memory.SPARE * plan.memory(plan.dtype)))
    ready = models.load(plan.spec, progress, folder_of=files)
    progress("Ready", 1.0)  # the last point at which the job can be cancelled
    server.families.add(ready, {known.name: known.license for known in plan.models})


def finish_loading(server: ServerState, spec: str) -> Job[None]:
    """Submit a job that compiles and measures the drafters that the first start has deferred. Visitors' jobs come first."""

    def work(job: Job[None]) -> Generator[str]:
        for complete in models.finish_loading(server.families.named(spec).models):
            if complete:
                server.families.replace_models(complete)
            yield spec

    return queue.submit(Job("finish loading", work, limited=False, preemptible=True))


def measure_again(server: ServerState, spec: str) -> Job[None]:
    """Submit a job that measures a family again and replaces its costs. Running races keep theirs."""

    def work(job: Job[None]) -> None:
        server.families.replace_models(models.measured_again(server.families.named(spec).models))

    return queue.submit(Job("measure", work, limited=False))
