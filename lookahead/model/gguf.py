"""Models in GGUF files: the header, which is checked before anything else is read, and the conversion to safetensors.

transformers builds the configuration and the tokenizer from the header, and dequantizes the weights. `servers/gguf.py` writes
such files. Source of the format: ggml's specification of GGUF, versions 2 and 3.
"""

from __future__ import annotations

import math
import os
import struct
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import gguf
import torch

from ..core.events import ModelError
from ..core.numbers import size as bytes_
from ..core.wording import short_error

SUFFIX = ".gguf"
FIRST_BYTES, MOST_BYTES = 1 << 20, 32 << 20  # of a header: of the first attempt, and at most
MOST_ENTRIES = 1 << 21  # of all lists in a header; libraries need about 200 bytes for each
MOST_DIMENSIONS = 8
FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, LIST = 8, 9  # further types of values


class Header(NamedTuple):
    """The header of a file: its architecture, the type of most weights, and the bytes of the header and of the whole file."""

    architecture: str
    weights: str
    length: int
    total: int


class _Ended(Exception):
    """The data ends before the header."""


class _Values:
    """Reads values from the start of a file, in order."""

    def __init__(self, data: bytes):
        self._data, self.at, self._entries = data, 0, 0

    def number(self, code: str) -> Any:
        self.skip(struct.calcsize(f"<{code}"))
        return struct.unpack_from(f"<{code}", self._data, self.at - struct.calcsize(f"<{code}"))[0]

    def skip(self, count: int) -> None:
        if self.at + count > len(self._data):
            raise _Ended
        self.at += count

    def text(self) -> str:
        length = self.number("Q")
        self.skip(length)
        return self._data[self.at - length : self.at].decode("utf-8", "replace")

    def count(self) -> int:
        count = self.number("Q")
        self._entries += count
        if self._entries > MOST_ENTRIES:
            raise ValueError(f"its header claims lists with {self._entries} entries")
        return count

    def value(self) -> Any:
        """Return a number or a text; None for a list."""
        kind = self.number("I")
        if kind in FORMATS:
            return self.number(FORMATS[kind])
        if kind == TEXT:
            return self.text()
        if kind != LIST:
            raise ValueError(f"it has a value of the unknown type {kind}")
        kind, count = self.number("I"), self.count()
        if kind in FORMATS:
            self.skip(count * struct.calcsize(f"<{FORMATS[kind]}"))
        elif kind == TEXT:
            for _ in range(count):
                self.skip(self.number("Q"))
        else:
            raise ValueError(f"it has a list of the unknown type {kind}")
        return None


def _parsed(data: bytes) -> Header:
    """Return the header at the start of a file. Raises `_Ended` if `data` is too short, and `ValueError`."""
    if data[:4] != b"GGUF":
        raise ValueError("it is not a GGUF file")
    values = _Values(data)
    values.skip(4)
    if (version := values.number("I")) not in (2, 3):
        raise ValueError(f"it has version {version} of the format, and versions 2 and 3 are read")
    tensors, entries = values.count(), values.count()
    metadata = {values.text(): values.value() for _ in range(entries)}
    if int(metadata.get("split.count") or 1) > 1:
        raise ValueError("it is one part of a model that is split into several files; choose a model in one file")
    kinds, end = Counter[str](), 0
    for _ in range(tensors):
        name, dimensions = values.text(), values.number("I")
        if dimensions > MOST_DIMENSIONS:
            raise ValueError(f"{name[:60]} has {dimensions} dimensions")
        numbers = math.prod(values.number("Q") for _ in range(dimensions))
        number, start = values.number("I"), values.number("Q")
        if number not in [*gguf.GGMLQuantizationType]:
            raise ValueError(f"it has weights of the unknown type {number}")
        kind = gguf.GGMLQuantizationType(number)
        block, bytes_per_block = gguf.GGML_QUANT_SIZES[kind]
        end = max(end, start + numbers // block * bytes_per_block)
        kinds[kind.name] += numbers
    alignment = int(metadata.get("general.alignment") or gguf.GGUF_DEFAULT_ALIGNMENT)
    architecture = metadata.get("general.architecture")
    if not tensors or not isinstance(architecture, str) or alignment < 1:
        raise ValueError("it describes no model")
    total = -(-values.at // alignment) * alignment + end
    return Header(architecture, kinds.most_common(1)[0][0], values.at, total)


def read_header(first_bytes: Callable[[int], bytes], size: int) -> tuple[Header, bytes]:
    """Return the header of a file of `size` bytes, and the bytes that contain it. `first_bytes(n)` returns the first n bytes.

    Raises `ValueError` with a reason if transformers cannot read the file, or if it is truncated.
    """
    count = FIRST_BYTES
    while True:
        data = first_bytes(min(count, size))
        try:
            header = _parsed(data)
            break
        except _Ended:
            if count >= min(size, MOST_BYTES):
                raise ValueError("its header is incomplete") from None
            count *= 4
    if header.total > size:
        raise ValueError(f"it is truncated: it has {bytes_(size)} of {bytes_(header.total)}")
    return header, data


def describe(header: Header, data: bytes, folder: Path) -> None:
    """Write the configuration and the tokenizer of a file to `folder`. `data` are its first bytes with the header.

    Raises `ValueError` if transformers does not support the architecture, and any error of transformers.
    """
    from transformers import AutoConfig, AutoTokenizer

    with _replacing(folder) as part:
        path = part / f"header{SUFFIX}"
        with path.open("wb") as file:  # libraries map the whole file into memory, but read only the header
            file.write(data)
            file.truncate(header.total)
        AutoConfig.from_pretrained(part, gguf_file=path.name, trust_remote_code=False).save_pretrained(part)
        AutoTokenizer.from_pretrained(part, gguf_file=path.name, trust_remote_code=False).save_pretrained(part)
        path.unlink()


def convert(path: Path, folder: Path, dtype: torch.dtype, progress: Callable[[float], None]) -> None:
    """Write a file's tokenizer and its dequantized weights to `folder` in the format of transformers, all at once.

    Raises `ModelError` if tensors are missing, and any error of transformers.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    from .loading import require_complete

    with _replacing(folder) as part, _read_once():
        progress(0.1)
        AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name, trust_remote_code=False).save_pretrained(part)
        progress(0.4)
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            path.parent, gguf_file=path.name, quantization_config=GgufConfig(dequantize=True), dtype=dtype,
            output_loading_info=True, ignore_mismatched_sizes=True, trust_remote_code=False,
        )  # fmt: skip
        model, report = loaded
        require_complete(path.name, report)
        progress(0.9)
        model.save_pretrained(part)


@contextmanager
def _read_once() -> Iterator[None]:
    """Let transformers (5.23) parse a file once, instead of three times, and build its table of names once per model.

    It takes both from the library `gguf` at each use, and otherwise builds that table once per module.
    """
    shared = (lru_cache(maxsize=1)(function) for function in (gguf.GGUFReader, gguf.get_tensor_name_map))
    with patch.object(gguf, "GGUFReader", next(shared)), patch.object(gguf, "get_tensor_name_map", next(shared)):
        yield


@contextmanager
def _replacing(folder: Path) -> Iterator[Path]:
    """Return a temporary folder, which becomes `folder` at the end. Raises `OSError` if it cannot be written."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, suffix=".part", ignore_cleanup_errors=True) as part:
        yield Path(part)
        os.chmod(part, 0o755)
        try:
            os.replace(part, folder)
        except OSError:
            if not folder.is_dir():  # otherwise another process has written it
                raise


def file_error(location: str, error: Exception) -> ModelError:
    """Return the error for a GGUF file that cannot be used. The message of a `ValueError` is the reason."""
    reason = short_error(error).removeprefix("ValueError: ").rstrip(".")
    return ModelError("model", location, f"{reason}; choose another file.")
