"""Rotary tables grow with the text: the same numbers as a table of the whole context, and next to no memory before."""

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


def whole(passes):
    """The tables of the whole context in one piece."""
    weights = passes.weights
    places = torch.arange(passes.shape.context_length + SPARE_POSITIONS, dtype=torch.float32)
    angles = places[:, None] * weights.inv_freq
    cos, sin = (f(angles) * weights.attention_factor for f in (torch.cos, torch.sin))
    return [table.to(passes.dtype).float() for table in (torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1))]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("context", [20_000, 8184, 100])
def test_the_numbers_are_those_of_a_table_of_the_whole_context(tmp_path, dtype, context):
    passes = kernels.read(tiny("llama", tmp_path / "m", max_position_embeddings=context), dtype)
    for stop in (1, 90, 8192, 8193, 16_385, context + SPARE_POSITIONS, 10**9):
        tables = passes._rotary.up_to(stop)
        assert len(tables[0]) >= min(stop, context + SPARE_POSITIONS)
        for grown, full in zip(tables, whole(passes), strict=True):
            assert torch.equal(torch.from_numpy(grown), full[: len(grown)])
    assert len(tables[0]) == context + SPARE_POSITIONS


def test_an_array_that_was_handed_out_stays_as_it_is(monkeypatch):
    monkeypatch.setattr(rotary, "BLOCK", 4)
    tables = rotary.RotaryTables(torch.ones(1), torch.float32, 30)
    first, places = tables.up_to(3).cos, torch.arange(30.0)
    assert [len(tables.up_to(stop).cos) for stop in (4, 5, 9, 30, 99)] == [4, 8, 16, 30, 30]
    cos, sin = map(torch.from_numpy, tables.up_to(30))
    assert torch.equal(torch.from_numpy(first), cos[:4]), "not written over"
    assert torch.allclose(cos, places.cos()[:, None]) and torch.allclose(sin[:, 1], places.sin())


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pair")
    return f"{tiny('llama', folder / 'target', seed=1)}+{tiny('llama', folder / 'draft', seed=1, layers=1)}"


def test_a_text_that_crosses_the_blocks_is_the_same_by_every_method(folders, monkeypatch):
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
    for one in Batch([Lane(models, PROMPT, "draft", settings), Lane(models, PROMPT[:9], "tree", settings)]):
        for number, step in one.steps.items():
            texts[number].extend(step.emitted)
    assert texts[0] == expected


@pytest.mark.parametrize("kind", [EAGLE, BLOCK])
def test_a_heads_tables_grow_alike(tmp_path, kind):
    target = kernels.read(tiny("llama", tmp_path / "m", layers=6, max_position_embeddings=LONG), torch.float32)
    network = network_of(kind, target, window=0)
    head = Head.of(network, target).passes
    assert head.rotary.up_to(1)[0].nbytes < 10 * MB
    cos, sin = (table[:, 0] for table in network.rotary(torch.arange(20_000)))
    half = cos.shape[1] // 2
    tables = [torch.from_numpy(table)[:20_000] for table in head.rotary.up_to(20_000)]
    assert torch.equal(tables[0], cos) and torch.equal(tables[1], torch.cat([-sin[:, :half], sin[:, half:]], -1))


def test_a_context_of_ten_million_costs_nothing_until_it_is_used(folders, tmp_path):
    def race(spec):
        models = lookahead.load(spec, dtype="float32")
        assert emitted(lookahead.decode(models, PROMPT, "draft", max_new_tokens=40)) == emitted(
            lookahead.decode(models, PROMPT, "naive", max_new_tokens=40)
        )
        return models

    race(folders)  # kernels are compiled by now
    before = psutil.Process().memory_info().rss
    long = [tiny("llama", tmp_path / name, max_position_embeddings=LONG) for name in ("target", "draft")]
    models = race("+".join(map(str, long)))
    assert models.target.context_length >= 10**6
    assert psutil.Process().memory_info().rss - before < 100 * MB
