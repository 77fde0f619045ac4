"""A visitor's drafter: the conditions for training one, the priority of other jobs, and how it is kept and deleted."""

import gc
import io
import itertools
import time
import weakref
import zipfile
from dataclasses import replace

import pytest
from conftest import becomes_idle, finished, tiny

import lookahead
from lookahead.core.events import ModelError
from lookahead.model.heads import files
from lookahead.server import growing_job, race_job
from lookahead.server.form import RaceForm
from lookahead.server.growing_job import find_drafter, grow
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
    """A server that trains with few and short texts, and measures and races often."""
    for name, value in {
        "FIRST_BATCH": 4,
        "BATCH": 4,
        "LENGTH": 40,
        "KEPT_BATCHES": 2,
        "CHECK_S": 0.3,
        "CHECKED_TOKENS": 16,
    }.items():
        monkeypatch.setattr(growing, name, value)
    monkeypatch.setattr(growing_job, "RACE_S", 1.0)
    monkeypatch.setattr(growing_job, "TOKENS", 12)
    yield ServerState(family, Limits(max_grow_s=60))
    queue.call(lambda: None)


def grown(server, visitor="a"):
    """Return a drafter that has been trained for some steps and continues, with the generator that follows it."""
    drafter = grow(server, visitor)
    following = drafter.job.follow()
    while not drafter.trained:
        next(following)
    return drafter, following


def drafted(models):
    """Return the emitted and drafted tokens of each pass in a race of the block method."""
    lane = finished(race(models, PROMPT, ["block"], k=5, max_new_tokens=24)).lanes[0]
    return [(step.emitted, step.draft.tokens) for step in lane.steps]


def assert_refused(family, message, error=Refused, **limits):
    with pytest.raises(error, match=message):
        grow(ServerState(family, Limits(**limits)), "a")


def test_the_reason_is_shown_if_none_can_be_trained(family, tmp_path, monkeypatch):
    assert_refused(family, "switched training off", max_grow_s=0)
    other = lookahead.load(tiny("mistral", tmp_path))
    assert_refused(other, "for Llama models only. Choose the models called pocket", ModelError)
    monkeypatch.setattr(growing_job, "LARGEST", 1000)
    assert_refused(family, "too large to train", ModelError)


def test_it_ends_after_its_time_and_has_raced(server, monkeypatch):
    ticks = itertools.count(step=0.01)  # also on a busy machine, two seconds are enough
    monkeypatch.setattr(growing, "perf_counter", lambda: next(ticks))
    server.limits = Limits(max_grow_s=2)
    values = [value for update in grow(server, "a").job.follow() for value in update.values]
    runs, progress = [v for v in values if isinstance(v, Run)], [v for v in values if not isinstance(v, Run)]
    assert len(runs) >= 3, "before any training, every second, and at the end"
    assert runs[0].batch().count('"kind":"step"') > 12
    assert all('"reason":"finished"' in run.since(0) and server.runs.resend([run.id, 0]) for run in runs)
    assert 2 <= progress[-1].seconds < 2.1 and progress[-1].steps


def test_races_come_before_its_next_slice_and_stop_ends_it(server, family):
    drafter, following = grown(server)
    job = drafter.job
    batches = list(race_job.follow(server, RaceForm(PROMPT, ["naive"], {"max_new_tokens": "8"}, "b")))
    assert '"reason":"finished"' in batches[-1] and not job.done.done()
    assert not any("Waiting" in batch for batch in batches)
    following.close()
    assert job.done.result(timeout=5) is None
    assert becomes_idle(queue)
    assert drafter.keep(), "the trained head is kept"


def test_the_number_in_training_is_limited_without_those_who_left(server, monkeypatch):
    monkeypatch.setattr(growing_job, "MAX_TRAINING", 1)
    started = []
    busy = queue.submit(Job("test", lambda job: (started.append(1), time.sleep(0.5))))
    while not started:
        time.sleep(0.01)
    waiting = grow(server, "a").job.follow()
    assert "one run is before yours" in next(waiting).waiting
    with pytest.raises(Refused, match="already training"):
        grow(server, "b")
    waiting.close()
    grow(server, "b").job.cancel()
    busy.result()


def test_a_kept_head_is_used_by_its_visitor_only_until_it_is_removed(server, family):
    drafter, following = grown(server)
    with pytest.raises(Refused, match="No drafter has been trained yet"):
        find_drafter(server, "b").keep()
    assert drafter.keep().startswith("your own, trained for ")
    kept = server.models_for("a")
    assert "block" in kept.heads and server.models_for("b") is server.models_for(None) is family
    form = {"max_new_tokens": "8"}
    assert RaceForm(PROMPT, ["naive", "block"], form, "a")(server)
    with pytest.raises(ModelError, match="no such trained head"):
        RaceForm(PROMPT, ["naive", "block"], form, "b")(server)
    before = drafted(kept)
    list(zip(range(5), following, strict=False))
    assert drafted(kept) == before, "training does not change the kept head"
    following.close()
    grow(server, "a").job.cancel()
    assert server.models_for("a") is kept, "another drafter was started"
    find_drafter(server, "a").kept = None
    assert server.models_for("a") is family


def test_a_downloaded_head_drafts_the_same(server, family, tmp_path):
    drafter, following = grown(server)
    following.close()
    queue.call(lambda: None)
    drafter.keep()
    with zipfile.ZipFile(io.BytesIO(drafter.to_zip())) as archive:
        archive.extractall(tmp_path)
    kept = server.models_for("a")
    head = files.read(tmp_path, family.target.passes, "downloaded")
    downloaded = family.with_head(head, "downloaded", kept.costs.drafters["block"])
    assert head.shape == kept.heads["block"].shape
    assert drafted(downloaded) == drafted(kept)


def test_it_ends_when_its_models_are_replaced_and_is_deleted_with_its_visitor(server, family):
    drafter, following = grown(server)
    drafter.keep()
    other = replace(family)
    server.families.first.models = other
    with pytest.raises(Refused, match="no longer loaded"):
        list(following)
    assert server.models_for("a") is other
    with pytest.raises(Refused, match="no longer loaded"):
        drafter.to_zip()
    drafter, following = grown(server)
    following.close()
    queue.call(lambda: None)
    forgotten = weakref.ref(drafter)
    server.forget("a")
    server.forget("a")
    del drafter, following
    gc.collect()
    assert forgotten() is None and server.models_for("a") is other
