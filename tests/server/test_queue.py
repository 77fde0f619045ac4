"""Jobs: what their followers hear, the place in the queue, and the end when nobody follows."""

import threading
import time

import pytest

from lookahead.core.events import SettingsError
from lookahead.server.queue import Ended, Job, queue


def follow(make, **changed):
    """The updates of a job that publishes what the generator `make()` yields."""
    return queue.submit(Job("test", lambda _: make(), **changed)).follow()


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
    assert next(watched).waiting == "Waiting: one run is before yours."
    watched.close()
    gate.set()
    first.done.result(timeout=2)
    queue.call(lambda: None)
    assert not begun, "what was left in the queue is never begun"


def test_who_waits_for_a_run_of_their_own_reads_so(monkeypatch):
    gate, visitors = threading.Event(), iter(["anna", "anna", "ben", "anna"])
    monkeypatch.setattr(queue, "visitor", lambda: next(visitors))
    jobs = [queue.submit(Job("test", lambda job: gate.wait(10))) for _ in range(4)]
    words = [job.waiting() for job in jobs[1:]]
    gate.set()
    for job in jobs:
        job.done.result(timeout=2)
    assert words == [
        "Waiting: this starts after your own run.",
        "Waiting: 2 runs are before yours.",
        "Waiting: 3 runs are before yours.",
    ]


def test_errors_that_a_visitor_can_mend_are_raised_here_and_faults_become_words():
    def broken(error):
        yield 1
        raise error

    with pytest.raises(SettingsError, match="seed is 'x': no"):
        list(follow(lambda: broken(SettingsError("seed", "x", "no"))))
    with pytest.raises(Ended, match="an error in Lookahead"):
        list(follow(lambda: broken(ValueError("secret"))))


def test_slices_give_way_to_whoever_comes_and_then_go_on():
    """What is submitted while a slice is computed comes before the next one, and is computed as a whole."""
    order, places, gate = [], [], threading.Event()

    def slices():
        for i in range(4):
            order.append(i)
            if i == 1:
                gate.wait(10)
            yield i if i % 2 else None

    def race(job):
        order.append("race")
        places.append(len(queue.ahead(long)))

    long = queue.submit(Job("test", lambda _: slices(), preemptible=True))
    watched = long.follow()
    while 1 not in order:
        next(watched)
    others = [queue.submit(Job("test", race)) for _ in range(2)]
    gate.set()
    assert [value for update in watched for value in update.values] == [1, 3]
    for other in others:
        other.done.result(timeout=2)
    assert order == [0, 1, "race", "race", 2, 3]
    assert places == [2, 1], "what gives way says who is before it"
    assert queue.idle()


def test_slices_that_are_left_end_at_the_next_one_also_while_they_wait():
    ended, gate = threading.Event(), threading.Event()

    def forever():
        try:
            while True:
                yield 1
        finally:
            ended.set()

    long = queue.submit(Job("test", lambda _: forever(), preemptible=True))
    watched = long.follow()
    while not next(watched).values:
        pass
    blocking = queue.submit(Job("test", lambda job: gate.wait(10)))
    while queue.ahead(blocking):
        time.sleep(0.001)
    watched.close()
    assert not ended.is_set()
    gate.set()
    assert long.done.result(timeout=2) is None
    assert ended.is_set() and queue.idle()


def test_an_error_in_a_slice_ends_them_all():
    def broken():
        yield 1
        raise SettingsError("seed", "x", "no")

    long, heard = queue.submit(Job("test", lambda _: broken(), preemptible=True)), []
    with pytest.raises(SettingsError, match="seed is 'x': no"):
        heard += [value for update in long.follow() for value in update.values]
    assert queue.idle() and not long.paused
