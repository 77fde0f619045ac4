"""Several loaded families: the family of a race and of a link, and a family that is loaded for a race."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from conftest import stand_in, tiny

import lookahead
from lookahead.core.events import ModelError
from lookahead.family import hub
from lookahead.family import models as family_models
from lookahead.measure.scenarios import ANSWERS
from lookahead.page import build, race_tab
from lookahead.page.models_tab import in_use
from lookahead.server import form, loading_job
from lookahead.server.form import RaceForm
from lookahead.server.limits import Limits, LogSettings
from lookahead.server.race_job import follow
from lookahead.server.state import Families, ServerState

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A tiny target without drafters."""
    return lookahead.load(tiny("llama", tmp_path_factory.mktemp("other")))


@pytest.fixture
def server(models, other):
    """The bundled family, and the tiny one."""
    return ServerState(models, Limits(), (other,))


def named(*specs):
    return Families([SimpleNamespace(spec=spec, nbytes=1) for spec in specs])


def events(batches):
    return [event for batch in batches for event in json.loads(batch).get("ev", [json.loads(batch)])]


def test_a_choice_belongs_to_one_visitor_and_ends_with_the_visit(server, models, other):
    server.families.choose("a", other.spec)
    assert server.models_for("a") is other and server.models_for("b") is models is server.models_for(None)
    assert server.models_for("a", "pocket") is models, "a form names its family"
    server.forget("a")
    assert server.models_for("a") is models


def test_the_page_names_the_limits_of_a_host(models):
    """`test_hub` checks the pairs that they refuse."""
    page = build(ServerState(models, Limits(loading="listed", max_model_gb=3)), LogSettings())
    shown = json.dumps(page.get_config_file()["components"], default=str)
    assert "This host allows the suggested pairs only. This host allows at most 3 GB" in shown


def test_the_usual_family_is_the_default_if_it_is_loaded():
    assert named("x", "pocket").default.models.spec == "pocket" and named("x", "pocket").first.models.spec == "x"
    assert named("x", "y").default.models.spec == "x"
    assert named("x", "y").named("pocket").models.spec == "x" == named("x", "y").named("").models.spec
    with pytest.raises(ModelError, match="choose one of x, y"):
        named("x", "y").named("z")


def test_the_least_recently_used_is_unloaded_first(monkeypatch):
    families = named("first")
    for spec in ("a", "b", "c"):
        families.add(SimpleNamespace(spec=spec, nbytes=10), {})
    families.named("a")
    monkeypatch.setattr("lookahead.core.memory.free", lambda: 100 - sum(family.models.nbytes for family in families))
    assert families.spare_bytes == 30
    assert [unloaded.spec for unloaded in families.free_memory(85)] == ["b", "c"]
    assert [unloaded.spec for unloaded in families.free_memory(1000)] == ["a"] and "first" in families


def test_a_race_and_its_link_have_the_family_of_the_form(server, other):
    fields = {**form.DEFAULTS, "family": other.spec, "max_new_tokens": 6}
    log = events(follow(server, RaceForm("Once upon", ["naive", "ngram"], fields, "a")))
    assert log[0]["trace"]["models"]["spec"] == other.spec and log[-1]["reason"] == "finished"
    assert "family=" in log[0]["link"]
    default = events(follow(server, RaceForm("Once upon", ["naive", "ngram"], {**fields, "family": "pocket"}, "a")))
    assert default[0]["trace"]["models"]["spec"] == "pocket" and "family=" not in default[0]["link"]
    log = events(follow(server, RaceForm("Once upon", ["naive", "ngram"], {**fields, "family": "<b>no</b>"}, "a")))
    assert "it is not loaded" in log[0]["error"] and "pocket" in log[0]["error"]


def test_links_choose_an_available_family(server, other):
    arrived = race_tab.arrive(server, {"family": other.spec})
    assert (arrived["family"], arrived["prompt"]) == (other.spec, ANSWERS[0].prompt), "its first chip"
    arrived = race_tab.arrive(server, {"family": "pocket"})
    assert arrived == {"family": "pocket"}, "its recording is displayed by default"
    arrived = race_tab.arrive(server, {"family": other.spec, "prompt": "a"})
    assert arrived["family"] == other.spec and arrived["prompt"] == "a"
    assert race_tab.arrive(server, {"prompt": "a"})["family"] == "pocket"
    for query in ({"family": "gone"}, {"family": "gone", "prompt": "a"}):
        assert "choose one of pocket" in json.loads(race_tab.arrive(server, query)["lanes"])["error"]
    assert race_tab.arrive(server, {"recording": "smol-explain"})["family"] == "smol"
    fixed = stand_in(Limits(loading="none"))
    assert race_tab.arrive(fixed, {"recording": "smol-explain"})["family"] == "pocket", "not offered here"


def test_offered_families_are_bundled_or_loaded(server, other):
    assert loading_job.offered(server) == ["pocket", other.spec, "smol"]
    assert loading_job.offered(stand_in(Limits(loading="none"))) == ["pocket"]
    assert loading_job.offered(stand_in(Limits(), spec="a+b")) == ["a+b", "pocket", "smol"]


def test_chips_and_drafters_are_those_of_the_family(server, other):
    assert race_tab._chips(server, "pocket") == ["la-continued"] and race_tab._chips(server, "smol") == ["la-answered"]
    drafts = [name for _, name in race_tab._drafts(server, "pocket")]
    assert drafts == ["draft", "offdomain"]
    assert race_tab._drafts(server, other.spec) == [("none", "draft")]
    unavailable = {method for label, method in race_tab._methods(server, other.spec) if label.endswith("is loaded)")}
    assert {"draft", "hybrid", "block"} <= unavailable and not {"ngram", "self"} & unavailable


def test_the_models_tab_shows_every_family(server):
    shown = in_use(server)
    assert shown.count("<table") == 2 and "pocket: instant" in shown and "2 families are loaded" in shown


def test_a_bundled_family_is_loaded_for_a_race(other, models, monkeypatch):
    server = ServerState(other, Limits())
    fields = {**form.DEFAULTS, "max_new_tokens": 6}
    batches = follow(server, RaceForm("Once upon", ["naive", "draft"], fields, "a"))
    first = next(batches)
    missed = server.runs.resend([json.loads(first)["run"], 0])
    assert json.loads(missed)["ev"] == json.loads(first)["ev"], "a page may request events that it missed"
    log = [*events([first]), *events(batches)]
    assert log[0]["kind"] == "status" and log[0]["text"].startswith("Loading pocket, once. ")
    assert log[-1]["reason"] == "finished" and "pocket" in server.families
    begin = next(event for event in log if event["kind"] == "begin")
    assert begin["trace"]["models"]["spec"] == "pocket"


def test_a_family_that_cannot_be_loaded_ends_the_run_with_a_message(other, monkeypatch):
    def refuse(spec, progress, **_):
        progress("Checking it", 0.1)
        raise ModelError("family", spec, "it is not available.")

    monkeypatch.setattr(hub, "check", lambda spec, progress, **more: refuse(spec, progress))
    log = events(follow(ServerState(other, Limits()), RaceForm("Once upon", ["naive"], dict(form.DEFAULTS), "a")))
    assert log[-1]["kind"] == "end" and "not available" in log[-1]["message"]
    fixed = ServerState(other, Limits(loading="none"))
    log = events(follow(fixed, RaceForm("Once upon", ["naive"], {**form.DEFAULTS, "max_new_tokens": 3}, "a")))
    assert log[-1]["reason"] == "finished", "if loading is not allowed, the first family races"


def test_visitors_with_the_same_family_wait_for_the_first_load(other, monkeypatch):
    """The first visitor's load serves all: no visitor is refused, and no family is loaded twice."""
    server, fields = ServerState(other, Limits()), {**form.DEFAULTS, "max_new_tokens": 4}
    loads, load = [], family_models.load
    monkeypatch.setattr(
        family_models, "load", lambda spec, *args, **more: loads.append(spec) or load(spec, *args, **more)
    )

    def run_race(visitor):
        return events(follow(server, RaceForm("Once upon", ["naive", "draft"], fields, visitor)))

    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(run_race, "abcd"))
    assert all(run[-1]["kind"] == "end" and run[-1]["reason"] == "finished" for run in runs), runs
    waiting = [event["text"] for run in runs for event in run if event["kind"] == "status"]
    assert any("Another visitor is loading" in text for text in waiting)
    assert loads == ["pocket"] and not server.changing.locked()
