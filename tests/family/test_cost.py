"""How passes are timed: in turns, as often as there is time for."""

import pytest

import lookahead
from lookahead.family import cost, sense
from lookahead.model.heads.head import CachedBlock, CachedEagle
from lookahead.model.lm import CachedLM


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


def test_a_second_start_has_drafted_before_a_race(tmp_path, monkeypatch):
    """What passes cost is known then, and nothing is measured; but what has never run may still have to be compiled."""
    monkeypatch.setenv("LOOKAHEAD_CACHE", str(tmp_path))
    monkeypatch.setattr(sense, "faults", lambda *_: ())  # what other workers disturb would be measured again
    lookahead.load("pocket")
    ran = []

    def spied(cls, name):
        function = getattr(cls, name)
        monkeypatch.setattr(cls, name, lambda self, *given: ran.append((cls.__name__, name)) or function(self, *given))

    spied(CachedLM, "draft_chain")
    for cls in (CachedBlock, CachedEagle):
        spied(cls, "draft_chain")
    spied(CachedBlock, "draft_tree")
    monkeypatch.setattr(cost, "drift", lambda *_: 1.0)
    monkeypatch.setattr(cost, "measure_head", None)  # nothing is to call it
    lookahead.load("pocket")
    assert {
        ("CachedLM", "draft_chain"),
        ("CachedBlock", "draft_chain"),
        ("CachedBlock", "draft_tree"),
        ("CachedEagle", "draft_chain"),
    } <= set(ran)


def test_a_pass_that_was_disturbed_takes_no_longer_than_one_of_more_rows():
    assert cost.undisturbed((19.2, 28.9, 25.5, 20.4, 34.0)) == (19.2, 20.4, 20.4, 20.4, 34.0)
    assert cost.undisturbed((1.0, 1.0, 2.0)) == (1.0, 1.0, 2.0)
