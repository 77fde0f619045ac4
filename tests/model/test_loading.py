"""Loading models: files that do not match the configuration, tied output heads, supported and refused architectures."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from conftest import tiny
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

import lookahead
from lookahead import kernels
from lookahead.core.events import ModelError
from lookahead.family import models as family
from lookahead.model import loading, modules
from lookahead.model.lm import CachedLM

pytestmark = pytest.mark.models

CPU = torch.device("cpu")
EMBEDDINGS = {
    "llama": "model.embed_tokens.weight",
    "qwen2": "model.embed_tokens.weight",
    "gpt2": "transformer.wte.weight",
}
# Per architecture: a matrix, the prefix of a layer.
TENSORS = {
    "llama": ("model.layers.1.mlp.up_proj.weight", "model.layers.1."),
    "qwen2": ("model.layers.1.mlp.up_proj.weight", "model.layers.1."),
    "gpt2": ("transformer.h.1.mlp.c_fc.weight", "transformer.h.1."),
}
LATENT = {
    "q_lora_rank": 32, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 12,
    "num_key_value_heads": 4, "head_dim": 8,
}  # fmt: skip
EXPERTS = {
    "moe_intermediate_size": 32, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1,
    "first_k_dense_replace": 1,
}  # fmt: skip
LONG = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0] * 8, "long_factor": [4.0] * 8}
RUNS = {
    "stablelm": {}, "nemotron": {}, "xglm": {"d_model": 64, "num_layers": 2, "attention_heads": 4, "ffn_dim": 96},
    "codegen": {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 256, "rotary_dim": 8},
    "gpt_neox_japanese": {"intermediate_multiple_size": 2}, "deepseek_v2": {**LATENT, **EXPERTS},
    "deepseek_v3": {**LATENT, **EXPERTS}, "minicpm3": LATENT, "gemma2": {"sliding_window": 8}, "mistral-sliding": {},
    "gpt_oss": {"sliding_window": 8, "num_local_experts": 4},
}  # fmt: skip
REFUSED = {
    "rembert": ({"input_embedding_size": 64, "output_embedding_size": 64}, "describes an encoder"),
    "openai-gpt": ({}, "does not accept a cache"),
    "llama": ({"max_position_embeddings": 48}, "its context holds 48 tokens"),
    "deepseek_v4": ({}, "cannot be rolled back"),
}


def edit(folder, change):
    """Rewrite the tensors in a folder."""
    path = Path(folder) / "model.safetensors"
    tensors = change(load_file(path))
    save_file(tensors, path, metadata={"format": "pt"})
    return folder


def read(folder):
    """Return the model in a folder, as `lookahead.load` reads it."""
    return CachedLM(family._load(folder, torch.float32, CPU, False))


def transformers_model(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def text(count, vocab=4096):
    return torch.randint(1, vocab, (count,), generator=torch.Generator().manual_seed(1)).tolist()


def greedy(lm, prompt, count):
    """Decode naively and greedily; return prompt and new tokens."""
    tokens, logits = list(prompt), lm.extend(prompt)
    for _ in range(count):
        tokens.append(int(logits[-1].argmax()))
        logits = lm.forward(tokens[-1:])
        lm.keep([0])
    return tokens


@torch.inference_mode()
def agrees(folder):
    """Whether a chain, a tree, a later chain, and greedy decoding have the same results as transformers."""
    lm, reference, tokens = read(folder), transformers_model(folder), text(84)
    want = reference(input_ids=torch.tensor([tokens])).logits[0]
    pairs = [(lm.extend(tokens[:70])[0], want[69])]
    rows, parents = [tokens[70], 5, tokens[71], tokens[72], 9], [-1, 0, 0, 2, 2]
    tree = lm.forward(rows, parents)
    pairs += [(tree[0], want[70]), (tree[2], want[71]), (tree[3], want[72])]
    lm.keep([0, 2, 3])
    pairs.append((lm.forward(tokens[73:78]), want[73:78]))
    lm.reset()
    written = reference.generate(
        torch.tensor([tokens[:40]]), max_new_tokens=20, do_sample=False, eos_token_id=None, pad_token_id=0
    )[0].tolist()
    close = all(torch.allclose(a, b, atol=1e-3, rtol=1e-3) for a, b in pairs)
    return close and greedy(lm, tokens[:40], 20) == written


@pytest.mark.parametrize("spoil", ["matrix", "layer", "head", "further", "size"])
@pytest.mark.parametrize("kind", TENSORS)
def test_files_that_do_not_match_the_configuration_are_refused_by_tensor_name(tmp_path, kind, spoil):
    matrix, layer = TENSORS[kind]

    def change(tensors):
        if spoil == "further":
            return {**tensors, matrix.removesuffix("weight") + "weight_scale": torch.ones(1)}
        if spoil == "size":
            return {**tensors, matrix: tensors[matrix].T.contiguous()}
        removed = {"matrix": matrix, "layer": layer, "head": "lm_head"}[spoil]
        return {name: tensor for name, tensor in tensors.items() if not name.startswith(removed)}

    folder = edit(tiny(kind, tmp_path / "m", tie_word_embeddings=False), change)
    named = {"layer": layer, "head": "lm_head.weight", "further": "weight_scale"}.get(spoil, matrix)
    with pytest.raises(ModelError, match=f"do not match its configuration.*{named}"):
        read(folder)


def test_a_draft_model_that_lacks_a_tensor_is_refused(tmp_path):
    target, draft = tiny("llama", tmp_path / "t"), tiny("llama", tmp_path / "d", seed=1)
    edit(draft, lambda tensors: {k: v for k, v in tensors.items() if "layers.0.self_attn.k_proj" not in k})
    with pytest.raises(ModelError, match=r"layers\.0\.self_attn\.k_proj\.weight"):
        lookahead.load(f"{target}+{draft}")


def test_computed_tables_may_be_in_the_file(tmp_path):
    """Old files contain the rotary frequencies, and GPT-2's causal mask."""
    added = {"llama": {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(8)},
             "gpt2": {"transformer.h.0.attn.bias": torch.ones(1, 1, 256, 256)}}  # fmt: skip
    for kind, further in added.items():
        assert agrees(edit(tiny(kind, tmp_path / kind), lambda tensors, further=further: {**tensors, **further}))


@pytest.mark.parametrize("embeddings", [True, False], ids=["embeddings", "no embeddings"])
@pytest.mark.parametrize("head", ["own", "equal", "absent"])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("kind", TENSORS)
@torch.inference_mode()
def test_an_output_head_is_read_as_by_transformers(tmp_path, kind, tied, head, embeddings):
    table = EMBEDDINGS[kind]

    def change(tensors):
        embedding = tensors[table]
        tensors.pop("lm_head.weight", None)
        if head != "absent":
            tensors["lm_head.weight"] = embedding.clone() if head == "equal" else torch.randn_like(embedding) * 0.2
        if not embeddings:
            del tensors[table]
        return tensors

    folder = edit(tiny(kind, tmp_path / "m", tie_word_embeddings=tied), change)
    if (head == "absent" or not embeddings) and not (tied and (head != "absent" or embeddings)):
        with pytest.raises(ModelError, match=table if not embeddings else "lm_head.weight"):
            read(folder)
        return
    lm, tokens = read(folder), text(20)
    want = transformers_model(folder)(input_ids=torch.tensor([tokens])).logits[0]
    assert torch.allclose(lm.forward(tokens), want, atol=1e-3)
    short = CachedLM(lm.passes.first(1))
    assert torch.equal(short.passes.tables[1], lm.passes.tables[1]), "the first layers have the same head"


@pytest.mark.parametrize("kind", RUNS)
def test_an_architecture_has_the_same_results_as_transformers(tmp_path, kind):
    assert agrees(tiny(kind, tmp_path / "m", **RUNS[kind]))


@pytest.mark.parametrize("kind", REFUSED)
def test_an_architecture_is_refused_before_its_weights_are_read(tmp_path, kind):
    changes, message = REFUSED[kind]
    folder = tiny(kind, tmp_path / "m", **changes)
    (Path(folder) / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=message):
        read(folder)


@pytest.mark.parametrize("alibi", [False, True])
def test_falcon_runs_with_any_positions(tmp_path, alibi):
    from transformers import FalconConfig, FalconForCausalLM

    torch.manual_seed(0)
    config = FalconConfig(
        vocab_size=4096, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, alibi=alibi,
        max_position_embeddings=256, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    FalconForCausalLM(config).save_pretrained(tmp_path)
    assert agrees(str(tmp_path))


@pytest.mark.parametrize("argument", ["position_bias", "cross_states", "an_argument_of_tomorrow"])
def test_an_unsupported_argument_of_attention_is_named(argument):
    q = torch.zeros(1, 1, 1, 8)
    with pytest.raises(ModelError, match=argument):
        modules.attend(torch.nn.Module(), q, q, q, None, **{argument: torch.ones(1)})


@pytest.mark.parametrize("rope", ["linear", "dynamic", "yarn", "llama3"])
@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_scaled_rotary_positions_have_the_same_results_as_generate(tmp_path, kind, rope):
    parameters = {"rope_type": rope, "rope_theta": 10000.0, "factor": 4.0}
    if rope in ("yarn", "llama3"):
        parameters["original_max_position_embeddings"] = 64
    if rope == "llama3":
        parameters |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    assert agrees(tiny(kind, tmp_path / "m", rope_parameters=parameters))


def test_decoding_ends_before_longrope_changes_its_frequencies(tmp_path):
    changes = {"rope_parameters": {**LONG, "original_max_position_embeddings": 160},
               "original_max_position_embeddings": 160, "max_position_embeddings": 512}  # fmt: skip
    folder = tiny("phi3", tmp_path / "m", **changes)
    lm = read(folder)
    assert lm.context_length == 160
    prompt = text(150)
    written = transformers_model(folder).generate(torch.tensor([prompt]), max_new_tokens=10, do_sample=False)
    assert greedy(lm, prompt, 10) == written[0].tolist()
    models = lookahead.load(folder)
    with pytest.raises(lookahead.LookaheadError, match="160"):
        list(lookahead.decode(models, text(170), method="naive"))
    race = lookahead.race(models, prompt, ["naive", "ngram"], max_new_tokens=20)
    assert {lane_step.step.finish for lane_step in race} == {None, "context"}
    assert "ends after token 160, because the model's context is full" in race.result().verdict()["sentence"]


def test_a_model_that_fails_during_measurement_is_refused(tmp_path, monkeypatch):
    def broken(*_):
        raise RuntimeError("no such kernel")

    monkeypatch.setattr(family.cost, "warm", broken)
    with pytest.raises(ModelError, match="no such kernel"):
        lookahead.load(tiny("qwen2", tmp_path / "m"))


def test_a_plain_llama_is_read_without_transformers_only_if_its_files_are_exact(tmp_path):
    folder = tiny("llama", tmp_path / "m")
    assert kernels.read(folder, torch.float32) is not None
    transposed = "model.layers.0.mlp.down_proj.weight"
    edit(folder, lambda tensors: {**tensors, transposed: tensors[transposed].T.contiguous()})
    assert kernels.read(folder, torch.float32) is None, "a tensor of the same size has another shape"
    assert json.loads((Path(folder) / "config.json").read_text())["model_type"] == "llama"
    with pytest.raises(ModelError, match=transposed):
        loading.load(folder, torch.float32, CPU, False)


BROKEN = {"empty": "", "truncated": '{"eos_token_id": ', "list": "[]", "null": "null", "text": '"x"', "latin-1": "\xe4"}
SMALL = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
         "model.safetensors.index.json")  # fmt: skip
WRONG = [
    ("config.json", {"rope_theta": "10000"}), ("config.json", {"rope_theta": -1}), ("config.json", {"rope_parameters": []}),
    ("config.json", {"rope_parameters": {"rope_type": "linear", "factor": "two"}}), ("config.json", {"vocab_size": "4096"}),
    ("config.json", {"vocab_size": -4096}), ("config.json", {"hidden_size": 64.5}), ("config.json", {"num_hidden_layers": True}),
    ("config.json", {"num_key_value_heads": "2"}), ("config.json", {"head_dim": "16"}), ("config.json", {"head_dim": 0}),
    ("config.json", {"max_position_embeddings": "256"}), ("config.json", {"model_type": []}), ("config.json", {"architectures": "x"}),
    ("config.json", {"eos_token_id": [[0]]}), ("config.json", {"eos_token_id": "0"}), ("config.json", {"tie_word_embeddings": "false"}),
    ("config.json", {"rms_norm_eps": "1e-6"}), ("config.json", {"text_config": {"vocab_size": "4096"}}),
    ("generation_config.json", {"eos_token_id": [[0]]}), ("generation_config.json", {"eos_token_id": ["0"]}),
    ("generation_config.json", {"eos_token_id": 1.5}), ("generation_config.json", {"pad_token_id": [0]}),
    ("tokenizer_config.json", {"model_max_length": "x"}), ("tokenizer_config.json", {"added_tokens_decoder": "x"}),
    ("special_tokens_map.json", {"eos_token": 5}), ("tokenizer.json", {"model": 5}), ("tokenizer.json", {"added_tokens": "x"}),
    ("model.safetensors.index.json", {"weight_map": []}), ("model.safetensors.index.json", {"weight_map": {"a": 5}}),
    ("model.safetensors.index.json", {"weight_map": {"a": "gone.safetensors"}}),
]  # fmt: skip


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """Complete models by architecture."""
    root = tmp_path_factory.mktemp("complete")
    return {kind: tiny(kind, root / kind) for kind in ("llama", "gpt2")}


def damaged(folder, copy, name, text):
    """Copy a model and write another text into one of its small files."""
    shutil.copytree(folder, copy)
    if name == "model.safetensors.index.json":
        (copy / "model.safetensors").rename(copy / "model-00001-of-00001.safetensors")
    (copy / name).write_bytes(text.encode("latin-1"))
    return copy


# With a check of the files before loading, as for hub names, and without.
LOADS = pytest.mark.parametrize(
    ("kind", "load"), [("llama", family.load), ("gpt2", lookahead.load)], ids=["llama", "gpt2"]
)


@LOADS
@pytest.mark.parametrize("name", SMALL)
def test_a_damaged_small_file_is_named(complete, tmp_path, kind, load, name):
    for number, text in enumerate(BROKEN.values() if kind == "llama" else ("", "[]")):
        folder = damaged(complete[kind], tmp_path / str(number), name, text)
        with pytest.raises(ModelError, match=re.escape(name)):
            load(str(folder))
    with pytest.raises(ModelError, match=re.escape(name)):
        load(f"{complete['llama']}+{folder}")


@LOADS
@pytest.mark.parametrize(("name", "fields"), WRONG, ids=str)
def test_a_field_of_a_wrong_type_is_named_with_its_file(complete, tmp_path, kind, load, name, fields):
    file = Path(complete[kind]) / name
    data = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    folder = damaged(complete[kind], tmp_path / "m", name, json.dumps({**data, **fields}))
    with pytest.raises(ModelError, match="gone.safetensors" if "gone" in str(fields) else re.escape(name)):
        load(str(folder))


def test_unreadable_settings_are_reported_when_transformers_model_is_needed(complete, tmp_path):
    """Only lanes of transformers read these fields of a plain Llama."""
    for name, fields in (("generation_config.json", {"cache_implementation": 5}), ("config.json", {"use_cache": "x"})):
        data = json.loads((Path(complete["llama"]) / name).read_text(encoding="utf-8"))
        folder = damaged(complete["llama"], tmp_path / name, name, json.dumps({**data, **fields}))
        lm = CachedLM(kernels.read(str(folder), torch.float32))
        with pytest.raises(ModelError, match=name):
            _ = lm.model


def test_a_model_in_shards_is_read_by_its_index(complete, tmp_path):
    folder = tmp_path / "m"
    shutil.copytree(complete["llama"], folder)
    tensors = load_file(folder / "model.safetensors")
    names = sorted(tensors)
    (folder / "model.safetensors").unlink()
    for number, part in enumerate((names[::2], names[1::2])):
        save_file(
            {name: tensors[name] for name in part}, folder / f"part-{number}.safetensors", metadata={"format": "pt"}
        )
    files = {name: f"part-{number % 2}.safetensors" for number, name in enumerate(names)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": files}))
    tokens = text(9)
    assert torch.equal(read(str(folder)).forward(tokens), read(complete["llama"]).forward(tokens))
