"""A drafter that one visitor trains, as a preemptible job: slices of training, with a race from time to time.

The visitor can use it in races and download it until they start another one, leave, or the family is unloaded.
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

LARGEST = 30_000_000  # parameters of a target: for a larger one, a head does not learn enough in minutes
MAX_TRAINING = 2  # drafters in training at the same time; each stores 200 MB of text with the target's hidden states
RACE_S, TOKENS = 20.0, 48  # seconds of training between two races, and new tokens of a race
BACK = "Choose the models called pocket in the Race tab to grow one."
CHANGED = "This drafter was trained for models that are no longer loaded. Press Train to grow another."
NOTHING = "No drafter has been trained yet. Press Train and wait half a minute."
FULL = "This server is already training as many drafters as it can. Try again in a few minutes."
_start_lock = Lock()


class VisitorDrafter:
    """A head that one visitor trains for a family's models.

    `trained` is the network, with the models that draft with it; None before the first step. `kept` are the models that
    the visitor's races use; None for the models that all visitors use.
    """

    def __init__(self, server: ServerState, models: Models, kept: Models | None = None):
        self.models, self.kept = models, kept
        self.trained: tuple[Any, Models] | None = None
        self.job = Job("grow", lambda _: self._slices(), preemptible=True, methods=[drafter_with(BLOCK).name])
        self._server = server
        self._costs: DrafterCosts | None = None

    def keep(self) -> str:
        """Use the trained head in the visitor's races, and return its name. Raises `Refused`."""
        _, self.kept = self._usable()
        return self.kept.names[BLOCK]

    def to_zip(self) -> bytes:
        """Return the trained head as a zip of the files that `speculators` reads. Raises `Refused`."""
        (network, _), buffer = self._usable(), io.BytesIO()
        with TemporaryDirectory() as folder, zipfile.ZipFile(buffer, "w") as archive:
            files.write(network, folder, self.models.names["target"], ["LlamaForCausalLM"])
            for path in sorted(Path(folder).iterdir()):
                archive.write(path, path.name)
        return buffer.getvalue()

    def _usable(self) -> tuple[Any, Models]:
        if not self.trained:
            raise Refused(NOTHING)
        self._require_loaded()
        return self.trained

    def _require_loaded(self) -> None:
        if not any(family.models is self.models for family in self._server.families):
            raise Refused(CHANGED)

    def _slices(self) -> Iterator[Any]:
        """Yield the `Progress` of the training, and a `Run` at the start of each race."""
        from ..train.growing import BlockHeadTrainer

        growing, checks, race_at = BlockHeadTrainer(self.models), 0, 0.0
        try:
            for progress in growing.slices():
                self._require_loaded()
                yield progress
                over = progress.seconds >= self._server.limits.max_grow_s
                if progress.checks > checks or over:
                    checks, models = progress.checks, self._drafting_models(growing)
                    if progress.seconds >= race_at or over:
                        race_at += RACE_S
                        yield from self._race(models)
                if over:
                    return
        finally:
            if growing.progress.steps:
                self._drafting_models(growing)

    def _drafting_models(self, growing: Any) -> Models:
        network, progress = growing.copied(), growing.progress
        head = Head.from_network(network, self.models.target.passes)
        if self._costs is None:  # it does not depend on the weights
            self._costs = cost.measure_drafter(head, self.models.target, self.models.costs.target)
        models = self.models.with_head(head, f"your own, trained for {seconds(progress.seconds)}", self._costs)
        if progress.steps:
            self.trained = network, models
        return models

    def _race(self, models: Models) -> Iterator[Run]:
        run, k = Run(), models.heads[BLOCK].shape.slots
        self._server.runs.remember(run)
        yield run
        racing = race(models, FROG, ["naive", drafter_with(BLOCK).name], max_new_tokens=TOKENS, k=k)
        run.add(wire.Begin(trace=racing.result(), live=True))
        race_job.compute(racing, run, self.job)


def grow(server: ServerState, visitor: str) -> VisitorDrafter:
    """Return a new drafter for the visitor's family; its `job` trains it. Raises `Refused`, or as `check_growable`."""
    models = server.families.chosen_by(visitor).models
    check_growable(server, models)
    from ..train import growing  # noqa: F401 (takes seconds; imported here, it does not block the queue)

    with _start_lock:
        drafters = server.drafters
        others = [drafter for name, drafter in list(drafters.items()) if name != visitor]
        if sum(not drafter.job.done.done() for drafter in others) >= MAX_TRAINING:
            raise Refused(FULL)
        previous = drafters.get(visitor)
        drafter = VisitorDrafter(server, models, previous.kept if previous and previous.models is models else None)
        queue.submit(drafter.job)
        drafters[visitor] = drafter
    return drafter


def check_growable(server: ServerState, models: Models) -> None:
    """Raise a `LookaheadError` with the reason if no head can be trained for these models."""
    passes, name = models.target.passes, models.names["target"]
    if not server.limits.max_grow_s:
        raise Refused("The host of this server has switched training off.")
    if zero.ENABLED:
        raise Refused("This server gets a GPU for a minute at a time, which is too short to train a drafter.")
    if passes.shape.kind != "llama":
        raise ModelError("target", name, f"a drafter can be trained for Llama models only. {BACK}")
    if passes.size > LARGEST:
        hint = f"with {millions(passes.size)} parameters it is too large to train a drafter in minutes. {BACK}"
        raise ModelError("target", name, hint)


def find_drafter(server: ServerState, visitor: str) -> VisitorDrafter:
    """Return the visitor's drafter. Raises `Refused` if there is none."""
    if visitor not in server.drafters:
        raise Refused(NOTHING)
    return server.drafters[visitor]
