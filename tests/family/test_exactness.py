"""Exactness: what the probe finds, what is remembered, and the same under every instruction set of this processor.

Exactness is a property of the kernels. With newer instructions hidden from them, every lane must still emit the ids of naive.
"""

import os
import subprocess
import sys

import pytest
import torch
from conftest import POCKET, ROOT, finished, tiny
from numba.core.codegen import get_host_cpu_features
from pydantic import TypeAdapter

import lookahead
from lookahead.core.costs import CostCurve
from lookahead.core.events import BIT_EXACT, TIE_AWARE, ModelError, SettingsError
from lookahead.family import cost, exactness, number_format, remembered
from lookahead.model import modules
from lookahead.model.lm import CachedLM

pytestmark = [pytest.mark.models, pytest.mark.split]

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
    assert found.exactness.kind == BIT_EXACT


def test_our_kernels_and_gpus_compute_bfloat16_and_torch_on_a_processor_float32(monkeypatch):
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert [number_format.usual(cpu, compiled) for compiled in (True, False)] == [torch.bfloat16, torch.float32]
    for supported, dtype in ((True, torch.bfloat16), (False, torch.float32)):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda supported=supported: supported)
        assert number_format.usual(gpu) == dtype


@pytest.mark.parametrize("given", ["bfloat16", torch.bfloat16, "float32"])
def test_a_format_may_be_asked_for(given, monkeypatch):
    name = given if isinstance(given, str) else "bfloat16"
    assert number_format.name_of(number_format.requested(given)) == name
    monkeypatch.setenv("LOOKAHEAD_DTYPE", name)
    assert number_format.requested() == number_format.FORMATS[name]
    assert number_format.requested("float32") == torch.float32, "who asks comes before the environment"


def test_an_unknown_format_is_refused(monkeypatch):
    with pytest.raises(SettingsError, match="bfloat16, float32"):
        lookahead.load("pocket", dtype="float8")
    monkeypatch.setenv("LOOKAHEAD_DTYPE", "int4")
    with pytest.raises(SettingsError, match="int4"):
        lookahead.load("pocket")


def test_a_row_that_changes_with_the_pass_is_found(models, monkeypatch):
    """Rows that are rounded differently with other rows than alone, by passes that should be exact."""
    lm = models.target.fresh()
    honest = CachedLM.forward

    def changed(self, tokens, *others, **options):
        out = honest(self, tokens, *others, **options)
        return out + 0.25 * (len(out) > 4)

    monkeypatch.setattr(CachedLM, "forward", changed)
    found = exactness.probe(lm)
    assert found.kind == TIE_AWARE and found.differ > 0 and found.worst >= 0.2
    assert f"{found.differ} of {found.compared} compared rows differ" in found.sentence
    assert lm.tokens == []


def test_only_passes_that_sum_in_a_fixed_order_are_called_exact(models, monkeypatch):
    assert exactness.probe(models.target.fresh()).kind == BIT_EXACT
    monkeypatch.setattr(type(models.target.passes), "batch_invariant", False)
    assert exactness.probe(models.target.fresh()).kind == TIE_AWARE, "a sample is no proof"


def test_a_model_that_ignores_the_branches_of_a_draft_is_refused(tmp_path, monkeypatch):
    """One whose layers make their own causal mask sees the rows of other branches."""
    folder = tiny("qwen2", tmp_path / "m", layers=2)
    forward = modules.Modules.__call__
    monkeypatch.setattr(modules.Modules, "__call__", lambda *given: forward(*given[:4], None, *given[5:]))
    with pytest.raises(ModelError, match="does not follow the branches of a draft"):
        lookahead.load(folder)


def test_a_tie_aware_family_says_so(tmp_path):
    """torch's kernels choose an order by the number of rows; lanes agree here because float32 rarely ties."""
    family = lookahead.load(tiny("qwen2", tmp_path / "m"))
    assert (family.exactness, family.dtype) == (TIE_AWARE, "float32")
    race = lookahead.race(family, "Once upon a time", methods=["naive", "tree"], draft="self", max_new_tokens=12)
    trace = finished(race)
    assert trace.exactness == TIE_AWARE
    assert trace.agreement(1)["badge"] == "identical"


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
