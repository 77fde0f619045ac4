"""Where the app may write: settled before anything is imported that would remember another place.

Models from the hub go where HF_HOME or HF_HUB_CACHE say, uploads where GRADIO_TEMP_DIR says; a Space with a disk of its own
keeps models on it. A place that cannot be written is replaced by a temporary one, with a line on stderr, for the bundled
models need none. Nothing is ever written beside the code.

Knows folders and variables. It does not know what is kept there.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import MutableMapping
from pathlib import Path

DISK = Path("/data")  # of a Space that has one
SHARED = Path("/dev/shm")  # memory as a folder, which a container has also where its file system is read-only
YES = ("1", "ON", "YES", "TRUE")


def settle(environment: MutableMapping[str, str] = os.environ, disk: Path = DISK) -> None:
    """Set the variables that say where to write, as far as they need it. Raises `OSError` where nothing can be written."""
    told = environment.get
    _spare(environment)
    if told("SPACE_ID") and disk.is_dir() and _writable(disk) and not (told("HF_HOME") or told("HF_HUB_CACHE")):
        environment["HF_HOME"] = str(disk / ".huggingface")
    _check(environment, "GRADIO_TEMP_DIR", told("GRADIO_TEMP_DIR") or f"{tempfile.gettempdir()}/gradio")
    if told("HF_HUB_OFFLINE", "").upper() in YES:  # models are found there, and none are brought
        return
    home, hub = told("HF_HOME") or f"{told('XDG_CACHE_HOME') or '~/.cache'}/huggingface", told("HF_HUB_CACHE")
    _check(environment, "HF_HOME", home, *([] if hub else ["hub"]))
    if hub:
        _check(environment, "HF_HUB_CACHE", hub)


def _check(environment: MutableMapping[str, str], name: str, folder: str, *inside: str) -> None:
    """Leave the variable alone where its folder, and those inside it, can be written; else give it another."""
    place = Path(folder).expanduser()
    if all(_writable(one) for one in (place, *(place / part for part in inside))):
        return
    if among := _among():
        environment[name] = str(_own(among) / name.lower())
        print(f"lookahead: {place} cannot be written; {name} is {environment[name]} instead.", file=sys.stderr)
    else:
        print(
            f"lookahead: {place} cannot be written, nor any temporary folder; set {name} to one that can.",
            file=sys.stderr,
        )


def _writable(folder: Path) -> bool:
    """Whether files can be made in a folder, or in the nearest one above it that is there."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


def _spare(environment: MutableMapping[str, str]) -> None:
    """See to it that there is a folder for temporary files: torch cannot even be imported without one."""
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        if not _writable(SHARED):
            raise OSError("no folder can be written, not even one for temporary files; set TMPDIR to one.") from None
        environment["TMPDIR"] = tempfile.tempdir = str(SHARED)


def _among() -> Path | None:
    """The folder of temporary folders, unless it is the working directory, Python's last resort: that may hold the code."""
    folder = Path(tempfile.gettempdir())
    return None if folder == Path.cwd() else folder


def _own(among: Path) -> Path:
    """A folder for this user: the same at every start, but a new one where that is somebody else's."""
    user = os.getuid() if hasattr(os, "getuid") else ""
    folder = among / f"lookahead-{user}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        ours = not folder.is_symlink() and (user == "" or folder.stat().st_uid == user)
    except OSError:
        ours = False
    return folder if ours else Path(tempfile.mkdtemp(prefix="lookahead-", dir=among))
