"""Jobs: what their followers hear, the place in the queue, and the end when nobody follows."""

import threading
import time

import pytest

from lookahead.core.events import SettingsError
from lookahead.server.queue import Ended, Job, published, queue


def follow(make, **changed):
    """The updates of a job that publishes what the generator `make()` yields."""
    return queue.submit(Job("test", published(make), **changed)).follow()


def test_every_value_comes_once_and_the_last_too():
    def count():
        for i in range(50):
            time.sleep(0.01)
            yield i

    updates = list(follow(count))
    assert [value for update in updates for value in update.values] == list(range(50))
    assert len(updates) < 25, "a page that draws slowly may leave some out"


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
    while not next(watched).values:
        pass
    watched.close()
    assert ended.wait(2)
    assert queue.submit(Job("test", lambda job: 5)).done.result(timeout=2) == 5


def test_who_waits_is_told_and_may_leave():
    gate, begun = threading.Event(), []
    first = queue.submit(Job("test", lambda job: gate.wait(10)))

    def late():
        begun.append(1)
        yield 1

    watched = follow(late)
    assert next(watched).waiting.startswith("Waiting: one run is before yours")
    watched.close()
    gate.set()
    first.done.result(timeout=2)
    queue.call(lambda: None)
    assert not begun, "what was left in the queue is never begun"


def test_errors_that_a_visitor_can_mend_are_raised_here_and_faults_become_words():
    def broken(error):
        yield 1
        raise error

    with pytest.raises(SettingsError, match="seed is 'x': no"):
        list(follow(lambda: broken(SettingsError("seed", "x", "no"))))
    with pytest.raises(Ended, match="a fault in Lookahead"):
        list(follow(lambda: broken(ValueError("secret"))))
