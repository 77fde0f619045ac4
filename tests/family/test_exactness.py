"""Exactness as it was found, kept and promised; and the same under every instruction set that this processor can play.

Exactness is a property of the machine. With newer instructions hidden from the kernels, the number format must be chosen
by measuring, the probe must tell the truth, and every lane must still print naive's text or name the tie.
"""

import os
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from conftest import POCKET, ROOT, finished, tiny
from numba.core.codegen import get_host_cpu_features
from pydantic import TypeAdapter
from transformers import AutoModelForCausalLM

import lookahead
from lookahead.core.costs import CostCurve
from lookahead.core.events import BIT_EXACT, TIE_AWARE, SettingsError
from lookahead.core.tree import MANY, Limits
from lookahead.family import cost, exactness, number_format, operators, remembered
from lookahead.family.exactness import Exactness
from lookahead.family.operators import Kernels, Operator
from lookahead.model import modules
from lookahead.model.lm import CachedLM

# Instruction sets by torch's name, and a processor that had no more for our kernels. Those that this one has more than: with
# all it has, the property tests run as they are.
ALL_CAPS = {
    "AVX2": {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx2,+fma"},
    "AVX512_CORE": {"NUMBA_CPU_NAME": "skylake-avx512", "NUMBA_CPU_FEATURES": "+avx512f"},
    "AVX512_CORE_BF16": {"NUMBA_CPU_NAME": "znver4", "NUMBA_CPU_FEATURES": "+avx512f,+avx512bf16"},
}
HERE = set(get_host_cpu_features().split(","))
BEYOND = {"AVX2": "+avx512f", "AVX512_CORE": "+avx512bf16", "AVX512_CORE_BF16": "+amx-tile"}
CAPS = {isa: cap for isa, cap in ALL_CAPS.items() if {*cap["NUMBA_CPU_FEATURES"].split(","), BEYOND[isa]} <= HERE}
FEW = "5"  # examples of each property
PYTEST = (sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider")


def properties(folder, **environment):
    """Run the property tests again in a process of its own, with other variables; what they measured."""
    given = {"HF_HUB_OFFLINE": "1", "LOOKAHEAD_CACHE": str(folder), "LOOKAHEAD_EXAMPLES": FEW, **environment}
    command, env = [*PYTEST, "tests/family/test_properties.py"], {**os.environ, **given}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    (kept,) = folder.glob("*.json")
    return TypeAdapter(remembered.Measured).validate_json(kept.read_bytes())


@pytest.mark.timeout(900)
@pytest.mark.parametrize("isa", CAPS)
def test_the_promise_holds_under_every_instruction_set(isa, tmp_path):
    """Chains, trees and lanes of every method; a machine that is tie-aware asserts its badges."""
    found = properties(tmp_path, ONEDNN_MAX_CPU_ISA=isa, **CAPS[isa])
    assert found.exactness.whole
    assert "Bit-exact" in found.exactness.sentence


def test_six_starts_give_one_answer():
    """What is exact, each time found anew."""
    target = AutoModelForCausalLM.from_pretrained(
        POCKET / "target", dtype=torch.bfloat16, attn_implementation=modules.BY_BRANCH
    ).eval()
    answers = set()
    for _ in range(6):
        found = exactness.of_operators(CachedLM(target))
        answers.add((found.kind, found.limits))
    assert len(answers) == 1, answers


@pytest.mark.parametrize(
    ("seconds", "most", "name"), [((3.1, 1.0), 64, "float32"), ((2.9, 1.0), 64, "bfloat16"), ((0.5, 1.0), 1, "float32")]
)
def test_bfloat16_is_planned_for_where_it_is_not_hopeless_and_rows_are_exact(monkeypatch, seconds, most, name):
    monkeypatch.setattr(number_format, "interleaved", lambda *_: seconds)
    monkeypatch.setattr(number_format.operators, "reach", lambda _: SimpleNamespace(most=most))
    number_format.likely.cache_clear()
    assert number_format.likely(torch.device("cpu")).name == name
    number_format.likely.cache_clear()


@pytest.mark.parametrize("given", ["bfloat16", torch.bfloat16, "float32"])
def test_a_format_may_be_asked_for(given, monkeypatch):
    name = given if isinstance(given, str) else "bfloat16"
    assert number_format.requested(given).name == name
    monkeypatch.setenv("LOOKAHEAD_DTYPE", name)
    assert number_format.requested().name == name
    assert number_format.requested("float32").name == "float32", "who asks comes before the environment"


def test_an_unknown_format_is_refused(monkeypatch):
    with pytest.raises(SettingsError, match="bfloat16, float32"):
        lookahead.load("pocket", dtype="float8")
    monkeypatch.setenv("LOOKAHEAD_DTYPE", "int4")
    with pytest.raises(SettingsError, match="int4"):
        lookahead.load("pocket")


def operator(run, **changes):
    return Operator("made up", run, **changes)


def test_an_operator_that_changes_with_its_company_is_found():
    x = torch.randn(64, 8)
    assert operators.reach(operator(lambda rows, _: x[rows])).most == 64
    off = lambda n: operator(lambda rows, _: x[rows] + (len(x[rows]) > n) * 2**-20)  # noqa: E731
    for most in (2, 13, 32, 63):
        found = operators.reach(off(most))
        assert (found.least, found.most) == (1, most)
        assert operators.units(off(most), most + 1) >= 1
    lone = operators.reach(operator(lambda rows, _: x[rows] + (len(x[rows]) == 1)))
    assert (lone.least, lone.most) == (2, 64), "a kernel of its own for a single row"
    never = operators.reach(operator(lambda rows, _: x[rows] + len(x[rows])))
    assert never.most == 1
    short = operators.reach(operator(lambda rows, n: x[rows] + (n > 256), keys=9, columns=(128, 256, 384)))
    assert (short.most, short.columns, short.asked) == (64, 256, 384)


def test_sums_of_zero_show_what_ordinary_numbers_hide():
    """The same products added in two orders: sums of zero nearly all differ, ordinary ones in bfloat16 hardly ever."""

    def differ(natural):
        kernels = Kernels(torch.bfloat16, natural=natural)
        x, weight = operators._cancelling(8, 64, 320, kernels, torch.Generator().manual_seed(3))
        terms = (x[:, None].float() * weight[None].float()).split(1, -1)
        forth, back = (sum(order[1:], order[0]).bfloat16() for order in (terms, terms[::-1]))
        return float((forth != back).float().mean())

    assert differ(natural=False) > 0.5
    assert differ(natural=True) < 0.05


def test_what_was_found_says_how_far_it_holds():
    found = Exactness(32, 16, 896, Limits(1, 32, 16, 32))
    assert found.kind == BIT_EXACT
    assert [found.kind_for(n) for n in (896, 897)] == [BIT_EXACT, TIE_AWARE]
    for told in ("chains up to 32 rows", "trees up to 16", "up to 896 tokens"):
        assert told in found.sentence
    assert "depend on the rows beside it" in Exactness(1, 1, None, Limits()).sentence


def test_a_model_that_breaks_the_promise_is_caught(models, monkeypatch):
    """Rows that are rounded otherwise in company than alone: the passes of the model itself show it."""
    lm = models.target.fresh()
    honest = type(lm)._pass

    def changed(self, tokens, parents, only, first=0):
        out = honest(self, tokens, parents, only, first)
        return out + 0.25 * (len(tokens) - first > 4)

    monkeypatch.setattr(CachedLM, "_pass", changed)
    found = exactness.confirm(lm, replace(models.probe, chain_rows=8, tree_rows=8), 0.5)
    assert found.differ > 0
    assert found.kind == TIE_AWARE
    assert found.worst >= 0.2


@pytest.mark.parametrize(("kernels", "limits"), [
    (lambda rows: 0, Limits(1, 64, 64)), (lambda rows: rows > 1, Limits(16, 16, 16)), (None, Limits()),
])  # fmt: skip
def test_on_a_gpu_row_counts_are_tried_and_trees_are_not_promised(models, monkeypatch, kernels, limits):
    """Kernels that are alike for all row counts, that depend on the row count, and that never give the same."""
    passes, draws = [], torch.Generator().manual_seed(0)

    class Elsewhere(CachedLM):
        def _pass(self, tokens, parents, *others):
            passes.append((len(tokens), tuple(parents)))
            off = kernels(len(tokens)) if kernels else torch.rand(1, generator=draws)
            return super()._pass(tokens, parents, *others) + off

    monkeypatch.setattr(exactness, "_on_gpu", lambda lm: True)
    lm = Elsewhere(models.target.passes)
    found = exactness.find(lm)
    assert (found.limits, lm.limits, found.tree_rows) == (limits, limits, 1)
    assert found.kind == (BIT_EXACT if kernels else TIE_AWARE) and not found.whole
    assert found.compared >= exactness.LEAST_ON_GPU and bool(found.differ) is (kernels is None)
    counts = {rows for rows, _ in passes}
    assert counts >= ({*exactness.COUNTS} if limits.least == 1 else {16})


def test_a_race_with_trees_says_so_where_only_chains_are_exact(models):
    """As on a GPU: its lanes may part by a tie, and that is no bug."""
    chains_only = replace(models, measured=replace(models.measured, exactness=replace(models.probe, tree_rows=1)))
    for method, kind in (("draft", BIT_EXACT), ("tree", TIE_AWARE)):
        race = lookahead.race(chains_only, "Once upon a time", methods=["naive", method], k=4, max_new_tokens=12)
        finished(race)
        assert race.result().exactness == kind, method
    assert "not for trees" in chains_only.probe.sentence


def test_passes_keep_to_what_is_exact(models):
    """Drafts are held within it, a window is computed in parts, and a wide pass says that it is tie-aware."""
    narrow = models.target.fresh()
    narrow.limits = Limits(chain_rows=5, tree_rows=4)
    family = replace(models, target=narrow)
    options = {"max_new_tokens": 24, "details": False}
    for method in ("draft", "tree", "ngram", "suffix"):
        steps = list(lookahead.decode(family, "the cat the cat the cat the", method=method, k=16, **options))[1:]
        assert max(1 + len(s.draft) for s in steps) <= 5, method
    window = list(lookahead.decode(family, "the cat", method="lookahead", k=4, window=5, ngram=4, **options))[1:]
    assert max(1 + len(s.draft) for s in window) > 15, "a window is whole or useless"
    wide = list(lookahead.decode(family, "the cat", method="draft", k=16, wide=True, **options))[1:]
    assert max(len(s.draft) for s in wide) == 16
    race = lookahead.race(family, "the cat", methods=["naive", "draft"], wide=True, max_new_tokens=4)
    assert finished(race).exactness == TIE_AWARE


def test_what_was_measured_is_remembered_and_checked(models, tmp_path, monkeypatch):
    monkeypatch.setenv("LOOKAHEAD_CACHE", str(tmp_path))
    folders = [POCKET / "target", POCKET / "draft"]
    name = remembered.key(folders, None)
    assert remembered.read(name) is None
    remembered.keep(name, models.measured)
    assert remembered.read(name) == models.measured
    assert name != remembered.key(folders, "float32")
    assert name != remembered.key(folders[:1], None)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2_VNNI")
    assert name != remembered.key(folders, None), "another instruction set is another machine"
    (tmp_path / f"{name}.json").write_text('{"format": "bfloat16"}')
    assert remembered.read(name) is None
    monkeypatch.setenv("LOOKAHEAD_CACHE", str(tmp_path / f"{name}.json" / "below"))
    remembered.keep(name, models.measured)  # a place that cannot be written is done without


def test_other_weights_are_another_family(tmp_path):
    ones = [tiny("llama", tmp_path / str(seed), seed=seed) for seed in (0, 1)]
    assert remembered.key([ones[0]], None) != remembered.key([ones[1]], None)
    assert remembered.key(["org/name"], None) is None


def test_a_kept_curve_is_told_at_todays_speed(models):
    now = cost.measure(models.target.fresh())
    drift = cost.drift(models.target.fresh(), now.scaled(10.0))
    assert drift is None or 1 / 40 < drift < 4 / 10
    bent = CostCurve(now.rows, (now.seconds[0] / 10, *now.seconds[1:]))
    assert cost.drift(models.target.fresh(), bent) is None, "one row and several drifted apart"


def test_a_limit_names_the_shape_it_is_for():
    limits = Limits(1, 32, 16)
    assert [limits.rows(parents) for parents in ((-1, 0, 1), (-1, 0, 0), ())] == [32, 16, 32]
    assert Limits().rows((-1, -1)) == MANY
