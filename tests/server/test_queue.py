"""Jobs: the updates of their followers, the position in the queue, and the end when the follower leaves."""

import threading
import time

import pytest
from conftest import becomes_idle

from lookahead.core.events import SettingsError
from lookahead.server.queue import Ended, Job, queue


def follow(make, **changed):
    """Return the updates of a job that publishes the values of the generator `make()`."""
    return queue.submit(Job("test", lambda _: make(), **changed)).follow()


def test_every_value_is_published_once():
    def count():
        for i in range(50):
            time.sleep(0.01)
            yield i

    updates = list(follow(count))
    assert [value for update in updates for value in update.values] == list(range(50))
    assert len(updates) < 25, "a slow page may skip some updates"


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


def test_a_waiting_visitor_gets_the_position_and_may_leave():
    gate, started = threading.Event(), []
    first = queue.submit(Job("test", lambda job: gate.wait(10)))

    def late():
        started.append(1)
        yield 1

    watched = follow(late)
    assert next(watched).waiting == "Waiting: one run is before yours."
    watched.close()
    gate.set()
    first.done.result(timeout=2)
    queue.call(lambda: None)
    assert not started, "a cancelled job never starts"


def test_waiting_for_an_own_run_has_its_own_message(monkeypatch):
    gate, visitors = threading.Event(), iter(["anna", "anna", "ben", "anna"])
    monkeypatch.setattr(queue, "visitor", lambda: next(visitors))
    jobs = [queue.submit(Job("test", lambda job: gate.wait(10))) for _ in range(4)]
    messages = [job.waiting() for job in jobs[1:]]
    gate.set()
    for job in jobs:
        job.done.result(timeout=2)
    assert messages == [
        "Waiting: this starts after your own run.",
        "Waiting: 2 runs are before yours.",
        "Waiting: 3 runs are before yours.",
    ]


def test_errors_of_visitors_are_raised_and_other_errors_become_messages():
    def broken(error):
        yield 1
        raise error

    with pytest.raises(SettingsError, match="seed is 'x': no"):
        list(follow(lambda: broken(SettingsError("seed", "x", "no"))))
    with pytest.raises(Ended, match="an error in Lookahead"):
        list(follow(lambda: broken(ValueError("secret"))))


def test_other_jobs_are_computed_between_slices():
    """Jobs that are submitted during a slice are computed completely before the next slice."""
    order, positions, gate = [], [], threading.Event()

    def slices():
        for i in range(4):
            order.append(i)
            if i == 1:
                gate.wait(10)
            yield i if i % 2 else None

    def race(job):
        order.append("race")
        positions.append(len(queue.ahead(long)))

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
    assert positions == [2, 1], "a preemptible job has the number of jobs before it"
    assert becomes_idle(queue)


def test_cancelled_slices_end_at_the_next_one_also_while_waiting():
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
    assert ended.is_set() and becomes_idle(queue)


def test_an_error_in_a_slice_ends_the_job():
    def broken():
        yield 1
        raise SettingsError("seed", "x", "no")

    long, values = queue.submit(Job("test", lambda _: broken(), preemptible=True)), []
    with pytest.raises(SettingsError, match="seed is 'x': no"):
        values += [value for update in long.follow() for value in update.values]
    assert becomes_idle(queue) and not long.paused
