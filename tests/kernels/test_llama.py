"""Llama's passes, each one compiled call: transformers' numbers, a row's own bits in any company, eight bits for drafters."""

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

FAR = 0.01  # nats between the distributions of weights in 8 and in 16 bits; the bundled draft and its target are about 1 apart
DTYPES = (torch.float32, torch.bfloat16)
SHAPES = ({}, {"num_key_value_heads": 4}, {"tie_word_embeddings": True}, {"head_dim": 80, "intermediate_size": 72})


def load(folder, dtype=torch.bfloat16):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation=modules.ATTENTION).eval()


def apart(logits, others):
    """Kullback-Leibler divergences, in nats, row by row."""
    a, b = logits.float().log_softmax(-1), others.float().log_softmax(-1)
    return (a.exp() * (a - b)).sum(-1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("changes", SHAPES, ids=str)
def test_it_computes_what_transformers_modules_do(tmp_path, changes, dtype):
    folder = tiny("llama", tmp_path / "m", layers=3, **changes)
    ours, theirs = CachedLM(load(folder, dtype)), CachedLM(modules.Modules(load(folder, dtype)))
    assert type(ours.passes) is Llama
    near = {"rtol": 0, "atol": 5e-5 if dtype == torch.float32 else 0.2}
    draws = random.Random(3)
    for _ in range(12):
        parents = [-1, *(draws.randint(0, i) for i in range(5))]
        rows = [draws.randrange(4096) for _ in parents]
        assert torch.allclose(ours.forward(rows, parents), theirs.forward(rows, parents), **near)
        path = tree.ancestors(parents, 5)
        ours.keep(path)
        theirs.keep(path)
        assert torch.allclose(ours.extend(rows), theirs.extend(rows), **near)


@pytest.fixture(params=["the processor's own", "without a matrix unit", "by ordinary vectors"])
def unit(request, monkeypatch):
    """bfloat16 and bytes as this processor multiplies them best, and as others do."""
    if request.param != "the processor's own":
        monkeypatch.setattr(tiles, "available", lambda: False)
    if request.param == "by ordinary vectors":
        monkeypatch.setattr(product, "HAS_BF16_DOT", False)
        monkeypatch.setattr(product, "HAS_VNNI", False)


@pytest.mark.parametrize("small", [False, True], ids=["whole", "in 8 bits"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("changes", SHAPES[::3], ids=str)
def test_a_row_has_its_own_bits_in_any_company(tmp_path, unit, changes, dtype, small):
    """In chains of every length, in trees, and when a pass is continued."""
    lm = CachedLM(load(tiny("llama", tmp_path / "m", **changes), dtype), exact=not small)
    assert lm.passes.batch_invariant
    assert lm.eight_bits == small
    draws = random.Random(5)
    text = [draws.randrange(4096) for _ in range(150)]
    for behind in (0, 1, 63, 127):
        lm.reset()
        if behind:
            lm.extend(text[:behind])
        alone = torch.cat([lm.extend([token]).clone() for token in text[behind : behind + 20]])
        for n in (*range(1, 16), 20):
            lm.sync([*text[:behind], -1])
            assert torch.equal(lm.forward(text[behind : behind + n]), alone[:n]), (behind, n)
        for _ in range(8):
            parents = [-1, *(draws.randint(-1, i) for i in range(30))]
            path = tree.ancestors(parents, 30)[:20]
            rows = [draws.randrange(4096) for _ in parents]
            for row, token in zip(path, text[behind:], strict=False):
                rows[row] = token
            lm.sync([*text[:behind], -1])
            at_once = lm.forward(rows, parents)
            assert torch.equal(at_once[path], alone[: len(path)])
            lm.forward(rows[:17], parents[:17])
            assert torch.equal(lm.forward(rows, parents, first=17), at_once[17:])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_prompt_is_read_with_the_bits_of_single_steps(tmp_path, unit, dtype):
    """However it is cut: so the text does not depend on how a prompt was read."""
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
def test_a_prompt_is_read_on_all_cores_with_the_same_bits(tmp_path, monkeypatch, dtype, cores):
    """Keys, values, hidden states and logits; behind a text too, and as long as a part of it has more than a few tokens."""
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


def test_a_part_of_a_prompt_that_fails_leaves_nobody_waiting(tmp_path, monkeypatch):
    """Whichever it is: the others end, the error is told, and the next text is read as ever."""
    monkeypatch.setattr(parallel, "cores", lambda: 3)
    parallel._pool.cache_clear()
    lm, whole_pass, ended = CachedLM(load(tiny("llama", tmp_path / "m"))), llama.llama_pass.forward, []
    want = lm.extend([5] * 90).clone()

    def failing(kernels, sizes, weights, caches, rows, *arguments):
        if rows.ids[0] == 6:
            raise MemoryError("no room")
        try:
            return whole_pass(kernels, sizes, weights, caches, rows, *arguments)
        finally:
            ended.append(len(rows.ids))

    monkeypatch.setattr(llama.llama_pass, "forward", failing)
    for text in ([6, *[5] * 89], [*[5] * 30, 6, *[5] * 59], [*[5] * 60, 6, *[5] * 29]):
        lm.reset()
        ended.clear()
        with pytest.raises(MemoryError):
            lm.extend(text)
        assert ended == [30, 30], "nobody computes any more"
    ended.clear()
    with pytest.raises(IndexError, match="not in the model's vocabulary"):
        lm.extend([*[5] * 89, 4096])
    assert ended == [30, 30, 30], "nobody computes any more"
    lm.reset()
    assert torch.equal(lm.extend([5] * 90), want)
    parallel._pool.cache_clear()


@pytest.mark.parametrize("token", [-1, 4096, 1 << 40])
def test_an_id_that_is_no_token_is_refused(tmp_path, token):
    lm = CachedLM(load(tiny("llama", tmp_path / "m")))
    lm.extend([1, 2, 3])
    want = lm.forward([4, 5])
    for ids in ([4, token], [token] * 90):
        with pytest.raises(IndexError, match="not in the model's vocabulary"):
            lm.forward(ids)
    assert torch.equal(lm.forward([4, 5]), want)


def test_a_row_behind_the_last_position_is_refused(tmp_path):
    lm = CachedLM(load(tiny("llama", tmp_path / "m", max_position_embeddings=32)))
    with pytest.raises(IndexError, match="last position"):
        lm.forward(list(range(64)))


def test_a_copied_cache_has_buffers_of_its_own(tmp_path):
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
    want = lm.fresh()
    want.extend([1, 2, 3, 4, 6])
    lm.cache = copy.deepcopy(lm.cache)
    lm.forward([4, 5, 6], [-1, 0, 0])
    lm.keep([0, 2])
    assert all(map(torch.equal, lm.cache.columns(0, 5), want.cache.columns(0, 5)))


def test_transformers_gets_our_passes_where_they_are_what_it_asks_for(tmp_path):
    folder = str(tiny("llama", tmp_path / "m"))
    ours = kernels.read(folder, torch.float32)
    inside, theirs = ours.model, AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ids = torch.tensor([[5, 9, 2, 700, 31]])
    assert torch.equal(inside(ids).logits[0], CachedLM(ours).forward(ids[0].tolist()))
    for asked in (
        {"logits_to_keep": 2},
        {"logits_to_keep": torch.tensor([0, 3])},
        {"position_ids": torch.arange(5)[None]},
        {"position_ids": torch.tensor([[0, 1, 2, 9, 10]])},
        {"attention_mask": torch.tensor([[1, 1, 0, 1, 1]])},
    ):
        assert torch.allclose(inside(ids, **asked).logits, theirs(ids, **asked).logits, atol=5e-5), asked


def test_a_product_in_eight_bits_is_near_the_weights():
    weight, x = torch.randn(100, 48), torch.randn(7, 48)
    exact, small = Product(weight), Product(weight, int8=True)
    assert torch.allclose(exact(x), x @ weight.t(), atol=1e-4)
    assert 0 < (small(x) - x @ weight.t()).abs().max() < 0.3
    assert exact.nbytes == 128 * 48 * 4, "whole blocks of 64"
    assert small.nbytes == 128 * 48 + 2 * 128 * 4
    assert torch.equal(Product(torch.zeros(64, 16), int8=True)(x[:, :16]), torch.zeros(7, 64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_product_of_no_rows_is_empty(dtype):
    """A part of a long prompt computes no logits. Intel's matrix unit cannot be configured for zero rows."""
    product = Product(torch.randn(100, 48, dtype=dtype))
    assert product(torch.randn(0, 48, dtype=dtype)).shape == (0, 100)


def test_a_product_in_eight_bits_has_the_same_bits_everywhere(unit):
    """Whole numbers are added up, so whether by twos or by fours does not matter."""
    draws = torch.Generator().manual_seed(3)
    for rows, size, out in ((1, 33, 64), (2, 40, 100), (5, 64, 65), (40, 47, 130)):
        x, weight = (torch.randn(n, size, generator=draws) for n in (rows, out))
        scale, by = (t.abs().amax(1, keepdim=True) / 127 for t in (weight, x))
        whole = (weight / scale).round().double()
        inputs = (x * (127 / x.abs().amax(1, keepdim=True)) + 128.5).int().double() - 128
        sums = (inputs @ whole.t()).float()
        assert torch.equal(Product(weight, int8=True)(x), sums * (scale.t() * by)), (rows, size, out)


def test_a_product_of_any_size_is_torchs(unit):
    draws = torch.Generator().manual_seed(2)
    for rows, size, out in ((1, 32, 64), (3, 40, 65), (16, 96, 100), (17, 72, 128), (64, 33, 16)):
        x, weight = (torch.randn(n, size, generator=draws).bfloat16() for n in (rows, out))
        whole = x.float() @ weight.float().t()
        assert torch.allclose(Product(weight)(x).float(), whole, rtol=0.01, atol=0.02)
        assert (Product(weight, int8=True)(x).float() - whole).abs().max() < 0.05 * size**0.5


def test_torch_keeps_its_own_tiles(models):
    """Its kernels configure the matrix unit too, and rely on finding it as they left it."""
    x, weight = torch.randn(70, 320).bfloat16(), torch.randn(960, 320).bfloat16()
    before = torch.nn.functional.linear(x, weight)
    lm = models.target.fresh()
    for _ in range(3):
        lm.extend([1, 2, 3])
        assert torch.equal(torch.nn.functional.linear(x, weight), before)


def test_the_bundled_drafters_say_the_same_in_eight_bits(models):
    """Chains short and long, and trees, over text that the draft reads as it would in a race."""
    text = models.tokenizer.encode("Once upon a time there was a small frog who lived in a green pond. One day he")
    for name in ("draft", "offdomain", "self"):
        eight, full = models.draft(name), CachedLM(models.drafts[name].model, models.target.vocab)
        assert eight.eight_bits
        assert not full.eight_bits
        for lm in (eight, full):
            lm.extend(text)
        far = []
        for _ in range(20):
            token = int(full.forward([5])[0].argmax())
            far.append(apart(eight.extend([token]), full.extend([token])))
            parents = [-1, 0, 0, 1]
            far.append(apart(eight.forward([token, 7, 8, 9], parents), full.forward([token, 7, 8, 9], parents)))
        assert torch.cat(far).mean() < FAR, name


def test_a_target_is_never_rounded_otherwise(models):
    assert models.target.passes.batch_invariant
    for name in ("naive", "draft", "self"):
        lane = Lane(models, "Once upon a time", name, Settings())
        assert not lane._fresh_target().eight_bits
    assert models.drafts["draft"].eight_bits


def test_drafting_leaves_the_models_own_weights_alone(tmp_path):
    model = load(tiny("llama", tmp_path / "m", layers=2))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    CachedLM(model, exact=False).extend([1, 2, 3])
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_heads_of_another_size_are_left_to_the_modules(tmp_path):
    passes = CachedLM(load(tiny("llama", tmp_path / "m", head_dim=24))).passes
    assert type(passes) is modules.Modules
    assert passes.for_drafting() is passes
