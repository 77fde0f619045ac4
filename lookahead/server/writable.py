"""Folders that the app may write into, chosen before other modules are imported, because some read the variables at import.

HF_HOME or HF_HUB_CACHE is the folder of models from the hub, and GRADIO_TEMP_DIR the folder of uploads. A Space with a disk
stores models on the disk. If a folder cannot be written, a temporary one replaces it, and stderr reports it. The
bundled models need no folder.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import MutableMapping
from pathlib import Path

DISK = Path("/data")  # of a Space that has one
SHARED = Path("/dev/shm")  # a folder in memory; containers have it even if their file system is read-only
YES = ("1", "ON", "YES", "TRUE")


def use_writable_folders(environment: MutableMapping[str, str] = os.environ, disk: Path = DISK) -> None:
    """Replace the variables whose folders cannot be written. Raises `OSError` if no folder can be written."""
    value = environment.get
    _require_temporary_folder(environment)
    if value("SPACE_ID") and disk.is_dir() and _writable(disk) and not (value("HF_HOME") or value("HF_HUB_CACHE")):
        environment["HF_HOME"] = str(disk / ".huggingface")
    _check(environment, "GRADIO_TEMP_DIR", value("GRADIO_TEMP_DIR") or f"{tempfile.gettempdir()}/gradio")
    if value("HF_HUB_OFFLINE", "").upper() in YES:  # nothing is downloaded
        return
    home, hub = value("HF_HOME") or f"{value('XDG_CACHE_HOME') or '~/.cache'}/huggingface", value("HF_HUB_CACHE")
    _check(environment, "HF_HOME", home, *([] if hub else ["hub"]))
    if hub:
        _check(environment, "HF_HUB_CACHE", hub)


def _check(environment: MutableMapping[str, str], name: str, folder: str, *inside: str) -> None:
    """Replace the variable's folder if it, or a folder inside it, cannot be written."""
    path = Path(folder).expanduser()
    if all(_writable(checked) for checked in (path, *(path / part for part in inside))):
        return
    instead, parent = f"there is no temporary folder; set {name} to a writable one", Path(tempfile.gettempdir())
    if parent != Path.cwd():  # the working directory may contain the code
        environment[name] = str(_private_folder(parent) / name.lower())
        instead = f"{name} is {environment[name]} instead"
    print(f"lookahead: {path} cannot be written; {instead}.", file=sys.stderr)


def _writable(folder: Path) -> bool:
    """Return whether files can be created in a folder or, if it does not exist, in its nearest existing parent."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


def _require_temporary_folder(environment: MutableMapping[str, str]) -> None:
    """Set TMPDIR if there is no temporary folder, because torch cannot be imported without one."""
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        if not _writable(SHARED):
            raise OSError("no folder can be written, not even a temporary one; set TMPDIR to a writable one.") from None
        environment["TMPDIR"] = tempfile.tempdir = str(SHARED)


def _private_folder(parent: Path) -> Path:
    """Return a folder of this user, the same at every start, or a new one if another user owns it."""
    user = os.getuid() if hasattr(os, "getuid") else ""
    folder = parent / f"lookahead-{user}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        private = not folder.is_symlink() and (user == "" or folder.stat().st_uid == user)
    except OSError:
        private = False
    return folder if private else Path(tempfile.mkdtemp(prefix="lookahead-", dir=parent))
