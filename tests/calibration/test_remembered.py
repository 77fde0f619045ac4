"""Kept measurements: impossible values are rejected, and failed writes leave no file."""

import os
from dataclasses import replace

import pytest

from lookahead.calibration import remembered
from lookahead.calibration.exactness import Exactness
from lookahead.core.costs import CostCurve, PassCosts
from lookahead.core.tree import Limits

CURVE = CostCurve((1, 3), (0.002, 0.003))
GOOD = remembered.Measured("float32", Exactness(8, 8, None, Limits()), PassCosts(CURVE, {}), 2, threads=1)


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
        {"layers": 0},
        {"format": "float8"},
        {"bfloat16_ratio": -1.0},
        {"exactness": Exactness(8, 8, None, Limits(least=10**9))},
        {"exactness": Exactness(8, 8, None, Limits(tile=0))},
        {"costs": PassCosts(CostCurve((), ()), {})},
        {"costs": PassCosts(CostCurve((3, 1), (0.1, 0.1)), {})},
        {"costs": PassCosts(CostCurve((1,), (-0.1,)), {})},
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
