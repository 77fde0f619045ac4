"""CachedLM over real transformers models: trees, paths, rewinding, and what it refuses."""

import random
from itertools import pairwise

import pytest
import torch
from conftest import tiny
from transformers import AutoModelForCausalLM

from lookahead import attention, cost, tree
from lookahead.events import ModelError
from lookahead.lm import CachedLM

FAMILIES = ["llama", "mistral", "qwen2", "qwen3", "gemma", "gpt2"]


def load(folder, dtype=torch.float32, how=attention.BY_BRANCH):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation=how).eval()


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("tiny")
    return {kind: tiny(kind, root / kind) for kind in FAMILIES}


def text(n, seed=0):
    draws = random.Random(seed)
    return [draws.randrange(4096) for _ in range(n)]


@torch.inference_mode()
def reference(model, tokens):
    """Logits of every position from one plain pass without a cache."""
    return model(input_ids=torch.tensor([tokens])).logits[0]


@pytest.mark.parametrize("how", [attention.BY_BRANCH, "eager", "sdpa"])
@pytest.mark.parametrize("kind", FAMILIES)
def test_trees_over_a_cache_give_what_each_path_gives_alone(folders, kind, how):
    plain, lm = load(folders[kind], how="eager"), CachedLM(load(folders[kind], how=how))
    draws, context = random.Random(1), text(140)
    lm.extend(context)  # past one block of keys
    for _ in range(4):
        parents = [draws.randint(-1, i - 1) for i in range(9)]
        rows = text(9, draws.random())
        logits = lm.forward(rows, parents)
        for i in range(9):
            path = [rows[j] for j in tree.ancestors(parents, i)]
            assert torch.allclose(logits[i], reference(plain, context + path)[-1], atol=2e-3, rtol=1e-3)
        path = tree.ancestors(parents, draws.randrange(9))
        lm.keep(path)
        context += [rows[j] for j in path]
        assert lm.tokens == context
        assert lm.cached() == len(context)
        after = lm.forward([7])[-1]
        assert torch.allclose(after, reference(plain, [*context, 7])[-1], atol=2e-3, rtol=1e-3)
        lm.keep([])


@pytest.mark.parametrize("kind", FAMILIES)
def test_sync_rewinds_to_the_common_prefix(folders, kind):
    lm, plain = CachedLM(load(folders[kind])), load(folders[kind], how="eager")
    first = text(30)
    lm.extend(first)
    second = first[:20] + text(12, seed=5)
    feed = lm.sync(second)
    assert feed == second[20:]
    assert torch.allclose(lm.extend(feed)[0], reference(plain, second)[-1], atol=2e-3, rtol=1e-3)
    assert lm.sync(second) == second[-1:], "the last token is always left to feed"


@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_a_pass_that_breaks_off_half_way_leaves_nothing_behind(folders, kind, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    lm = CachedLM(load(folders[kind]))
    lm.extend(text(20))
    want = lm.forward([5, 6])
    lm.keep([])
    with monkeypatch.context() as patch:
        patch.setattr(lm.cache.layers[1], "update", interrupted)
        with pytest.raises(KeyboardInterrupt):
            lm.forward(text(120, seed=2))  # layer 0 has grown its buffers, layer 1 has not
    assert torch.equal(lm.forward([5, 6]), want)


def test_rows_are_bit_exact_where_the_probe_says_so(models):
    """The probe's claim, checked on other text than its own and across key blocks."""
    if models.exactness != cost.BIT_EXACT:
        pytest.skip("this machine is not bit-exact; test_exactness.py covers it")
    draws, tokens = random.Random(7), text(300, seed=7)
    one, many = CachedLM(models.target.model), CachedLM(models.target.model)
    alone = [one.extend([token])[0] for token in tokens]
    while len(many.tokens) < len(tokens) - 6:
        at = len(many.tokens)
        parents = [-1, *(draws.randint(0, i - 1) for i in range(1, draws.randint(2, 16)))]
        rows = [draws.randrange(4096) for _ in parents]
        below, node = tree.children(parents), 0
        while below[node + 1] and len(tree.ancestors(parents, node)) < 5:
            node = draws.choice(below[node + 1])
        path = tree.ancestors(parents, node)
        for i, row in enumerate(path):
            rows[row] = tokens[at + i]
        logits = many.forward(rows, parents)
        assert all(torch.equal(logits[row], alone[at + i]) for i, row in enumerate(path))
        many.keep(path)


def test_generate_still_works_on_the_model_inside(models):
    """Other callers' masks: left-padded batches give what single prompts give."""
    tok, model = models.tokenizer, models.target.model
    prompts = [tok("Once upon a time")["input_ids"], tok("Tom had a red kite and")["input_ids"]]
    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
    both = model.generate(ids, attention_mask=mask, max_new_tokens=12, do_sample=False)[:, width:].tolist()
    for prompt, out in zip(prompts, both, strict=True):
        alone = model.generate(torch.tensor([prompt]), max_new_tokens=12, do_sample=False)[0, len(prompt) :].tolist()
        assert out[:6] == alone[:6], "padding may round differently later on, not mask wrongly at once"


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_tree_that_grows_is_the_tree_read_at_once(folders, kind):
    grown, whole = CachedLM(load(folders[kind])), CachedLM(load(folders[kind]))
    draws, context = random.Random(4), text(63)
    grown.extend(context)
    whole.extend(context)
    for _ in range(5):
        parents = [-1, *(draws.randint(-1, i) for i in range(8))]
        rows, bounds = text(9, draws.random()), sorted(draws.sample(range(1, 9), 3))
        at_once = whole.forward(rows, parents)
        parts = [
            grown.forward(rows[:stop], parents[:stop], first=start) for start, stop in pairwise([0, *bounds, len(rows)])
        ]
        assert torch.allclose(torch.cat(parts), at_once, atol=1e-4)
        path = tree.ancestors(parents, draws.randrange(9))
        grown.keep(path)
        whole.keep(path)
        assert torch.allclose(grown.extend([7]), whole.extend([7]), atol=1e-4)


@pytest.mark.parametrize("kind", ["mistral-sliding", "mamba"])
def test_caches_that_cannot_be_rolled_back_are_refused(tmp_path, kind):
    model = AutoModelForCausalLM.from_pretrained(tiny(kind, tmp_path / kind))
    with pytest.raises(ModelError, match="cannot be rolled back"):
        CachedLM(model)


@pytest.mark.parametrize(
    "changes", [{}, {"num_key_value_heads": 4}, {"tie_word_embeddings": True}, {"head_dim": 32}], ids=str
)
def test_the_written_out_llama_is_the_models_own_forward(tmp_path, changes, models):
    folder = tiny("llama", tmp_path / "m", layers=3, **changes)
    for dtype in (torch.float32, torch.bfloat16):
        written, modules = CachedLM(load(folder, dtype)), CachedLM(load(folder, dtype))
        assert written._fused
        modules._fused = None
        same = torch.equal if dtype == torch.bfloat16 and models.exactness == cost.BIT_EXACT else torch.allclose
        draws = random.Random(3)
        for _ in range(12):
            parents = [-1, *(draws.randint(0, i) for i in range(5))]
            rows = [draws.randrange(4096) for _ in parents]
            assert same(written.forward(rows, parents), modules.forward(rows, parents))
            path = tree.ancestors(parents, 5)
            written.keep(path)
            modules.keep(path)
            assert same(written.extend(rows), modules.extend(rows))
        plain = load(folder, dtype, how="eager")
        assert torch.equal(
            plain.model.layers[0].self_attn.k_proj.weight, written.model.model.layers[0].self_attn.k_proj.weight
        )


def test_other_models_are_left_to_transformers(tmp_path):
    for kind in ("qwen2", "mistral", "gpt2"):
        assert CachedLM(load(tiny(kind, tmp_path / kind)))._fused is None
    assert CachedLM(load(tiny("llama", tmp_path / "biased", attention_bias=True)))._fused is None


@pytest.mark.parametrize("kind", ["qwen3", "gpt2"])
def test_a_model_that_is_spread_over_devices_gives_the_same(folders, kind):
    """accelerate's hooks move what a layer is given; here all devices are one, the way through the hooks is the same."""
    from accelerate import dispatch_model

    plain, model = load(folders[kind]), load(folders[kind])
    names = [
        name
        for name, child in model.named_modules()
        if not list(child.children()) or "layers." in name or ".h." in name
    ]
    spread = dispatch_model(model, dict.fromkeys(names, "cpu"), main_device="cpu", force_hooks=True)
    tokens, parents = text(9), [-1, 0, 0, 2, 1, 4, 2, 0, 7]
    logits = []
    for lm in (CachedLM(plain), CachedLM(spread)):
        lm.extend(tokens)
        rows = lm.forward(text(9, seed=1), parents)
        lm.keep([0, 2, 6])
        logits += [(rows, lm.extend([5]))]
    assert all(torch.equal(a, b) for a, b in zip(*logits, strict=True))


def test_a_layout_follows_its_layer_to_another_device():
    tree = attention.layout(4, [-1, 0, 0, 1], 5, 128, torch.device("cpu"))
    assert tree.to("cpu") is tree
    there = tree.to(torch.device("meta"), non_blocking=True)
    assert {t.device.type for t in (there.later, there.ancestors, there.pairs, there.spread)} == {"meta"}
    assert (there.past, there.pairs_at) == (tree.past, tree.pairs_at)
    assert attention.layout(4, None, 5, 128, torch.device("cpu")).to("meta").ancestors is None
