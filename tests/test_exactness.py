"""The fallback: the same machine with its bfloat16 instructions switched off.

Exactness is a property of the machine. With the instructions hidden from the kernels, the number
format must be chosen by measuring, the probe must tell the truth, and every lane must still print
naive's text or name the tie.
"""

import json
import os
import subprocess
import sys

import pytest
from conftest import ROOT

from lookahead import cost

SCRIPT = """
import json, torch, lookahead
models = lookahead.load("pocket")
badges = []
for method in ("draft", "ngram"):
    for options in ({}, {"temperature": 0.8}):
        race = lookahead.race(models, "Once upon a time there was a small frog who", methods=["naive", method], max_new_tokens=40, **options)
        for _ in race: pass
        badges.append(race.result().agreement(1)["badge"])
probe = models.probe
print(json.dumps([models.exactness, models.dtype, probe.chain_differ + probe.tree_differ, probe.worst, badges]))
"""


@pytest.mark.parametrize("isa", ["AVX512_CORE", "AVX2"])
def test_without_bf16_instructions(isa):
    env = {**os.environ, "ONEDNN_MAX_CPU_ISA": isa, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, env=env, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stderr
    exactness, dtype, differ, worst, badges = json.loads(done.stdout.splitlines()[-1])
    assert (exactness == "bit-exact") == (differ == 0)
    assert dtype == "float32" or exactness == "bit-exact", "bfloat16 only where its rows are exact"
    if dtype == "float32":
        assert worst < 1e-3
    for badge in badges:
        if exactness == "bit-exact":
            assert badge == "identical, bit-exact"
        else:
            assert badge == "identical" or "a tie of" in badge


def test_the_curve_reads_between_its_points():
    curve = cost.CostCurve((1, 2, 4), (0.010, 0.012, 0.020))
    assert curve.turning_s(3) == 0
    draft = cost.CostCurve((1,), (0.001,), after_s=(0.004, 0.002), back_s=0.001)
    assert [draft.turning_s(k) for k in (0, 1, 2, 9)] == pytest.approx([0, 0.005, 0.007, 0.007])
    assert [draft.scaled(2).turning_s(1), draft.scaled(2).token_s] == pytest.approx([0.01, 0.002])
    assert curve.pass_s(3) == pytest.approx(0.016)
    assert curve.ratio(2) == pytest.approx(1.2)
    assert curve.pass_s(6) == pytest.approx(0.028)


def test_the_chosen_format_is_one_of_two():
    import torch

    assert cost.pick_dtype(torch.device("cpu")) in (torch.bfloat16, torch.float32)
