"""Rotary tables grow with the text: their values equal those of a table for the full context, with little memory."""

import psutil
import pytest
import torch
from conftest import emitted, tiny
from test_heads import network_of

import lookahead
from lookahead import kernels
from lookahead.engine.batch import Batch
from lookahead.engine.lane import Lane, split_options
from lookahead.kernels import rotary
from lookahead.kernels.rotary import SPARE_POSITIONS
from lookahead.model.heads.head import Head
from lookahead.model.heads.shape import BLOCK, EAGLE

pytestmark = pytest.mark.models

LONG = 10_000_000
PROMPT = [5, 6, 7, 8] * 5
MB = 10**6


def full_tables(passes):
    """Return tables of the full context, computed at once."""
    weights = passes.weights
    positions = torch.arange(passes.shape.context_length + SPARE_POSITIONS, dtype=torch.float32)
    angles = positions[:, None] * weights.inv_freq
    cos, sin = (f(angles) * weights.attention_factor for f in (torch.cos, torch.sin))
    return [table.to(passes.dtype).float() for table in (torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1))]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("context", [20_000, 8184, 100])
def test_the_values_equal_those_of_a_table_of_the_full_context(tmp_path, dtype, context):
    passes = kernels.read(tiny("llama", tmp_path / "m", max_position_embeddings=context), dtype)
    for stop in (1, 90, 8192, 8193, 16_385, context + SPARE_POSITIONS, 10**9):
        tables = passes._rotary.up_to(stop)
        assert len(tables[0]) >= min(stop, context + SPARE_POSITIONS)
        for grown, full in zip(tables, full_tables(passes), strict=True):
            assert torch.equal(torch.from_numpy(grown), full[: len(grown)])
    assert len(tables[0]) == context + SPARE_POSITIONS


def test_a_returned_array_does_not_change(monkeypatch):
    monkeypatch.setattr(rotary, "BLOCK", 4)
    tables = rotary.RotaryTables(torch.ones(1), torch.float32, 30)
    first, positions = tables.up_to(3).cos, torch.arange(30.0)
    assert [len(tables.up_to(stop).cos) for stop in (4, 5, 9, 30, 99)] == [4, 8, 16, 30, 30]
    cos, sin = map(torch.from_numpy, tables.up_to(30))
    assert torch.equal(torch.from_numpy(first), cos[:4]), "overwritten"
    assert torch.allclose(cos, positions.cos()[:, None]) and torch.allclose(sin[:, 1], positions.sin())


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pair")
    return f"{tiny('llama', folder / 'target', seed=1)}+{tiny('llama', folder / 'draft', seed=1, layers=1)}"


def test_a_text_longer_than_a_block_is_the_same_with_every_method(folders, monkeypatch):
    models = lookahead.load(folders, dtype="bfloat16")
    loaded = [models.target.passes, models.drafts["draft"].passes]

    def ids(method, **options):
        return emitted(lookahead.decode(models, PROMPT, method, max_new_tokens=150, details=False, **options))

    def shrink():
        for passes in loaded:
            passes._rotary._tables = None
            passes._rotary.up_to(1)
        assert len(loaded[0]._rotary.up_to(1)[0]) == rotary.BLOCK

    expected = ids("naive")
    assert len(expected) > 100
    monkeypatch.setattr(rotary, "BLOCK", 16)
    for method in ("draft", "tree", "hybrid", "naive"):
        shrink()
        assert ids(method, k=7) == expected, method
    shrink()
    settings, _ = split_options({"max_new_tokens": 150, "k": 3})
    texts = [], []
    for batch_step in Batch([Lane(models, PROMPT, "draft", settings), Lane(models, PROMPT[:9], "tree", settings)]):
        for number, step in batch_step.steps.items():
            texts[number].extend(step.emitted)
    assert texts[0] == expected


@pytest.mark.parametrize("kind", [EAGLE, BLOCK])
def test_the_tables_of_a_head_grow(tmp_path, kind):
    target = kernels.read(tiny("llama", tmp_path / "m", layers=6, max_position_embeddings=LONG), torch.float32)
    network = network_of(kind, target, window=0)
    head = Head.from_network(network, target).passes
    assert head.rotary.up_to(1)[0].nbytes < 10 * MB
    cos, sin = (table[:, 0] for table in network.rotary(torch.arange(20_000)))
    half = cos.shape[1] // 2
    tables = [torch.from_numpy(table)[:20_000] for table in head.rotary.up_to(20_000)]
    assert torch.equal(tables[0], cos) and torch.equal(tables[1], torch.cat([-sin[:, :half], sin[:, half:]], -1))


def test_a_context_of_ten_million_tokens_takes_no_memory_until_it_is_used(folders, tmp_path):
    def race(spec):
        models = lookahead.load(spec, dtype="float32")
        assert emitted(lookahead.decode(models, PROMPT, "draft", max_new_tokens=40)) == emitted(
            lookahead.decode(models, PROMPT, "naive", max_new_tokens=40)
        )
        return models

    race(folders)  # compiles the kernels
    before = psutil.Process().memory_info().rss
    long = [tiny("llama", tmp_path / name, max_position_embeddings=LONG) for name in ("target", "draft")]
    models = race("+".join(map(str, long)))
    assert models.target.context_length >= 10**6
    assert psutil.Process().memory_info().rss - before < 100 * MB
