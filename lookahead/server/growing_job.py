"""A drafter that grows for one visitor, as a job that gives way: slices of training, and now and then a race with it.

It is the visitor's until another one is begun, other models are loaded or the visitor has gone. Meanwhile it can be kept,
so that the visitor's own races draft with it, and taken home as files.

Knows training, races and the queue. It does not know pages.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, NamedTuple

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
from . import zero
from .queue import Refused, Slices, queue
from .runs import Run
from .state import ServerState

LARGEST = 30_000_000  # parameters of a target: beside a larger one a head learns nothing in minutes
MOST = 2  # that grow at once: each remembers 200 MB of text with the target's hidden states
RACE_S, TOKENS = 20.0, 48  # of training between two races, and how long these are
BACK = "Choose the models called pocket in the Race tab to grow one."
CHANGED = "The models that this drafter was grown beside are not in use any more. Press Train to grow another."
NOTHING = "Nothing has been learned yet. Press Train, and give it half a minute."


class Learned(NamedTuple):
    """A drafter as it was at an instant: its network, and the models that draft with it. Nothing changes it any more."""

    network: Any
    models: Models


class Drafter:
    """What one visitor grows beside a family's models. `learned` is None until it has learned something; `kept` are the
    models that the visitor's races of that family run with, None for everybody's."""

    def __init__(self, server: ServerState, models: Models, kept: Models | None = None):
        self.models, self.kept = models, kept
        self.learned: Learned | None = None
        self.job: Slices | None = None
        self._server = server
        self._costs: DrafterCosts | None = None

    @property
    def active(self) -> bool:
        """Whether it grows, or waits for that."""
        return self.job is not None and not self.job.done.done()

    def fits(self) -> bool:
        """Whether its family is in use still."""
        return any(family.models is self.models for family in self._server.families)

    def slices(self) -> Iterator[Any]:
        """`Progress` of the training, a `Run` for each race when it begins, and None for each pass of it."""
        from ..train.growing import Growing

        growing, checks, race_at = Growing(self.models), 0, 0.0
        try:
            for progress in growing.slices():
                if not self.fits():
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
        """The models with what has been learned so far."""
        network, progress = growing.copied(), growing.progress
        head = Head.of(network, self.models.target.passes)
        if self._costs is None:  # the same whatever it has learned
            self._costs = cost.measure_head(head, self.models.target, self.models.costs.target)
        models = self.models.with_head(head, f"your own, grown for {seconds(progress.seconds)}", self._costs)
        if progress.steps:
            self.learned = Learned(network, models)
        return models

    def _race(self, models: Models) -> Iterator[Run | None]:
        run, reason = Run(), "stopped"
        k = models.heads[BLOCK].shape.slots
        racing = race(models, FROG, ["naive", drafter_with(BLOCK).name], max_new_tokens=TOKENS, k=k)
        self._server.runs.remember(run)
        run.add(wire.Begin(trace=racing.result(), live=True))
        try:
            yield run
            for lap in racing:
                run.add(lap)
                yield None
            reason = "finished"
        finally:
            run.add(wire.End.of(racing.result(), reason))
            racing.close()


class Drafters:
    """What visitors grow: begun, kept, put away, taken home."""

    def __init__(self, server: ServerState):
        self._server = server
        self._beginning = Lock()

    def grow(self, visitor: str) -> Slices:
        """A job that grows a new one beside the visitor's family. Raises what `refuse` raises, and `Refused` where too many
        grow."""
        models = self._server.families.of(visitor).models
        self.refuse(models)
        from ..train import growing  # noqa: F401 (takes seconds, for which nobody in the queue is to wait)

        with self._beginning:
            drafters = self._server.drafters
            if sum(one.active for name, one in list(drafters.items()) if name != visitor) >= MOST:
                raise Refused(
                    "As many drafters as this server has room for are growing already. Try again in a few minutes."
                )
            before = drafters.get(visitor)
            drafter = Drafter(self._server, models, before.kept if before and before.models is models else None)
            drafter.job = queue.submit(Slices("grow", drafter.slices, methods=[drafter_with(BLOCK).name]))
            drafters[visitor] = drafter
        return drafter.job

    def refuse(self, models: Models) -> None:
        """Raise a `LookaheadError` where no head can be grown beside these models, which says why."""
        passes, name = models.target.passes, models.names["target"]
        if not self._server.limits.max_grow_s:
            raise Refused("The host of this server has switched growing off.")
        if zero.HERE:
            raise Refused("This server is lent a GPU for a minute at a time, which is too short to grow a drafter.")
        if passes.shape.kind != "llama":
            raise ModelError("target", name, f"a drafter is grown beside a Llama, and this is none. {BACK}")
        if passes.size > LARGEST:
            mend = f"with {millions(passes.size)} parameters it is too large to teach a drafter anything in minutes. {BACK}"
            raise ModelError("target", name, mend)

    def ready(self, visitor: str) -> bool:
        """Whether there is something to keep."""
        drafter = self._server.drafters.get(visitor)
        return drafter is not None and drafter.learned is not None

    def keep(self, visitor: str) -> str:
        """Have the visitor's own races draft with what had been learned when that was last measured; its name."""
        drafter = self._of(visitor)
        drafter.kept = drafter.learned.models
        return drafter.kept.names[BLOCK]

    def kept(self, visitor: str) -> Models | None:
        """The models that a visitor's races run with; None where they are everybody's."""
        drafter = self._server.drafters.get(visitor)
        return drafter.kept if drafter else None

    def put_away(self, visitor: str) -> None:
        """Have the visitor's races draft with everybody's head again."""
        if drafter := self._server.drafters.get(visitor):
            drafter.kept = None

    def packed(self, visitor: str) -> bytes:
        """The same as a zip of the files that `speculators` reads."""
        drafter, packed = self._of(visitor), io.BytesIO()
        with TemporaryDirectory() as folder, zipfile.ZipFile(packed, "w") as archive:
            files.write(drafter.learned.network, folder, drafter.models.names["target"], ["LlamaForCausalLM"])
            for path in sorted(Path(folder).iterdir()):
                archive.write(path, path.name)
        return packed.getvalue()

    def _of(self, visitor: str) -> Drafter:
        drafter = self._server.drafters.get(visitor)
        if drafter is None or drafter.learned is None:
            raise Refused(NOTHING)
        if not drafter.fits():
            raise Refused(CHANGED)
        return drafter
