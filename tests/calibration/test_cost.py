"""How passes are timed: in turns, as often as there is time for."""

import pytest

from lookahead.calibration import cost


@pytest.mark.parametrize(
    ("most_s", "laps"), [({}, 8), ({"most_s": 100.0}, 8), ({"most_s": 4.5}, 5), ({"most_s": 0.0}, 3)]
)
def test_works_take_turns_and_end_in_time_but_not_before_the_least(monkeypatch, most_s, laps):
    clock, order = [0.0], []
    monkeypatch.setattr(cost, "perf_counter", lambda: clock[0])

    def work(name, seconds):
        def run():
            order.append(name)
            clock[0] += seconds

        return run

    found = cost.interleaved([work("a", 0.25), work("b", 0.75)], cost.REPEATS, **most_s)
    assert order == ["a", "b"] * laps
    assert found == [0.25, 0.75]
