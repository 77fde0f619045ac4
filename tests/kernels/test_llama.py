"""Llama's passes, each one compiled call.

They equal transformers' numbers, a row's bits do not depend on other rows, and drafters have 8-bit weights.
"""

import copy
import random

import pytest
import torch
from conftest import tiny
from transformers import AutoModelForCausalLM

from lookahead import kernels
from lookahead.core import parallel, tree
from lookahead.core.events import Settings
from lookahead.engine.lane import Lane
from lookahead.kernels import llama, product, tiles
from lookahead.kernels.llama import Llama
from lookahead.kernels.product import Product
from lookahead.model import modules
from lookahead.model.lm import CachedLM

pytestmark = pytest.mark.models

MAX_DIVERGENCE = 0.01  # nats; the predictions of the bundled draft model and its target differ by about 1
DTYPES = (torch.float32, torch.bfloat16)
SHAPES = ({}, {"num_key_value_heads": 4}, {"tie_word_embeddings": True}, {"head_dim": 80, "intermediate_size": 72})


def load(folder, dtype=torch.bfloat16):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation=modules.ATTENTION).eval()


def kl_divergence(logits, others):
    """Return Kullback-Leibler divergences in nats, per row."""
    a, b = logits.float().log_softmax(-1), others.float().log_softmax(-1)
    return (a.exp() * (a - b)).sum(-1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("changes", SHAPES, ids=str)
def test_passes_equal_transformers_modules(tmp_path, changes, dtype):
    folder = tiny("llama", tmp_path / "m", layers=3, **changes)
    ours, theirs = CachedLM(load(folder, dtype)), CachedLM(modules.Modules(load(folder, dtype)))
    assert type(ours.passes) is Llama
    tolerance = {"rtol": 0, "atol": 5e-5 if dtype == torch.float32 else 0.2}
    draws = random.Random(3)
    for _ in range(12):
        parents = [-1, *(draws.randint(0, i) for i in range(5))]
        rows = [draws.randrange(4096) for _ in parents]
        assert torch.allclose(ours.forward(rows, parents), theirs.forward(rows, parents), **tolerance)
        path = tree.ancestors(parents, 5)
        ours.keep(path)
        theirs.keep(path)
        assert torch.allclose(ours.extend(rows), theirs.extend(rows), **tolerance)


@pytest.fixture(params=["this processor", "without a matrix unit", "with ordinary vectors"])
def unit(request, monkeypatch):
    """Products of bfloat16 and bytes by this processor's best instructions, and by those of other processors."""
    if request.param != "this processor":
        monkeypatch.setattr(tiles, "available", lambda: False)
    if request.param == "with ordinary vectors":
        monkeypatch.setattr(product, "HAS_BF16_DOT", False)
        monkeypatch.setattr(product, "HAS_VNNI", False)


@pytest.mark.parametrize("int8", [False, True], ids=["full precision", "in 8 bits"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("changes", SHAPES[::3], ids=str)
def test_bits_of_a_row_do_not_depend_on_other_rows(tmp_path, unit, changes, dtype, int8):
    """Holds in chains of every length, in trees, and if a pass is continued."""
    lm = CachedLM(load(tiny("llama", tmp_path / "m", **changes), dtype), exact=not int8)
    assert lm.passes.batch_invariant
    assert lm.eight_bits == int8
    draws = random.Random(5)
    text = [draws.randrange(4096) for _ in range(150)]
    for prefix in (0, 1, 63, 127):
        lm.reset()
        if prefix:
            lm.extend(text[:prefix])
        alone = torch.cat([lm.extend([token]).clone() for token in text[prefix : prefix + 20]])
        for n in (*range(1, 16), 20):
            lm.sync([*text[:prefix], -1])
            assert torch.equal(lm.forward(text[prefix : prefix + n]), alone[:n]), (prefix, n)
        for _ in range(8):
            parents = [-1, *(draws.randint(-1, i) for i in range(30))]
            path = tree.ancestors(parents, 30)[:20]
            rows = [draws.randrange(4096) for _ in parents]
            for row, token in zip(path, text[prefix:], strict=False):
                rows[row] = token
            lm.sync([*text[:prefix], -1])
            at_once = lm.forward(rows, parents)
            assert torch.equal(at_once[path], alone[: len(path)])
            lm.forward(rows[:17], parents[:17])
            assert torch.equal(lm.forward(rows, parents, first=17), at_once[17:])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_prefill_has_the_bits_of_single_steps(tmp_path, unit, dtype):
    """The split of a prompt into passes does not change the text."""
    lm, draws = CachedLM(load(tiny("llama", tmp_path / "m"), dtype)), random.Random(7)
    text = [draws.randrange(4096) for _ in range(210)]
    alone = [lm.extend([token]).clone() for token in text]
    for parts in ((210,), (65, 145), (1, 128, 81)):
        lm.reset()
        stop = 0
        for part in parts:
            stop += part
            assert torch.equal(lm.extend(text[stop - part : stop]), alone[stop - 1])
    assert torch.equal(lm.forward([1, 2, 3], [-1, 0, 0])[2], lm.forward([1, 3])[1])


@pytest.mark.parametrize("cores", [1, 2, 3, 5])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_pipelined_prefill_has_the_same_bits(tmp_path, monkeypatch, dtype, cores):
    """Compares keys, values, hidden states and logits, also after a text and if the rows are few."""
    monkeypatch.setattr(parallel, "cores", lambda: cores)
    parallel._pool.cache_clear()
    lm, draws = CachedLM(load(tiny("llama", tmp_path / "m"), dtype)), random.Random(7)
    lm.taps = (1, 2)
    text = [draws.randrange(4096) for _ in range(150)]
    lm.reset()
    alone = [lm.extend([token]).clone() for token in text]
    stored = lm.cache.columns(0, len(text))
    states = lm.states(0).clone()
    for first in (0, 1, 70):
        lm.reset()
        lm.extend(text[:first])
        assert torch.equal(lm.extend(text[first:]), alone[-1])
        assert all(map(torch.equal, lm.cache.columns(0, len(text)), stored))
        assert torch.equal(lm.states(0), states)
    parallel._pool.cache_clear()


def test_a_failed_part_of_a_prompt_blocks_no_other_part(tmp_path, monkeypatch):
    """Any part may fail. The other parts end, the error is raised, and the next text is read correctly."""
    monkeypatch.setattr(parallel, "cores", lambda: 3)
    parallel._pool.cache_clear()
    lm, compiled_forward, ended = CachedLM(load(tiny("llama", tmp_path / "m"))), llama.llama_pass.forward, []
    expected = lm.extend([5] * 90).clone()

    def failing(kernels, sizes, weights, caches, rows, *arguments):
        if rows.ids[0] == 6:
            raise MemoryError("out of memory")
        try:
            return compiled_forward(kernels, sizes, weights, caches, rows, *arguments)
        finally:
            ended.append(len(rows.ids))

    monkeypatch.setattr(llama.llama_pass, "forward", failing)
    for text in ([6, *[5] * 89], [*[5] * 30, 6, *[5] * 59], [*[5] * 60, 6, *[5] * 29]):
        lm.reset()
        ended.clear()
        with pytest.raises(MemoryError):
            lm.extend(text)
        assert ended == [30, 30], "all other parts have ended"
    ended.clear()
    with pytest.raises(IndexError, match="not in the model's vocabulary"):
        lm.extend([*[5] * 89, 4096])
    assert ended == [30, 30, 30], "all other parts have ended"
    lm.reset()
    assert torch.equal(lm.extend([5] * 90), expected)
    parallel._pool.cache_clear()


@pytest.mark.parametrize("token", [-1, 4096, 1 << 40])
def test_an_id_outside_the_vocabulary_raises(tmp_path, token):
    lm = CachedLM(load(tiny("llama", tmp_path / "m")))
    lm.extend([1, 2, 3])
    expected = lm.forward([4, 5])
    for ids in ([4, token], [token] * 90):
        with pytest.raises(IndexError, match="not in the model's vocabulary"):
            lm.forward(ids)
    assert torch.equal(lm.forward([4, 5]), expected)


def test_a_row_after_the_last_position_raises(tmp_path):
    lm = CachedLM(load(tiny("llama", tmp_path / "m", max_position_embeddings=32)))
    with pytest.raises(IndexError, match="last position"):
        lm.forward(list(range(64)))


def test_a_copied_cache_has_separate_buffers(tmp_path):
    lm = CachedLM(load(tiny("llama", tmp_path / "m")))
    lm.extend([1, 2, 3])
    keys = lm.cache.layers[0].keys
    before = keys.clone()
    lm.cache = copy.deepcopy(lm.cache)
    lm.forward([4, 5])
    assert torch.equal(keys, before)


def test_a_copied_cache_keeps_a_branch(tmp_path):
    lm = CachedLM(load(tiny("llama", tmp_path / "m")))
    lm.extend([1, 2, 3])
    expected = lm.fresh()
    expected.extend([1, 2, 3, 4, 6])
    lm.cache = copy.deepcopy(lm.cache)
    lm.forward([4, 5, 6], [-1, 0, 0])
    lm.keep([0, 2])
    assert all(map(torch.equal, lm.cache.columns(0, 5), expected.cache.columns(0, 5)))


def test_transformers_uses_our_passes_for_supported_arguments(tmp_path):
    folder = str(tiny("llama", tmp_path / "m"))
    ours = kernels.read(folder, torch.float32)
    compiled, theirs = ours.model, AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ids = torch.tensor([[5, 9, 2, 700, 31]])
    assert torch.equal(compiled(ids).logits[0], CachedLM(ours).forward(ids[0].tolist()))
    for arguments in (
        {"logits_to_keep": 2},
        {"logits_to_keep": torch.tensor([0, 3])},
        {"position_ids": torch.arange(5)[None]},
        {"position_ids": torch.tensor([[0, 1, 2, 9, 10]])},
        {"attention_mask": torch.tensor([[1, 1, 0, 1, 1]])},
    ):
        assert torch.allclose(compiled(ids, **arguments).logits, theirs(ids, **arguments).logits, atol=5e-5), arguments


def test_an_8_bit_product_is_close_to_the_exact_one():
    weight, x = torch.randn(100, 48), torch.randn(7, 48)
    exact, quantized = Product(weight), Product(weight, int8=True)
    assert torch.allclose(exact(x), x @ weight.t(), atol=1e-4)
    assert 0 < (quantized(x) - x @ weight.t()).abs().max() < 0.3
    assert exact.nbytes == 128 * 48 * 4, "full blocks of 64 outputs"
    assert quantized.nbytes == 128 * 48 + 2 * 128 * 4
    assert torch.equal(Product(torch.zeros(64, 16), int8=True)(x[:, :16]), torch.zeros(7, 64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_product_of_no_rows_is_empty(dtype):
    """A part of a long prompt computes no logits. Intel's matrix unit cannot be configured for zero rows."""
    product = Product(torch.randn(100, 48, dtype=dtype))
    assert product(torch.randn(0, 48, dtype=dtype)).shape == (0, 100)


def test_an_8_bit_product_has_the_same_bits_on_every_processor(unit):
    """Sums of integers are exact, in groups of two or of four."""
    draws = torch.Generator().manual_seed(3)
    for rows, size, out in ((1, 33, 64), (2, 40, 100), (5, 64, 65), (40, 47, 130)):
        x, weight = (torch.randn(n, size, generator=draws) for n in (rows, out))
        scale, row_scale = (t.abs().amax(1, keepdim=True) / 127 for t in (weight, x))
        quantized = (weight / scale).round().double()
        inputs = (x * (127 / x.abs().amax(1, keepdim=True)) + 128.5).int().double() - 128
        sums = (inputs @ quantized.t()).float()
        assert torch.equal(Product(weight, int8=True)(x), sums * (scale.t() * row_scale)), (rows, size, out)


def test_products_of_any_size_equal_torchs(unit):
    draws = torch.Generator().manual_seed(2)
    for rows, size, out in ((1, 32, 64), (3, 40, 65), (16, 96, 100), (17, 72, 128), (64, 33, 16)):
        x, weight = (torch.randn(n, size, generator=draws).bfloat16() for n in (rows, out))
        expected = x.float() @ weight.float().t()
        assert torch.allclose(Product(weight)(x).float(), expected, rtol=0.01, atol=0.02)
        assert (Product(weight, int8=True)(x).float() - expected).abs().max() < 0.05 * size**0.5


def test_torch_keeps_its_tile_configuration(models):
    """torch's kernels configure the matrix unit too, and rely on their configuration."""
    x, weight = torch.randn(70, 320).bfloat16(), torch.randn(960, 320).bfloat16()
    before = torch.nn.functional.linear(x, weight)
    lm = models.target.fresh()
    for _ in range(3):
        lm.extend([1, 2, 3])
        assert torch.equal(torch.nn.functional.linear(x, weight), before)


def test_the_bundled_drafters_predict_nearly_the_same_in_8_bits(models):
    """Compares short and long chains, and trees, after a text as in a race."""
    text = models.tokenizer.encode("Once upon a time there was a small frog who lived in a green pond. One day he")
    for name in ("draft", "offdomain", "self"):
        eight, full = models.draft(name), CachedLM(models.drafts[name].model, models.target.vocab)
        assert eight.eight_bits
        assert not full.eight_bits
        for lm in (eight, full):
            lm.extend(text)
        divergences = []
        for _ in range(20):
            token = int(full.forward([5])[0].argmax())
            divergences.append(kl_divergence(eight.extend([token]), full.extend([token])))
            parents = [-1, 0, 0, 1]
            divergences.append(
                kl_divergence(eight.forward([token, 7, 8, 9], parents), full.forward([token, 7, 8, 9], parents))
            )
        assert torch.cat(divergences).mean() < MAX_DIVERGENCE, name


def test_a_target_never_has_8_bit_weights(models):
    assert models.target.passes.batch_invariant
    for name in ("naive", "draft", "self"):
        lane = Lane(models, "Once upon a time", name, Settings())
        assert not lane._fresh_target().eight_bits
    assert models.drafts["draft"].eight_bits


def test_drafting_does_not_change_the_models_weights(tmp_path):
    model = load(tiny("llama", tmp_path / "m", layers=2))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    CachedLM(model, exact=False).extend([1, 2, 3])
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_modules_compute_unsupported_head_sizes(tmp_path):
    passes = CachedLM(load(tiny("llama", tmp_path / "m", head_dim=24))).passes
    assert type(passes) is modules.Modules
    assert passes.for_drafting() is passes
