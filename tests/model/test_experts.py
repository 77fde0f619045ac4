"""Mixtures of experts: the experts that a pass activates are those that its routers select, and more rows activate more."""

import json
from pathlib import Path

import pytest
import torch
from conftest import emitted, table_steps, tiny
from transformers import AutoModelForCausalLM

import lookahead
from lookahead.core.events import Settings
from lookahead.family import cost
from lookahead.measure import charts
from lookahead.model import loading
from lookahead.model.lm import CachedLM
from lookahead.page.lab import machine

pytestmark = pytest.mark.models

CPU = torch.device("cpu")
SIZES = {"num_experts_per_tok": 2, "moe_intermediate_size": 32}
EXPERTS = {
    "mixtral": {"num_local_experts": 8, "num_experts_per_tok": 2},
    "qwen3_moe": {"num_experts": 16, "num_experts_per_tok": 3, "moe_intermediate_size": 32, "decoder_sparse_step": 2},
}
TEXT = [*range(40, 60)]
TREE, PARENTS = [7, 300, 301, 9, 302], [-1, 0, 0, 1, 2]


@pytest.fixture(scope="module", params=EXPERTS)
def folder(request, tmp_path_factory):
    kind = request.param
    return tiny(kind, tmp_path_factory.mktemp(kind), layers=4, **EXPERTS[kind])


def read(folder):
    return CachedLM(loading.load(folder, torch.float32, CPU, False))


def routed(folder, texts):
    """Return the mean number of distinct experts that transformers' routers select for the last token of each text."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    layers = []
    for text in texts:
        with torch.no_grad():
            out = model(torch.tensor([text]), output_router_logits=True)
        per_row = model.config.num_experts_per_tok
        layers.append([set(logits[-1].topk(per_row).indices.tolist()) for logits in out.router_logits])
    counts = [len(set.union(*rows)) for rows in zip(*layers, strict=True)]
    return sum(counts) / len(counts)


def test_activated_experts_are_those_of_the_routers(folder):
    lm, kind = read(folder), json.loads(Path(folder, "config.json").read_text())["model_type"]
    assert lm.passes.mixture is None and lm.activated_experts is None
    lm.extend(TEXT)
    lm.forward(TREE, PARENTS)
    paths = [[7], [7, 300], [7, 301], [7, 300, 9], [7, 301, 302]]
    assert lm.activated_experts == routed(folder, [TEXT + path for path in paths])
    sizes = EXPERTS[kind]
    total = sizes.get("num_experts") or sizes["num_local_experts"]
    assert lm.passes.mixture == (2 if kind == "qwen3_moe" else 4, total, sizes["num_experts_per_tok"])
    lm.keep([0])
    lm.forward([5])
    assert lm.activated_experts == sizes["num_experts_per_tok"]


def test_each_text_of_a_batch_has_its_own_experts(folder):
    first = read(folder)
    second = first.fresh()
    first.extend(TEXT)
    second.extend(TEXT[:9])
    CachedLM.forward_batch([first, second], [(TREE, PARENTS), ([5], [-1])])
    assert second.activated_experts == second.passes.mixture.per_row < first.activated_experts


def test_a_race_records_the_experts_of_each_pass(folder):
    models = lookahead.load(folder)
    race = lookahead.race(models, TEXT, ["naive", "ngram"], max_new_tokens=12, k=4)
    for _ in race:
        pass
    trace = lookahead.Trace.from_json(race.result().to_json())
    mixture = models.target.passes.mixture
    assert trace.models.experts.model_dump() == mixture._asdict()
    assert {step.experts for step in trace.lanes[0].verified} == {mixture.per_row}
    assert trace.lanes[1].tokens == trace.lanes[0].tokens
    drafted = [step.experts for step in trace.lanes[1].verified if step.draft.tokens]
    assert all(mixture.per_row <= experts <= mixture.total for experts in drafted)
    assert trace.lanes[0].steps[0].experts is None  # the prompt
    assert trace.costs.experts == list(models.costs.target.experts)


def test_steps_without_details_do_not_count_experts(folder):
    settings = Settings(max_new_tokens=4, details=False)
    steps = list(table_steps("naive", settings, target=read(folder), draft=read(folder), prompt=TEXT))
    assert len(emitted(steps)) == 4 and all(step.experts is None for step in steps)


def test_timed_passes_activate_as_many_experts_as_diverse_text(folder):
    lm = read(folder)
    curve = cost.measure(lm)
    assert curve.experts[0] == lm.passes.mixture.per_row
    assert list(curve.experts) == sorted(curve.experts) and curve.experts[-1] > 0.75 * lm.passes.mixture.total
    lm.extend([1] * 64)
    lm.forward([1] * 9)
    same = lm.activated_experts
    assert curve.experts[curve.rows.index(9)] > 1.5 * same  # equal ids choose nearly the same experts
    assert curve.scaled(2.0).experts == curve.experts


def test_the_lab_shows_the_experts_of_each_row_count(folder):
    lm = read(folder)
    curve = cost.measure(lm)
    ((name, fact),) = machine._experts(curve, lm.passes.mixture)
    assert name == "experts" and f"of {lm.passes.mixture.total}, per layer: 1 row {lm.passes.mixture.per_row}" in fact
    line = next(trace for trace in charts.cost_curve(curve).data if trace.customdata is not None)
    assert "experts per layer" in line.hovertemplate
    assert [point[1] for point in line.customdata] == list(curve.experts)


def test_a_dense_model_has_no_experts(tmp_path):
    lm = read(tiny("qwen3", tmp_path))
    lm.extend(TEXT)
    assert lm.passes.mixture is None and lm.activated_experts is None
    assert cost.measure(lm).experts == ()
    assert machine._experts(cost.measure(lm), None) == []
