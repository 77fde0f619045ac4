"""GGUF files: the weights are those of the file, the header is checked before anything else, and damaged files are errors."""

import json
import shutil
import struct
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from conftest import POCKET, emitted, tiny
from safetensors.torch import load_file, save_file

import lookahead
from lookahead import ModelError
from lookahead.__main__ import main
from lookahead.family import hub, models, number_format, sources
from lookahead.model import gguf as reading
from lookahead.servers import gguf as writing

pytestmark = pytest.mark.models

TEXT = [*range(40, 80)]
Q8_0 = gguf.GGMLQuantizationType.Q8_0


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOKAHEAD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def written(folder, path, quantized=False):
    """Write the plain Llama in a folder as a GGUF file in float16 or in Q8_0."""
    add = gguf.GGUFWriter.add_tensor

    def add_quantized(writer, name, numbers):
        if numbers.ndim == 1:
            return add(writer, name, numbers)
        return add(writer, name, gguf.quants.quantize(numbers.astype(np.float32), Q8_0), raw_dtype=Q8_0)

    with pytest.MonkeyPatch.context() as patch:
        if quantized:
            patch.setattr(gguf.GGUFWriter, "add_tensor", add_quantized)
        return writing.write(str(folder), Path(path))


def rounded(folder, quantized):
    """Replace the weights in a folder by the numbers that they have in a GGUF file."""
    path = Path(folder) / "model.safetensors"

    def stored(tensor):
        if tensor.dim() == 1:
            return tensor
        half = tensor.half().float()
        if not quantized:
            return half
        return torch.from_numpy(gguf.quants.dequantize(gguf.quants.quantize(half.numpy(), Q8_0), Q8_0))

    save_file({name: stored(tensor) for name, tensor in load_file(path).items()}, path, {"format": "pt"})
    return folder


@pytest.mark.parametrize("quantized", [False, True], ids=["F16", "Q8_0"])
def test_a_gguf_file_computes_as_the_same_model_in_safetensors(quantized, tmp_path):
    folder = tiny("llama", tmp_path / "m")
    file = written(folder, tmp_path / "m.gguf", quantized)
    from_gguf = lookahead.load(str(file), dtype="float32")
    reference = lookahead.load(rounded(folder, quantized), dtype="float32")
    assert torch.equal(from_gguf.target.forward(TEXT), reference.target.forward(TEXT))
    text = "Once upon a time, there was a dog."
    assert from_gguf.tokenizer(text)["input_ids"] == reference.tokenizer(text)["input_ids"]
    assert from_gguf.eos == reference.eos and from_gguf.exactness == reference.exactness
    assert from_gguf.names["target"].endswith("/m.gguf")


def test_every_method_emits_naives_ids_with_a_target_and_a_draft_in_gguf_files(tmp_path):
    target = written(tiny("llama", tmp_path / "target", layers=3), tmp_path / "tar+get.gguf", quantized=True)
    draft = written(tiny("llama", tmp_path / "draft", layers=1), tmp_path / "draft.gguf")
    progress = []
    family = lookahead.load(f"{target}+{draft}", lambda text, share: progress.append((text, share)))
    shares = [share for _, share in progress]
    assert shares == sorted(shares) and {"Converting tar+get.gguf", "Converting draft.gguf"} <= {
        text for text, _ in progress
    }
    methods = ["naive", "ngram", "draft", "tree", "lookahead", "suffix", "self", "hybrid"]
    for options in ({}, {"temperature": 1.0}):
        texts = [emitted(lookahead.decode(family, TEXT, method, max_new_tokens=32, **options)) for method in methods]
        assert all(ids == texts[0] for ids in texts), options


def test_a_file_is_converted_once_and_again_when_it_has_changed(tmp_path, monkeypatch):
    file = written(tiny("llama", tmp_path / "m"), tmp_path / "m.gguf")
    converted, convert = [], reading.convert
    monkeypatch.setattr(reading, "convert", lambda path, *rest: (converted.append(path.name), convert(path, *rest)))
    first = lookahead.load(str(file)).target.forward(TEXT)
    lookahead.load(str(file))
    assert converted == ["m.gguf"]
    written(tiny("llama", tmp_path / "other", seed=1), file)
    assert not torch.equal(lookahead.load(str(file)).target.forward(TEXT), first)
    assert converted == ["m.gguf"] * 2


def test_the_check_reports_the_weights_and_the_bytes_of_the_conversion(tmp_path):
    folder = tiny("llama", tmp_path / "m")
    file = written(folder, tmp_path / "m.gguf", quantized=True)
    (tmp_path / "alias.gguf").symlink_to(file)
    plan = hub.check(str(file))
    checks = {check.topic: check.message for check in plan.checks}
    assert plan.refused is None and plan.models[0].bytes == file.stat().st_size
    assert checks["weights"] == "In a GGUF file (Q8_0), which is converted to safetensors once."
    assert plan.written == 2 * plan.models[0].parameters and "to convert" in checks["disk"]
    assert plan.dtype == number_format.requested("bfloat16")  # our kernels compute it
    assert lookahead.load(str(file)).dtype == "bfloat16"
    assert hub.check(str(file)).written == 0 and hub.check(str(tmp_path / "alias.gguf")).written == 0


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    root = tmp_path_factory.mktemp("valid")
    return written(tiny("llama", root / "m"), root / "m.gguf").read_bytes()


def refused(path):
    error = hub.check(str(path)).refused
    assert isinstance(error, ModelError)
    with pytest.raises(ModelError):
        lookahead.load(str(path))
    return str(error)


def patched(data, **fields):
    """Replace the version, or the numbers of tensors and entries, at the start of a file."""
    version, tensors, entries = struct.unpack_from("<IQQ", data, 4)
    values = {"version": version, "tensors": tensors, "entries": entries} | fields
    return data[:4] + struct.pack("<IQQ", *values.values()) + data[24:]


DAMAGED = {
    "another kind of file": (lambda data: b"PK\3\4" + data[4:], "it is not a GGUF file"),
    "empty": (lambda data: b"", "it is not a GGUF file"),
    "version": (lambda data: patched(data, version=1), "version 1 of the format"),
    "truncated": (lambda data: data[: len(data) - 1000], "it is truncated: it has"),
    "truncated header": (lambda data: data[:5000], "its header is incomplete"),
    "lists": (lambda data: patched(data, entries=1 << 60), "claims lists with"),
    "tensors": (lambda data: patched(data, tensors=1 << 60), "claims lists with"),
    "no tensors": (lambda data: patched(data, tensors=0), "it describes no model"),
    "architecture": (
        lambda data: data.replace(b"\5\0\0\0\0\0\0\0llama", b"\5\0\0\0\0\0\0\0lemur"),
        "lemur is not supported",
    ),
}


@pytest.mark.parametrize(("change", "message"), DAMAGED.values(), ids=DAMAGED)
def test_an_unusable_file_is_refused_with_the_reason(change, message, valid, tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(change(valid))
    assert message in refused(path)


def test_a_part_of_a_split_file_is_refused(tmp_path):
    writer = gguf.GGUFWriter(str(tmp_path / "m-00001-of-00002.gguf"), "llama")
    writer.add_uint16("split.count", 2)
    writer.add_tensor("token_embd.weight", np.zeros((4, 4), np.float32))
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        step()
    assert "it is one part of a model that is split" in refused(tmp_path / "m-00001-of-00002.gguf")


def test_a_file_without_a_tensor_of_the_model_is_refused(tmp_path):
    add = gguf.GGUFWriter.add_tensor
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            gguf.GGUFWriter, "add_tensor", lambda self, name, *rest: "ffn_up" in name or add(self, name, *rest)
        )
        path = written(tiny("llama", tmp_path / "m"), tmp_path / "m.gguf")
    with pytest.raises(ModelError, match=r"they lack model.layers.0.mlp.up_proj.weight"):
        lookahead.load(str(path))
    assert not any(sources.description(path).parent.glob("*.part*"))


def test_random_changes_of_a_header_raise_only_model_errors(valid, tmp_path):
    draws = np.random.default_rng(0)
    length = reading.read_header(lambda count: valid[:count], len(valid))[0].length
    for number in range(60):
        data = bytearray(valid)
        for place in draws.integers(0, min(length, 2000) if number % 2 else length, 4):
            data[place] = draws.integers(0, 256)
        try:
            reading.read_header(lambda count, data=data: bytes(data[:count]), len(data))
        except ValueError:
            continue


def test_missing_files_and_folders_of_gguf_files_have_hints(tmp_path, capsys):
    assert "there is no such file" in refused(tmp_path / "none.gguf")
    assert "there is no such file" in refused("../none.gguf")
    folder = tmp_path / "folder"
    shutil.copytree(tiny("llama", tmp_path / "m"), folder)
    written(tmp_path / "m", folder / "a.gguf")
    (folder / "model.safetensors").unlink()
    assert f"name a GGUF file, for example {folder}/a.gguf" in refused(folder)
    assert main(["run", "Once", "--models", str(tmp_path / "none.gguf")]) == 2
    assert "there is no such file" in capsys.readouterr().err


def test_a_configuration_that_needs_more_than_the_limits_is_refused(tmp_path):
    folder = tiny("llama", tmp_path / "m")
    config = json.loads((Path(folder) / "config.json").read_text())
    path = written(folder, tmp_path / "m.gguf")
    data = path.read_bytes()
    key = b"llama.block_count"
    place = data.index(key) + len(key) + 4
    assert struct.unpack_from("<I", data, place)[0] == config["num_hidden_layers"]
    path.write_bytes(data[:place] + struct.pack("<I", 100_000) + data[place + 4 :])
    assert "it claims 100,000 layers" in refused(path)


def test_pockets_gguf_file_writes_pockets_text(tmp_path):
    file = written(POCKET / "target", tmp_path / "pocket.gguf")
    family, pocket = lookahead.load(str(file)), models.load("pocket")
    assert family.exactness == "bit-exact"
    texts = [
        emitted(lookahead.decode(each, "Once upon a time", "naive", max_new_tokens=24)) for each in (family, pocket)
    ]
    assert texts[0] == texts[1]
