"""Exactness: the probe, stored measurements, and all instruction sets of this processor.

Exactness is a property of the kernels. Every lane must emit the ids of naive also if newer instructions are hidden.
"""

import os
import subprocess
import sys

import pytest
import torch
from conftest import POCKET, ROOT, daily, finished, tiny
from numba.core.codegen import get_host_cpu_features
from pydantic import TypeAdapter

import lookahead
from lookahead.core.costs import CostCurve
from lookahead.core.events import BIT_EXACT, TIE_AWARE, ModelError, SettingsError
from lookahead.family import cost, exactness, measurements, number_format
from lookahead.model import modules
from lookahead.model.lm import CachedLM

pytestmark = [pytest.mark.models, pytest.mark.split, pytest.mark.every_day]

# Instruction sets by torch's name, with the settings that limit our kernels to them. `CAPS` has those that this processor exceeds;
# its full instruction set is tested by the property tests themselves.
ALL_CAPS = {
    "AVX2": {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx2,+fma"},
    "AVX512_CORE": {"NUMBA_CPU_NAME": "skylake-avx512", "NUMBA_CPU_FEATURES": "+avx512f"},
    "AVX512_CORE_BF16": {"NUMBA_CPU_NAME": "znver4", "NUMBA_CPU_FEATURES": "+avx512f,+avx512bf16"},
}
HERE = set(get_host_cpu_features().split(","))
BEYOND = {"AVX2": "+avx512f", "AVX512_CORE": "+avx512bf16", "AVX512_CORE_BF16": "+amx-tile"}
CAPS = {isa: cap for isa, cap in ALL_CAPS.items() if {*cap["NUMBA_CPU_FEATURES"].split(","), BEYOND[isa]} <= HERE}
EXAMPLES = "5"  # per property
PYTEST = (sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider")


def properties(folder, **environment):
    """Run the property tests in a child process with other environment variables, and return its measurements."""
    variables = {"HF_HUB_OFFLINE": "1", "LOOKAHEAD_CACHE": str(folder), "LOOKAHEAD_EXAMPLES": EXAMPLES, **environment}
    command, env = [*PYTEST, "tests/family/test_properties.py"], {**os.environ, **variables}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    (file,) = folder.glob("*.json")
    return TypeAdapter(measurements.Measured).validate_json(file.read_bytes())


@pytest.mark.timeout(900)
@pytest.mark.parametrize("isa", daily(CAPS))
def test_passes_are_bit_exact_under_every_instruction_set(isa, tmp_path):
    """Chains, trees and lanes of every method."""
    measured = properties(tmp_path, ONEDNN_MAX_CPU_ISA=isa, **CAPS[isa])
    assert measured.exactness.kind == BIT_EXACT


def test_our_kernels_and_gpus_use_bfloat16_and_torch_on_a_processor_float32(monkeypatch):
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert [number_format.default(cpu, compiled) for compiled in (True, False)] == [torch.bfloat16, torch.float32]
    for supported, dtype in ((True, torch.bfloat16), (False, torch.float32)):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda supported=supported: supported)
        assert number_format.default(gpu) == dtype


@pytest.mark.parametrize("dtype", ["bfloat16", torch.bfloat16, "float32"])
def test_a_format_can_be_requested(dtype, monkeypatch):
    name = dtype if isinstance(dtype, str) else "bfloat16"
    assert number_format.name_of(number_format.requested(dtype)) == name
    monkeypatch.setenv("LOOKAHEAD_DTYPE", name)
    assert number_format.requested() == number_format.FORMATS[name]
    assert number_format.requested("float32") == torch.float32, "an argument overrides the environment"


def test_an_unknown_format_is_refused(monkeypatch):
    with pytest.raises(SettingsError, match="bfloat16, float32"):
        lookahead.load("pocket", dtype="float8")
    monkeypatch.setenv("LOOKAHEAD_DTYPE", "int4")
    with pytest.raises(SettingsError, match="int4"):
        lookahead.load("pocket")


def test_the_probe_detects_rows_that_depend_on_the_pass(models, monkeypatch):
    """Passes that should be exact round rows differently with other rows than alone."""
    lm = models.target.fresh()
    forward = CachedLM.forward

    def changed(self, tokens, *others, **options):
        out = forward(self, tokens, *others, **options)
        return out + 0.25 * (len(out) > 4)

    monkeypatch.setattr(CachedLM, "forward", changed)
    result = exactness.probe(lm)
    assert result.kind == TIE_AWARE and result.differ > 0 and result.worst >= 0.2
    assert f"{result.differ} of {result.compared} compared rows differ" in result.sentence
    assert lm.tokens == []


def test_only_passes_that_sum_in_a_fixed_order_are_called_exact(models, monkeypatch):
    assert exactness.probe(models.target.fresh()).kind == BIT_EXACT
    monkeypatch.setattr(type(models.target.passes), "batch_invariant", False)
    assert exactness.probe(models.target.fresh()).kind == TIE_AWARE, "equal samples do not prove exactness"


def test_a_model_that_ignores_the_branches_of_a_draft_is_refused(tmp_path, monkeypatch):
    """If layers create their own causal mask, rows attend to other branches."""
    folder = tiny("gemma", tmp_path / "m", layers=2)
    forward = modules.Modules.__call__
    monkeypatch.setattr(modules.Modules, "__call__", lambda *args: forward(*args[:4], None, *args[5:]))
    with pytest.raises(ModelError, match="does not follow the branches of a draft"):
        lookahead.load(folder)


def test_a_family_without_kernels_is_tie_aware(tmp_path):
    """torch's kernels sum in an order that depends on the number of rows. Lanes agree here because float32 rarely ties."""
    family = lookahead.load(tiny("gemma", tmp_path / "m"))
    assert (family.exactness, family.dtype) == (TIE_AWARE, "float32")
    race = lookahead.race(family, "Once upon a time", methods=["naive", "tree"], draft="self", max_new_tokens=12)
    trace = finished(race)
    assert trace.exactness == TIE_AWARE
    assert trace.agreement(1)["badge"] == "identical"


def test_measurements_are_stored_and_checked(models, tmp_path, monkeypatch):
    monkeypatch.setenv("LOOKAHEAD_CACHE", str(tmp_path))
    folders = [POCKET / "target", POCKET / "draft"]
    name = measurements.key(folders, None)
    assert measurements.read(name) is None
    measurements.write(name, models.measured)
    assert measurements.read(name) == models.measured
    assert name != measurements.key(folders, "float32")
    assert name != measurements.key(folders[:1], None)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2_VNNI")
    assert name != measurements.key(folders, None), "the name depends on the instruction set"
    (tmp_path / f"{name}.json").write_text('{"format": "bfloat16"}')
    assert measurements.read(name) is None
    monkeypatch.setenv("LOOKAHEAD_CACHE", str(tmp_path / f"{name}.json" / "below"))
    measurements.write(name, models.measured)  # a folder that cannot be written is no error


def test_the_name_depends_on_the_weights(tmp_path):
    folders = [tiny("llama", tmp_path / str(seed), seed=seed) for seed in (0, 1)]
    assert measurements.key([folders[0]], None) != measurements.key([folders[1]], None)
    assert measurements.key(["org/name"], None) is None


def test_a_stored_curve_is_scaled_to_the_current_speed(models):
    now = cost.measure(models.target.fresh())
    drift = cost.drift(models.target.fresh(), now.scaled(10.0))
    assert drift is None or 1 / 40 < drift < 4 / 10
    other_shape = CostCurve(now.rows, (now.seconds[0] / 10, *now.seconds[1:]))
    assert cost.drift(models.target.fresh(), other_shape) is None, "one-row passes drifted more than larger ones"
