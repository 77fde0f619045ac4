"""Kept measurements: impossible values are rejected, and failed writes leave no file."""

import math
import os
from dataclasses import replace

import pytest

from lookahead.core.costs import CostCurve, DrafterCosts, PassCosts
from lookahead.family import remembered
from lookahead.family.exactness import Exactness

CURVE = CostCurve((1, 3), (0.002, 0.003))
IMPOSSIBLE_S = (-1.0, math.nan, math.inf, 1e300)
GOOD = remembered.Measured("float32", Exactness("bit-exact", 12), PassCosts(CURVE, {}), threads=1)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOKAHEAD_CACHE", str(tmp_path))
    return tmp_path


def test_a_kept_measurement_is_read_back():
    remembered.keep("a", GOOD)
    assert remembered.read("a") == GOOD


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
    remembered.keep("a", replace(GOOD, **changes))
    assert remembered.read("a") is None


def test_a_failed_write_leaves_no_file(cache, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    remembered.keep("a", GOOD)
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
def test_a_damaged_file_counts_as_none(cache, content):
    (cache / "a.json").write_bytes(content)
    assert remembered.read("a") is None


def test_a_folder_in_the_place_of_a_file_counts_as_none(cache):
    (cache / "a.json").mkdir()
    assert remembered.read("a") is None
