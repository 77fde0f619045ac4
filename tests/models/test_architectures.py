"""Every architecture of transformers' causal language models: a tiny random model runs with every method, or is refused."""

from __future__ import annotations

import pytest
import torch
from architectures import DISTINCT, KINDS
from conftest import daily
from outcomes import METHODS, outcome
from table import documented

from lookahead.model.modules import OTHER

pytestmark = [pytest.mark.models, pytest.mark.long]

TESTED = daily(KINDS)
RUNNING = 0.95  # least share of the architectures with a tiny model that run
DIVERSE = 0.95  # least share of the architectures that run with a diverse text


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Compute with one thread, which is faster for tiny models."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("kind", TESTED)
def test_every_method_writes_the_text_of_generate_or_the_architecture_is_refused(kind):
    result = outcome(kind)
    if result is None:  # no tiny model
        return
    assert (kind in documented()[1]) == bool(result.refused), "`python tests/models/table.py` updates the table"
    if result.refused:
        assert result.refused.endswith(OTHER) and len(result.refused) > len(OTHER) + 10, "no reason is named"
        return
    assert not result.wrong
    assert {*METHODS} - {*result.methods} <= {"self"}, "only the first layers may be unusable"


def test_texts_are_diverse():
    outcomes = [result for kind in TESTED if (result := outcome(kind))]
    running = [result for result in outcomes if not result.refused]
    assert len(outcomes) >= 0.9 * len(TESTED), "too few tiny models"
    assert sum(result.distinct >= DISTINCT for result in running) >= DIVERSE * len(running)


def test_most_architectures_run():
    """The documentation has every architecture, and the test above compares it with the results."""
    running, refused, without = documented()
    assert running | refused | without == {*KINDS}
    assert len(running) >= RUNNING * (len(running) + len(refused))
