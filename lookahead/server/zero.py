"""ZeroGPU: on a Space that is lent a GPU for one call at a time, races run in such a call. Elsewhere nothing is imported.

The app of such a Space has no GPU. Another process runs a function that `spaces.GPU` decorates, with a GPU for as long as
the call takes, from the visitor's share. So:

- The computing thread makes the call in the visitor's context, where `spaces` finds the request.
- Arguments and results are pickled. The other process loads and measures the models, and keeps them for its next call.
- `spaces` makes torch report a GPU in this process too, which computes on its cores; this module undoes that.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextvars import copy_context
from importlib.util import find_spec
from typing import Any

import gradio as gr
import torch

from ..family.models import load
from ..trace.race import Race
from ..trace.trace import Trace
from ..trace.wire import LaneStep, LaneSteps
from .form import Make, RaceForm
from .limits import Limits
from .queue import Ended
from .state import ServerState

LOADING_S, TOKEN_S = 20.0, 0.03  # of a call: models are loaded and measured; a lane's token, drafting included
MOST_S = 120  # a shorter call gets its GPU sooner, a longer one may be refused
_lent_to: list[ServerState] = []  # in the process that is lent a GPU: the models of its last call


def present(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether GPUs are lent here: the environment states it, and the package is installed."""
    return environment.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true") and find_spec("spaces") is not None


def call_s(spec: str, limits: Limits, make: Make) -> int:
    """The seconds of GPU that a race needs: for loading, and for each token of each lane. Without a form: of the limits."""
    filled = make if isinstance(make, RaceForm) else None
    tokens = float((filled and filled.fields.get("max_new_tokens")) or limits.max_new_tokens)
    lanes = len(filled.methods) if filled else limits.max_lanes
    return round(min(MOST_S, LOADING_S + TOKEN_S * lanes * min(tokens, limits.max_new_tokens)))


def _lane_steps(spec: str, limits: Limits, make: Make) -> Iterator[Trace | LaneStep]:
    """In the process with the GPU: the race as it begins, then its lane_steps."""
    if not _lent_to or spec not in _lent_to[0].families:
        _lent_to.clear()
        _lent_to.append(ServerState(load(spec), limits))
    racing = make(_lent_to[0])
    try:
        yield racing.result()
        yield from racing
    finally:
        racing.close()


if HERE := present():
    import spaces  # before anything asks torch for a GPU

    torch.cuda.is_available, torch.cuda.device_count = lambda: False, lambda: 0  # undone by `spaces` where there is one
    _lane_steps = spaces.GPU(_lane_steps, duration=call_s)


def report() -> None:
    """Report the app's GPU functions to the Space where GPUs are lent. `spaces` (read in 0.51.3) does so when `Blocks.launch`
    is called, and a mounted page is not launched; a Space that gets no report is stopped."""
    if HERE:
        spaces.zero.startup()


class ZeroGpuRace(LaneSteps):
    """A race that runs where a GPU is lent. `make` must be picklable; `begun` gets the trace of what it makes there."""

    def __init__(self, racing: Race, server: ServerState, make: Make, begun: Callable[[Trace], Any]):
        self.methods, self.settings, self.prompt_text = racing.methods, racing.settings, racing.prompt_text
        self._trace, self._begun = racing.result(), begun
        racing.close()
        self._context = copy_context()
        self._lane_steps = self._run(self._trace.models.spec, server.limits, make)

    def _run(self, spec: str, limits: Limits, make: Make) -> Iterator[LaneStep]:
        lane_steps = _lane_steps(spec, limits, make)
        try:
            self._trace = self._context.run(next, lane_steps)
            self._begun(self._trace)
            while lane_step := self._context.run(next, lane_steps, None):
                self._trace.lanes[lane_step.lane].steps.append(lane_step.step)
                yield lane_step
        except gr.Error as error:  # no GPU, no share left, or the call took too long
            raise Ended(f"ZeroGPU: {error.message}") from None
        finally:
            self._context.run(lane_steps.close)

    def result(self) -> Trace:
        return self._trace
