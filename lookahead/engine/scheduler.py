"""The fair schedule of a race: lanes take turns on one clock each, and never compute at the same time.

The next pass goes to the lane whose clock is furthest behind. A clock adds only its lane's measured work: drafting, the
target's pass, the loop. Reading the prompt is excluded; lanes that can share it read it once.
"""

from collections.abc import Iterator, Sequence

from ..core.events import Step
from .decode import Reading, Request
from .lane import Lane


def schedule(lanes: Sequence[Lane], reading: Reading | None = None) -> Iterator[tuple[int, Step, float]]:
    """Run all lanes to their end; yields a lane's number, its step and its clock then. May be closed at any step.

    `reading` is called with the share of a long prompt that is read, before each of its parts. Its exceptions end the race.
    """
    texts: list[Request] = []
    clocks = [0.0] * len(lanes)
    running = {number: lane.steps(texts, reading) for number, lane in enumerate(lanes)}
    try:
        # A prompt read with hidden states serves a lane without them too, but not the other way round.
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
