"""Finds or installs a headless Chromium for the tests, and opens pages without a server.

System packages are installed under CI only. A missing browser is a failure under CI; elsewhere tests that need one are skipped
with a reason.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

import pytest
from filelock import FileLock
from playwright.sync_api import Error, sync_playwright

from lookahead.trace import assets

INSTALLING = FileLock(Path(tempfile.gettempdir()) / f"installing-chromium-{os.getuid()}.lock", timeout=900)
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--in-process-gpu",  # a process less, and a fifth less work
]  # fmt: skip
# The shell is the same engine without windows. Opening a window takes longer than loading most of our pages.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def _found() -> str | None:
    if path := os.environ.get("CHROMIUM"):
        return path
    if path := next(filter(None, map(shutil.which, NAMES)), None):
        return path
    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).is_file() else None


def _install() -> None:
    """Install Debian's package under CI as root; otherwise install playwright's build into the user's cache."""
    if "CI" in os.environ and shutil.which("apt-get") and os.geteuid() == 0:
        quiet = {"check": False, "stdout": subprocess.DEVNULL, "timeout": 600}
        subprocess.run(["apt-get", "update", "-qq"], **quiet)
        subprocess.run(
            ["apt-get", "install", "-y", "-qq", "--no-install-recommends", NAMES[0], "fonts-dejavu-core"], **quiet
        )
    if not _found():
        subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=False, timeout=600)


def executable() -> str:
    """Return the path of a Chromium. Skip the test if there is none, or fail under CI."""
    with INSTALLING:  # apt-get fails if a second worker runs it at the same time
        if not _found():
            _install()
    if path := _found():
        return path
    message = "no Chromium: install it, or set CHROMIUM to its path"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


@cache
def exposed(*names: str) -> str:
    """Return a script that sets `modules` to an object with these modules of `assets/`, by file name without suffix."""
    stems = {Path(name).stem: name for name in names}
    imports = "".join(f'import * as {stem} from "./{name}";\n' for stem, name in stems.items())
    return assets.minified_script(assets.bundle(f"{imports}globalThis.modules = {{{', '.join(stems)}}};")) + "\n"


def bare_page(browser, body: str, style: str, script: str, size: tuple[int, int] = (1280, 900), **options):
    """Open a page with a style and a script and no server; `page.problems` collects its errors."""
    page = browser.new_page(viewport={"width": size[0], "height": size[1]}, **options)
    page.problems = []
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    head = '<!doctype html><html lang="en"><title>Test</title><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    # localhost counts as a secure context, without which there is no clipboard
    page.route("http://localhost/**", lambda route: route.fulfill(content_type="text/html", body=head + body))
    page.goto("http://localhost/")
    page.add_style_tag(content=style)
    page.add_script_tag(content=script)
    return page


def until(page, condition: str, timeout_s: float = 30) -> None:
    """Wait until a condition in JavaScript holds. It is polled from Python, because our pages' CSP forbids `eval`."""
    deadline = time.monotonic() + timeout_s
    while not _holds(page, condition):
        assert time.monotonic() < deadline, f"never: {condition}"
        page.wait_for_timeout(20)


def _holds(page, condition: str) -> bool:
    """Whether the condition holds; False during a navigation, when the page cannot evaluate it."""
    try:
        return page.evaluate(condition)
    except Error as error:
        if "navigation" not in str(error):
            raise
        return False
