"""Write the golden file of `test_heads_golden.py`: drafts of small heads by the modules of `speculators`.

Run `python tests/model/by_speculators.py` in an environment with `speculators` 0.9.0 and Lookahead. Its modules read our files,
so the golden file checks format and arithmetic. `speculators` has no Medusa heads.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from safetensors.torch import load_file

sys.path[:0] = [str(Path(__file__).parents[n]) for n in (1, 2)]

from conftest import tiny  # noqa: E402

from lookahead import kernels  # noqa: E402
from lookahead.model.heads import files  # noqa: E402
from lookahead.model.heads.head import NETWORKS  # noqa: E402
from lookahead.model.heads.shape import ALL_TAPS, BLOCK, EAGLE, MTP, PER_TAP, HeadShape  # noqa: E402

GOLDEN = Path(__file__).with_name("by_speculators.json")
LAYERS, HIDDEN, VOCAB = 6, 64, 4096
SIZES = {"heads": 4, "kv_heads": 2, "head_dim": 16, "inner": 96, "eps": 1e-6}
LENGTH, STEPS, ANCHORS = 40, 4, tuple(range(1, 32, 3))
BASE = {
    EAGLE: SIZES | {"taps": (2, 3, 5)},
    MTP: SIZES | {"taps": (LAYERS,), "head_norms": True, "output_normed": True},
    BLOCK: SIZES | {"taps": (1, 2, 4, 5), "slots": 8, "layers": 2, "head_norms": True, "mask": 7, "window": 2048},
}
DSPARK, DFLASH = {"rank": 16, "confident": True}, {"causal": False}
VARIANTS = {
    "eagle3": (EAGLE, {}),
    "eagle3, normed residual": (EAGLE, {"residual_normed": True}),
    "eagle3, one norm over all taps": (EAGLE, {"fed_norm": ALL_TAPS}),
    "eagle3, a norm per tap": (EAGLE, {"fed_norm": PER_TAP}),
    "eagle3, normed feature": (EAGLE, {"output_normed": True}),
    "eagle3, two layers": (EAGLE, {"layers": 2}),
    "eagle3, norms of queries and keys": (EAGLE, {"head_norms": True}),
    "mtp": (MTP, {}),
    "dspark": (BLOCK, DSPARK | {"causal": False}),
    "dspark, causal": (BLOCK, DSPARK),
    "dflash from the anchor": (BLOCK, DFLASH),
    "dflash after the anchor": (BLOCK, DFLASH | {"from_anchor": False, "slots": 7}),
}


def text() -> list[int]:
    """Return a text of random ids."""
    draws = random.Random(5)
    return [draws.randrange(VOCAB) for _ in range(LENGTH)]


def written(name: str, folder: Path, target: str) -> None:
    """Write the files of the variant `name`, with seeded random weights.

    `files.write` writes blocks as DSpark; for DFlash the configuration is changed afterwards.
    """
    kind, changes = VARIANTS[name]
    model = kernels.read(target, torch.float32)
    torch.manual_seed(1)
    network = NETWORKS[kind](HeadShape(kind, HIDDEN, VOCAB, **BASE[kind] | changes), *model.tables)
    with torch.no_grad():
        for weight in network.parameters():
            weight.normal_(1.0, 0.1) if weight.dim() == 1 else weight.normal_(0.0, 0.2)
    files.write(network, folder, "target", ["LlamaForCausalLM"])
    if name.startswith("dflash"):
        path = folder / "config.json"
        config = json.loads(path.read_text())
        config = {key: value for key, value in config.items() if not key.startswith(("markov", "confidence", "enable"))}
        config["speculators_config"]["algorithm"] = config["speculators_model_type"] = "dflash"
        path.write_text(json.dumps(config | {"architectures": ["DFlashSpeculator"]}))


def read(target: str, taps: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the text's ids [1, T], hidden states of `taps` [1, T, fed] and last hidden states [1, T, hidden], by transformers."""
    from transformers import AutoModelForCausalLM

    model, ids = AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32).eval(), torch.tensor([text()])
    with torch.no_grad():
        out = model.model(ids, output_hidden_states=True)
    return ids, torch.cat([out.hidden_states[tap] for tap in taps], -1), out.last_hidden_state


def _theirs(folder: Path, target: str) -> list[list[int]]:
    """Return the likeliest tokens by `speculators`' modules: per step for EAGLE-3 and MTP, per anchor for a block."""
    config = json.loads((folder / "config.json").read_text())
    return {"eagle3": _eagle, "mtp": _mtp}.get(config["speculators_model_type"], _block)(config, folder, target)


def _module(cls, config, folder, target, tables):
    config.transformer_layer_config._attn_implementation = "eager"
    module = cls(config).eval()
    weights = {name: weight.float() for name, weight in load_file(folder / "model.safetensors").items()}
    absent = module.load_state_dict(weights, strict=False)
    assert not absent.unexpected_keys
    assert all(any(table in name for table in (*tables, "verifier")) for name in absent.missing_keys), absent
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32)
    for table in tables:
        source = model.get_input_embeddings() if table == "embed_tokens" else model.get_output_embeddings()
        getattr(module, table).weight.data.copy_(source.weight)
    return module


def _eagle(config, folder, target):
    from speculators.models.eagle3.config import Eagle3SpeculatorConfig
    from speculators.models.eagle3.core import Eagle3DraftModel

    taps = tuple(config["eagle_aux_hidden_state_layer_ids"])
    module = _module(Eagle3DraftModel, Eagle3SpeculatorConfig(**config), folder, target, ("embed_tokens", "lm_head"))
    ids, states, _ = read(target, taps)
    with torch.no_grad():
        out = module(states[:, :-1], ids[:, 1:], torch.zeros_like(ids[:, 1:]), ttt_steps=STEPS)
    steps = out if isinstance(out, list) else out[0]
    return [step.flatten()[: LENGTH - 1 - n].tolist() for n, step in enumerate(steps)]


def _mtp(config, folder, target):
    """Return the first step only: its modules compute later steps with other keys of the text than a draft has."""
    from speculators.models.mtp.config import MTPSpeculatorConfig
    from speculators.models.mtp.core import MTPDraftModel

    module = _module(MTPDraftModel, MTPSpeculatorConfig(**config), folder, target, ("embed_tokens", "lm_head"))
    ids, _, last = read(target, (LAYERS,))
    module.config.speculators_config.proposal_methods[0].speculative_tokens = 1
    with torch.no_grad():
        logits = module(torch.cat([ids, ids[:, :1]], 1), torch.cat([last, last[:, :1]], 1))[0]
    return [logits[0][0, : LENGTH - 1].argmax(-1).tolist()]


def _block(config, folder, target):
    from speculators.models.dflash import core as dflash
    from speculators.models.dflash.config import DFlashSpeculatorConfig
    from speculators.models.dspark import core as dspark
    from speculators.models.dspark.config import DSparkSpeculatorConfig

    captured = {}
    for core in (dflash, dspark):
        core.compute_metrics = lambda logits, *_, **__: captured.update(logits=logits) or (torch.zeros(()), {})
    spark = config["speculators_model_type"] == "dspark"
    cls, config_cls = (
        (dspark.DSparkDraftModel, DSparkSpeculatorConfig)
        if spark
        else (dflash.DFlashDraftModel, DFlashSpeculatorConfig)
    )
    module = _module(cls, config_cls(**config), folder, target, ("embed_tokens", "lm_head", "verifier_lm_head"))
    ids, states, last = read(target, tuple(config["aux_hidden_state_layer_ids"]))
    masked = module._build_attention_mask

    def keep(*arguments, **options):
        out = masked(*arguments, **options)
        captured["anchors"] = out[2].flatten().tolist()
        return out

    module._build_attention_mask = keep
    slots, likeliest = config["block_size"], {}
    while not set(ANCHORS) <= likeliest.keys():  # the module draws its anchors at random
        with torch.no_grad():
            module(states, ids, torch.ones_like(ids), last, torch.zeros_like(ids), max_anchors=16)
        rows = captured["logits"].view(len(captured["anchors"]), slots, -1).argmax(-1)
        skipped = 0 if config.get("sample_from_anchor", spark) else 1
        likeliest |= {anchor: row[skipped:].tolist() for anchor, row in zip(captured["anchors"], rows, strict=True)}
    return [likeliest[anchor] for anchor in ANCHORS]


def main() -> None:
    """Write the golden file."""
    torch._dynamo.config.disable = True
    golden = {}
    with TemporaryDirectory() as root:
        target = tiny("llama", Path(root) / "target", layers=LAYERS)
        for name in VARIANTS:
            folder = Path(root) / name
            written(name, folder, target)
            golden[name] = _theirs(folder, target)
            print(name, flush=True)
    GOLDEN.write_text(json.dumps(golden) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
