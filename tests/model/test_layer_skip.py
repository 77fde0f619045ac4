"""The target cut short: the same tensors, the same numbers, and a depth chosen by measurement."""

import pytest
import torch
from conftest import tiny
from transformers import AutoModelForCausalLM

import lookahead
from lookahead import CachedLM, ModelError
from lookahead.calibration import depth
from lookahead.core.costs import CostCurve
from lookahead.model import modules


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


def test_the_depth_that_pays_most_is_chosen(tmp_path):
    """From the third on the layers add nothing: two of six are enough, and the cheapest that agree."""
    model = AutoModelForCausalLM.from_pretrained(tiny("llama", tmp_path / "m", layers=6)).eval()
    with torch.no_grad():
        for layer in model.model.layers[2:]:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
    costs = CostCurve((1, 17), (1.0, 1.4))
    chosen = depth.choose(CachedLM(model, 4096), costs, list(range(60)))
    assert chosen.passes.shape.layers == 2, "one layer disagrees, two agree always, three cost more"


def test_an_architecture_that_cannot_be_cut_is_refused_by_name(models):
    import dataclasses

    without = dataclasses.replace(models, drafts={n: d for n, d in models.drafts.items() if n != "self"})
    with pytest.raises(ModelError, match="first layers of this architecture"):
        lookahead.decode(without, "Once", method="self")
