"""MTP modules in a target's own checkpoint, in the names of four model families: drafts, logits and incomplete modules."""

import json
import random
from typing import NamedTuple

import pytest
import torch
from conftest import HYBRID, emitted, tiny
from safetensors.torch import load_file, save_file

import lookahead
from lookahead.core.events import ModelError

pytestmark = pytest.mark.models

LAYERS, HIDDEN, VOCAB = 2, 64, 4096
COMPRESSED = {
    "q_lora_rank": 32, "kv_lora_rank": 32, "qk_rope_head_dim": 16, "qk_nope_head_dim": 16, "v_head_dim": 16,
    "num_key_value_heads": 4,
}  # fmt: skip
EXPERTS = {
    "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "n_shared_experts": 1,
    "moe_intermediate_size": 32, "first_k_dense_replace": 1,
}  # fmt: skip
HALF = HYBRID | {"layer_types": ["linear_attention", "full_attention", "full_attention"]}


class Format(NamedTuple):
    """An architecture, and the names of a module: before its layer, before its norms, and of norms and projection."""

    kind: str
    changes: dict
    layer: str
    outer: str
    embedding_norm: str
    state_norm: str
    projection: str
    last_norm: str
    state_first: bool = False
    renamed: dict | None = None  # fields of a configuration that transformers does not have


FURTHER = "model.layers.2."
DEEPSEEK = FURTHER, FURTHER, "enorm", "hnorm", "eh_proj", "shared_head.norm"
QWEN = "mtp.layers.0.", "mtp.", "pre_fc_norm_embedding", "pre_fc_norm_hidden", "fc", "norm"
MIMO = *["model.mtp_layers.0."] * 2, "token_layernorm", "hidden_layernorm", "input_proj", "final_layernorm"
REMOTE = {"AutoConfig": "configuration_mimo.MiMoConfig", "AutoModelForCausalLM": "modeling_mimo.MiMoForCausalLM"}
AS_MIMO = {"model_type": "mimo", "architectures": ["MiMoForCausalLM"], "auto_map": REMOTE}
FORMATS = {
    "deepseek": Format("deepseek_v3", COMPRESSED | EXPERTS, *DEEPSEEK),
    "glm": Format("glm4_moe", EXPERTS, *DEEPSEEK),
    "mimo": Format("qwen2", {}, *MIMO, True, AS_MIMO),
    "qwen": Format("qwen3_5_text", HALF, *QWEN),
}


def whole(form, folder):
    """Write a tiny checkpoint whose module has the weights of a further layer; return a model with this layer, and the rest."""
    from transformers import AutoModelForCausalLM

    tiny(form.kind, folder, layers=LAYERS + 1, **form.changes)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    names = form.embedding_norm, form.state_norm, form.projection, form.last_norm
    sizes = HIDDEN, HIDDEN, (HIDDEN, 2 * HIDDEN), HIDDEN
    torch.manual_seed(3)
    extra = [0.3 * torch.randn(size) for size in sizes]
    stored = {
        (form.layer + name.removeprefix(FURTHER) if name.startswith(FURTHER) else name): tensor
        for name, tensor in load_file(folder / "model.safetensors").items()
    }
    stored |= {f"{form.outer}{name}.weight": tensor for name, tensor in zip(names, extra, strict=True)}
    save_file(stored, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config |= {"num_hidden_layers": LAYERS, "dtype": "float32", **(form.renamed or {})}
    for types in {"layer_types", "mlp_layer_types"} & config.keys():
        config[types] = config[types][:LAYERS]
    (folder / "config.json").write_text(json.dumps(config))
    return model, extra


@pytest.fixture(scope="module", params=FORMATS)
def case(request, tmp_path_factory):
    """A format, the loaded family, the model with a further layer, and the module's other tensors."""
    form, folder = FORMATS[request.param], tmp_path_factory.mktemp("own") / request.param
    model, extra = whole(form, folder)
    return form, lookahead.load(str(folder), dtype="float32"), model, extra


def text(n):
    draws = random.Random(n)
    return [draws.randrange(1, VOCAB) for _ in range(n)]


@torch.no_grad()
def reference(form, target, model, extra, context, drafted):
    """Return the module's logits after a text and after each drafted token, without a cache."""
    body = target.model.model(torch.tensor([context[:-1]]))
    features, rows, out = body.last_hidden_state[0], context[1:], []
    layer, rotary, head = model.model.layers[LAYERS], model.model.rotary_emb, model.lm_head
    norms = []
    for weight in (extra[0], extra[1], extra[3]):
        norm = type(layer.input_layernorm)(HIDDEN, eps=model.config.rms_norm_eps)
        norm.weight.data.copy_(weight)
        norms.append(norm)
    for token in (*drafted, None):
        n = len(rows)
        embedded = norms[0](model.model.embed_tokens(torch.tensor(rows)))
        pair = [embedded, norms[1](features)]
        x = (torch.cat(pair[:: -1 if form.state_first else 1], -1) @ extra[2].T)[None]
        mask = torch.full((n, n), torch.finfo(x.dtype).min).triu(1)[None, None]
        x = layer(x, attention_mask=mask, position_embeddings=rotary(x, torch.arange(n)[None]), position_ids=None)
        feature = norms[2](x[0, -1:])
        out.append(head(feature)[0])
        features, rows = torch.cat([features, feature]), [*rows, token]
    return out


def test_logits_equal_those_of_the_layer_without_a_cache(case):
    form, models, model, extra = case
    context, drafted = text(12), text(3)
    target, drafter = models.target.fresh(), models.draft("mtp")
    drafter.follow(target)
    target.reset()
    target.extend(context[:-1])
    expected = reference(form, target, model, extra, context, drafted)
    logits = drafter.extend(drafter.sync(context[:7]))
    for _ in range(2):  # also after a draft
        logits = drafter.extend(drafter.sync(context))
        for token, wanted in zip((*drafted, None), expected, strict=True):
            assert torch.allclose(logits[0], wanted, atol=2e-3 * float(wanted.std())), form.kind
            logits = drafter.extend([token]) if token is not None else logits
    drafter.extend(drafter.sync(context)[-1:])
    rows = [drafted[0], 5, drafted[1], 6]
    drafter.forward(rows[:2], [-1, -1])
    assert torch.allclose(
        drafter.forward(rows, [-1, -1, 0, 1], 2)[0], expected[2], atol=2e-3 * float(expected[2].std())
    )


def test_logits_after_a_rejection_equal_those_of_the_text(case):
    """The target keeps two of four rows; a recurrent target reads them again in its next pass."""
    form, models, model, extra = case
    context, (a, b, c) = text(12), text(3)
    target, drafter = models.target.fresh(), models.draft("mtp")
    drafter.follow(target)
    target.reset()
    target.extend(context[:-1])
    drafter.extend(drafter.sync(context))
    for kept, root in (([a], b), ([b, a], c)):
        target.forward([context[-1], *kept, c, 7, 8])
        target.keep(range(1 + len(kept)))
        context += [*kept, root]
        (expected,) = reference(form, target, model, extra, context, ())
        logits = drafter.extend(drafter.sync(context))[0]
        assert torch.allclose(logits, expected, atol=2e-3 * float(expected.std()))


def test_texts_equal_those_of_naive_decoding(case):
    _, models, _, _ = case
    assert "mtp" in models.heads and models.costs.drafters["mtp"].token_s > 0

    def ids(method, **options):
        return emitted(lookahead.decode(models, "Once upon a time", method, max_new_tokens=24, **options))

    for sampled in ({}, {"temperature": 1.0, "seed": 5}):
        naive = ids("naive", **sampled)
        assert ids("mtp", k=3, **sampled) == ids("mtp", **sampled) == ids("hybrid", k=3, **sampled) == naive


def test_a_module_that_lacks_tensors_is_not_used(tmp_path, caplog):
    whole(FORMATS["qwen"], tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["mtp.layers.0.mlp.up_proj.weight"]
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    models = lookahead.load(str(tmp_path))
    assert "mtp" not in models.heads and "mlp.up_proj" in caplog.text
    with pytest.raises(ModelError, match="no such trained head"):
        models.draft("mtp")


def test_unexpected_tensors_without_a_module_are_refused(tmp_path):
    folder = tmp_path / "target"
    tiny("qwen2", folder, layers=3)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps(config | {"num_hidden_layers": 2, "layer_types": config["layer_types"][:2]})
    )
    with pytest.raises(ModelError, match="unexpected tensors"):
        lookahead.load(str(folder))
