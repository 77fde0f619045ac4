"""ZeroGPU: races on a Space that gets a GPU for one call at a time. On other machines, `spaces` is not imported.

The app of such a Space has no GPU. Another process calls a function that `spaces.GPU` decorates, with a GPU for the
duration of the call. The time is taken from the visitor's quota. So:

- The computing thread makes the call in the visitor's context, in which `spaces` finds the request.
- Arguments and results are pickled. The other process loads and measures the models, and keeps them for its next call.
- `spaces` makes torch report a GPU in this process too, although it computes on the CPU; this module undoes that.
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
from .form import RaceFactory, RaceForm
from .limits import Limits
from .queue import Ended
from .state import ServerState

LOADING_S, TOKEN_S = 20.0, 0.03  # of a call: to load and measure models, and per token of a lane, with drafting
MAX_S = 120  # a shorter call gets a GPU sooner, a longer one may be refused
_gpu_states: list[ServerState] = []  # in the process with the GPU: the state with the models of its last call


def enabled(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether this is a ZeroGPU Space: the environment is set, and the package is installed."""
    return environment.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true") and find_spec("spaces") is not None


def call_s(spec: str, limits: Limits, make: RaceFactory) -> int:
    """Return the GPU seconds of a race: for loading, and per token of each lane. Without a form, the limits apply."""
    form = make if isinstance(make, RaceForm) else None
    tokens = float((form and form.fields.get("max_new_tokens")) or limits.max_new_tokens)
    lanes = len(form.methods) if form else limits.max_lanes
    return round(min(MAX_S, LOADING_S + TOKEN_S * lanes * min(tokens, limits.max_new_tokens)))


def _lane_steps(spec: str, limits: Limits, make: RaceFactory) -> Iterator[Trace | LaneStep]:
    """Yield, in the process with the GPU, the trace at the start of the race and then its steps."""
    if not _gpu_states or spec not in _gpu_states[0].families:
        _gpu_states.clear()
        _gpu_states.append(ServerState(load(spec), limits))
    racing = make(_gpu_states[0])
    try:
        yield racing.result()
        yield from racing
    finally:
        racing.close()


if ENABLED := enabled():
    import spaces  # before any module checks torch for a GPU

    # `spaces` undoes this in the process with a GPU.
    torch.cuda.is_available, torch.cuda.device_count = (lambda: False), (lambda: 0)
    _lane_steps = spaces.GPU(_lane_steps, duration=call_s)


def report() -> None:
    """Report the app's GPU functions, as ZeroGPU requires. `spaces` 0.51.3 reports them only in `Blocks.launch`."""
    if ENABLED:
        spaces.zero.startup()


class ZeroGpuRace(LaneSteps):
    """A race in the process with the GPU. `make` must be picklable; `begin` is called with the trace of its race there."""

    def __init__(self, racing: Race, server: ServerState, make: RaceFactory, begin: Callable[[Trace], Any]):
        self.methods, self.settings, self.prompt_text = racing.methods, racing.settings, racing.prompt_text
        self._trace, self._begin = racing.result(), begin
        racing.close()
        self._context = copy_context()
        self._lane_steps = self._run(self._trace.models.spec, server.limits, make)

    def _run(self, spec: str, limits: Limits, make: RaceFactory) -> Iterator[LaneStep]:
        lane_steps = _lane_steps(spec, limits, make)
        try:
            self._trace = self._context.run(next, lane_steps)
            self._begin(self._trace)
            while lane_step := self._context.run(next, lane_steps, None):
                self._trace.lanes[lane_step.lane].steps.append(lane_step.step)
                yield lane_step
        except gr.Error as error:  # no GPU, no quota left, or the call took too long
            raise Ended(f"ZeroGPU: {error.message}") from None
        finally:
            self._context.run(lane_steps.close)

    def result(self) -> Trace:
        return self._trace
