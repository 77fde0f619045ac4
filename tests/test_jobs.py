"""Long work for a page: the newest value, the words while others are before it, and the end when nobody watches."""

import threading
import time

import pytest

from lookahead import worker
from lookahead.events import SettingsError
from lookahead.ui.desk import Ended
from lookahead.ui.jobs import follow


def test_the_newest_value_comes_and_the_last_always():
    def count():
        for i in range(50):
            time.sleep(0.01)
            yield i

    seen = [value for value in follow(count) if value is not None]
    assert seen == sorted(seen) and seen[-1] == 49
    assert len(seen) < 50, "a page that draws slowly leaves some out"


def test_closing_ends_the_work_and_frees_the_thread():
    ended = threading.Event()

    def forever():
        try:
            while True:
                time.sleep(0.01)
                yield 1
        finally:
            ended.set()

    watched = follow(forever)
    while next(watched) != 1:
        pass
    watched.close()
    assert ended.wait(2)
    assert worker.submit(lambda: 5).result(timeout=2) == 5


def test_who_waits_is_told_and_may_leave():
    gate, begun = threading.Event(), []
    first = worker.submit(gate.wait)

    def late():
        begun.append(1)
        yield 1

    watched = follow(late)
    assert next(watched).startswith("Waiting: one run is before yours")
    watched.close()
    gate.set()
    first.result(timeout=2)
    worker.submit(lambda: None).result(timeout=2)
    assert not begun, "what was left in the line is never begun"


def test_errors_that_a_visitor_can_mend_are_raised_here_and_faults_become_words():
    def broken(error):
        yield 1
        raise error

    with pytest.raises(SettingsError, match="seed is 'x': no"):
        list(follow(lambda: broken(SettingsError("seed", "x", "no"))))
    with pytest.raises(Ended, match="a fault in Lookahead"):
        list(follow(lambda: broken(ValueError("secret"))))
