"""A drafter that one visitor trains, as a job that gives way: slices of training, and now and then a race with it.

The visitor can keep it for races and download it, until another one is begun, the visitor leaves or the family is unloaded.
"""

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from ..core.costs import DrafterCosts
from ..core.events import ModelError
from ..core.numbers import millions, seconds
from ..drafting import drafter_with
from ..family import cost
from ..family.models import Models
from ..measure.scenarios import FROG
from ..model.heads import files
from ..model.heads.head import Head
from ..model.heads.shape import BLOCK
from ..trace import wire
from ..trace.race import race
from . import race_job, zero
from .queue import Job, Refused, queue
from .runs import Run
from .state import ServerState

LARGEST = 30_000_000  # parameters of a target: for a larger one a head learns nothing in minutes
MOST = 2  # trained at once: each keeps 200 MB of text with the target's hidden states
RACE_S, TOKENS = 20.0, 48  # of training between two races, and how long these are
BACK = "Choose the models called pocket in the Race tab to grow one."
CHANGED = "The models that this drafter was grown beside are not in use any more. Press Train to grow another."
NOTHING = "Nothing has been learned yet. Press Train, and give it half a minute."
FULL = "As many drafters as this server has room for are growing already. Try again in a few minutes."
_beginning = Lock()


class Drafter:
    """What one visitor trains for a family's models.

    `learned` is the network, with the models that draft with it; None before the first step. `kept` are the models of the
    visitor's races; None: those of all visitors.
    """

    def __init__(self, server: ServerState, models: Models, kept: Models | None = None):
        self.models, self.kept = models, kept
        self.learned: tuple[Any, Models] | None = None
        self.job = Job("grow", lambda _: self._slices(), gives_way=True, methods=[drafter_with(BLOCK).name])
        self._server = server
        self._costs: DrafterCosts | None = None

    def keep(self) -> str:
        """Use what it has learned in the visitor's races; returns its name. Raises `Refused`."""
        _, self.kept = self._usable()
        return self.kept.names[BLOCK]

    def packed(self) -> bytes:
        """Return what it has learned as a zip of the files that `speculators` reads. Raises `Refused`."""
        (network, _), packed = self._usable(), io.BytesIO()
        with TemporaryDirectory() as folder, zipfile.ZipFile(packed, "w") as archive:
            files.write(network, folder, self.models.names["target"], ["LlamaForCausalLM"])
            for path in sorted(Path(folder).iterdir()):
                archive.write(path, path.name)
        return packed.getvalue()

    def _usable(self) -> tuple[Any, Models]:
        if not self.learned:
            raise Refused(NOTHING)
        if not self._fits():
            raise Refused(CHANGED)
        return self.learned

    def _fits(self) -> bool:
        return any(family.models is self.models for family in self._server.families)

    def _slices(self) -> Iterator[Any]:
        """`Progress` of the training, and a `Run` for each race when it begins."""
        from ..train.growing import Growing

        growing, checks, race_at = Growing(self.models), 0, 0.0
        try:
            for progress in growing.slices():
                if not self._fits():
                    raise Refused(CHANGED)
                yield progress
                over = progress.seconds >= self._server.limits.max_grow_s
                if progress.checks > checks or over:
                    checks, models = progress.checks, self._now(growing)
                    if progress.seconds >= race_at or over:
                        race_at += RACE_S
                        yield from self._race(models)
                if over:
                    return
        finally:
            if growing.progress.steps:
                self._now(growing)

    def _now(self, growing: Any) -> Models:
        network, progress = growing.copied(), growing.progress
        head = Head.from_network(network, self.models.target.passes)
        if self._costs is None:  # the same whatever it has learned
            self._costs = cost.measure_drafter(head, self.models.target, self.models.costs.target)
        models = self.models.with_head(head, f"your own, grown for {seconds(progress.seconds)}", self._costs)
        if progress.steps:
            self.learned = network, models
        return models

    def _race(self, models: Models) -> Iterator[Run]:
        run, k = Run(), models.heads[BLOCK].shape.slots
        self._server.runs.remember(run)
        yield run
        racing = race(models, FROG, ["naive", drafter_with(BLOCK).name], max_new_tokens=TOKENS, k=k)
        run.add(wire.Begin(trace=racing.result(), live=True))
        race_job.compute(racing, run, self.job)


def grow(server: ServerState, visitor: str) -> Drafter:
    """Begin a new drafter for the visitor's family; its `job` trains it. Raises what `refuse` raises, and `Refused` if too
    many are trained."""
    models = server.families.of(visitor).models
    refuse(server, models)
    from ..train import growing  # noqa: F401 (takes seconds, for which the queue does not wait)

    with _beginning:
        drafters = server.drafters
        others = [one for name, one in list(drafters.items()) if name != visitor]
        if sum(not one.job.done.done() for one in others) >= MOST:
            raise Refused(FULL)
        before = drafters.get(visitor)
        drafter = Drafter(server, models, before.kept if before and before.models is models else None)
        queue.submit(drafter.job)
        drafters[visitor] = drafter
    return drafter


def refuse(server: ServerState, models: Models) -> None:
    """Raise a `LookaheadError` with the reason if no head can be trained for these models."""
    passes, name = models.target.passes, models.names["target"]
    if not server.limits.max_grow_s:
        raise Refused("The host of this server has switched growing off.")
    if zero.HERE:
        raise Refused("This server is lent a GPU for a minute at a time, which is too short to grow a drafter.")
    if passes.shape.kind != "llama":
        raise ModelError("target", name, f"a drafter is grown beside a Llama, and this is none. {BACK}")
    if passes.size > LARGEST:
        hint = f"with {millions(passes.size)} parameters it is too large to teach a drafter anything in minutes. {BACK}"
        raise ModelError("target", name, hint)


def drafter_of(server: ServerState, visitor: str) -> Drafter:
    """The visitor's drafter. Raises `Refused` if there is none."""
    if visitor not in server.drafters:
        raise Refused(NOTHING)
    return server.drafters[visitor]
