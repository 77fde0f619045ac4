"""A real headless Chromium for the tests: found, or installed where that is allowed.

Under CI a missing browser is a failure; elsewhere the tests that need it are skipped, saying so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def _found() -> str | None:
    if path := os.environ.get("CHROMIUM"):
        return path
    if path := next(filter(None, map(shutil.which, NAMES)), None):
        return path
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).is_file() else None


def _install() -> None:
    """Debian's package for root, else playwright's own build into the user's cache."""
    if shutil.which("apt-get") and os.geteuid() == 0:
        quiet = {"check": False, "stdout": subprocess.DEVNULL, "timeout": 600}
        subprocess.run(["apt-get", "update", "-qq"], **quiet)
        subprocess.run(
            ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium", "fonts-dejavu-core"], **quiet
        )
    if not _found():
        subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=False, timeout=600)


def executable() -> str:
    """Path of a Chromium; skips, or fails under CI, where there is none to be had."""
    path = _found()
    if not path:
        _install()
        path = _found()
    if path:
        return path
    message = "no Chromium: install it, or set CHROMIUM to its path"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)
