"""A drafter of a visitor's own: who may grow one, that others come first, and what becomes of it."""

import gc
import io
import itertools
import time
import weakref
import zipfile
from dataclasses import replace

import pytest
from conftest import finished, tiny

import lookahead
from lookahead.core.events import ModelError
from lookahead.model.heads import files
from lookahead.server import growing_job, race_job
from lookahead.server.form import RaceForm
from lookahead.server.growing_job import drafter_of, grow
from lookahead.server.limits import Limits
from lookahead.server.queue import Job, Refused, queue
from lookahead.server.runs import Run
from lookahead.server.state import ServerState
from lookahead.trace.race import race
from lookahead.train import growing

pytestmark = pytest.mark.models

PROMPT = "Once upon a time there was"


@pytest.fixture(scope="module")
def family(tmp_path_factory):
    return lookahead.load(tiny("llama", tmp_path_factory.mktemp("target"), layers=4))


@pytest.fixture
def server(family, monkeypatch):
    """Few and short texts, measured and raced often."""
    for name, value in {
        "FIRST": 4,
        "TOGETHER": 4,
        "LENGTH": 40,
        "REMEMBERED": 2,
        "CHECK_S": 0.3,
        "CHECKED_TOKENS": 16,
    }.items():
        monkeypatch.setattr(growing, name, value)
    monkeypatch.setattr(growing_job, "RACE_S", 1.0)
    monkeypatch.setattr(growing_job, "TOKENS", 12)
    yield ServerState(family, Limits(max_grow_s=60))
    queue.call(lambda: None)


def grown(server, visitor="a"):
    """A drafter that has learned something and goes on: what keeps it, and its followers' generator."""
    drafter = grow(server, visitor)
    following = drafter.job.follow()
    while not drafter.learned:
        next(following)
    return drafter, following


def drafted(models):
    """What a race of the block method writes and drafts."""
    lane = finished(race(models, PROMPT, ["block"], k=5, max_new_tokens=24)).lanes[0]
    return [(step.emitted, step.draft.tokens) for step in lane.steps]


def refused(family, words, error=Refused, **limits):
    with pytest.raises(error, match=words):
        grow(ServerState(family, Limits(**limits)), "a")


def test_where_none_can_grow_it_says_why(family, tmp_path, monkeypatch):
    refused(family, "switched growing off", max_grow_s=0)
    other = lookahead.load(tiny("mistral", tmp_path))
    refused(other, "this is none. Choose the models called pocket", ModelError)
    monkeypatch.setattr(growing_job, "LARGEST", 1000)
    refused(family, "too large to teach", ModelError)


def test_it_ends_with_its_time_and_has_raced(server, monkeypatch):
    ticks = itertools.count(step=0.01)  # however busy the machine is, two seconds are enough to train in
    monkeypatch.setattr(growing, "perf_counter", lambda: next(ticks))
    server.limits = Limits(max_grow_s=2)
    values = [value for update in grow(server, "a").job.follow() for value in update.values]
    runs, progress = [v for v in values if isinstance(v, Run)], [v for v in values if not isinstance(v, Run)]
    assert len(runs) >= 3, "before any training, every second, and at the end"
    assert runs[0].batch().count('"kind":"step"') > 12
    assert all('"reason":"finished"' in run.since(0) and server.runs.resend([run.id, 0]) for run in runs)
    assert 2 <= progress[-1].seconds < 2.1 and progress[-1].steps


def test_races_come_before_it_goes_on_and_stop_ends_it(server, family):
    drafter, following = grown(server)
    job = drafter.job
    batches = list(race_job.follow(server, RaceForm(PROMPT, ["naive"], {"max_new_tokens": "8"}, "b")))
    assert '"reason":"finished"' in batches[-1] and not job.done.done()
    assert not any("Waiting" in batch for batch in batches)
    following.close()
    assert job.done.result(timeout=5) is None
    assert queue.idle()
    assert drafter.keep(), "what it has learned stays"


def test_only_so_many_grow_and_who_left_before_it_began_does_not_count(server, monkeypatch):
    monkeypatch.setattr(growing_job, "MOST", 1)
    begun = []
    busy = queue.submit(Job("test", lambda job: (begun.append(1), time.sleep(0.5))))
    while not begun:
        time.sleep(0.01)
    waiting = grow(server, "a").job.follow()
    assert "one run is before yours" in next(waiting).waiting
    with pytest.raises(Refused, match="growing already"):
        grow(server, "b")
    waiting.close()
    grow(server, "b").job.leave()
    busy.result()


def test_what_is_kept_is_the_visitors_alone_until_it_is_put_away(server, family):
    drafter, following = grown(server)
    with pytest.raises(Refused, match="Nothing has been learned yet"):
        drafter_of(server, "b").keep()
    assert drafter.keep().startswith("your own, grown for ")
    kept = server.models_for("a")
    assert "block" in kept.heads and server.models_for("b") is server.models_for(None) is family
    form = {"max_new_tokens": "8"}
    assert RaceForm(PROMPT, ["naive", "block"], form, "a")(server)
    with pytest.raises(ModelError, match="no such trained head"):
        RaceForm(PROMPT, ["naive", "block"], form, "b")(server)
    before = drafted(kept)
    list(zip(range(5), following, strict=False))
    assert drafted(kept) == before, "training goes on without it"
    following.close()
    grow(server, "a").job.leave()
    assert server.models_for("a") is kept, "another one is begun"
    drafter_of(server, "a").kept = None
    assert server.models_for("a") is family


def test_what_is_taken_home_drafts_the_same(server, family, tmp_path):
    drafter, following = grown(server)
    following.close()
    queue.call(lambda: None)
    drafter.keep()
    with zipfile.ZipFile(io.BytesIO(drafter.packed())) as archive:
        archive.extractall(tmp_path)
    kept = server.models_for("a")
    head = files.read(tmp_path, family.target.passes, "home")
    home = family.with_head(head, "home", kept.costs.drafters["block"])
    assert head.shape == kept.heads["block"].shape
    assert drafted(home) == drafted(kept)


def test_it_ends_where_other_models_are_loaded_and_goes_with_its_visitor(server, family):
    drafter, following = grown(server)
    drafter.keep()
    other = replace(family)
    server.families.first.models = other
    with pytest.raises(Refused, match="not in use any more"):
        list(following)
    assert server.models_for("a") is other
    with pytest.raises(Refused, match="not in use any more"):
        drafter.packed()
    drafter, following = grown(server)
    following.close()
    queue.call(lambda: None)
    forgotten = weakref.ref(drafter)
    server.forget("a")
    server.forget("a")
    del drafter, following
    gc.collect()
    assert forgotten() is None and server.models_for("a") is other
