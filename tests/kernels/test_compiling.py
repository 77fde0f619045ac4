"""Compiled code is kept on disk, by all sources that it was made of, and nothing is set for other users of numba."""

import os
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT
from numba.core import caching

from lookahead.kernels import compiling
from lookahead.kernels.vectors import integers_at

pytestmark = pytest.mark.models


def both():
    """What a kernel and a function return, each compiled anew or read from disk."""

    def put(there, number):
        integers_at(there)[0] = number

    def twice(x):
        return 2 * x

    out = np.zeros(1, np.int64)
    compiling.kernel(2)(put)().ctypes(out.ctypes.data, 6)
    return int(out[0]), compiling.compiled(twice)(3)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(compiling, "places", lambda: iter([tmp_path]))
    return tmp_path


def test_a_version_is_of_all_sources(tmp_path):
    """numba itself would take a kernel from its cache although a function that it calls has changed."""
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("x = 1")
    before = compiling.digest(tmp_path)
    assert before == compiling.digest(tmp_path)
    (tmp_path / "b.py").write_text("x = 2")
    assert before != compiling.digest(tmp_path)


def test_compiled_code_is_kept_by_version(folder):
    assert both() == (6, 6)
    kept = [*folder.rglob("*.nbc")]
    assert len(kept) == 2 and {path.parent for path in kept} == {folder / compiling.version()}


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
@pytest.mark.parametrize("content", [b"", b"garbage"])
def test_damaged_compiled_code_is_compiled_again(folder, kind, content):
    assert both() == (6, 6)
    kept = [*folder.rglob(f"*.{kind}")]
    for path in kept:
        path.write_bytes(content)
    assert both() == (6, 6)
    assert kept and all(path.read_bytes() != content for path in kept if path.exists())


def test_compiled_code_that_cannot_be_written_is_used_all_the_same(folder, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(caching.IndexDataCacheFile, "save", full)
    assert both() == (6, 6)


def test_where_nothing_can_be_kept_it_is_compiled_each_time(monkeypatch):
    def refused(locator):
        raise PermissionError("read-only")

    monkeypatch.setattr(caching.UserWideCacheLocator, "ensure_cache_path", refused)
    assert both() == (6, 6)


def test_the_first_folder_that_can_be_written_is_used(tmp_path, monkeypatch):
    """NUMBA_CACHE_DIR, the user's cache folder, then a temporary folder that only this user can write."""
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(compiling.config, "CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(compiling.tempfile, "gettempdir", lambda: str(tmp_path))
    assert both() == (6, 6)
    own = tmp_path / f"lookahead-kernels-{os.getuid()}"
    assert len([*own.rglob("*.nbc")]) == 2 and own.stat().st_mode & 0o77 == 0
    own.rename(tmp_path / "elsewhere")
    own.symlink_to(tmp_path / "elsewhere")
    assert own not in [*compiling.places()], "somebody else's folder"


def test_importing_sets_nothing_for_others():
    """Neither numba's folder nor its classes."""
    code = """
from numba.core import caching, ccallback, config, dispatcher
before = config.CACHE_DIR, ccallback.FunctionCache, dispatcher.FunctionCache, list(caching.CacheImpl._locator_classes)
import lookahead.kernels
assert before == (config.CACHE_DIR, ccallback.FunctionCache, dispatcher.FunctionCache, caching.CacheImpl._locator_classes)
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
