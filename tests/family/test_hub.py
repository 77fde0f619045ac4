"""Pairs by name, against a small hub of our own: what is said before a download, what is refused, what is brought and resumed."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import time
import weakref
from pathlib import Path

import psutil
import pytest
import torch
from conftest import POCKET, ROOT, emitted, tiny
from fakehub import serving
from huggingface_hub import constants, get_session, hf_hub_url, hf_raise_for_status
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

import lookahead
from lookahead import ModelError
from lookahead.__main__ import main
from lookahead.core import memory
from lookahead.core.events import Cancelled
from lookahead.family import download, hub
from lookahead.family.hub import Known
from lookahead.family.models import load as load_measured
from lookahead.family.suggested import SUGGESTED, fitting
from lookahead.server.limits import Limits

pytestmark = [pytest.mark.models, pytest.mark.long]

VISITOR = Limits()
IN_A_CHILD = download.download
BF16 = torch.bfloat16


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A pair of every kind, one whose tokenizer differs, and what cannot be used."""
    root = tmp_path_factory.mktemp("models")
    made = {kind: (tiny(kind, root / kind / "target", layers=3), tiny(kind, root / kind / "draft", layers=1))
            for kind in ("llama", "qwen3")}  # fmt: skip
    for kind in ("mistral-sliding", "mamba"):
        made[kind] = tiny(kind, root / kind)
    return made


def in_this_process(files, progress, main=False):
    """A download without the second that a process takes to begin."""
    download.receive(files, main)
    progress(sum(file.size for file in files))


@pytest.fixture
def shelf(folders, tmp_path, monkeypatch):
    """A hub with a good pair, and a cache of its own. Files come in this process, but for the tests that use `child`."""
    with serving() as served:
        served.add("org/target", folders["llama"][0])
        served.add("org/draft", folders["llama"][1], licence="mit")
        monkeypatch.setattr(constants, "ENDPOINT", served.url)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", served.url + "/{repo_id}/resolve/{revision}/{filename}"
        )
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_ETAG_TIMEOUT", 5)
        monkeypatch.setenv("HF_ENDPOINT", served.url)
        monkeypatch.setenv("HF_HUB_OFFLINE", "0")
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(download, "download", in_this_process)
        yield served


@pytest.fixture
def child(monkeypatch):
    """Downloads as they are: in a process of their own."""
    monkeypatch.setattr(download, "download", IN_A_CHILD)


def look(spec, **more):
    return hub.check(spec, **{"limits": VISITOR, "dtype": BF16, **more})


def words(plan):
    return {check.topic: str(check.error) if check.error else check.words for check in plan.checks}


def changed(folder, to, **config):
    """A copy of a model with another configuration."""
    shutil.copytree(folder, to)
    path = to / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **config}))
    return to


# ---------------------------------------------------------------- before the download


def test_a_pair_is_known_before_its_weights_are_here(shelf, folders):
    plan = look("org/target + org/draft")
    assert plan.refused is None
    assert plan.spec == "org/target+org/draft"
    target, draft = plan.models
    model = AutoModelForCausalLM.from_pretrained(folders["llama"][0])
    assert target.parameters == sum(p.numel() for p in model.parameters())
    assert target.memory(BF16) == 2 * target.parameters and target.memory(torch.float32) == 4 * target.parameters
    assert (target.role, draft.role, target.architecture) == ("target", "draft", "llama")
    assert (target.licence, draft.licence) == ("apache-2.0", "mit")
    assert plan.missing == sum(Path(f, "model.safetensors").stat().st_size for f in folders["llama"])
    assert not shelf.asked(".safetensors")
    assert list(words(plan)) == ["hub", "weights", "code", "cache", "vocabulary", "memory", "disk", "host"]
    assert "4,096 tokens, the same in all models" in words(plan)["vocabulary"]


def test_tied_weights_count_once(tmp_path, shelf):
    shelf.add("org/tied", tiny("llama", tmp_path / "tied", tie_word_embeddings=True))
    known = look("org/tied").models[0]
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "tied")
    assert known.parameters == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    "spec",
    ["/etc/passwd", "../..", "..", ".", "~", "~/models", "a\\b", "C:\\models", "assets/models", "tests/conftest.py", "org/../etc", "./org/x",
     "a/b/c", "org/name@main", "org/na me", "file:///etc", "https://huggingface.co/org/x", "org/x+/etc", "org/x+../y", "org/é", "o" * 90 + "/long-name", "x" * 5000, "org/\0"],
)  # fmt: skip
def test_a_visitor_names_no_place_on_this_machine(spec, shelf):
    with pytest.raises(ModelError, match="as the hub shows them") as caught:
        look(spec)
    assert caught.value.hint
    assert not shelf.log


@pytest.mark.parametrize("spec", ["", " ", "+", "org/x+", "+org/x", None, 7])
def test_a_visitor_leaves_no_name_out(spec, shelf):
    with pytest.raises(ModelError, match="a name is missing"):
        look(spec)


def test_a_visitor_may_ask_for_the_bundled_family_and_for_no_other_word(shelf):
    plan = look("pocket")
    assert plan.refused is None
    assert not plan.missing
    assert all("Llama" in known.licence for known in plan.models)
    for spec in ("pockets", "gpt2", "README"):
        with pytest.raises(ModelError, match="no such bundled family"):
            look(spec)
    with pytest.raises(ModelError, match="at most 3 drafts"):
        look("+".join(["org/target"] * 5))


def test_what_the_host_allows(shelf):
    with pytest.raises(ModelError, match="switched loading off"):
        look("org/target+org/draft", limits=Limits(loading="none"))
    with pytest.raises(ModelError, match="switched loading off"):
        look("pocket", limits=Limits(loading="none"))
    with pytest.raises(ModelError, match="suggested pairs only"):
        look("org/target+org/draft", limits=Limits(loading="listed"))
    pair = SUGGESTED[0]
    assert hub.requested(pair.spec, Limits(loading="listed")) == {"target": pair.target, "draft": pair.draft}
    assert hub.requested("pocket", Limits(loading="listed"))
    assert not shelf.log
    plan = look("org/target+org/draft", limits=Limits(max_model_gb=0.0001))
    assert "the host of this server allows 0.1 MB" in str(plan.refused)
    assert look("org/target+org/draft", limits=Limits(max_model_gb=1)).refused is None


def test_the_host_may_give_folders(folders, shelf):
    plan = look("+".join(folders["qwen3"]), limits=None)
    assert plan.refused is None
    assert not plan.missing
    assert not shelf.log


# ---------------------------------------------------------------- refusals


def test_a_name_that_is_not_there(shelf):
    plan = look("Qwen/Qwen3-8b+org/draft")
    assert 'the hub shows no such model; check the spelling ("Qwen/Qwen3-8B"?)' in str(plan.refused)
    assert "HF_TOKEN if it is private" in str(plan.refused)
    with pytest.raises(ModelError):
        hub.download(plan)


def test_a_gated_model_says_where_to_ask(shelf, folders):
    shelf.add("org/gated", folders["llama"][0], gated=True)
    plan = look("org/gated+org/draft")
    assert plan.models[0].gated
    assert f"agree to its terms on {shelf.url}/org/gated" in str(plan.refused)
    assert "HF_TOKEN" in str(plan.refused)


def test_a_visitor_does_not_see_what_the_server_may(shelf, folders, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_host")
    shelf.add("host/private", folders["llama"][0], private=True)
    shelf.add("host/small", folders["llama"][1], private=True)
    assert look("host/private", limits=None).refused is None
    assert "the hub shows no such model" in str(look("host/private").refused)
    hub.download(look("host/small", limits=None))
    hub.download(look("org/draft"))
    shelf.add("org/odd", swapped(folders["llama"][1], tmp_path / "odd"))
    assert "Drafts that would fit: org/draft." in str(look("org/target+org/odd").refused)
    assert "Drafts that would fit: host/small, org/draft." in str(look("org/target+org/odd", limits=None).refused)


def test_no_safetensors(shelf, folders, tmp_path):
    folder = tmp_path / "m"
    shutil.copytree(folders["llama"][0], folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    shelf.add("org/pickle", folder)
    assert "not in model.safetensors but in pytorch_model.bin; only safetensors" in str(look("org/pickle").refused)
    (folder / "pytorch_model.bin").unlink()
    shelf.add("org/empty", folder)
    assert "it has no weights" in str(look("org/empty").refused)
    (folder / "config.json").unlink()
    shelf.add("org/adapter", folder)
    assert "no config.json" in str(look("org/adapter").refused)


def test_code_of_its_own_is_never_run(shelf, folders, tmp_path):
    code = {"auto_map": {"AutoConfig": "configuration_odd.OddConfig", "AutoModelForCausalLM": "modeling_odd.OddModel"}}
    folder = changed(folders["llama"][0], tmp_path / "odd", model_type="odd", **code)
    (folder / "configuration_odd.py").write_text("raise SystemExit('this was run')")
    shelf.add("org/odd", folder)
    assert "needs code of its own (auto_map), which is never run here" in str(look("org/odd").refused)
    assert not shelf.asked(".py")
    shelf.add("org/unknown", changed(folders["llama"][0], tmp_path / "unknown", model_type="odd"))
    assert "does not know its architecture (odd)" in str(look("org/unknown").refused)
    shelf.add("org/native", changed(folders["llama"][0], tmp_path / "native", **code))  # it has some, and needs none
    assert look("org/native").refused is None


def test_quantised_weights_and_what_is_no_decoder(shelf, folders, tmp_path):
    shelf.add("org/awq", changed(folders["llama"][0], tmp_path / "awq", quantization_config={"quant_method": "awq"}))
    assert "quantised" in str(look("org/awq").refused)
    shelf.add("org/t5", changed(folders["llama"][0], tmp_path / "t5", model_type="t5"))
    assert "cannot be used" in str(look("org/t5").refused)
    shelf.add("org/bloom", changed(folders["llama"][0], tmp_path / "bloom", model_type="bloom"))
    assert "cannot be told positions" in str(look("org/bloom").refused)
    folder = changed(folders["llama"][0], tmp_path / "broken")
    (folder / "config.json").write_text('["no object"]')
    shelf.add("org/broken", folder)
    assert "configuration cannot be used" in str(look("org/broken").refused)


def test_damaged_small_files_are_named_with_the_model(shelf, folders, tmp_path, capsys):
    for number, (name, text) in enumerate(
        [
            ("config.json", ""), ("config.json", '{"model_type": []}'), ("generation_config.json", '{"eos_token_id": [[0]]}'),
            ("tokenizer.json", "{"), ("tokenizer_config.json", "null"),
        ]
    ):  # fmt: skip
        folder = changed(folders["llama"][1], tmp_path / str(number))
        (folder / name).write_text(text)
        shelf.add(f"org/damaged-{number}", folder)
        for pair in (f"org/damaged-{number}", f"org/target+org/damaged-{number}"):
            refused = str(look(pair).refused)
            assert refused.startswith(f"model is 'org/damaged-{number}'") and f"{name} cannot be read" in refused
    assert main(["run", "--models", f"org/target+{folder}", "Once"]) == 2
    said = capsys.readouterr().err
    assert "tokenizer_config.json cannot be read" in said and "Traceback" not in said


def test_a_head_is_compared_with_a_target_of_any_architecture(tmp_path, shelf):
    shelf.add("org/gpt2", tiny("gpt2", tmp_path / "gpt2"))
    shelf.add("org/head", POCKET / "block")
    assert "hidden states" in str(look("org/gpt2+org/head").refused)
    assert "give the target's name first" in str(look("org/head").refused)


def test_what_a_repository_claims_is_not_believed(shelf, folders, tmp_path):
    shelf.add("org/tall", changed(folders["llama"][0], tmp_path / "tall", num_hidden_layers=10**8))
    assert "claims 100,000,000 layers" in str(look("org/tall").refused)
    shelf.add("org/fat", folders["llama"][0], sizes={"merges.txt": 1 << 40})
    assert "merges.txt is implausibly large" in str(look("org/fat").refused)
    too_large = download.explained("org/whole", ValueError("The file is too large to be downloaded"))
    assert "it cannot be downloaded (ValueError: The file is too large" in str(too_large)
    for name, index in (
        ("odd", "[]"),
        ("script", '{"weight_map": {"a": "run.py"}}'),
        ("gone", '{"weight_map": {"a": "b.safetensors"}}'),
        ("outside", '{"weight_map": {"a": "../outside.safetensors"}}'),
    ):
        folder = changed(folders["llama"][0], tmp_path / name)
        (folder / "model.safetensors").unlink()
        (folder / "run.py").write_text("raise SystemExit")
        (folder / "model.safetensors.index.json").write_text(index)
        shelf.add(f"org/{name}", folder, sizes={"../outside.safetensors": 10})
        assert "choose another copy of this model" in str(look(f"org/{name}").refused)


@pytest.mark.parametrize("kind", ["mistral-sliding", "mamba"])
def test_what_cannot_be_rolled_back_is_refused_from_its_configuration_alone(shelf, folders, kind, tmp_path):
    shelf.add("org/stuck", folders[kind])
    error = look("org/stuck+org/draft").refused
    assert "cannot be rolled back; choose a model" in str(error)
    assert not shelf.asked(".safetensors")
    with pytest.raises(ModelError) as caught:
        load_measured(folders[kind])
    assert caught.value.hint == error.hint, "the same words before and after loading"
    with pytest.raises(ModelError, match="cannot be rolled back"):
        lookahead.load(folders[kind])


def test_too_large_for_memory_and_disk(shelf, folders, tmp_path, monkeypatch):
    shelf.add(
        "org/huge",
        changed(
            folders["llama"][0], tmp_path / "huge", num_hidden_layers=4, hidden_size=1 << 20, intermediate_size=1 << 22
        ),
    )
    plan = look("org/huge+org/draft")
    assert "of memory and" in str(plan.refused) and "choose a smaller one" in str(plan.refused)
    assert plan.models[0].parameters > 1e13
    monkeypatch.setattr(memory, "disk_free", lambda folder: 1000)
    assert "of the disk are free" in str(look("org/target+org/draft").refused)


def test_a_draft_with_another_tokenizer_is_refused_with_those_that_fit(shelf, folders, tmp_path):
    odd = swapped(folders["qwen3"][1], tmp_path / "odd")
    shelf.add("org/odd", odd)
    shelf.add("Qwen/Qwen3-8B", folders["qwen3"][0])
    shelf.add("distilbert/distilgpt2", folders["llama"][1])  # another family's draft, with the same tokenizer file
    hub.download(look("org/draft"))  # a copy on this server, with the same tokenizer file
    error = look("Qwen/Qwen3-8B+org/odd").refused
    assert "vocabulary differs from Qwen/Qwen3-8B's in 2 tokens" in str(error)
    assert "Drafts that would fit: Qwen/Qwen3-0.6B, distilbert/distilgpt2, org/draft." in str(error)
    assert not [path for _, path, _ in shelf.log if path.endswith(".safetensors") and "org/draft" not in path]
    error = look("org/target+org/odd").refused
    assert "Drafts that would fit: distilbert/distilgpt2, org/draft." in str(error)
    swapped(folders["llama"][0], tmp_path / "lone")
    shelf.add("org/lone", tmp_path / "lone")
    assert "would fit" not in str(look("org/lone+org/draft").refused), "nobody has that tokenizer"


def swapped(folder, to):
    """A copy with two tokens swapped: as many, and others."""
    shutil.copytree(folder, to)
    data = json.loads((to / "tokenizer.json").read_text(encoding="utf-8"))
    vocab = data["model"]["vocab"]
    first, second = sorted(vocab, key=vocab.get)[300:302]
    vocab[first], vocab[second] = vocab[second], vocab[first]
    data["model"]["merges"] = []
    (to / "tokenizer.json").write_text(json.dumps(data), encoding="utf-8")
    return to


def test_without_a_connection(shelf, monkeypatch):
    hub.download(look("org/target+org/draft"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    plan = look("org/target+org/draft")
    assert plan.refused is None
    assert not plan.missing
    assert "works without a connection (HF_HUB_OFFLINE)" in str(look("org/other").refused)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert look("org/target+org/draft").refused is None
    assert "the hub cannot be reached (ConnectError); try again later" in str(look("org/other").refused)


def test_what_was_only_looked_at_is_not_a_copy(shelf, monkeypatch):
    look("org/target")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert "has no copy" in str(look("org/target").refused)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_hub_with_troubles_of_its_own(shelf, status):
    shelf.down = status
    assert f"cannot be reached (HfHubHTTPError {status})" in str(look("org/target").refused)


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "does not accept this server's HF_TOKEN"), (403, "agree to its terms on"), (404, "the hub shows no such model"),
     (429, "cannot be reached (HfHubHTTPError 429)"), (500, "cannot be reached (HfHubHTTPError 500)")],
)  # fmt: skip
def test_a_file_that_is_refused_says_why(shelf, status, words, monkeypatch):
    """The client asks again for half a minute after some of these: not here."""
    plan, raised = look("org/target"), []

    def once(repo, name, **_):
        shelf.faults = {name: status}
        try:
            response = get_session().get(hf_hub_url(repo, name), timeout=5)
            hf_raise_for_status(response)
        except HfHubHTTPError as error:
            raised.append(error)
            raise LocalEntryNotFoundError("not here either") from error

    monkeypatch.setattr(download, "hf_hub_download", once)
    with pytest.raises(ModelError) as caught:
        hub.download(plan)
    assert words in str(caught.value) and raised


# ---------------------------------------------------------------- the download


@pytest.fixture
def large(shelf, folders, tmp_path):
    """A pair whose target comes in several shards, with what is never to be brought beside them."""
    folder = tmp_path / "large"
    shutil.copytree(folders["llama"][0], folder)
    tensors = load_file(folder / "model.safetensors")
    names = sorted(tensors)
    parts = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for file, held in parts.items():
        save_file({name: tensors[name] for name in held}, folder / file, metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": {name: file for file, held in parts.items() for name in held}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "model.safetensors").unlink()
    for never in ("pytorch_model.bin", "consolidated.safetensors", "modeling.py", "README.md"):
        (folder / never).write_bytes(b"x" * 100)
    shelf.add("org/large", folder)
    return "org/large+org/draft"


def test_only_what_is_needed_is_brought_and_then_it_races(shelf, child, large):
    plan, seen = look(large), []
    found = hub.download(plan, lambda text, share: seen.append((text, share)))
    assert found.keys() == {"org/large", "org/draft"}
    assert not [path for _, path, _ in shelf.log if path.endswith((".bin", ".py", ".md", "consolidated.safetensors"))]
    shares = [share for _, share in seen]
    assert shares == sorted(shares) and shares[-1] == 1.0
    assert seen[-1][0].startswith(f"Downloading: {hub.size(plan.missing or sum(k.bytes for k in plan.models))} of")
    assert look(large).missing == 0, "what is here counts as none"
    shelf.log.clear()
    pair = load_measured(plan.spec, dtype=BF16, folder_of=found)
    assert not shelf.log, "nothing is asked of the hub in the thread that computes"
    assert pair.names == {"target": "org/large", "draft": "org/draft"}
    steps = {m: emitted(lookahead.decode(pair, "Once", method=m, max_new_tokens=12)) for m in ("naive", "draft")}
    assert steps["draft"] == steps["naive"]


def test_load_does_it_all(shelf):
    seen = []
    pair = lookahead.load("org/target+org/draft", lambda text, share: seen.append((text, share)))
    assert set(pair.drafts) >= {"draft"}
    shares = [share for _, share in seen]
    assert shares == sorted(shares) and shares[-1] == 1.0
    assert any(text.startswith("Downloading") for text, _ in seen)
    with pytest.raises(ModelError, match="no such model"):
        lookahead.load("org/target+org/missing")


def unfinished(folder):
    return [path for path in folder.rglob("*") if path.suffix == ".incomplete"]


def workers(process):
    return [child for child in psutil.Process(process).children() if download.__name__ in child.cmdline()]


def test_a_download_is_stopped_within_a_second_and_goes_on_with_the_files_that_are_missing(
    shelf, child, tmp_path, large
):
    plan, stopping = look(large), []
    missing = plan.missing
    shelf.stalls = {"model-00002-of-00002.safetensors"}

    def stop(text, share):
        if unfinished(tmp_path) and plan.models[0].files[-2].here:
            stopping.append(time.monotonic())
            raise Cancelled

    with pytest.raises(Cancelled):
        hub.download(plan, stop)
    assert time.monotonic() - stopping[0] < 1
    assert not unfinished(tmp_path) and not workers(os.getpid())
    assert look(large).missing == missing - plan.models[0].files[-2].size
    with pytest.MonkeyPatch.context() as without:
        without.setattr(constants, "HF_HUB_OFFLINE", True)
        assert "has no copy" in str(look("org/large").refused), "what is half there is no copy"
    shelf.stalls = set()
    shelf.log.clear()
    hub.download(look(large))
    assert shelf.asked("model-00002-of-00002.safetensors") and not shelf.asked("model-00001-of-00002.safetensors")
    for name in ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"):
        assert (download.cached("org/large") / name).read_bytes() == (
            shelf.repos["org/large"].folder / name
        ).read_bytes()


def test_a_connection_that_breaks_is_taken_up_again(shelf, child):
    plan = look("org/target")
    shelf.breaks = 1
    found = hub.download(plan)
    ours = found["org/target"] / "model.safetensors"
    assert ours.read_bytes() == (shelf.repos["org/target"].folder / "model.safetensors").read_bytes()
    spans = shelf.asked("model.safetensors")
    assert len(spans) == 2 and int(spans[1].strip("bytes=-")) > 0


def test_a_hub_that_sends_nothing_is_not_waited_for(shelf, child, tmp_path, monkeypatch):
    plan = look("org/target")
    shelf.stalls = {"model.safetensors"}
    monkeypatch.setattr(download, "STALLED_S", 1)
    with pytest.raises(ModelError, match="the hub has stopped sending; try again later"):
        hub.download(plan)
    assert not unfinished(tmp_path) and look("org/target").missing
    shelf.stalls = set()


def test_a_file_of_another_size_than_announced_is_never_taken_for_the_model(shelf, folders, tmp_path, monkeypatch):
    whole = Path(folders["llama"][0], "model.safetensors").stat().st_size
    repo = shelf.add("org/short", folders["llama"][0], sizes={"model.safetensors": whole + 1})
    plan = look("org/short")
    for _ in range(2):
        with pytest.raises(ModelError, match=r"model\.safetensors has another size than the hub announced"):
            hub.download(plan)
        assert plan.models[0].missing and download.cached("org/short") is None
    repo.sizes.clear()
    assert not look("org/short").missing


def test_a_download_that_is_killed_says_so_and_leaves_nothing_that_counts(shelf, child, tmp_path):
    plan = look("org/target")
    shelf.stalls = {"model.safetensors"}

    def kill(text, share):
        if unfinished(tmp_path):
            for worker in workers(os.getpid()):
                worker.kill()

    with pytest.raises(ModelError, match=r"its download broke off \(-9\); load again"):
        hub.download(plan, kill)
    shelf.stalls = set()
    assert plan.missing and download.cached("org/target") is None


def test_a_folder_that_cannot_be_written_is_told(shelf):
    for number, words in (
        (errno.ENOSPC, "the disk is full"),
        (errno.EROFS, "cannot be written (Read-only file system)"),
    ):
        assert words in str(download.explained("org/target", OSError(number, os.strerror(number), "/a/secret/place")))
    assert "secret" not in str(download.explained("org/target", OSError(errno.EROFS, "Read-only", "/a/secret/place")))


def test_a_download_ends_with_the_program_that_began_it_and_leftovers_are_removed(shelf, tmp_path):
    plan = look("org/target")
    shelf.stalls = {"model.safetensors"}
    files = [(f.repo, f.commit, f.name, f.size) for f in plan.models[0].files]
    code = f"from lookahead.family import download as d; d.download([d.File(*f) for f in {files}], lambda _: None)"
    begun = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    while not unfinished(tmp_path):
        time.sleep(0.05)
    (worker,) = workers(begun.pid)
    begun.kill()
    begun.wait()
    worker.wait(10)
    shelf.stalls = set()
    assert not unfinished(tmp_path)
    old = download.cache() / "models--org--target" / "blobs" / "abc.123.incomplete"
    old.write_text("left by a power cut")
    os.utime(old, (1, 1))
    assert IN_A_CHILD(plan.files, lambda _: None) is None
    assert not unfinished(tmp_path) and not look("org/target").missing


def test_files_go_where_other_programs_find_them(shelf):
    hub.download(look("org/target"))
    from huggingface_hub import hf_hub_download

    assert Path(hf_hub_download("org/target", "model.safetensors", local_files_only=True)).is_file()
    folder = download.cached("org/target")
    os.truncate(folder / "model.safetensors", 1000)
    plan = look("org/target")
    assert plan.missing == plan.models[0].bytes, "a damaged file comes again"
    assert hub.download(plan) and look("org/target").missing == 0
    assert {path.name for path in (folder.parents[1] / "blobs").iterdir()} == {
        path.resolve().name for path in folder.iterdir()
    }


def test_the_command_line_refuses_in_one_line_and_brings_what_is_good(shelf, folders, tmp_path):
    hub_of_ours = {"HF_ENDPOINT": shelf.url, "HF_HUB_OFFLINE": "0", "HF_HUB_CACHE": str(tmp_path / "other")}
    environment = {**os.environ, **hub_of_ours}
    quiet = {"cwd": ROOT, "env": environment, "capture_output": True, "text": True, "timeout": 120, "check": False}
    done = subprocess.run([sys.executable, "app.py", "--models", folders["mistral-sliding"]], **quiet)
    assert done.returncode == 2
    assert done.stderr.strip().startswith("lookahead: model is") and done.stderr.strip().count("\n") == 0
    assert "cannot be rolled back" in done.stderr
    options = ["--method", "draft", "--max-new-tokens", "8", "--models", "org/target+org/draft"]
    done = subprocess.run([sys.executable, "-m", "lookahead", "run", "Once upon", *options], **quiet)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Once upon")
    assert (tmp_path / "other" / "models--org--draft").is_dir()


def test_nothing_holds_models_that_are_no_longer_in_use(shelf):
    import gc

    pair = lookahead.load("org/target+org/draft")
    held = weakref.ref(pair.target.model)
    del pair
    gc.collect()
    assert held() is None


# ---------------------------------------------------------------- room, and what is suggested


def test_a_container_has_what_it_was_given(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    whole = memory.free()
    assert whole > 1e8
    (tmp_path / "memory.max").write_text("4000\n")
    (tmp_path / "memory.current").write_text("1500\n")
    (tmp_path / "memory.stat").write_text("anon 1000\ninactive_file 500\n")
    assert memory.free() == 3000
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.free() > 1e8
    assert memory.disk_free(tmp_path / "not" / "yet") > 0


def test_suggestions_are_pairs_of_one_family():
    for pair in SUGGESTED:
        assert hub.NAME.fullmatch(pair.target) and hub.NAME.fullmatch(pair.draft)
        assert pair.sizes[0] > 2 * pair.sizes[1]
        assert pair.head or pair.draft in fitting(pair.target)
        assert pair.target not in fitting(pair.target) and pair.draft not in fitting(pair.draft)
        assert pair.licence and pair.note.endswith(".")
        assert hub.requested(pair.spec, VISITOR)
    assert {pair.room for pair in SUGGESTED} == {"a processor", "one GPU", "several GPUs"}
    assert fitting("nobody/knows") == [] and "Qwen/Qwen3-0.6B" in fitting("Qwen/Qwen3-of-unknown-size")
    known = Known("target", "Qwen/Qwen2.5-72B-Instruct", "x")
    assert hub.fitting(known, ["Qwen/Qwen2.5-7B-Instruct"])[0] == "Qwen/Qwen2.5-0.5B-Instruct"
