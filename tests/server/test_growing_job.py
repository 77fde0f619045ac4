"""Growing as a visitor's job: refusals, races in between, keeping, taking home."""

import io
import time
import zipfile
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from conftest import emitted

from lookahead.core.events import LookaheadError, Stopped
from lookahead.measure.scenarios import FROG
from lookahead.model.heads import files
from lookahead.race.lane import decode
from lookahead.server import growing_job
from lookahead.server.growing_job import Drafters
from lookahead.server.limits import Limits
from lookahead.server.queue import Job, queue
from lookahead.server.runs import Run
from lookahead.server.state import ServerState

ANNA, BEN, CARL = "anna", "ben", "carl"


@pytest.fixture
def drafters(models):
    queue.open(Limits())
    yield Drafters(ServerState(models, Limits()))
    assert queue.idle()


def values(job, until):
    """What a job publishes until `until(value)`; then it is left."""
    out = []
    with closing(job.follow(every_s=0.01)) as updates:
        for update in updates:
            out += update.values
            if any(until(value) for value in update.values):
                break
    wait_for(queue.idle)
    return out


def wait_for(true, seconds=30):
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until
        time.sleep(0.01)


def learned(drafters, visitor, steps=2):
    """A visitor's head after some steps."""
    values(drafters.grow(visitor), lambda value: not isinstance(value, Run) and value.steps >= steps)


def passes(size=1_000_000, kind="llama"):
    return SimpleNamespace(passes=SimpleNamespace(size=size, shape=SimpleNamespace(kind=kind)))


@pytest.mark.parametrize(
    ("target", "limits", "zero", "says"),
    [
        (passes(), Limits(max_grow_s=0), False, "switched this off"),
        (passes(), Limits(), True, "too short to grow"),
        (passes(kind="qwen3"), Limits(), False, "beside a Llama"),
        (passes(size=135_000_000), Limits(), False, "135 M parameters"),
    ],
)
def test_where_nothing_can_grow_the_page_says_why(target, limits, zero, says, monkeypatch):
    monkeypatch.setattr(growing_job.zero, "HERE", zero)
    server = SimpleNamespace(models=SimpleNamespace(target=target, names={"target": "somebody/model"}), limits=limits)
    with pytest.raises(LookaheadError) as error:
        Drafters(server).grow(ANNA)
    assert says in str(error.value).replace("\u00a0", " ")


def test_the_first_race_comes_with_the_first_measurement_and_is_whole(drafters):
    runs = []

    def ended(value):
        runs.extend([value] if isinstance(value, Run) else [])
        return runs and '"kind":"end"' in runs[0].since(0)

    heard = values(drafters.grow(ANNA), ended)
    assert len(runs) == 1
    assert max(value.checks for value in heard if value not in runs) == 1
    assert '"naive"' in runs[0].since(0) and '"block"' in runs[0].since(0)
    assert drafters._server.runs.resend([runs[0].id, 0]) == runs[0].since(0), "a page that lost some of it asks again"


def test_whoever_comes_is_computed_before_the_training_ends(drafters):
    job = drafters.grow(ANNA)
    with closing(job.follow(every_s=0.01)) as updates:
        while not any(getattr(value, "steps", 0) for value in next(updates).values):
            pass
        began = time.perf_counter()
        assert queue.submit(Job("race", lambda _: 42)).result() == 42
        assert time.perf_counter() - began < 5
        assert not job.done.done(), "it goes on"
    wait_for(queue.idle)
    with pytest.raises(Stopped):
        job.result()
    assert not drafters._drafters[ANNA].active


def test_what_is_kept_is_the_visitors_own_until_it_is_put_away(drafters, models):
    with pytest.raises(LookaheadError, match="Press Train first"):
        drafters.keep(ANNA)
    with pytest.raises(LookaheadError, match="Press Train first"):
        drafters.packed(ANNA)
    learned(drafters, ANNA)
    server = drafters._server
    assert server.models_for(ANNA) is models
    name = drafters.keep(ANNA)
    assert name.startswith("your own, grown for ")
    assert server.models_for(ANNA).heads["block"] is not models.heads["block"]
    assert server.models_for(ANNA).names["block"] == name
    assert server.models_for(BEN) is server.models_for(None) is models
    drafters.put_away(ANNA)
    assert server.models_for(ANNA) is models
    drafters.keep(ANNA)
    server.change(replace(models), {})
    assert server.models_for(ANNA) is server.models, "it was grown beside another target"
    with pytest.raises(LookaheadError, match="Other models were loaded meanwhile"):
        drafters.keep(ANNA)


def test_what_is_taken_home_is_a_head_like_any_other(drafters, models, tmp_path):
    learned(drafters, ANNA)
    zipfile.ZipFile(io.BytesIO(drafters.packed(ANNA))).extractall(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"config.json", "model.safetensors"}
    target = models.target.passes
    network, _ = files.network(tmp_path, target.shape, *target.tables, "home")
    weights = drafters._drafters[ANNA].learning.network.state_dict()
    for name, weight in network.state_dict().items():
        assert torch.equal(weight, weights[name].to(torch.bfloat16).to(weight.dtype)), name
    home = models.with_head(files.read(str(tmp_path), target, "home"), "home", models.costs.drafters["block"])
    steps = list(decode(home, FROG, "block", k=4, max_new_tokens=24, details=False))
    assert sum(len(step.draft) for step in steps) > 20
    assert emitted(steps) == emitted(decode(models, FROG, "naive", max_new_tokens=24, details=False))


def test_so_many_grow_at_once_and_so_many_are_remembered(drafters, monkeypatch):
    monkeypatch.setattr(growing_job, "MOST", 1)
    monkeypatch.setattr(growing_job, "REMEMBERED", 1)
    gone = drafters.grow(CARL)
    gone.leave()
    with closing(drafters.grow(ANNA).follow()) as updates:
        next(updates)
        with pytest.raises(LookaheadError, match="Try again in a few minutes"):
            drafters.grow(BEN)
    wait_for(queue.idle)
    learned(drafters, BEN, steps=0)
    learned(drafters, CARL, steps=0)
    drafters.refuse()
    assert list(drafters._drafters) == [BEN, CARL], "the one that had grown and gone first is forgotten"
