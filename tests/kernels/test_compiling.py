"""Compiled code is stored on disk by a hash of all its sources, and other users of numba are not affected."""

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


def compiled_results():
    """Return the results of a kernel and a function, each compiled or read from disk."""

    def put(address, number):
        integers_at(address)[0] = number

    def twice(x):
        return 2 * x

    out = np.zeros(1, np.int64)
    compiling.kernel(2)(put)().ctypes(out.ctypes.data, 6)
    return int(out[0]), compiling.compiled(compiling.INTEGER)(twice)(3)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(compiling, "cache_folders", lambda: iter([tmp_path]))
    return tmp_path


def test_the_version_depends_on_all_sources(tmp_path):
    """numba itself would use a cached kernel although a function that it calls has changed."""
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("x = 1")
    before = compiling.digest(tmp_path)
    assert before == compiling.digest(tmp_path)
    (tmp_path / "b.py").write_text("x = 2")
    assert before != compiling.digest(tmp_path)


def test_compiled_code_is_stored_by_version(folder):
    assert compiled_results() == (6, 6)
    stored = [*folder.rglob("*.nbc")]
    assert len(stored) == 2 and {path.parent for path in stored} == {folder / compiling.version()}


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
@pytest.mark.parametrize("content", [b"", b"garbage"])
def test_damaged_compiled_code_is_compiled_again(folder, kind, content):
    assert compiled_results() == (6, 6)
    stored = [*folder.rglob(f"*.{kind}")]
    for path in stored:
        path.write_bytes(content)
    assert compiled_results() == (6, 6)
    assert stored and all(path.read_bytes() != content for path in stored if path.exists())


def test_compiled_code_that_cannot_be_stored_is_still_used(folder, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(caching.IndexDataCacheFile, "save", full)
    assert compiled_results() == (6, 6)


def test_functions_are_compiled_each_time_if_nothing_can_be_stored(monkeypatch):
    def refused(locator):
        raise PermissionError("read-only")

    monkeypatch.setattr(caching.UserWideCacheLocator, "ensure_cache_path", refused)
    assert compiled_results() == (6, 6)


def test_the_first_writable_folder_is_used(tmp_path, monkeypatch):
    """The order is: NUMBA_CACHE_DIR, the user's cache folder, a temporary folder that only this user can write."""
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(compiling.config, "CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(compiling.tempfile, "gettempdir", lambda: str(tmp_path))
    assert compiled_results() == (6, 6)
    private = tmp_path / f"lookahead-kernels-{os.getuid()}"
    assert len([*private.rglob("*.nbc")]) == 2 and private.stat().st_mode & 0o77 == 0
    private.rename(tmp_path / "elsewhere")
    private.symlink_to(tmp_path / "elsewhere")
    assert private not in [*compiling.cache_folders()], "a link may lead to the folder of another user"


def test_import_changes_nothing_for_other_users_of_numba():
    """The import changes neither numba's folder nor its classes."""
    code = """
from numba.core import caching, ccallback, config, dispatcher
before = config.CACHE_DIR, ccallback.FunctionCache, dispatcher.FunctionCache, list(caching.CacheImpl._locator_classes)
import lookahead.kernels
assert before == (config.CACHE_DIR, ccallback.FunctionCache, dispatcher.FunctionCache, caching.CacheImpl._locator_classes)
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
