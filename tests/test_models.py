"""Loading: one way for the bundled family, folders and hub names; clear refusals."""

import json

import pytest
from conftest import POCKET, emitted, tiny
from transformers import AutoTokenizer

import lookahead
from lookahead import ModelError


def test_the_bundled_family(models):
    assert models.spec == "pocket"
    assert {"draft", "offdomain", "self"} <= models.drafts.keys()
    assert models.target.model.config.vocab_size == models.drafts["draft"].model.config.vocab_size
    assert models.exactness in ("bit-exact", "tie-aware")
    assert models.costs.pass_s(1) > 0
    assert all(path.stat().st_size < 9.5e6 for path in POCKET.rglob("*") if path.is_file())


def test_loading_again_is_quiet_and_reports_progress(capfd):
    seen = []
    lookahead.load("pocket", lambda text, share: seen.append((text, share)))
    assert seen[-1] == ("Ready", 1.0)
    assert [share for _, share in seen] == sorted(share for _, share in seen)


@pytest.mark.parametrize("kind", ["llama", "mistral", "qwen2", "qwen3", "gemma", "gpt2"])
def test_a_pair_of_folders_races_losslessly(tmp_path, kind):
    target = tiny(kind, tmp_path / "target", layers=3)
    draft = tiny(kind, tmp_path / "draft", layers=1, seed=1)
    pair = lookahead.load(f"{target}+{draft}")
    for changes in ({}, {"temperature": 0.8}):
        options = {"max_new_tokens": 24, "seed": 3, **changes}
        naive = emitted(lookahead.decode(pair, "Once upon a time", method="naive", **options))
        for method in lookahead.METHODS[1:]:
            assert emitted(lookahead.decode(pair, "Once upon a time", method=method, k=3, **options)) == naive
    selfish = lookahead.load(f"{target}+{target}")
    steps = list(lookahead.decode(selfish, "Once upon a time", method="draft", k=3, max_new_tokens=24))[1:]
    assert all(step.accepted == len(step.draft) for step in steps)


def test_a_target_without_a_draft_can_use_ngrams_only(tmp_path):
    alone = lookahead.load(tiny("llama", tmp_path / "m"))
    assert emitted(lookahead.decode(alone, "Once", method="ngram", max_new_tokens=5))
    with pytest.raises(ModelError, match="no such draft model"):
        lookahead.decode(alone, "Once", method="draft")


def test_another_vocabulary_is_refused_by_token_map(tmp_path):
    target, draft = tiny("llama", tmp_path / "t"), tmp_path / "d"
    tiny("llama", draft)
    data = json.loads((draft / "tokenizer.json").read_text(encoding="utf-8"))
    vocab = data["model"]["vocab"]
    first, second = sorted(vocab, key=vocab.get)[300:302]
    vocab[first], vocab[second] = vocab[second], vocab[first]  # same size, another meaning
    data["model"]["merges"] = []
    (draft / "tokenizer.json").write_text(json.dumps(data), encoding="utf-8")
    assert len(AutoTokenizer.from_pretrained(draft)) == len(AutoTokenizer.from_pretrained(target))
    with pytest.raises(ModelError, match=r"vocabulary differs from .* in 2 tokens") as caught:
        lookahead.load(f"{target}+{draft}")
    assert "trained with the target's tokenizer" in str(caught.value)


@pytest.mark.parametrize("kind", ["mistral-sliding", "mamba"])
def test_models_that_cannot_be_rolled_back_are_refused_at_load(tmp_path, kind):
    with pytest.raises(ModelError, match="cannot be rolled back; choose a model"):
        lookahead.load(tiny(kind, tmp_path / kind))


@pytest.mark.parametrize(
    "spec", ["", "  ", "no-such-family", "org/does-not-exist", "a/b+", "+a/b", "/no/such/folder", None, 7, "../../etc"]
)
def test_what_cannot_be_loaded_says_why(spec):
    with pytest.raises(ModelError) as caught:
        lookahead.load(spec)
    assert caught.value.mend
    assert "Traceback" not in str(caught.value)


def test_weights_that_are_not_safetensors_are_refused(tmp_path):
    folder = tmp_path / "m"
    tiny("llama", folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="could not be loaded"):
        lookahead.load(str(folder))
