"""Compiled passes of models that differ little from a Llama: biases, norms of heads, factors, windows, layers without positions."""

import copy
import random

import pytest
import torch
from conftest import tiny
from transformers import AutoModelForCausalLM
from transformers.models.qwen2 import modeling_qwen2

from lookahead import kernels
from lookahead.core import parallel, tree
from lookahead.family import exactness
from lookahead.kernels.llama import Llama
from lookahead.model import modules
from lookahead.model.lm import CachedLM

pytestmark = pytest.mark.models

LAYERS = 3
ROPE = {"rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 64}
CASES = {
    "llama with biases": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "llama with yarn": ("llama", {"rope_parameters": {**ROPE, "rope_type": "yarn"}}),
    "mistral": ("mistral", {}),
    "mistral with a window": ("mistral", {"sliding_window": 8}),
    "ministral": ("ministral", {"sliding_window": 8}),
    "qwen2": ("qwen2", {}),
    "qwen2 with windows": ("qwen2", {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}),
    "qwen3": ("qwen3", {}),
    "granite": ("granite", {
        "embedding_multiplier": 12.0, "attention_multiplier": 0.1, "residual_multiplier": 0.22, "logits_scaling": 6.0,
    }),
    "smollm3": ("smollm3", {"no_rope_layers": [1, 0, 1]}),
    "cwm": ("cwm", {
        "sliding_window": 8, "layer_types": ["full_attention", "sliding_attention", "full_attention"],
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
    }),
    "seed_oss": ("seed_oss", {}),
}  # fmt: skip
DTYPES = (torch.float32, torch.bfloat16)


@pytest.fixture(scope="module", params=CASES)
def folder(request, tmp_path_factory):
    kind, changes = CASES[request.param]
    return tiny(kind, tmp_path_factory.mktemp("models") / "m", layers=LAYERS, **changes)


def load(folder, dtype=torch.float32):
    """Return a model whose biases and norms differ from the initial zeros and ones."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation=modules.ATTENTION).eval()
    draws = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter += 0.2 * torch.randn(parameter.shape, generator=draws).to(dtype)
    return model


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_passes_equal_transformers_modules(folder, dtype):
    """Chains and trees, until the text is longer than a window. `first` cuts off the last layers."""
    for layers in (LAYERS, LAYERS - 1):
        ours = CachedLM(kernels.of_model(load(folder, dtype)).first(layers))
        theirs = CachedLM(modules.Modules(load(folder, dtype)).first(layers))
        assert ours.passes.rollback == theirs.passes.rollback
        draws = random.Random(3)
        for _ in range(6):
            parents = [-1, *(draws.randint(0, i) for i in range(5))]
            rows = [draws.randrange(4096) for _ in parents]
            for passes in ((rows,), (rows, parents)):
                compiled, expected = (lm.forward(*passes).float() for lm in (ours, theirs))
                tolerance = (1e-5 if dtype == torch.float32 else 0.03) * float(expected.abs().max())
                torch.testing.assert_close(compiled, expected, rtol=0, atol=tolerance)
            path = tree.ancestors(parents, 5)
            for lm in (ours, theirs):
                lm.keep(path)


@pytest.mark.parametrize("int8", [False, True], ids=["full precision", "in 8 bits"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_of_large_trees_and_chains_have_the_bits_of_single_rows(folder, dtype, int8):
    """Passes have 64 rows; the deepest branch is longer than a window."""
    lm = CachedLM(kernels.of_model(load(folder, dtype)), exact=not int8)
    assert lm.eight_bits == int8
    probed = exactness.probe(lm, budget_s=0.1)
    assert probed.kind == "bit-exact" and probed.compared


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_pipelined_prefill_has_the_bits_of_single_steps(folder, monkeypatch, dtype):
    monkeypatch.setattr(parallel, "cores", lambda: 3)
    parallel._pool.cache_clear()
    lm, draws = CachedLM(load(folder, dtype)), random.Random(7)
    text = [draws.randrange(4096) for _ in range(150)]
    alone = [lm.extend([token]).clone() for token in text]
    lm.reset()
    assert torch.equal(lm.extend(text), alone[-1])
    parallel._pool.cache_clear()


def test_weights_are_shared_with_the_model(folder):
    """The joined weights replace those of the model, which computes as before and can be converted to 8 bits."""
    model = load(folder)
    ids, before = torch.tensor([[5, 9, 2, 700, 31]]), copy.deepcopy(model)
    passes = kernels.of_model(model)
    storages = {weight.untyped_storage().data_ptr() for weight in passes.parameters()}
    assert {weight.untyped_storage().data_ptr() for weight in model.parameters()} == storages
    assert torch.equal(model(ids).logits, before(ids).logits)
    assert passes.size == before.num_parameters()
    converted = CachedLM(passes.converted(torch.bfloat16)).forward(ids[0].tolist()).float()
    expected = before(ids).logits[0]
    assert (converted - expected).abs().max() < 0.03 * expected.abs().max()


def test_the_configuration_tells_before_loading_that_passes_are_compiled(folder):
    """The default number format depends on it."""
    assert kernels.compiles(folder)


@pytest.mark.parametrize("changes", [
    {"hidden_act": "gelu"}, {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}}, {"head_dim": 24},
], ids=str)  # fmt: skip
def test_modules_compute_other_activations_positions_and_sizes(tmp_path, changes):
    folder = tiny("llama", tmp_path / "m", **changes)
    assert not kernels.compiles(folder)
    assert kernels.of_model(load(folder)) is None


def test_modules_compute_a_model_with_further_weights(tmp_path):
    model = load(tiny("qwen2", tmp_path / "m"))
    model.model.layers[1].mlp.down_proj.gain = torch.nn.Parameter(torch.ones(1))
    assert kernels.of_model(model) is None


def test_modules_compute_a_model_whose_weights_are_not_those_of_a_llama(tmp_path):
    """Quantized layers have other tensors."""
    model = load(tiny("qwen2", tmp_path / "m"))
    projection = model.model.layers[1].mlp.down_proj
    projection.register_buffer("packed", projection.weight.data)
    del projection.weight
    assert kernels.of_model(model) is None


@pytest.mark.parametrize("part", ["Qwen2RMSNorm", "Qwen2MLP", "Qwen2Attention"])
def test_modules_compute_a_model_whose_modules_compute_something_else(tmp_path, monkeypatch, part):
    """A newer version of transformers may use a field that compiled passes ignore."""
    model, module = load(tiny("qwen2", tmp_path / "m")), getattr(modeling_qwen2, part)
    assert type(kernels.of_model(model)) is Llama
    forward = module.forward

    def doubled(self, *arguments, **options):
        result = forward(self, *arguments, **options)
        return (2 * result[0], *result[1:]) if isinstance(result, tuple) else 2 * result

    monkeypatch.setattr(module, "forward", doubled)
    assert kernels.of_model(model) is None
