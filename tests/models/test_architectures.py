"""Every architecture of transformers' causal language models: a tiny random model runs with every method, or is refused."""

from __future__ import annotations

import pytest
import torch
from architectures import DISTINCT, KINDS
from conftest import daily
from outcomes import METHODS, outcome
from table import documented

from lookahead.model.modules import OTHER

pytestmark = [pytest.mark.models, pytest.mark.long, pytest.mark.split, pytest.mark.every_day]

RUNNING = 0.95  # least share of the architectures with a tiny model that run
MONOTONOUS = {"roformer", "roc_bert"}  # on some processors, no tiny model was found whose text is diverse


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Compute with one thread, which is faster for tiny models."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("kind", daily(KINDS))
def test_every_method_writes_the_text_of_generate_or_the_architecture_is_refused(kind):
    result = outcome(kind)
    if result is None:  # no tiny model
        return
    assert (kind in documented()[1]) == bool(result.refused), "`python tests/models/table.py` updates the table"
    if result.refused:
        assert result.refused.endswith(OTHER) and len(result.refused) > len(OTHER) + 10, "no reason is named"
        return
    assert not result.wrong
    assert result.distinct >= DISTINCT or kind in MONOTONOUS, "a monotonous text hides errors"
    assert {*METHODS} - {*result.methods} <= {"self"}, "only the first layers may be unusable"


def test_most_architectures_run():
    """The documentation has every architecture, and the test above compares it with the results."""
    running, refused, without = documented()
    assert running | refused | without == {*KINDS}
    assert len(without) <= 0.1 * len(KINDS), "too few tiny models"
    assert len(running) >= RUNNING * (len(running) + len(refused))
