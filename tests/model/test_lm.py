"""CachedLM with transformers models: trees, paths, rewinding, and refused architectures."""

import json
import random
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from conftest import tiny
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from lookahead import kernels
from lookahead.core import tree
from lookahead.model import llama_config, modules
from lookahead.model.lm import CachedLM

pytestmark = pytest.mark.models

FAMILIES = ["llama", "mistral", "qwen2", "qwen3", "gemma", "gpt2"]


def load(folder, dtype=torch.float32, how=modules.ATTENTION):
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
    """Return the logits of every position from one pass without a cache."""
    return model(input_ids=torch.tensor([tokens])).logits[0]


@pytest.mark.parametrize("how", [modules.ATTENTION, "eager", "sdpa"])
@pytest.mark.parametrize("kind", FAMILIES)
def test_every_path_of_a_tree_has_the_logits_of_a_separate_text(folders, kind, how):
    plain, lm = load(folders[kind], how="eager"), CachedLM(load(folders[kind], how=how))
    draws, context = random.Random(1), text(140)
    lm.extend(context)  # more than one block of keys
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


def test_models_that_do_not_batch_compute_one_text_after_the_other(folders):
    lms = CachedLM(load(folders["qwen3"])), CachedLM(load(folders["qwen3"]))
    rows = [([7, 8, 9], [-1, 0, 0]), ([5, 6], [-1, 0])]
    alone = []
    for lm, context, (tokens, parents) in zip(lms, (text(20), text(33, 1)), rows, strict=True):
        lm.extend(context)
        alone.append(lm.forward(tokens, parents))
        lm.keep([])
    parts = [lm._part(tokens, parents)[0] for lm, (tokens, parents) in zip(lms, rows, strict=True)]
    for logits, expected in zip(lms[0].passes.forward_batch(parts), alone, strict=True):
        assert torch.equal(logits[:, : lms[0].vocab].float(), expected)


@pytest.mark.parametrize("kind", FAMILIES)
def test_sync_rewinds_to_the_common_prefix(folders, kind):
    lm, plain = CachedLM(load(folders[kind])), load(folders[kind], how="eager")
    first = text(30)
    lm.extend(first)
    second = first[:20] + text(12, seed=5)
    unread = lm.sync(second)
    assert unread == second[20:]
    assert torch.allclose(lm.extend(unread)[0], reference(plain, second)[-1], atol=2e-3, rtol=1e-3)
    assert lm.sync(second) == second[-1:], "the last token is always returned"


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_cache_is_copied(folders, kind):
    """Later logits are equal in every bit, the buffers are separate, and hidden states are copied."""
    lm = CachedLM(load(folders[kind]))
    lm.taps = (1, 2)
    lm.reset()
    read = text(140)
    lm.extend(read)
    other = lm.fresh()
    for taps in ((), (1, 2)):
        other.taps = taps
        assert other.can_copy_from(lm)
        other.copy_from(lm)
        assert other.tokens == read and other.cached() == len(read)
        assert not taps or torch.equal(other.states(0), lm.states(0))
        logits = other.forward([7, 8, 9])
        other.keep([0, 1])
        assert torch.equal(logits, lm.forward([7, 8, 9]))
        assert lm.tokens == read
        lm.keep([])
    other.taps = (1,)
    assert not other.can_copy_from(lm), "other hidden states"
    assert not CachedLM(load(folders[kind])).can_copy_from(lm), "another model"
    empty = lm.fresh()
    other.copy_from(empty)
    assert other.tokens == [] and other.cached() == 0


@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_an_interrupted_pass_does_not_change_the_cache(folders, kind, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    lm = CachedLM(load(folders[kind]))
    lm.extend(text(20))
    want = lm.forward([5, 6])
    lm.keep([])
    with monkeypatch.context() as patch:
        patch.setattr(lm.cache.layers[1], "move", interrupted)
        with pytest.raises(KeyboardInterrupt):
            lm.forward(text(120, seed=2))  # layer 0 has grown its buffers, layer 1 has not
    assert torch.equal(lm.forward([5, 6]), want)


def test_generate_works_on_the_inner_model(models):
    """A left-padded batch gives the same texts as single prompts, because the caller's mask is applied."""
    tok, model = models.tokenizer, models.target.model
    prompts = [tok("Once upon a time")["input_ids"], tok("Tom had a red kite and")["input_ids"]]
    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
    both = model.generate(ids, attention_mask=mask, max_new_tokens=12, do_sample=False)[:, width:].tolist()
    for prompt, out in zip(prompts, both, strict=True):
        alone = model.generate(torch.tensor([prompt]), max_new_tokens=12, do_sample=False)[0, len(prompt) :].tolist()
        assert out[:6] == alone[:6], "padding may change the rounding of later tokens, but not the first tokens"


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_tree_in_several_passes_equals_a_tree_in_one_pass(folders, kind):
    grown, full = CachedLM(load(folders[kind])), CachedLM(load(folders[kind]))
    draws, context = random.Random(4), text(63)
    grown.extend(context)
    full.extend(context)
    for _ in range(5):
        parents = [-1, *(draws.randint(-1, i) for i in range(8))]
        rows, bounds = text(9, draws.random()), sorted(draws.sample(range(1, 9), 3))
        at_once = full.forward(rows, parents)
        parts = [
            grown.forward(rows[:stop], parents[:stop], first=start) for start, stop in pairwise([0, *bounds, len(rows)])
        ]
        assert torch.allclose(torch.cat(parts), at_once, atol=1e-4)
        path = tree.ancestors(parents, draws.randrange(9))
        grown.keep(path)
        full.keep(path)
        assert torch.allclose(grown.extend([7]), full.extend([7]), atol=1e-4)


def test_other_models_are_left_to_transformers(tmp_path):
    for kind in ("gemma", "gpt2"):
        folder = tiny(kind, tmp_path / kind)
        assert type(CachedLM(load(folder)).passes) is modules.Modules
        assert kernels.read(folder, torch.float32) is None


@pytest.mark.parametrize("changes", [{}, {"tie_word_embeddings": True}, {"head_dim": 32}], ids=str)
def test_a_plain_llama_has_the_same_logits_as_with_transformers(tmp_path, changes):
    """Every bit of the logits is equal, and `model` is a transformers model with the same tensors."""
    folder = tiny("llama", tmp_path / "m", layers=3, **changes)
    for dtype in (torch.float32, torch.bfloat16):
        ours, theirs = CachedLM(kernels.read(folder, dtype)), CachedLM(load(folder, dtype))
        ours.extend(text(70))
        theirs.extend(text(70))
        rows, parents = text(6, seed=1), [-1, 0, 0, 1, 2, 3]
        assert torch.equal(ours.forward(rows, parents), theirs.forward(rows, parents))
        assert ours.passes.size == theirs.passes.size == llama_config.parameters(llama_config.plain(folder))
        for lm in (ours, CachedLM(ours.passes.first(2), exact=False)):
            inside = lm.model
            assert inside.config.num_hidden_layers == lm.passes.shape.layers
            assert inside.model.layers[0].mlp.up_proj.weight.data_ptr() > 0
            storages = {w.untyped_storage().data_ptr() for w in ours.passes.parameters()}
            assert all(w.untyped_storage().data_ptr() in storages for w in inside.parameters()), "no copy"
        tokens = torch.tensor([text(9)])
        ours.reset()
        with torch.inference_mode():
            assert torch.equal(ours.model(tokens).logits[0], ours.forward(tokens[0].tolist())), (
                "the inner model does not use our passes"
            )
            assert torch.allclose(ours.model(tokens).logits, theirs.model(tokens).logits, atol=0.2)


@pytest.mark.parametrize("spoil", ["missing tensor", "other size", "no weights", "scaled rotation", "unknown field"])
def test_a_model_that_is_not_a_plain_llama_is_left_to_transformers(tmp_path, spoil):
    folder = Path(tiny("llama", tmp_path / "m"))
    config = json.loads((folder / "config.json").read_text())
    weights = load_file(folder / "model.safetensors")
    if spoil == "missing tensor":
        weights.pop("model.layers.1.mlp.up_proj.weight")
    if spoil == "other size":
        weights["model.norm.weight"] = torch.ones(65)
    if spoil == "scaled rotation":
        config["rope_parameters"] |= {"rope_type": "linear", "factor": 2.0}
    if spoil == "unknown field":
        config["residual_multiplier"] = 0.5
    (folder / "config.json").write_text(json.dumps(config))
    save_file(weights, folder / "model.safetensors")
    if spoil == "no weights":
        (folder / "model.safetensors").unlink()
    assert kernels.read(str(folder), torch.float32) is None


@pytest.mark.parametrize("kind", ["qwen3", "gpt2"])
def test_a_model_spread_over_devices_gives_the_same_logits(folders, kind):
    """accelerate's hooks move the inputs of layers between devices. Here all layers have the same device and the same hooks."""
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
