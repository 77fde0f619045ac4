"""Messages about methods whose draft model or trained head is not loaded, and chips with several lanes."""

import dataclasses
from types import SimpleNamespace

import pytest
from conftest import stand_in
from synthetic import lane, trace

from lookahead import METHODS
from lookahead.measure.experiments import EXPERIMENTS
from lookahead.measure.scenarios import SCENARIOS
from lookahead.page import race_tab
from lookahead.page.lab import claims
from lookahead.server import form
from lookahead.server.limits import Limits

HEADS, DRAFTS = ["medusa", "mtp", "eagle", "block"], ["draft", "offdomain", "self"]
GENERATIONS = next(scenario for scenario in SCENARIOS if scenario.id == "generations")


def server(drafts=DRAFTS, heads=HEADS, **limits):
    return stand_in(Limits(**limits), drafts, heads)


def labels(state):
    return {method: label for label, method in race_tab._methods(state, "pocket")}


def test_every_method_has_a_short_label():
    listed = labels(server())
    assert list(listed)[:6] == ["draft", "ngram", "hybrid", "tree", "eagle", "lookahead"], "the usual ones first"
    assert set(listed) == {method for method in METHODS if method != "naive"}
    for method, label in listed.items():
        assert label.startswith(f"{method}: ") and len(label) < 75, label
        assert "loaded" not in label


@pytest.mark.parametrize(
    ("drafts", "heads", "lacking"),
    [
        (DRAFTS, ["eagle"], {"medusa", "mtp", "block", "block-tree"}),
        (["self"], HEADS, {"draft", "tree", "hf-assisted"}),
        (["self"], [], {"hybrid", "draft", "tree", "hf-assisted", *HEADS, "eagle-tree", "block-tree"}),
    ],
)
def test_methods_that_are_not_loaded_are_marked_and_can_be_chosen(drafts, heads, lacking):
    listed = labels(server(drafts, heads))
    assert {method for method, label in listed.items() if label.endswith("is loaded)")} == lacking
    needs_head = {method for method in lacking if method.split("-")[0] in HEADS}
    for method in lacking:
        assert ("no such trained head" if method in needs_head else "no draft model") in listed[method]


def test_a_chip_adds_as_many_lanes_as_the_host_allows():
    assert GENERATIONS.methods == ("mtp", "eagle", "block")
    for max_lanes, further in ((4, ["mtp", "eagle"]), (3, ["mtp"]), (2, [])):
        limits = Limits(max_lanes=max_lanes)
        arrived = race_tab.arrive(server(max_lanes=max_lanes), {"recording": "generations"})
        assert (arrived["prompt"], arrived["method"], arrived["also"]) == (GENERATIONS.prompt, "block", further)
        limits.check(GENERATIONS.prompt, lanes=len(form.lanes("block", further)))


def test_a_chip_without_a_recording_shows_a_message(monkeypatch):
    monkeypatch.setattr(race_tab, "recording", lambda *_: "")
    assert race_tab.UNRECORDED in race_tab._shown("generations")
    assert race_tab.UNRECORDED in race_tab.arrive(server(), {"recording": "generations"})["lanes"]


def test_run_all_lists_the_skipped_experiments():
    chosen = [EXPERIMENTS["generations"], EXPERIMENTS["mismatched"]]
    lines = list(claims._run(server(["draft"], []).models, chosen, False, {}, 1))
    assert {len(line) for line in lines} == {5 + 2 * len(EXPERIMENTS)}
    texts = [[part for part in line if isinstance(part, str) and "la-unrun" in part] for line in lines]
    assert texts == [
        ['<span class="la-unrun">left out: no block and no eagle and no medusa and no mtp is loaded</span>'],
        ['<span class="la-unrun">left out: no offdomain is loaded</span>'],
    ]


def test_this_machine_lists_models_with_and_without_heads(models):
    from lookahead.page.lab.machine import _facts

    facts = _facts(models)
    assert all(f"trained head: {kind}" in facts for kind in models.heads) and "draft: offdomain" in facts
    costs = dataclasses.replace(models.costs, drafters={"draft": models.costs.drafters["draft"]})
    measured = dataclasses.replace(models.measured, costs=costs)
    assert "trained head" not in _facts(dataclasses.replace(models, heads={}, measured=measured))


def test_costs_of_a_first_start_are_called_estimates(models):
    from lookahead.page.lab.machine import _facts
    from lookahead.page.page import _machine_facts
    from lookahead.page.parts import ESTIMATED

    estimated = dataclasses.replace(models, estimated=True)
    for facts in (_facts, lambda family: _machine_facts(family)[1]):
        assert ESTIMATED in facts(estimated) and ESTIMATED not in facts(models)


def test_a_loaded_page_keeps_the_visitors_choice():
    """A visitor may press a chip before the server has sent the choices."""
    assert "value" not in race_tab._choices(["draft"], race_tab.gr.skip())
    assert race_tab._choices(["draft"], "draft")["value"] == "draft"


def test_a_prediction_shows_a_recordings_text_as_text(models):
    """The processor's name comes from an opened file, so it is untrusted."""
    from lookahead.page.lab.decision import _advice

    race = trace(lane("naive"), lane("draft", draft="draft"))
    race = race.model_copy(update={"machine": race.machine.model_copy(update={"cpu": "<img src=x>"})})
    shown = "".join(_advice(SimpleNamespace(limits=SimpleNamespace(check=lambda *_: None)), models, race.to_json()))
    assert "(&lt;img src=x&gt;), all times are from this machine" in shown and "<img" not in shown
