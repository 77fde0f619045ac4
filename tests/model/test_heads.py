"""Trained heads: compiled passes and modules agree, and so do training and drafting; incompatible heads are refused."""

import json
import random

import pytest
import torch
from conftest import emitted, tiny
from safetensors.torch import load_file, save_file

import lookahead
from lookahead import kernels
from lookahead.core.events import ModelError, Settings
from lookahead.core.lm import draft_tokens
from lookahead.core.policy import StopRule
from lookahead.core.rules import rule_for
from lookahead.drafting.base import Resources
from lookahead.drafting.heads import BlockTree, EagleTree
from lookahead.engine.fixed_length import FixedLength
from lookahead.model import loading, modules
from lookahead.model.heads import files
from lookahead.model.heads.head import NETWORKS, Head
from lookahead.model.heads.shape import ALL_TAPS, BLOCK, EAGLE, KINDS, MEDUSA, MTP, PER_TAP, HeadShape, default_taps
from lookahead.model.lm import CachedLM

pytestmark = pytest.mark.models

LAYERS, HIDDEN, VOCAB = 6, 64, 4096
SIZES = {"heads": 4, "kv_heads": 2, "head_dim": 16, "inner": 96}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny("llama", tmp_path_factory.mktemp("target") / "target", layers=LAYERS)


@pytest.fixture(scope="module", params=[torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def target(request, folder):
    return kernels.read(folder, request.param)


def shape_of(kind, **changes):
    """Return the shape of a small head for the small target."""
    usual = {
        MEDUSA: {"slots": 3, "biased": True},
        MTP: SIZES | {"head_norms": True, "output_normed": True},
        EAGLE: SIZES,
        BLOCK: {
            **SIZES,
            "slots": 5,
            "layers": 2,
            "head_norms": True,
            "mask": 7,
            "rank": 8,
            "confident": True,
            "window": 256,
        },
    }[kind]
    return HeadShape(kind, HIDDEN, VOCAB, **{"taps": default_taps(kind, LAYERS), **usual, **changes})


def network_of(kind, target, seed=0, **changes):
    """Return a head with random weights, large enough that its tokens depend on its input."""
    torch.manual_seed(seed)
    network = NETWORKS[kind](shape_of(kind, **changes), *target.tables)
    with torch.no_grad():
        for weight in network.parameters():
            weight.normal_(1.0, 0.1) if weight.dim() == 1 else weight.normal_(0.0, 0.2)
    return network.to(target.dtype).eval().requires_grad_(False)


def cached(head, target, context):
    """Return a target that has read a text except its last token, and a head that follows it."""
    lm, drafter = CachedLM(target), head.fresh(VOCAB)
    drafter.follow(lm)
    lm.reset()
    lm.extend(context[:-1])
    return lm, drafter


def text(n, seed=0):
    draws = random.Random(seed)
    return [draws.randrange(VOCAB) for _ in range(n)]


def close(a, b, target):
    """Assert that two tensors are equal except for rounding to int8 or bfloat16."""
    assert a.shape == b.shape
    apart = float((a.float() - b.float()).abs().mean()) / float(b.float().std())
    assert apart < (0.05 if target.dtype == torch.float32 else 0.08), apart


@pytest.mark.parametrize("kind", KINDS)
def test_compiled_passes_agree_with_their_network(target, kind):
    network, context = network_of(kind, target), text(40)
    ours = Head.from_network(network, target)
    plain = Head(network.shape, network)
    assert type(ours.passes) is not type(plain.passes), "not compiled although the target is"
    for read in (40, 33, 12, 2):
        (_, a), (_, b) = (cached(head, target, context[:read]) for head in (ours, plain))
        unread = a.sync(context[:read])
        assert unread == b.sync(context[:read])
        close(a.extend(unread), b.extend(unread), target)
        for token in text(min(2, network.shape.slots) if kind not in (MTP, EAGLE) else 3, seed=read)[: a.longest - 1]:
            close(a.extend([token]), b.extend([token]), target)
        if kind == BLOCK:
            assert a.confidence == pytest.approx(b.confidence, abs=0.05)
        rows, parents = text(6, seed=1), [-1, -1, 0, 0, 1, 1]
        a.sync(context[:read]), b.sync(context[:read])
        a.extend(unread[-1:]), b.extend(unread[-1:])
        close(a.forward(rows[:2], parents[:2]), b.forward(rows[:2], parents[:2]), target)
        close(a.forward(rows, parents, 2), b.forward(rows, parents, 2), target)


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_in_parts_gives_the_same_logits_as_at_once(target, kind):
    head, context = Head.from_network(network_of(kind, target), target), text(60)
    lm, drafter = cached(head, target, context[:9])
    for stop in (9, 10, 14, 15, 40):  # drafts in between do not change the cache
        lm.extend(context[len(lm.tokens) : stop - 1])
        drafter.extend(drafter.sync(context[:stop]))
        drafter.extend(text(1, seed=stop))
        drafter.forward(text(2, seed=stop), [-1, -1])
        drafter.forward(text(3, seed=stop), [-1, -1, 0], 2)
    at_once = cached(head, target, context[:40])[1]
    logits = at_once.extend(at_once.sync(context[:40]))
    drafter.sync(context[:40])
    again = drafter.extend(drafter.sync(context[:40]))
    assert torch.allclose(again, logits, atol=2e-2, rtol=1e-2), "previous drafts changed the logits"


def test_a_long_text_is_read_in_parts(folder):
    """A text longer than one pass has the same logits after its last token."""
    from lookahead.model.heads import head as heads

    target = kernels.read(folder, torch.float32)
    for kind in (EAGLE, BLOCK):
        head, context = Head.from_network(network_of(kind, target), target), text(90)
        _, at_once = cached(head, target, context)
        logits = at_once.extend(at_once.sync(context))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(heads, "PASS_TOKENS", 16)
            _, parts = cached(head, target, context)
            assert torch.allclose(parts.extend(parts.sync(context)), logits, atol=1e-3)


def test_a_block_has_the_same_logits_in_training_and_drafting(folder):
    target = kernels.read(folder, torch.float32)
    for changes in ({}, {"causal": False}, {"from_anchor": False, "slots": 4}):
        network, context = network_of(BLOCK, target, **changes), text(30)
        lm, _ = cached(Head.from_network(network, target), target, context)
        states = lm.states(0)[None].clone()
        anchors = torch.tensor([5, 17, 29 - network.shape.slots])
        logits, acceptance = network(states, torch.tensor([context[:29]]), anchors)
        for i, anchor in enumerate(anchors.tolist()):
            drafter = Head(network.shape, network).fresh(VOCAB)
            drafter.follow(lm)
            drafted = drafter.extend(drafter.sync(context[: anchor + 1]))
            for slot in range(network.shape.slots):
                assert torch.allclose(drafted[0], logits[0, i, slot], atol=1e-3)
                assert drafter.confidence == pytest.approx(float(acceptance[0, i, slot].sigmoid()), abs=1e-3)
                if slot + 1 < network.shape.slots:
                    drafted = drafter.extend([context[anchor + 1 + slot]])


def test_a_recursive_head_has_the_same_logits_in_training_and_drafting(folder):
    target = kernels.read(folder, torch.float32)
    changed = (
        (MTP, {}),
        (EAGLE, {}),
        (EAGLE, {"residual_normed": True}),
        (EAGLE, {"fed_norm": ALL_TAPS}),
        (EAGLE, {"fed_norm": PER_TAP, "output_normed": True}),
        (EAGLE, {"layers": 2}),
    )
    for kind, changes in changed:
        network, context = network_of(kind, target, **changes), text(24)
        lm, _ = cached(Head.from_network(network, target), target, context)
        steps = list(network(lm.states(0)[None].clone(), torch.tensor([context[:23]]), 4))
        for row in (0, 7, 17):
            drafter = Head(network.shape, network).fresh(VOCAB)
            drafter.follow(lm)
            logits = drafter.extend(drafter.sync(context[: row + 2]))
            for step in range(4):
                assert torch.allclose(logits[0], steps[step][0, row], atol=1e-3), (kind, changes, row, step)
                logits = drafter.extend([context[row + 2 + step]])


def test_medusa_reads_the_state_that_the_output_head_reads(folder):
    """An untrained Medusa block predicts the target's next token."""
    target = kernels.read(folder, torch.float32)
    network, context = NETWORKS[MEDUSA](shape_of(MEDUSA), *target.tables).eval(), text(20)
    _, drafter = cached(Head.from_network(network, target), target, context)
    close(drafter.extend(drafter.sync(context)), CachedLM(target).extend(context[:-1]), target)


def test_hidden_states_are_transformers(folder):
    """The states after every layer, for a chain, and for the accepted path of a tree, by kernels and by modules."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    taps = tuple(range(1, LAYERS + 1))
    for passes in (kernels.read(folder, torch.float32), modules.Modules(model)):
        lm, context = CachedLM(passes), text(12)
        lm.taps = taps
        lm.reset()
        for token in context:  # one row per pass, because a longer chain skips the last norm of rows without logits
            lm.extend([token])
        lm.forward(text(5, seed=1), [-1, -1, 0, 1, 3])
        lm.keep([1, 3, 4])
        context += [text(5, seed=1)[row] for row in (1, 3, 4)]
        with torch.inference_mode():
            expected = model(torch.tensor([context]), output_hidden_states=True).hidden_states
        expected = torch.cat([expected[tap][0] for tap in taps], -1)
        assert lm.states(0).shape == expected.shape
        assert torch.allclose(lm.states(0), expected, atol=2e-3, rtol=1e-3)
        assert torch.equal(lm.states(3), lm.states(0)[3:])


def test_taps_do_not_change_logits(target):
    context, rows = text(20), text(5, seed=1)
    plain, tapped = CachedLM(target), CachedLM(target)
    tapped.taps = (1, 3)
    tapped.reset()
    assert torch.equal(plain.extend(context), tapped.extend(context))
    assert torch.equal(plain.forward(rows, [-1, 0, 0, 1, 2]), tapped.forward(rows, [-1, 0, 0, 1, 2]))
    assert plain.states(0).numel() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_written_head_is_read_back(target, kind, tmp_path):
    network = network_of(kind, target).to(torch.bfloat16)
    files.write(network, tmp_path, "target", ["LlamaForCausalLM"])
    config = json.loads((tmp_path / "config.json").read_text())
    assert files.kind_of(config) == kind
    again, ids = files.network(tmp_path, target.shape, *target.tables, "head")
    assert ids is None
    assert again.shape == network.shape
    for name, weight in network.state_dict().items():
        assert torch.equal(again.state_dict()[name].to(torch.bfloat16), weight), name


def written(kind, target, folder, config=(), weights=(), **changes):
    """Write a head with a changed configuration and changed weights; a value of None removes the name."""
    files.write(network_of(kind, target, **changes), folder, "target", ["LlamaForCausalLM"])
    before = json.loads((folder / "config.json").read_text())
    layer = before.get("transformer_layer_config", before)
    for name, value in dict(config).items():
        fields = layer if name in layer or name.startswith("rope") else before
        fields.pop(name, None) if value is None else fields.__setitem__(name, value)
    (folder / "config.json").write_text(json.dumps(before))
    tensors = load_file(folder / "model.safetensors")
    for name, value in dict(weights).items():
        tensors.pop(name, None) if value is None else tensors.__setitem__(name, value)
    save_file(tensors, folder / "model.safetensors")
    return folder


REFUSED = (
    (EAGLE, {"hidden_size": 128}, {}, "hidden states of 128"),
    (EAGLE, {"vocab_size": 5000}, {}, "vocabulary of 5000"),
    (EAGLE, {"eagle_aux_hidden_state_layer_ids": [2, 3, 99]}, {}, "after layers 2, 3, 99, and there are 6"),
    (EAGLE, {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, {}, "scaled rotary positions"),
    (EAGLE, {"norm_before_fc": True, "fc_norm": True}, {}, "exclude each other"),
    (EAGLE, {"speculators_model_type": "peagle"}, {}, "peagle are not read"),
    (MTP, {"model_type": "qwen3_next"}, {}, "a layer of the kind qwen3_next is not supported"),
    (EAGLE, {"speculators_model_type": "swift"}, {}, "swift are not known"),
    (EAGLE, {"draft_vocab_size": 100}, {}, "no table d2t"),
    (EAGLE, {}, {"fc.weight": None}, "weights are not those"),
    (EAGLE, {}, {"fc.weight": torch.zeros(HIDDEN, 2 * HIDDEN)}, "it must be (64, 192)"),
    (EAGLE, {}, {"embed_tokens.weight": torch.zeros(5000, HIDDEN)}, "it must be (4096, 64)"),
    (BLOCK, {"markov_head_type": "rnn"}, {}, "kind rnn is not supported"),
    (BLOCK, {"confidence_head_with_markov": False}, {}, "without the Markov head's input"),
    (BLOCK, {"block_size": None}, {}, "cannot be read (KeyError"),
    (BLOCK, {"num_attention_heads": "many"}, {}, "cannot be read"),
    (BLOCK, {"mask_token_id": -1}, {}, "mask_token_id is -1"),
    (BLOCK, {"aux_hidden_state_layer_ids": ["a"]}, {}, "must be a list of whole numbers"),
    (EAGLE, {"norm_before_fc": "false"}, {}, "must be true or false"),
    (EAGLE, {"rope_theta": "10000"}, {}, "must be a positive number"),
    (EAGLE, {"vocab_size": -5}, {}, "must be a positive whole number"),
    (EAGLE, {"transformer_layer_config": []}, {}, "must be an object"),
    (MEDUSA, {"num_heads": "3"}, {}, "slots is '3'"),
    (MEDUSA, {"hidden_size": 32}, {}, "hidden states of 32"),
)  # fmt: skip


@pytest.mark.parametrize(("kind", "config", "weights", "message"), REFUSED, ids=[message for *_, message in REFUSED])
def test_a_head_that_does_not_match_is_refused(folder, tmp_path, kind, config, weights, message):
    target = kernels.read(folder, torch.float32)
    with pytest.raises(ModelError) as error:
        files.read(written(kind, target, tmp_path, config, weights), target, "some/head")
    assert message in str(error.value)
    assert "some/head" in str(error.value)


@pytest.mark.parametrize("kind", [MEDUSA, EAGLE, BLOCK])
@pytest.mark.parametrize("name", ["config.json", "model.safetensors.index.json"])
def test_a_damaged_small_file_of_a_head_is_named(folder, tmp_path, kind, name):
    target = kernels.read(folder, torch.float32)
    written(kind, target, tmp_path, {}, {})
    if name != "config.json":
        (tmp_path / "model.safetensors").rename(tmp_path / "part.safetensors")
    for text in ("", '{"weight_map": {', "[]", "null", "5"):
        (tmp_path / name).write_text(text)
        with pytest.raises(ModelError, match=rf"some/head.*{name} cannot be read"):
            files.read(tmp_path, target, "some/head")
    (tmp_path / name).write_text("[")
    with pytest.raises(ModelError, match=name):
        lookahead.load(f"{folder}+{tmp_path}")


def test_damaged_weights_of_a_head_are_refused(folder, tmp_path):
    target = kernels.read(folder, torch.float32)
    written(EAGLE, target, tmp_path, {}, {})
    (tmp_path / "model.safetensors").write_bytes(b"no weights at all")
    with pytest.raises(ModelError, match=r"some/head.*its weights cannot be read"):
        files.read(tmp_path, target, "some/head")


def test_weights_are_not_read_if_the_configuration_does_not_match(folder, tmp_path):
    target = kernels.read(folder, torch.float32)
    written(EAGLE, target, tmp_path, {"hidden_size": 128})
    (tmp_path / "model.safetensors").write_bytes(b"no weights at all")
    with pytest.raises(ModelError, match="hidden states of 128"):
        files.read(tmp_path, target, "head")


def test_a_reduced_vocabulary_drafts_the_tokens_it_names(folder, tmp_path):
    target = kernels.read(folder, torch.float32)
    ids = sorted(random.Random(0).sample(range(VOCAB), 100))
    tables = {
        "d2t": torch.tensor([token - i for i, token in enumerate(ids)]), "t2d": torch.zeros(VOCAB, dtype=torch.bool),
        "lm_head.weight": target.tables[1][ids].contiguous(),
    }  # fmt: skip
    reduced = files.read(written(EAGLE, target, tmp_path / "a", {"draft_vocab_size": 100}, tables), target, "head")
    full = files.read(written(EAGLE, target, tmp_path / "b"), target, "head")
    context = text(20)
    (_, a), (_, b) = (cached(head, target, context) for head in (reduced, full))
    logits, expected = (drafter.extend(drafter.sync(context))[0] for drafter in (a, b))
    assert logits.isfinite().nonzero()[:, 0].tolist() == ids
    close(logits[ids][None], expected[ids][None], target)
    tables["d2t"][5] = VOCAB
    with pytest.raises(ModelError, match="tokens that the target does not have"):
        files.read(written(EAGLE, target, tmp_path / "c", {"draft_vocab_size": 100}, tables), target, "head")


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.8}], ids=["greedy", "coupled"])
@pytest.mark.parametrize("kind", [EAGLE, BLOCK])
def test_compiled_drafts_from_a_reduced_vocabulary(target, kind, settings):
    """A compiled call drafts the same tokens as one call per token, all from the reduced vocabulary."""
    ids = torch.tensor(sorted(random.Random(1).sample(range(VOCAB), 100)))
    torch.manual_seed(5)
    network = NETWORKS[kind](shape_of(kind, draft_vocab=len(ids)), target.tables[0], target.tables[1][ids].contiguous())
    with torch.no_grad():
        for weight in network.parameters():
            weight.normal_(1.0, 0.1) if weight.dim() == 1 else weight.normal_(0.0, 0.2)
    head, context = Head.from_network(network.to(target.dtype).eval().requires_grad_(False), target, ids), text(30)
    assert head.compiled
    rule, (_, a), (_, b) = rule_for(Settings(**settings)), *(cached(head, target, context) for _ in range(2))
    picks = draft_tokens(a, rule, a.sync(context), context, 4, StopRule())
    singly, unread, written_so_far = [], b.sync(context), list(context)
    for _ in picks:
        singly.append(rule.choose(b.extend(unread)[0], written_so_far, b.confidence))
        written_so_far.append(singly[-1].token)
        unread = written_so_far[-1:]
    assert len(picks) == 4 and {pick.token for pick in picks} <= set(ids.tolist())
    assert [pick.token for pick in picks] == [pick.token for pick in singly]
    assert [pick.chance for pick in picks] == pytest.approx([pick.chance for pick in singly], abs=0.02)


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.8}], ids=["greedy", "coupled"])
@pytest.mark.parametrize("branches", [2, 3])
@pytest.mark.parametrize(
    ("kind", "tree", "changes"),
    [(EAGLE, EagleTree, {}), (BLOCK, BlockTree, {}), (BLOCK, BlockTree, {"rank": 0, "confident": False})],
    ids=["eagle", "block", "block-without-markov"],
)
def test_a_tree_drafted_in_one_compiled_call_equals_one_drafted_level_by_level(
    target, kind, tree, changes, branches, settings, monkeypatch
):
    context, rule = text(30), rule_for(Settings(**settings))
    drafts = []
    for compiled in (True, False):
        _, drafter = cached(Head.from_network(network_of(kind, target, **changes), target), target, context)
        if not compiled:
            monkeypatch.setattr(drafter, "draft_tree", lambda *request: None)
        options = tree.Options(branches=branches, rows=4 * branches - 1)
        strategy = tree(Resources(rule, drafter), options)
        strategy.policy = FixedLength(5)
        drafts.append(strategy.propose(context, 5))
    ours, expected = drafts
    assert len(ours) == len(expected) == 4 * branches - 1
    # Logits are rounded, so tokens with equal chances may be in another order and have other children.
    top = slice(0, branches)
    assert sorted(ours.chances[top]) == pytest.approx(sorted(expected.chances[top]), abs=0.01)
    if target.dtype == torch.float32:
        assert (ours.tokens, ours.parents) == (expected.tokens, expected.parents)
        assert ours.chances == pytest.approx(expected.chances, abs=0.01)


def test_a_compiled_medusa_chain_equals_one_call_per_token(target):
    (_, a), (_, b) = (cached(Head.from_network(network_of(MEDUSA, target), target), target, text(30)) for _ in range(2))
    rule, context = rule_for(Settings()), text(30)
    picks = draft_tokens(a, rule, a.sync(context), context, 3, StopRule())
    unread, singly = b.sync(context), []
    for _ in picks:
        singly.append(rule.choose(b.extend(unread)[0], context).token)
        unread = singly[-1:]
    assert len(picks) == 3 and [pick.token for pick in picks] == singly


def renamed(folder, config, names=lambda name: name):
    """Rewrite the head in a folder in another format."""
    tensors = load_file(folder / "model.safetensors")
    save_file({names(name): tensor for name, tensor in tensors.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))


def test_formats_of_the_authors_are_recognised(folder, tmp_path):
    target = kernels.read(folder, torch.float32)
    layer = {
        "hidden_size": HIDDEN, "vocab_size": VOCAB, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "intermediate_size": 96, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
    }  # fmt: skip
    files.write(network_of(EAGLE, target, residual_normed=False), tmp_path / "eagle", "t", [])
    raw = {
        **layer,
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "num_hidden_layers": 1,
        "draft_vocab_size": VOCAB,
    }
    renamed(tmp_path / "eagle", raw, lambda name: name.replace("layers.0.", "midlayer."))
    eagle = files.read(tmp_path / "eagle", target, "authors' EAGLE-3")
    assert eagle.shape == shape_of(EAGLE), "absent flags are off in the authors' format"

    files.write(
        network_of(BLOCK, target, rank=0, confident=False, causal=False, from_anchor=False, window=0),
        tmp_path / "dflash",
        "t",
        [],
    )
    flash = {
        **layer, "model_type": "qwen3", "architectures": ["DFlashDraftModel"], "num_hidden_layers": 2, "block_size": 6,
        "dflash_config": {"mask_token_id": 7, "target_layer_ids": [tap - 1 for tap in default_taps(BLOCK, LAYERS)]},
    }  # fmt: skip
    renamed(tmp_path / "dflash", flash)
    block = files.read(tmp_path / "dflash", target, "z-lab's DFlash")
    assert block.shape == shape_of(BLOCK, rank=0, confident=False, causal=False, from_anchor=False, window=0)

    files.write(network_of(BLOCK, target, causal=False, window=0), tmp_path / "dspark", "t", [])
    spark = {
        **layer, "model_type": "qwen3", "architectures": ["Qwen3DSparkModel"], "num_hidden_layers": 2, "block_size": 5,
        "markov_rank": 8, "enable_confidence_head": True, "confidence_head_with_markov": True, "mask_token_id": 7,
        "target_layer_ids": [tap - 1 for tap in default_taps(BLOCK, LAYERS)],
    }  # fmt: skip
    renamed(tmp_path / "dspark", spark, lambda name: f"model.{name}")
    assert files.read(tmp_path / "dspark", target, "DeepSpec's").shape == shape_of(BLOCK, causal=False, window=0)
    assert files.config_of(folder) is None, "a Llama is not a head"


def test_absent_flags_of_speculators_have_vllms_defaults(folder, tmp_path):
    target = kernels.read(folder, torch.float32)
    absent = {"norm_before_residual": None, "eagle_aux_hidden_state_layer_ids": None}
    head = files.read(written(EAGLE, target, tmp_path, absent), target, "head")
    assert head.shape.residual_normed
    assert head.shape.taps == (2, 3, 3), "transformers' hidden_states[2], [n // 2] and [n - 3]"


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_a_family_with_heads_from_folders_races_losslessly(tmp_path, kind):
    target_folder = tiny(kind, tmp_path / "target", layers=LAYERS)
    target = loading.load(target_folder, torch.float32, torch.device("cpu"), False)
    spec = [target_folder]
    for head in KINDS:
        files.write(network_of(head, target), tmp_path / head, target_folder, ["LlamaForCausalLM"])
        spec.append(str(tmp_path / head))
    models = lookahead.load("+".join(spec))
    assert set(models.heads) == set(KINDS)
    assert set(KINDS) <= models.costs.drafters.keys()
    for changes in ({}, {"temperature": 0.8}):
        options = {"max_new_tokens": 24, "seed": 3, **changes}
        naive = emitted(lookahead.decode(models, "Once upon a time", method="naive", **options))
        for method in ("medusa", "eagle", "eagle-tree", "block", "block-tree"):
            for k in (3, "auto"):
                assert emitted(lookahead.decode(models, "Once upon a time", method=method, k=k, **options)) == naive, (
                    method
                )
    with pytest.raises(ModelError, match="two heads of the kind eagle"):
        lookahead.load(f"{target_folder}+{tmp_path / EAGLE}+{tmp_path / EAGLE}")


def test_a_method_without_its_head_is_refused(folder):
    models = lookahead.load(folder)
    with pytest.raises(ModelError, match="no such trained head"):
        list(lookahead.decode(models, "Once", method="eagle"))
