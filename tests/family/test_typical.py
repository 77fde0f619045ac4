"""Shipped costs are read as written, and an error names a damaged file."""

import json

import pytest
from conftest import POCKET

from lookahead.core.events import ModelError
from lookahead.family import typical

SHIPPED = json.loads((POCKET / typical.FILE).read_text(encoding="utf-8"))
CURVE = SHIPPED["costs"]["target"]


def test_shipped_costs_are_read_as_written(tmp_path):
    typical.write(tmp_path, typical.read(POCKET))
    assert typical.read(tmp_path) == typical.read(POCKET)


@pytest.mark.parametrize(
    "text",
    [
        "", '{"cpu": ', "[]", "null", "5", "{}", *(json.dumps({**SHIPPED, **changes}) for changes in (
            {"cpu": 5}, {"costs": []},
            {"costs": {**SHIPPED["costs"], "target": {**CURVE, "rows": []}}},
            {"costs": {**SHIPPED["costs"], "target": {**CURVE, "seconds": [-1.0] * len(CURVE["seconds"])}}},
            {"costs": {**SHIPPED["costs"], "target": {**CURVE, "rows": CURVE["rows"][::-1]}}},
            {"costs": {**SHIPPED["costs"], "target": {**CURVE, "branching_s": -1.0}}},
        )),
    ],
)  # fmt: skip
def test_an_error_names_damaged_costs(tmp_path, text):
    (tmp_path / typical.FILE).write_text(text)
    with pytest.raises(ModelError, match=r"costs\.json cannot be read"):
        typical.read(tmp_path)
