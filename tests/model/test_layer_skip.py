"""The target cut short: the same tensors, the same numbers."""

import pytest
import torch
from conftest import tiny
from transformers import AutoModelForCausalLM

import lookahead
from lookahead import CachedLM, ModelError
from lookahead.model import layer_skip, modules

pytestmark = pytest.mark.models


@pytest.mark.parametrize("kind", ["llama", "qwen3", "gpt2"])
def test_the_first_layers_are_the_targets_own(tmp_path, kind):
    model = AutoModelForCausalLM.from_pretrained(tiny(kind, tmp_path / kind, layers=4)).eval()
    short = modules.first_layers(model, 2)
    ours, theirs = dict(short.named_parameters()), dict(model.named_parameters())
    assert ours
    assert all(value.data_ptr() == theirs[name].data_ptr() for name, value in ours.items()), "no copy"
    assert sum(p.numel() for p in short.parameters()) < sum(p.numel() for p in model.parameters())
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.inference_mode():
        layers = model(ids, output_hidden_states=True).hidden_states
        norm = model.transformer.ln_f if kind == "gpt2" else model.model.norm
        assert torch.allclose(short(ids).logits, model.lm_head(norm(layers[2])), atol=1e-5)


def test_sharing_survives_the_written_out_pass(models):
    """Both models' joined projections are the same memory."""
    target, short = models.target.passes, models.drafts["self"].passes
    for ours, theirs in zip(short.weights.layers, target.weights.layers, strict=False):
        assert ours.qkv.data_ptr() == theirs.qkv.data_ptr()
        assert ours.gate_up.data_ptr() == theirs.gate_up.data_ptr()


@pytest.mark.parametrize(("layers", "drafting"), [(1, 1), (6, 1), (16, 2)])
def test_an_eighth_of_the_layers_drafts(tmp_path, layers, drafting):
    model = AutoModelForCausalLM.from_pretrained(tiny("llama", tmp_path / "m", layers=layers)).eval()
    assert layer_skip.drafter(CachedLM(model, 4096)).passes.shape.layers == drafting


def test_an_architecture_that_cannot_be_cut_is_refused_by_name(models):
    import dataclasses

    without = dataclasses.replace(models, drafts={n: d for n, d in models.drafts.items() if n != "self"})
    with pytest.raises(ModelError, match="first layers of this architecture"):
        lookahead.decode(without, "Once", method="self")
