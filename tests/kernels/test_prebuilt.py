"""Code that was compiled when a container was built: the choice of the kind, and its use without compilation."""

import os
import subprocess
import sys

import pytest
from conftest import ROOT
from llvmlite.binding import get_host_cpu_name
from numba.core.codegen import get_host_cpu_features

from lookahead.kernels import first_start, prebuilt

HERE = prebuilt.kind(get_host_cpu_name(), get_host_cpu_features())


@pytest.mark.parametrize(
    ("cpu", "features", "expected"),
    [
        ("haswell", prebuilt.AVX2 + ",-avx512f", "haswell"),
        ("znver3", prebuilt.AVX2, "haswell"),
        ("icelake-server", prebuilt.AVX512, "cascadelake"),
        ("znver5", prebuilt.BF16, "znver4"),
        ("cooperlake", prebuilt.BF16, "cascadelake"),
        ("emeraldrapids", prebuilt.KINDS["sapphirerapids"], "sapphirerapids"),
        ("ivybridge", "+avx", None),
        ("apple-m2", "", None),
    ],
)
def test_a_processor_gets_the_newest_kind_that_it_supports(cpu, features, expected):
    assert prebuilt.kind(cpu, features) == expected


def test_every_kind_is_compiled_in_a_child_process(monkeypatch):
    kinds = []
    monkeypatch.setattr(first_start.subprocess, "run", lambda command, env, check: kinds.append(env["NUMBA_CPU_NAME"]))
    first_start.prebuild("/kernels")
    assert kinds == [*prebuilt.KINDS]


def child(script, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA")} | variables
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout.split()


@pytest.mark.models
@pytest.mark.skipif(HERE is None, reason="the kernels are not prebuilt for this processor")
def test_prebuilt_code_is_used_and_the_folder_is_not_written(tmp_path):
    script = "from lookahead.kernels import compiling, elementwise as e, vectors as v; print(compiling.PREBUILT, v.CPU, e.add().cache_hits)"
    features = prebuilt.KINDS[HERE]
    assert child(
        script, NUMBA_CACHE_DIR=str(tmp_path), NUMBA_CPU_NAME=HERE, NUMBA_CPU_FEATURES=features, LOOKAHEAD_KERNELS=""
    ) == ["None", HERE, "0"]
    files = sorted(tmp_path.rglob("*"))
    assert child(script, LOOKAHEAD_KERNELS=str(tmp_path)) == [str(tmp_path), HERE, "1"]
    missing = "from lookahead.kernels import elementwise as e; print(e.scale().cache_hits)"
    assert child(missing, LOOKAHEAD_KERNELS=str(tmp_path)) == ["0"]
    assert not [path for path in tmp_path.rglob("*") if path not in files and path.suffix == ".tmp"]
