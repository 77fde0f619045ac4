"""Loading of the bundled family, folders and hub names, and clear errors."""

import gc
import json
import shutil
import subprocess
import sys
import weakref
from pathlib import Path
from time import perf_counter

import pytest
from conftest import POCKET, ROOT, daily, emitted, tiny
from test_hub import swapped
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer
from transformers import AutoTokenizer, PreTrainedTokenizerFast

import lookahead
from lookahead import ModelError
from lookahead.core import memory
from lookahead.engine.methods import methods_for
from lookahead.family import measurements
from lookahead.family.models import finish_loading
from lookahead.family.models import load as load_measured
from lookahead.model.lm import CachedLM
from lookahead.model.translated import TranslatedLM

pytestmark = [pytest.mark.models, pytest.mark.long]


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


@pytest.mark.parametrize("kind", daily(["llama", "qwen2", "gemma", "mistral-sliding", "qwen3_next", "gpt2"]))
def test_a_pair_of_folders_races_losslessly(tmp_path, kind):
    target = tiny(kind, tmp_path / "target", layers=3)
    draft = tiny(kind, tmp_path / "draft", layers=1, seed=1)
    pair = lookahead.load(f"{target}+{draft}")
    for changes in ({}, {"temperature": 0.8}):
        options = {"max_new_tokens": 24, "seed": 3, **changes}
        naive = emitted(lookahead.decode(pair, "Once upon a time", method="naive", **options))
        for method in methods_for(pair)[1:]:
            assert emitted(lookahead.decode(pair, "Once upon a time", method=method, k=3, **options)) == naive
    if pair.target.is_recurrent:
        with pytest.raises(lookahead.LookaheadError, match="transformers cannot roll back recurrent layers"):
            lookahead.decode(pair, "Once upon a time", method="hf-lookup")
    same = lookahead.load(f"{target}+{target}")
    steps = list(lookahead.decode(same, "Once upon a time", method="draft", k=3, max_new_tokens=24))[1:]
    assert all(step.accepted == len(step.draft) for step in steps)


def train_tokenizer(kind, *folders):
    """Train a tokenizer of the architecture's type, save it to the folders, and return its size."""
    text = (POCKET / "README.md").read_text(encoding="utf-8").splitlines()
    if kind in ("llama", "mistral"):  # Metaspace with byte fallback
        tokenizer = Tokenizer(BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.decoder = decoders.Sequence(
            [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
        )
        special = {"eos_token": "</s>", "bos_token": "<s>", "unk_token": "<unk>"}
        extra = [f"<0x{byte:02X}>" for byte in range(256)]
    else:  # byte level
        tokenizer = Tokenizer(BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        special = {"eos_token": "<|endoftext|>"} | ({"pad_token": "<|im_end|>"} if kind == "qwen3" else {})
        extra = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(
        text, BpeTrainer(vocab_size=900, special_tokens=list(special.values()), show_progress=False)
    )
    tokenizer.add_tokens([token for token in extra if tokenizer.token_to_id(token) is None])
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)
    for folder in folders:
        wrapped.save_pretrained(folder)
    return len(wrapped)


@pytest.mark.parametrize("kind", ["llama", "qwen3", "gpt2", "mistral"])
def test_a_pair_with_another_tokenizer_is_loaded_from_folders_and_raced(tmp_path, kind):
    size = train_tokenizer(kind, tmp_path / "tokenizer")
    folders = [tmp_path / "target", tmp_path / "draft"]
    for i, folder in enumerate(folders):
        tiny(kind, folder, layers=3 - 2 * i, seed=i, vocab_size=size)
        shutil.copytree(tmp_path / "tokenizer", folder, dirs_exist_ok=True)
    pair = lookahead.load("+".join(map(str, folders)))
    assert len(pair.tokenizer) == size == pair.target.vocab
    prompt = "The draft began with its target's \u00e9mbeddings \U0001f438 and"
    for changes in ({}, {"temperature": 0.9, "seed": 5}):
        options = {"max_new_tokens": 32, "k": 4, **changes}
        for methods in (["naive", "draft", "ngram", "hybrid"], ["naive", "tree", "lookahead", "self"]):
            race = lookahead.race(pair, prompt, methods=methods, **options)
            list(race)
            lanes = race.result().lanes
            assert len({tuple(lane.tokens) for lane in lanes}) == 1, "lossless"
            assert len({lane.text for lane in lanes}) == 1
            assert len(lanes[0].tokens) == 32 or lanes[0].steps[-1].finish == "eos"


def test_a_target_without_a_draft_model_can_use_ngrams(tmp_path):
    alone = lookahead.load(tiny("llama", tmp_path / "m"))
    assert emitted(lookahead.decode(alone, "Once", method="ngram", max_new_tokens=5))
    with pytest.raises(ModelError, match="no such draft model"):
        lookahead.decode(alone, "Once", method="draft")


@pytest.mark.parametrize("load", [lookahead.load, load_measured])
def test_a_draft_with_other_tokens_has_a_translator(tmp_path, load):
    target = tiny("llama", tmp_path / "t")
    draft = swapped(target, tmp_path / "d")
    assert len(AutoTokenizer.from_pretrained(draft)) == len(AutoTokenizer.from_pretrained(target))
    pair = load(f"{target}+{draft}")
    assert pair.translators["draft"].share == 1, "the same tokens with other ids"
    assert {(a, b) for a, b in pair.translators["draft"].shared if a != b} == {(300, 301), (301, 300)}
    assert isinstance(pair.draft("draft"), TranslatedLM) and isinstance(pair.drafts["draft"], CachedLM)


def test_a_draft_without_a_token_of_the_target_is_refused(tmp_path):
    target, draft = tiny("llama", tmp_path / "t"), Path(tiny("llama", tmp_path / "d"))
    data = json.loads((draft / "tokenizer.json").read_text(encoding="utf-8"))
    vocab = {
        token if token.startswith("<|") else f"\u0120\u0120\u0120{number}": number
        for token, number in data["model"]["vocab"].items()
    }
    data["model"] |= {"vocab": vocab, "merges": []}
    (draft / "tokenizer.json").write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(ModelError, match="none of its tokens is a token of the target"):
        lookahead.load(f"{target}+{draft}")


def with_added(folder, to, *tokens, size=None):
    """Copy a model and add tokens to its tokenizer."""
    shutil.copytree(folder, to)
    tokenizer = AutoTokenizer.from_pretrained(to)
    tokenizer.add_tokens([AddedToken(token, special=True) for token in tokens])
    tokenizer.save_pretrained(to)
    return str(to)


@pytest.mark.parametrize(
    ("target_tokens", "draft_tokens", "unshared"),
    [
        (["<a>", "<b>"], ["<a>"], {4097}),  # as Qwen3 and Qwen2.5
        (["<a>"], ["<a>", "<b>"], {4097}),
        (["<a>", "<c>"], ["<b>", "<c>"], {4096}),  # another token with the same id
    ],
)
def test_a_draft_may_have_other_added_tokens(tmp_path, target_tokens, draft_tokens, unshared):
    wide = {"vocab_size": 4100}
    target = with_added(tiny("llama", tmp_path / "t", layers=2, **wide), tmp_path / "target", *target_tokens)
    draft = with_added(tiny("llama", tmp_path / "d", layers=1, seed=1, **wide), tmp_path / "draft", *draft_tokens)
    pair = lookahead.load(f"{target}+{draft}")
    lm = pair.drafts["draft"].fresh()
    assert {i for i in range(4098) if i >= lm.vocab or i in lm.unshared} >= unshared and lm.vocab > 4095
    assert not set(lm.extend([5, 6, 7])[0].topk(lm.vocab - len(lm.unshared)).indices.tolist()) & unshared
    for changes in ({}, {"temperature": 0.9}, {"temperature": 0.9, "rule": "rejection"}):
        options = {"max_new_tokens": 16, "k": 3, **changes}
        texts = [
            emitted(lookahead.decode(pair, "Once", method=method, **options)) for method in ("naive", "draft", "tree")
        ]
        assert changes.get("rule") or texts[0] == texts[1] == texts[2]


@pytest.mark.parametrize(
    "spec", ["", "  ", "no-such-family", "org/does-not-exist", "a/b+", "+a/b", "/no/such/folder", None, 7, "../../etc"]
)
def test_a_failed_load_raises_an_error_with_a_hint(spec):
    with pytest.raises(ModelError) as caught:
        lookahead.load(spec)
    assert caught.value.hint
    assert "Traceback" not in str(caught.value)


def test_weights_that_are_not_safetensors_are_refused(tmp_path):
    folder = tmp_path / "m"
    tiny("llama", folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(
        ModelError, match=r"not in model.safetensors but in pytorch_model.bin; only safetensors and GGUF files are read"
    ):
        lookahead.load(str(folder))
    with pytest.raises(ModelError, match="could not be loaded"):
        load_measured(str(folder))


@pytest.mark.timed
def test_unused_objects_are_freed_and_others_are_frozen():
    """A full collection of Gradio's and transformers' objects takes 0.25 s, which must not happen during a race."""
    import gradio  # noqa: F401

    class Ring:
        def __init__(self):
            self.me = self

    try:
        ring = Ring()
        memory.release()
        reference = weakref.ref(ring)
        del ring
        gc.collect()
        assert reference() is not None, "frozen"
        memory.release()
        assert reference() is None, "collected when models change"
        assert gc.get_freeze_count() > 100_000
        start = perf_counter()
        gc.collect()
        assert perf_counter() - start < 0.05
    finally:
        gc.unfreeze()


def test_garbage_is_collected_before_passes_are_timed():
    """Otherwise Python collects during the first race, which pauses for 0.14 s with SmolLM2."""
    seen = []

    def callback(phase, info):
        if phase == "start" and info["generation"] == 2:
            seen.append("collected")

    gc.callbacks.append(callback)
    try:
        load_measured("pocket", lambda text, share: seen.append(text))
    finally:
        gc.callbacks.remove(callback)
    assert seen[seen.index("Measuring pass costs") + 1] == "collected"


def test_the_bundled_family_is_loaded_without_slow_imports():
    """The list of all models in transformers, Gradio and plot libraries would delay a start by seconds."""
    code = (
        "import sys, lookahead; lookahead.load('pocket'); "
        "print([name for name in ('transformers.models', 'transformers.modeling_utils', 'gradio', 'plotly', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.timeout(240)
def test_a_first_start_can_defer_other_drafters(models, monkeypatch, tmp_path):
    """Its races have the same passes, and the next start finds complete measurements."""
    monkeypatch.setenv(measurements.VARIABLE, str(tmp_path))
    first = load_measured("pocket", first={"draft"})
    assert first.estimated and first.deferred == {*first.drafts, *first.heads} - {"draft"}
    assert first.costs.drafters.keys() == models.costs.drafters.keys() and not any(tmp_path.iterdir())
    for method in ("hybrid", "eagle"):
        drafts = [
            [step.draft for step in lookahead.decode(family, "Once upon a time", method)] for family in (first, models)
        ]
        assert drafts[0] == drafts[1]
    assert "eagle" not in first.deferred
    *_, complete = finish_loading(first)
    assert not complete.estimated and not complete.deferred and any(tmp_path.iterdir())
    assert not load_measured("pocket", first={"draft"}).estimated, "the stored measurements are used"
