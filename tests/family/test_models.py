"""Loading: one way for the bundled family, folders and hub names; clear refusals."""

import gc
import shutil
import subprocess
import sys
import weakref
from time import perf_counter

import pytest
from conftest import POCKET, ROOT, emitted, tiny
from test_hub import swapped
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer
from transformers import AutoTokenizer, PreTrainedTokenizerFast

import lookahead
from lookahead import ModelError
from lookahead.core import memory
from lookahead.engine.methods import methods_for
from lookahead.family.models import load as load_measured

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


@pytest.mark.parametrize("kind", ["llama", "mistral", "qwen2", "qwen3", "gemma", "gpt2"])
def test_a_pair_of_folders_races_losslessly(tmp_path, kind):
    target = tiny(kind, tmp_path / "target", layers=3)
    draft = tiny(kind, tmp_path / "draft", layers=1, seed=1)
    pair = lookahead.load(f"{target}+{draft}")
    for changes in ({}, {"temperature": 0.8}):
        options = {"max_new_tokens": 24, "seed": 3, **changes}
        naive = emitted(lookahead.decode(pair, "Once upon a time", method="naive", **options))
        for method in methods_for(pair)[1:]:
            assert emitted(lookahead.decode(pair, "Once upon a time", method=method, k=3, **options)) == naive
    selfish = lookahead.load(f"{target}+{target}")
    steps = list(lookahead.decode(selfish, "Once upon a time", method="draft", k=3, max_new_tokens=24))[1:]
    assert all(step.accepted == len(step.draft) for step in steps)


def own_tokenizer(kind, *folders):
    """A tokenizer of the architecture's own sort, learned from a page of text and saved to the folders; its size."""
    text = (POCKET / "README.md").read_text(encoding="utf-8").splitlines()
    if kind in ("llama", "mistral"):  # pieces of words behind a mark for the blank, single bytes for the rest
        made = Tokenizer(BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        made.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
        special = {"eos_token": "</s>", "bos_token": "<s>", "unk_token": "<unk>"}
        extra = [f"<0x{byte:02X}>" for byte in range(256)]
    else:  # bytes throughout
        made = Tokenizer(BPE())
        made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
        special = {"eos_token": "<|endoftext|>"} | ({"pad_token": "<|im_end|>"} if kind == "qwen3" else {})
        extra = sorted(pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator(
        text, BpeTrainer(vocab_size=900, special_tokens=list(special.values()), show_progress=False)
    )
    made.add_tokens([token for token in extra if made.token_to_id(token) is None])
    wrapped = PreTrainedTokenizerFast(tokenizer_object=made, **special)
    for folder in folders:
        wrapped.save_pretrained(folder)
    return len(wrapped)


@pytest.mark.parametrize("kind", ["llama", "qwen3", "gpt2", "mistral"])
def test_a_pair_with_a_tokenizer_of_its_own_is_loaded_by_path_and_raced(tmp_path, kind):
    size = own_tokenizer(kind, tmp_path / "words")
    folders = [tmp_path / "target", tmp_path / "draft"]
    for i, folder in enumerate(folders):
        tiny(kind, folder, layers=3 - 2 * i, seed=i, vocab_size=size)
        shutil.copytree(tmp_path / "words", folder, dirs_exist_ok=True)
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


def test_a_target_without_a_draft_can_use_ngrams_only(tmp_path):
    alone = lookahead.load(tiny("llama", tmp_path / "m"))
    assert emitted(lookahead.decode(alone, "Once", method="ngram", max_new_tokens=5))
    with pytest.raises(ModelError, match="no such draft model"):
        lookahead.decode(alone, "Once", method="draft")


@pytest.mark.parametrize("load", [lookahead.load, load_measured])
def test_another_vocabulary_is_refused_by_token_map(tmp_path, load):
    target = tiny("llama", tmp_path / "t")
    draft = swapped(target, tmp_path / "d")
    assert len(AutoTokenizer.from_pretrained(draft)) == len(AutoTokenizer.from_pretrained(target))
    with pytest.raises(ModelError, match=r"vocabulary differs from .* in 2 tokens") as caught:
        load(f"{target}+{draft}")
    assert "trained with the target's tokenizer" in str(caught.value)


@pytest.mark.parametrize(
    "spec", ["", "  ", "no-such-family", "org/does-not-exist", "a/b+", "+a/b", "/no/such/folder", None, 7, "../../etc"]
)
def test_what_cannot_be_loaded_says_why(spec):
    with pytest.raises(ModelError) as caught:
        lookahead.load(spec)
    assert caught.value.hint
    assert "Traceback" not in str(caught.value)


def test_weights_that_are_not_safetensors_are_refused(tmp_path):
    folder = tmp_path / "m"
    tiny("llama", folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(
        ModelError, match=r"not in model.safetensors but in pytorch_model.bin; only safetensors are read"
    ):
        lookahead.load(str(folder))
    with pytest.raises(ModelError, match="could not be loaded"):
        load_measured(str(folder))


@pytest.mark.timed
def test_what_is_no_longer_used_is_given_back_and_the_rest_set_aside():
    """Looking through everything that Gradio and transformers hold takes a quarter of a second: not during a race."""
    import gradio  # noqa: F401

    class Ring:
        def __init__(self):
            self.me = self

    try:
        held = Ring()
        memory.release()
        gone = weakref.ref(held)
        del held
        gc.collect()
        assert gone() is not None, "set aside"
        memory.release()
        assert gone() is None, "and looked at again when models change"
        assert gc.get_freeze_count() > 100_000
        start = perf_counter()
        gc.collect()
        assert perf_counter() - start < 0.05
    finally:
        gc.unfreeze()


def test_what_is_loaded_is_looked_through_before_passes_are_timed():
    """Else Python does it in the middle of the first race, which stands still for 0.14 s with SmolLM2."""
    seen = []

    def look(phase, about):
        if phase == "start" and about["generation"] == 2:
            seen.append("looked through")

    gc.callbacks.append(look)
    try:
        load_measured("pocket", lambda text, share: seen.append(text))
    finally:
        gc.callbacks.remove(look)
    assert seen[seen.index("Measuring what a pass costs") + 1] == "looked through"


def test_the_bundled_family_is_loaded_without_what_takes_seconds_to_import():
    """A start would wait for it: transformers' list of all its models, Gradio, plots."""
    code = (
        "import sys, lookahead; lookahead.load('pocket'); "
        "print([name for name in ('transformers.models', 'transformers.modeling_utils', 'gradio', 'plotly', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
