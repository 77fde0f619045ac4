"""The fair schedule of a race: every lane has a clock, and only one lane computes at a time.

The next pass is computed for the lane with the lowest clock. A clock adds only the measured work of its lane: drafting, the
target's pass, and the loop. Prefill is excluded. Lanes that can share a prompt read it once.
"""

from collections.abc import Iterator, Sequence

from ..core.events import Step
from .decode import PrefillProgress, Request
from .lane import Lane


def schedule(lanes: Sequence[Lane], on_prefill: PrefillProgress | None = None) -> Iterator[tuple[int, Step, float]]:
    """Run all lanes to their end; yield (lane number, step, clock of the lane). May be closed at any step.

    `on_prefill` is called before each part of a long prompt with the share that is read. Its exceptions end the race.
    """
    requests: list[Request] = []
    clocks = [0.0] * len(lanes)
    running = {number: lane.steps(requests, on_prefill) for number, lane in enumerate(lanes)}
    try:
        # Lanes that need hidden states read the prompt first; other lanes can copy their cache.
        for number in sorted(running, key=lambda lane: not lanes[lane].keeps_states):
            yield number, next(running[number]), 0.0
        while running:
            number = min(running, key=lambda lane: (clocks[lane], lane))
            step = next(running[number])
            clocks[number] += step.seconds
            if step.finish:
                del running[number]
            yield number, step, clocks[number]
    finally:
        for steps in running.values():
            steps.close()
