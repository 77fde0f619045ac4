"""NaN or infinite logits: one clear error at the first such pass, with every method and rule."""

import pytest
import torch
from conftest import sampling, table_steps, tiny
from safetensors.torch import load_file, save_file

import lookahead
from lookahead import ModelError, Settings
from lookahead.core.table import TableLM

pytestmark = pytest.mark.models

RULES = {
    "greedy": Settings(max_new_tokens=30),
    "coupled": sampling(max_new_tokens=30),
    "rejection": sampling(max_new_tokens=30, rule="rejection"),
}


class Damaged(TableLM):
    """A model with one logit of `value` from the tenth token on."""

    def __init__(self, value):
        super().__init__(50, seed=1)
        self.value = value

    def fresh(self):
        return Damaged(self.value)

    def logits_after(self, sequence):
        logits = super().logits_after(sequence).clone()
        if len(sequence) >= 10:
            logits[7] = self.value
        return logits


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("method", ["naive", "draft", "ngram", "suffix", "lookahead", "hybrid"])
def test_a_damaged_target_is_reported(method, rule, value):
    with pytest.raises(ModelError, match="a logit of the target is nan: no token can be chosen"):
        table_steps(method, RULES[rule], target=Damaged(value), draft=TableLM(50, seed=1))


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("method", ["draft", "tree"])
def test_a_damaged_draft_model_is_reported(method, rule, value):
    with pytest.raises(ModelError, match="a logit of the draft model is nan: no token can be chosen"):
        table_steps(method, RULES[rule], target=TableLM(50, seed=1), draft=Damaged(value))


@pytest.mark.parametrize("value", [torch.nan, torch.inf, 1e38])
@pytest.mark.parametrize("tensor", ["model.norm.weight", "model.layers.1.mlp.down_proj.weight"])
def test_a_file_with_such_weights_is_reported_at_its_first_pass(tmp_path, value, tensor):
    folder = tiny("llama", tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    weights[tensor] = torch.full_like(weights[tensor], value)
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    models = lookahead.load(folder)
    for method in ("naive", "ngram", "hf-generate"):
        with pytest.raises(ModelError, match="a logit of the target is nan: no token can be chosen"):
            list(lookahead.decode(models, "Once upon a time", method, max_new_tokens=8))
