"""Pairs from a fake hub: checks before a download, errors, downloads and their continuation."""

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
from lookahead.family.hub import InspectedModel
from lookahead.family.models import load as load_measured
from lookahead.family.suggested import SUGGESTED, fitting
from lookahead.model import gguf as model_gguf
from lookahead.server.limits import Limits
from lookahead.servers import gguf

pytestmark = [pytest.mark.models, pytest.mark.long]

VISITOR = Limits()
IN_A_CHILD = download.download
BF16 = torch.bfloat16


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Pairs of two architectures, and a model that cannot be used."""
    root = tmp_path_factory.mktemp("models")
    pairs = {kind: (tiny(kind, root / kind / "target", layers=3), tiny(kind, root / kind / "draft", layers=1))
            for kind in ("llama", "qwen3")}  # fmt: skip
    for kind in ("openai-gpt",):
        pairs[kind] = tiny(kind, root / kind)
    return pairs


def in_this_process(files, progress, main=False):
    """Download without the second that a child process takes to start."""
    download.receive(files, main)
    progress(sum(file.size for file in files))


@pytest.fixture
def fake(folders, tmp_path, monkeypatch):
    """A fake hub with a valid pair, and an empty cache. Downloads run in this process, unless a test uses `child`."""
    with serving() as served:
        served.add("org/target", folders["llama"][0])
        served.add("org/draft", folders["llama"][1], license="mit")
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
    """Run downloads in a child process, as outside the tests."""
    monkeypatch.setattr(download, "download", IN_A_CHILD)


def inspect(spec, **options):
    return hub.check(spec, **{"limits": VISITOR, "dtype": BF16, **options})


def messages(plan):
    return {check.topic: str(check.error) if check.error else check.message for check in plan.checks}


def changed(folder, to, **config):
    """Copy a model and change its configuration."""
    shutil.copytree(folder, to)
    path = to / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **config}))
    return to


# ---------------------------------------------------------------- before the download


def test_a_pair_is_checked_before_its_weights_are_downloaded(fake, folders):
    plan = inspect("org/target + org/draft")
    assert plan.refused is None
    assert plan.spec == "org/target+org/draft"
    target, draft = plan.models
    model = AutoModelForCausalLM.from_pretrained(folders["llama"][0])
    assert target.parameters == sum(p.numel() for p in model.parameters())
    assert target.memory(BF16) == 2 * target.parameters and target.memory(torch.float32) == 4 * target.parameters
    assert (target.role, draft.role, target.architecture) == ("target", "draft", "llama")
    assert (target.license, draft.license) == ("apache-2.0", "mit")
    assert plan.missing == sum(Path(f, "model.safetensors").stat().st_size for f in folders["llama"])
    assert not fake.requested_ranges(".safetensors")
    assert list(messages(plan)) == ["hub", "weights", "code", "cache", "vocabulary", "memory", "disk", "host"]
    assert "4,096 tokens, the same in all models" in messages(plan)["vocabulary"]


def test_tied_weights_count_once(tmp_path, fake):
    fake.add("org/tied", tiny("llama", tmp_path / "tied", tie_word_embeddings=True))
    inspected = inspect("org/tied").models[0]
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "tied")
    assert inspected.parameters == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    "spec",
    ["/etc/passwd", "../..", "..", ".", "~", "~/models", "a\\b", "C:\\models", "assets/models", "tests/conftest.py", "org/../etc", "./org/x",
     "a/b/c", "/etc/x.gguf", "../x.gguf", "org/../x/m.gguf", "./org/x/m.gguf", "org/x/../m.gguf", "https://x.org/m.gguf",
     "org/x/m.gguf@main", "org/x/m.GGUF", "org/x/" + "m" * 200 + ".gguf", "org/name@main", "org/na me", "file:///etc", "https://huggingface.co/org/x", "org/x+/etc", "org/x+../y", "org/é", "o" * 90 + "/long-name", "x" * 5000, "org/\0"],
)  # fmt: skip
def test_a_visitor_cannot_name_a_folder(spec, fake):
    with pytest.raises(ModelError, match="give hub names") as caught:
        inspect(spec)
    assert caught.value.hint
    assert not fake.log


@pytest.mark.parametrize("spec", ["", " ", "+", "org/x+", "+org/x", None, 7])
def test_a_visitor_must_give_every_name(spec, fake):
    with pytest.raises(ModelError, match="a name is missing"):
        inspect(spec)


def test_a_visitor_may_name_the_bundled_family(fake):
    plan = inspect("pocket")
    assert plan.refused is None
    assert not plan.missing
    assert all("Llama" in model.license for model in plan.models)
    for spec in ("pockets", "gpt2", "README"):
        with pytest.raises(ModelError, match="no such bundled family"):
            inspect(spec)
    with pytest.raises(ModelError, match="at most 3 drafts"):
        inspect("+".join(["org/target"] * 5))


def test_a_visitor_cannot_name_a_gguf_file_of_the_server(fake, gguf_repo, monkeypatch):
    monkeypatch.chdir(gguf_repo.parent)
    (gguf_repo.parent / "org" / "gguf").mkdir(parents=True)
    (gguf_repo.parent / "org" / "gguf" / "m.gguf").write_bytes(b"secret")
    with pytest.raises(ModelError, match="give hub names"):
        inspect("org/gguf/m.gguf")
    assert not fake.log


def test_the_limits_of_the_host(fake):
    with pytest.raises(ModelError, match="switched loading off"):
        inspect("org/target+org/draft", limits=Limits(loading="none"))
    with pytest.raises(ModelError, match="switched loading off"):
        inspect("pocket", limits=Limits(loading="none"))
    with pytest.raises(ModelError, match="suggested pairs only"):
        inspect("org/target+org/draft", limits=Limits(loading="listed"))
    pair = SUGGESTED[0]
    assert hub.requested(pair.spec, Limits(loading="listed")) == {"target": pair.target, "draft": pair.draft}
    assert hub.requested("pocket", Limits(loading="listed"))
    assert not fake.log
    plan = inspect("org/target+org/draft", limits=Limits(max_model_gb=0.0001))
    assert "the host of this server allows 0.1 MB" in str(plan.refused)
    assert inspect("org/target+org/draft", limits=Limits(max_model_gb=1)).refused is None


def test_the_host_may_give_folders(folders, fake):
    plan = inspect("+".join(folders["qwen3"]), limits=None)
    assert plan.refused is None
    assert not plan.missing
    assert not fake.log


@pytest.fixture
def gguf_repo(fake, folders, tmp_path, monkeypatch):
    """A repository with GGUF files only. Converted models are in a temporary folder."""
    monkeypatch.setenv("LOOKAHEAD_CACHE", str(tmp_path / "measured"))
    folder = tmp_path / "gguf"
    (folder / "sub").mkdir(parents=True)
    gguf.write(folders["llama"][0], folder / "m.gguf")
    gguf.write(folders["llama"][1], folder / "sub" / "draft.gguf")
    (folder / "m-00001-of-00002.gguf").write_bytes(b"GGUF" + bytes(20))
    fake.add("org/gguf", folder)
    return folder


def test_a_gguf_file_is_checked_by_its_header_then_downloaded_and_converted(fake, gguf_repo, folders, monkeypatch):
    monkeypatch.setattr(model_gguf, "FIRST_BYTES", 1000)
    spec, sizes = (
        "org/gguf/m.gguf+org/gguf/sub/draft.gguf",
        [(gguf_repo / name).stat().st_size for name in ("m.gguf", "sub/draft.gguf")],
    )
    plan = inspect(spec)
    assert plan.refused is None and plan.missing == sum(sizes)
    assert [model.license for model in plan.models] == ["apache-2.0"] * 2
    assert messages(plan)["weights"] == "In a GGUF file (F16), which is converted to safetensors once."
    assert "the same in all models" in messages(plan)["vocabulary"]
    spans = fake.requested_ranges("/m.gguf")
    assert spans[0] == "bytes=0-999" and len(spans) > 1
    assert all(int(span.rpartition("-")[2]) < sizes[0] / 2 for span in spans), "the weights are not read"
    inspect(spec)
    hub.download(plan)
    assert None in fake.requested_ranges("/m.gguf")
    loaded = hub.load(spec)
    assert loaded.names == {"target": "org/gguf/m.gguf", "draft": "org/gguf/sub/draft.gguf"}
    naive, drafted = (
        emitted(lookahead.decode(loaded, "Once", method, max_new_tokens=16)) for method in ("naive", "draft")
    )
    assert naive == drafted and len(naive) == 16
    fake.down = 503  # without a connection, the copy in the cache is used
    assert inspect(spec).refused is None and not inspect(spec).missing


def test_a_server_that_ignores_ranges_sends_no_more_than_the_header(fake, gguf_repo, monkeypatch):
    chunks, whole = [], fake._file
    monkeypatch.setattr(
        fake, "_file", lambda handler, *rest: (handler.headers.__delitem__("Range"), whole(handler, *rest))
    )
    monkeypatch.setattr(download, "CHUNK", 1 << 12)
    file = download.File("org/gguf", fake.repos["org/gguf"].commit, "m.gguf", 0)
    assert download.first_bytes(file, 5000, False, chunks.append) == (gguf_repo / "m.gguf").read_bytes()[:5000]
    assert chunks == [4096, 8192]


def test_gguf_files_that_cannot_be_used_are_refused_before_a_download(fake, gguf_repo, tmp_path):
    name = "name a GGUF file, for example org/gguf/m-00001-of-00002.gguf"
    assert name in str(inspect("org/gguf").refused)
    assert f"the repository has no such file; {name}" in str(inspect("org/gguf/other.gguf").refused)
    assert "the repository has no such file; it has no GGUF files" in str(inspect("org/target/m.gguf").refused)
    assert "there is no such file" in str(inspect("org/m.gguf").refused)
    assert "the hub shows no such model" in str(inspect("org/none/m.gguf").refused)
    assert "version 0 of the format" in str(inspect("org/gguf/m-00001-of-00002.gguf").refused)
    fake.repos["org/gguf"].sizes["m.gguf"] = 1 << 20
    assert "it is truncated" in str(inspect("org/gguf/m.gguf").refused)
    fake.faults["m.gguf"] = 503
    assert "the hub cannot be reached" in str(inspect("org/gguf/m.gguf").refused)


# ---------------------------------------------------------------- errors


def test_a_name_that_is_not_on_the_hub(fake):
    plan = inspect("Qwen/Qwen3-8b+org/draft")
    assert 'the hub shows no such model; check the spelling ("Qwen/Qwen3-8B"?)' in str(plan.refused)
    assert "HF_TOKEN if it is private" in str(plan.refused)
    with pytest.raises(ModelError):
        hub.download(plan)


def test_the_error_for_a_gated_model_has_its_page(fake, folders):
    fake.add("org/gated", folders["llama"][0], gated=True)
    plan = inspect("org/gated+org/draft")
    assert plan.models[0].gated
    assert f"agree to its terms on {fake.url}/org/gated" in str(plan.refused)
    assert "HF_TOKEN" in str(plan.refused)


def test_a_visitor_cannot_use_the_private_models_of_the_host(fake, folders, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_host")
    fake.add("host/private", folders["llama"][0], private=True)
    fake.add("host/small", folders["llama"][1], private=True)
    assert inspect("host/private", limits=None).refused is None
    assert "the hub shows no such model" in str(inspect("host/private").refused)
    hub.download(inspect("host/small", limits=None))
    hub.download(inspect("org/draft"))
    fake.add("org/odd", swapped(folders["llama"][1], tmp_path / "odd"))
    assert "vocabulary: org/draft." in messages(inspect("org/target+org/odd"))["vocabulary"]
    assert "vocabulary: host/small, org/draft." in messages(inspect("org/target+org/odd", limits=None))["vocabulary"]


def test_no_safetensors(fake, folders, tmp_path):
    folder = tmp_path / "m"
    shutil.copytree(folders["llama"][0], folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    fake.add("org/pickle", folder)
    assert "not in model.safetensors but in pytorch_model.bin; only safetensors" in str(inspect("org/pickle").refused)
    (folder / "pytorch_model.bin").unlink()
    fake.add("org/empty", folder)
    assert "it has no weights" in str(inspect("org/empty").refused)
    (folder / "config.json").unlink()
    fake.add("org/adapter", folder)
    assert "no config.json" in str(inspect("org/adapter").refused)


def test_custom_code_is_never_run(fake, folders, tmp_path):
    code = {"auto_map": {"AutoConfig": "configuration_odd.OddConfig", "AutoModelForCausalLM": "modeling_odd.OddModel"}}
    folder = changed(folders["llama"][0], tmp_path / "odd", model_type="odd", **code)
    (folder / "configuration_odd.py").write_text("raise SystemExit('this was run')")
    fake.add("org/odd", folder)
    assert "needs custom code (auto_map), which is never run here" in str(inspect("org/odd").refused)
    assert not fake.requested_ranges(".py")
    fake.add("org/unknown", changed(folders["llama"][0], tmp_path / "unknown", model_type="odd"))
    assert "does not support its architecture (odd)" in str(inspect("org/unknown").refused)
    fake.add("org/native", changed(folders["llama"][0], tmp_path / "native", **code))  # its custom code is not needed
    assert inspect("org/native").refused is None


def test_quantized_weights_and_unsupported_architectures_are_refused(fake, folders, tmp_path):
    fake.add("org/awq", changed(folders["llama"][0], tmp_path / "awq", quantization_config={"quant_method": "awq"}))
    assert "quantized with awq, which needs more than torch" in str(inspect("org/awq").refused)
    eight_bits = {"quant_method": "fp8", "weight_block_size": [32, 32]}
    fake.add("org/fp8", changed(folders["llama"][0], tmp_path / "fp8", quantization_config=eight_bits))
    assert messages(inspect("org/fp8"))["weights"] == "In safetensors, quantized with fp8."
    fake.add("org/t5", changed(folders["llama"][0], tmp_path / "t5", model_type="t5"))
    assert "cannot be used" in str(inspect("org/t5").refused)
    fake.add("org/deepseek", changed(folders["llama"][0], tmp_path / "deepseek", model_type="deepseek_v4"))
    assert "cannot be rolled back" in str(inspect("org/deepseek").refused)
    folder = changed(folders["llama"][0], tmp_path / "broken")
    (folder / "config.json").write_text('["no object"]')
    fake.add("org/broken", folder)
    assert "configuration cannot be used" in str(inspect("org/broken").refused)


def test_an_error_names_the_damaged_file_and_the_model(fake, folders, tmp_path, capsys):
    for number, (name, text) in enumerate(
        [
            ("config.json", ""), ("config.json", '{"model_type": []}'), ("generation_config.json", '{"eos_token_id": [[0]]}'),
            ("tokenizer.json", "{"), ("tokenizer_config.json", "null"),
        ]
    ):  # fmt: skip
        folder = changed(folders["llama"][1], tmp_path / str(number))
        (folder / name).write_text(text)
        fake.add(f"org/damaged-{number}", folder)
        for pair in (f"org/damaged-{number}", f"org/target+org/damaged-{number}"):
            refused = str(inspect(pair).refused)
            assert refused.startswith(f"model is 'org/damaged-{number}'") and f"{name} cannot be read" in refused
    assert main(["run", "--models", f"org/target+{folder}", "Once"]) == 2
    message = capsys.readouterr().err
    assert "tokenizer_config.json cannot be read" in message and "Traceback" not in message


def test_a_head_is_checked_with_a_target_of_any_architecture(tmp_path, fake):
    fake.add("org/gpt2", tiny("gpt2", tmp_path / "gpt2"))
    fake.add("org/head", POCKET / "block")
    assert "hidden states" in str(inspect("org/gpt2+org/head").refused)
    assert "give the target's name first" in str(inspect("org/head").refused)


def test_implausible_claims_of_a_repository_are_refused(fake, folders, tmp_path):
    fake.add("org/tall", changed(folders["llama"][0], tmp_path / "tall", num_hidden_layers=10**8))
    assert "claims 100,000,000 layers" in str(inspect("org/tall").refused)
    fake.add("org/fat", folders["llama"][0], sizes={"merges.txt": 1 << 40})
    assert "merges.txt is implausibly large" in str(inspect("org/fat").refused)
    too_large = download.to_model_error("org/whole", ValueError("The file is too large to be downloaded"))
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
        fake.add(f"org/{name}", folder, sizes={"../outside.safetensors": 10})
        assert "choose another copy of this model" in str(inspect(f"org/{name}").refused)


@pytest.mark.parametrize("kind", ["openai-gpt"])
def test_a_model_that_cannot_be_rolled_back_is_refused_by_its_configuration(fake, folders, kind, tmp_path):
    fake.add("org/stuck", folders[kind])
    error = inspect("org/stuck+org/draft").refused
    assert "does not accept a cache; choose a plain decoder" in str(error)
    assert not fake.requested_ranges(".safetensors")
    with pytest.raises(ModelError) as caught:
        load_measured(folders[kind])
    assert caught.value.hint == error.hint, "the same message before and after loading"
    with pytest.raises(ModelError, match="does not accept a cache"):
        lookahead.load(folders[kind])


def test_a_model_too_large_for_memory_or_disk_is_refused(fake, folders, tmp_path, monkeypatch):
    fake.add(
        "org/huge",
        changed(
            folders["llama"][0], tmp_path / "huge", num_hidden_layers=4, hidden_size=1 << 20, intermediate_size=1 << 22
        ),
    )
    plan = inspect("org/huge+org/draft")
    assert "of memory and" in str(plan.refused) and "choose a smaller one" in str(plan.refused)
    assert plan.models[0].parameters > 1e13
    monkeypatch.setattr(memory, "disk_free", lambda folder: 1000)
    assert "of the disk are free" in str(inspect("org/target+org/draft").refused)


def test_a_draft_with_another_tokenizer_drafts_text_and_others_are_suggested(fake, folders, tmp_path):
    odd = swapped(folders["qwen3"][1], tmp_path / "odd")
    fake.add("org/odd", odd)
    fake.add("Qwen/Qwen3-8B", folders["qwen3"][0])
    fake.add("distilbert/distilgpt2", folders["llama"][1])  # another family's draft, with the same tokenizer file
    hub.download(inspect("org/draft"))  # a copy on this server, with the same tokenizer file
    plan = inspect("Qwen/Qwen3-8B+org/odd")
    assert plan.refused is None
    found = messages(plan)["vocabulary"]
    assert "The vocabularies differ, so org/odd drafts text. The target has 100% of its tokens." in found
    assert "Drafts with the target's vocabulary: Qwen/Qwen3-0.6B, distilbert/distilgpt2, org/draft." in found
    assert not [path for _, path, _ in fake.log if path.endswith(".safetensors") and "org/draft" not in path]
    found = messages(inspect("org/target+org/odd"))["vocabulary"]
    assert "vocabulary: distilbert/distilgpt2, org/draft." in found
    swapped(folders["llama"][0], tmp_path / "lone")
    fake.add("org/lone", tmp_path / "lone")
    found = messages(inspect("org/lone+org/draft"))["vocabulary"]
    assert "Drafts with" not in found, "no other model has this tokenizer"


def swapped(folder, to):
    """Copy a model and swap two tokens of its vocabulary."""
    shutil.copytree(folder, to)
    data = json.loads((to / "tokenizer.json").read_text(encoding="utf-8"))
    vocab = data["model"]["vocab"]
    first, second = sorted(vocab, key=vocab.get)[300:302]
    vocab[first], vocab[second] = vocab[second], vocab[first]
    data["model"]["merges"] = []
    (to / "tokenizer.json").write_text(json.dumps(data), encoding="utf-8")
    return to


def test_without_a_connection(fake, monkeypatch):
    hub.download(inspect("org/target+org/draft"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    plan = inspect("org/target+org/draft")
    assert plan.refused is None
    assert not plan.missing
    assert "works without a connection (HF_HUB_OFFLINE)" in str(inspect("org/other").refused)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert inspect("org/target+org/draft").refused is None
    assert "the hub cannot be reached (ConnectError); try again later" in str(inspect("org/other").refused)


def test_a_checked_model_does_not_count_as_downloaded(fake, monkeypatch):
    inspect("org/target")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert "has no copy" in str(inspect("org/target").refused)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_hub_that_fails(fake, status):
    fake.down = status
    assert f"cannot be reached (HfHubHTTPError {status})" in str(inspect("org/target").refused)


@pytest.mark.parametrize(
    ("status", "message"),
    [(401, "does not accept this server's HF_TOKEN"), (403, "agree to its terms on"), (404, "the hub shows no such model"),
     (429, "cannot be reached (HfHubHTTPError 429)"), (500, "cannot be reached (HfHubHTTPError 500)")],
)  # fmt: skip
def test_the_error_for_a_refused_file_has_the_reason(fake, status, message, monkeypatch):
    """The client is replaced, because it retries for half a minute after some of these statuses."""
    plan, raised = inspect("org/target"), []

    def once(repo, name, **_):
        fake.faults = {name: status}
        try:
            response = get_session().get(hf_hub_url(repo, name), timeout=5)
            hf_raise_for_status(response)
        except HfHubHTTPError as error:
            raised.append(error)
            raise LocalEntryNotFoundError("not here either") from error

    monkeypatch.setattr(download, "hf_hub_download", once)
    with pytest.raises(ModelError) as caught:
        hub.download(plan)
    assert message in str(caught.value) and raised


# ---------------------------------------------------------------- the download


@pytest.fixture
def large(fake, folders, tmp_path):
    """A pair whose target has several shards, and files that must not be downloaded."""
    folder = tmp_path / "large"
    shutil.copytree(folders["llama"][0], folder)
    tensors = load_file(folder / "model.safetensors")
    names = sorted(tensors)
    parts = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for file, shard in parts.items():
        save_file({name: tensors[name] for name in shard}, folder / file, metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": {name: file for file, shard in parts.items() for name in shard}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "model.safetensors").unlink()
    for unneeded in ("pytorch_model.bin", "consolidated.safetensors", "modeling.py", "README.md"):
        (folder / unneeded).write_bytes(b"x" * 100)
    fake.add("org/large", folder)
    return "org/large+org/draft"


def test_only_needed_files_are_downloaded_and_the_pair_races(fake, child, large):
    plan, seen = inspect(large), []
    downloaded = hub.download(plan, lambda text, share: seen.append((text, share)))
    assert downloaded.keys() == {"org/large", "org/draft"}
    assert not [path for _, path, _ in fake.log if path.endswith((".bin", ".py", ".md", "consolidated.safetensors"))]
    shares = [share for _, share in seen]
    assert shares == sorted(shares) and shares[-1] == 1.0
    assert seen[-1][0].startswith(f"Downloading: {hub.size(plan.missing or sum(k.bytes for k in plan.models))} of")
    assert inspect(large).missing == 0, "cached files are not counted"
    fake.log.clear()
    pair = load_measured(plan.spec, dtype=BF16, folder_of=downloaded)
    assert not fake.log, "loading sends no requests to the hub"
    assert pair.names == {"target": "org/large", "draft": "org/draft"}
    steps = {m: emitted(lookahead.decode(pair, "Once", method=m, max_new_tokens=12)) for m in ("naive", "draft")}
    assert steps["draft"] == steps["naive"]


def test_load_checks_downloads_and_loads(fake):
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


def test_a_download_is_stopped_within_a_second_and_continues_with_the_missing_files(fake, child, tmp_path, large):
    plan, stopping = inspect(large), []
    missing = plan.missing
    fake.stalls = {"model-00002-of-00002.safetensors"}

    def stop(text, share):
        if unfinished(tmp_path) and plan.models[0].files[-2].cached_path:
            stopping.append(time.monotonic())
            raise Cancelled

    with pytest.raises(Cancelled):
        hub.download(plan, stop)
    assert time.monotonic() - stopping[0] < 1
    assert not unfinished(tmp_path) and not workers(os.getpid())
    assert inspect(large).missing == missing - plan.models[0].files[-2].size
    with pytest.MonkeyPatch.context() as offline:
        offline.setattr(constants, "HF_HUB_OFFLINE", True)
        assert "has no copy" in str(inspect("org/large").refused), "an incomplete download is no copy"
    fake.stalls = set()
    fake.log.clear()
    hub.download(inspect(large))
    assert fake.requested_ranges("model-00002-of-00002.safetensors") and not fake.requested_ranges(
        "model-00001-of-00002.safetensors"
    )
    for name in ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"):
        assert (download.cached("org/large") / name).read_bytes() == (
            fake.repos["org/large"].folder / name
        ).read_bytes()


def test_an_interrupted_connection_is_resumed(fake, child):
    plan = inspect("org/target")
    fake.breaks = 1
    downloaded = hub.download(plan)
    file = downloaded["org/target"] / "model.safetensors"
    assert file.read_bytes() == (fake.repos["org/target"].folder / "model.safetensors").read_bytes()
    spans = fake.requested_ranges("model.safetensors")
    assert len(spans) == 2 and int(spans[1].strip("bytes=-")) > 0


def test_a_download_from_a_hub_that_sends_nothing_is_stopped(fake, child, tmp_path, monkeypatch):
    plan = inspect("org/target")
    fake.stalls = {"model.safetensors"}
    monkeypatch.setattr(download, "STALLED_S", 1)
    with pytest.raises(ModelError, match="the hub has stopped sending; try again later"):
        hub.download(plan)
    assert not unfinished(tmp_path) and inspect("org/target").missing
    fake.stalls = set()


def test_a_file_of_another_size_than_reported_is_not_used(fake, folders, tmp_path, monkeypatch):
    size = Path(folders["llama"][0], "model.safetensors").stat().st_size
    repo = fake.add("org/short", folders["llama"][0], sizes={"model.safetensors": size + 1})
    plan = inspect("org/short")
    for _ in range(2):
        with pytest.raises(ModelError, match=r"model\.safetensors does not have the size that the hub reported"):
            hub.download(plan)
        assert plan.models[0].missing and download.cached("org/short") is None
    repo.sizes.clear()
    assert not inspect("org/short").missing


def test_a_killed_download_raises_an_error_and_leaves_no_model(fake, child, tmp_path):
    plan = inspect("org/target")
    fake.stalls = {"model.safetensors"}

    def kill(text, share):
        if unfinished(tmp_path):
            for worker in workers(os.getpid()):
                worker.kill()

    with pytest.raises(ModelError, match=r"its download was interrupted \(-9\); load again"):
        hub.download(plan, kill)
    fake.stalls = set()
    assert plan.missing and download.cached("org/target") is None


def test_the_error_for_a_folder_that_cannot_be_written_has_the_reason(fake):
    for number, message in (
        (errno.ENOSPC, "the disk is full"),
        (errno.EROFS, "cannot be written (Read-only file system)"),
    ):
        assert message in str(
            download.to_model_error("org/target", OSError(number, os.strerror(number), "/a/secret/place"))
        )
    assert "secret" not in str(
        download.to_model_error("org/target", OSError(errno.EROFS, "Read-only", "/a/secret/place"))
    )


def test_a_download_ends_with_its_parent_process_and_unfinished_files_are_removed(fake, tmp_path):
    plan = inspect("org/target")
    fake.stalls = {"model.safetensors"}
    files = [(f.repo, f.commit, f.name, f.size) for f in plan.models[0].files]
    code = f"from lookahead.family import download as d; d.download([d.File(*f) for f in {files}], lambda _: None)"
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    while not unfinished(tmp_path):
        time.sleep(0.05)
    (worker,) = workers(parent.pid)
    parent.kill()
    parent.wait()
    worker.wait(10)
    fake.stalls = set()
    assert not unfinished(tmp_path)
    old = download.cache() / "models--org--target" / "blobs" / "abc.123.incomplete"
    old.write_text("unfinished")
    os.utime(old, (1, 1))
    assert IN_A_CHILD(plan.files, lambda _: None) is None
    assert not unfinished(tmp_path) and not inspect("org/target").missing


def test_downloads_are_in_the_cache_of_huggingface_hub(fake):
    hub.download(inspect("org/target"))
    from huggingface_hub import hf_hub_download

    assert Path(hf_hub_download("org/target", "model.safetensors", local_files_only=True)).is_file()
    folder = download.cached("org/target")
    os.truncate(folder / "model.safetensors", 1000)
    plan = inspect("org/target")
    assert plan.missing == plan.models[0].bytes, "a damaged file is downloaded again"
    assert hub.download(plan) and inspect("org/target").missing == 0
    assert {path.name for path in (folder.parents[1] / "blobs").iterdir()} == {
        path.resolve().name for path in folder.iterdir()
    }


def test_the_app_prints_one_line_for_an_error(folders):
    command = [sys.executable, "app.py", "--models", folders["openai-gpt"]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert done.stderr.strip().startswith("lookahead: model is") and done.stderr.strip().count("\n") == 0
    assert "does not accept a cache" in done.stderr


def test_the_command_line_downloads_a_valid_pair(fake, tmp_path, capsys):
    arguments = ["--method", "draft", "--max-new-tokens", "8", "--models", "org/target+org/draft"]
    assert main(["run", "Once upon", *arguments]) == 0
    assert capsys.readouterr().out.startswith("Once upon")
    assert (tmp_path / "cache" / "models--org--draft").is_dir()


def test_unused_models_are_freed(fake):
    import gc

    pair = lookahead.load("org/target+org/draft")
    reference = weakref.ref(pair.target.model)
    del pair
    gc.collect()
    assert reference() is None


# ---------------------------------------------------------------- free memory, and suggested pairs


def test_free_memory_respects_the_limit_of_a_container(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    assert memory.free() > 1e8
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
        assert pair.license and pair.note.endswith(".")
        assert hub.requested(pair.spec, VISITOR)
    assert {pair.device for pair in SUGGESTED} == {"a processor", "one GPU", "several GPUs"}
    assert fitting("nobody/knows") == [] and "Qwen/Qwen3-0.6B" in fitting("Qwen/Qwen3-of-unknown-size")
    target = InspectedModel("target", "Qwen/Qwen2.5-72B-Instruct", "x")
    assert hub.fitting(target, ["Qwen/Qwen2.5-7B-Instruct"])[0] == "Qwen/Qwen2.5-0.5B-Instruct"
