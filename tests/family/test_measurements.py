"""Stored measurements: impossible values are rejected, and failed writes leave no file."""

import math
import os
from dataclasses import replace

import pytest

from lookahead.core.costs import CostCurve, DrafterCosts, PassCosts
from lookahead.family import measurements
from lookahead.family.exactness import Exactness

CURVE = CostCurve((1, 3), (0.002, 0.003))
IMPOSSIBLE_S = (-1.0, math.nan, math.inf, 1e300)
GOOD = measurements.Measured("float32", Exactness("bit-exact", 12), PassCosts(CURVE, {}), threads=1)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOKAHEAD_CACHE", str(tmp_path))
    return tmp_path


def test_a_stored_measurement_is_read():
    measurements.write("a", GOOD)
    assert measurements.read("a") == GOOD


@pytest.mark.parametrize(
    "changes",
    [
        {"threads": 1_000_000},
        {"threads": 0},
        {"format": "float8"},
        {"costs": PassCosts(CostCurve((), ()), {})},
        {"costs": PassCosts(CostCurve((3, 1), (0.1, 0.1)), {})},
        {"costs": PassCosts(CostCurve((1,), (-0.1,)), {})},
        {"costs": PassCosts(CostCurve((1,), (1e6,)), {})},
        *({"costs": PassCosts(replace(CURVE, branching_s=s), {})} for s in IMPOSSIBLE_S),
        *({"costs": PassCosts(CURVE, {"draft": DrafterCosts(replace(CURVE, branching_s=s))})} for s in IMPOSSIBLE_S),
        *({"costs": PassCosts(CURVE, {"draft": DrafterCosts(CURVE, choose_s=s)})} for s in IMPOSSIBLE_S),
        *({"costs": PassCosts(CURVE, {"draft": DrafterCosts(CURVE, return_s=s)})} for s in IMPOSSIBLE_S),
        *({"costs": PassCosts(CURVE, {"draft": DrafterCosts(CURVE, cold_s=(0.0, s))})} for s in IMPOSSIBLE_S),
    ],
)
def test_impossible_values_count_as_no_measurement(changes):
    measurements.write("a", replace(GOOD, **changes))
    assert measurements.read("a") is None


def test_a_failed_write_leaves_no_file(cache, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    measurements.write("a", GOOD)
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"null",
        b"\xff\x00",
        b"{" * 10_000,
        b'{"cpu": "x", "costs": {"target": {"rows": [], "seconds": []}}}',
    ],
)
def test_a_damaged_file_counts_as_missing(cache, content):
    (cache / "a.json").write_bytes(content)
    assert measurements.read("a") is None


def test_a_folder_instead_of_a_file_counts_as_missing(cache):
    (cache / "a.json").mkdir()
    assert measurements.read("a") is None
