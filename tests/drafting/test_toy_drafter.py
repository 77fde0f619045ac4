"""A strategy is one file and one line in the registry. Then it can be raced, measured and selected by name."""

import re

import pytest
from conftest import ROOT, finished, stand_in
from toy_drafters import Echo, Pair, Single

import lookahead
from lookahead.drafting import DRAFTERS
from lookahead.engine.external import EXTERNAL
from lookahead.engine.methods import all_methods, method_class, methods_for, methods_with
from lookahead.measure import batches, bench, tables
from lookahead.measure.whatif import NaiveRun, what_if
from lookahead.page import race_tab
from lookahead.server.limits import Limits
from lookahead.trace import wire

PROMPT = "Once upon a time there was a small frog who"


@pytest.fixture(params=[Echo, Single, Pair], ids=lambda toy: toy.name)
def toy(request, monkeypatch):
    """Add a strategy to the registry."""
    monkeypatch.setitem(DRAFTERS, request.param.name, request.param)
    return request.param


@pytest.mark.parametrize(("k", "temperature"), [(2, 0.0), ("auto", 0.8)])
def test_it_races_and_emits_the_same_text_as_naive(models, toy, k, temperature):
    trace = finished(
        lookahead.race(models, PROMPT, ["naive", toy.name], max_new_tokens=32, k=k, temperature=temperature)
    )
    naive, lane = trace.lanes
    assert lane.tokens == naive.tokens and len(lane.tokens) > 16
    drafted = [step.draft for step in lane.verified if step.draft.tokens]
    assert drafted and {source for draft in drafted for source in draft.sources} == {toy.name}
    priced, begun = trace.predicted(1), wire.Begin(trace=trace, live=False).to_dict()
    assert (priced.draft_s > 0) == toy.needs_draft, "what a draft model costs is in the prediction"
    assert (toy.name in begun["model_sources"]) == toy.needs_draft


def test_it_is_offered_if_its_model_is_loaded(models, toy):
    assert toy.name in lookahead.METHODS and toy.name in methods_for(models)
    assert (toy.name in methods_with([])) == (not toy.needs_draft)
    assert toy.name in batches.shared_methods(models)
    listed = {method: label for label, method in race_tab._methods(stand_in(Limits()), "pocket")}
    assert listed[toy.name] == f"{toy.name}: {toy.summary.removeprefix('drafts ')}"


def test_the_bench_measures_it(models, toy):
    questions = [bench.Question("q", "story", PROMPT, False, {})]
    *_, last = bench.measure(models, [toy.name], questions, repeat=1, max_new_tokens=12)
    report = last.result
    row = next(row for row in report["rows"] if row["method"] == toy.name)
    assert row["identical"] and row["predicted_speedup"] > 0
    assert f"| `{toy.name}` |" in re.sub(" +", " ", tables.report_markdown(report, bench.tables(report)))


def test_what_if_recomputes_it_if_it_drafts_from_the_text_alone(models, monkeypatch):
    monkeypatch.setitem(DRAFTERS, Echo.name, Echo)
    real = finished(lookahead.race(models, PROMPT, ["naive", Echo.name], max_new_tokens=24, k=2))
    outcome = what_if(NaiveRun.from_trace(real), Echo.name, 2)
    assert [step.emitted for step in outcome.steps] == [tuple(step.emitted) for step in real.lanes[1].verified]


def test_the_readme_lists_every_method_by_its_summary():
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("| method | what it does |\n|---|---|\n")[2]
    rows = re.findall(r"^\| `(.+?)` \| (.+) \|$", text.partition("\n\n")[0], re.M)
    assert [name for name, _ in rows] == list(all_methods()) == [*DRAFTERS, *EXTERNAL]
    for name, text in rows:
        assert re.match(re.escape(method_class(name).summary) + r"(,|:| \(|$)", text), name
