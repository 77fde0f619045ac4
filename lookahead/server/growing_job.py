"""A drafter that grows for one visitor, as a job that gives way: slices of training, and now and then a race with it.

What has grown stays with the visitor until another one is begun, or so many visitors have grown one since. It can be kept, so that the visitor's own races draft with it, and taken home as files.

Knows training, races and the queue. It does not know pages.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ..calibration import cost
from ..core.events import ModelError
from ..core.numbers import millions, seconds
from ..family.models import Models
from ..measure.scenarios import FROG
from ..race.race import race
from ..trace import wire
from . import zero
from .queue import Job, Refused, Slices, queue
from .runs import Run
from .state import ServerState

if TYPE_CHECKING:
    from ..train.growing import Growing

LARGEST = 30_000_000  # parameters of a target: beside a larger one a head learns nothing in minutes
MOST = 2  # that grow at once: each remembers 200 MB of text with the target's hidden states
REMEMBERED = 16  # that have grown
RACE_S, TOKENS = 20.0, 64  # between two races, and how long these are
BACK = "Load the bundled models in the Models tab to grow one."


class Drafter:
    """What one visitor has grown: `learning` while it learns or has learned; beside `models`, as they were in the beginning."""

    def __init__(self, models: Models):
        self.models = models
        self.learning: Growing | None = None
        self.active = True
        self._costs: Any = None

    def beside(self) -> Models:
        """The models with the head as it is now. In the computing thread."""
        head = self.learning.head()
        if self._costs is None:  # the same whatever it has learned
            self._costs = cost.measure_head(head, self.models.target, self.models.costs.target)
        return self.models.with_head(
            head, f"your own, grown for {seconds(self.learning.progress.seconds)}", self._costs
        )

    def slices(self, most_s: float, remember: Callable[[Run], None]) -> Iterator[Any]:
        """`Progress` of the training, and a `Run` for each race when it begins."""
        from ..train.growing import Growing

        try:
            self.learning, race_at = Growing(self.models), 0.0
            for progress in self.learning.slices():
                yield progress
                over = progress.seconds >= most_s
                if progress.checks and (progress.seconds >= race_at or over):
                    race_at += RACE_S
                    yield from self._race(remember)
                if over:
                    return
        finally:
            self.active = False
            if self.learning:
                self.learning.end()

    def _race(self, remember: Callable[[Run], None]) -> Iterator[Run | None]:
        run, reason = Run(), "stopped"
        racing = race(self.beside(), FROG, ["naive", "block"], max_new_tokens=TOKENS, k=self.learning.longest)
        remember(run)
        run.add(wire.begin(racing.result(), live=True))
        yield run
        try:
            for lap in racing:
                run.add(wire.step(lap.lane, lap.clock_s, lap.record))
                yield None
            reason = "finished"
        finally:
            run.add(wire.end(racing.result(), reason, None))
            racing.close()


class Drafters:
    """What all visitors have grown, by visitor."""

    def __init__(self, server: ServerState):
        self._server = server
        self._drafters: dict[str, Drafter] = {}

    def grow(self, visitor: str) -> Slices:
        """A job that grows a new one. Raises what `refuse` raises, and `Refused` where too many grow."""
        self.refuse()
        if sum(one.active for name, one in self._drafters.items() if name != visitor) >= MOST:
            raise Refused("As many drafters as this server can hold are growing already. Try again in a few minutes.")
        from ..train import growing  # noqa: F401 (seconds, which nobody in the queue is to wait for)

        self._drafters.pop(visitor, None)
        drafter = self._drafters[visitor] = Drafter(self._server.models)
        for oldest in [name for name, one in self._drafters.items() if not one.active][:-REMEMBERED]:
            del self._drafters[oldest]
            self._server.grown.pop(oldest, None)
        most_s, remember = self._server.limits.max_grow_s, self._server.runs.remember
        return queue.submit(Slices("grow", lambda: drafter.slices(most_s, remember), methods=["block"]))

    def refuse(self) -> None:
        """Raise a `LookaheadError` where no head can be grown, which says why."""
        models, passes = self._server.models, self._server.models.target.passes
        name = models.names["target"]
        if not self._server.limits.max_grow_s:
            raise Refused("The host of this server has switched growing off.")
        if zero.HERE:
            raise Refused("This server is lent a GPU for a minute at a time, which is too short to grow a drafter.")
        if passes.shape.kind != "llama":
            raise ModelError("target", name, f"a drafter is grown beside a Llama, and this is none. {BACK}")
        if passes.size > LARGEST:
            mend = f"with {millions(passes.size)} parameters it is too large: beside more than {millions(LARGEST)}, minutes teach a drafter nothing."
            raise ModelError("target", name, f"{mend} {BACK}")

    def keep(self, visitor: str) -> str:
        """Have the visitor's own races draft with what has grown so far; its name."""
        drafter = self._of(visitor)
        models = self._computed(drafter.beside)
        if drafter.models is not self._server.models:
            raise Refused("Other models were loaded meanwhile, and this drafter does not fit them. Train another.")
        self._server.grown[visitor] = models
        return models.names["block"]

    def put_away(self, visitor: str) -> None:
        """Have the visitor's races draft with everybody's head again."""
        self._server.grown.pop(visitor, None)

    def packed(self, visitor: str) -> bytes:
        """What has grown so far as a zip of the files that `speculators` reads."""
        from ..model.heads import files

        drafter, packed = self._of(visitor), io.BytesIO()
        with TemporaryDirectory() as folder, zipfile.ZipFile(packed, "w") as archive:
            verifier = drafter.models.names["target"]
            self._computed(lambda: files.write(drafter.learning.network, folder, verifier, ["LlamaForCausalLM"]))
            for path in sorted(Path(folder).iterdir()):
                archive.write(path, path.name)
        return packed.getvalue()

    def _of(self, visitor: str) -> Drafter:
        drafter = self._drafters.get(visitor)
        if drafter is None or drafter.learning is None or not drafter.learning.progress.steps:
            raise Refused("Nothing has been learned yet. Press Train first.")
        return drafter

    def _computed(self, function: Callable[[], Any]) -> Any:
        return queue.submit(Job("grow", lambda _: function())).result()
