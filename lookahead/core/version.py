"""The version, in one place, and the git revision that is running, where it is known.

The revision is read from the git folder beside the package, without git; a copy without one (a container, a download)
takes it from `LOOKAHEAD_REVISION` or from the variables that hosts of apps set. Reading it never fails.

Knows files and the environment. It does not know whether anything was changed since that revision.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

VERSION = "0.1.0"
VARIABLES = ("LOOKAHEAD_REVISION", "SPACE_COMMIT_SHA", "SOURCE_COMMIT", "SOURCE_VERSION", "RENDER_GIT_COMMIT", "RAILWAY_GIT_COMMIT_SHA", "GITHUB_SHA")  # fmt: skip
SHORT = 9
FULL = re.compile(r"[0-9a-f]{40,64}")


def revision(root: Path = Path(__file__).parents[2], environment: Mapping[str, str] = os.environ) -> str:
    """The revision as a few characters; nothing where it is not known."""
    text = _from_git(root / ".git") or next((environment[name] for name in VARIABLES if environment.get(name)), "")
    text = "".join(c for c in text.strip() if c.isprintable())
    return text[:SHORT] if FULL.fullmatch(text) else text[:40]


def _from_git(folder: Path) -> str:
    try:
        if folder.is_file():  # a work tree of its own: the file says where the folder is
            folder = (folder.parent / _text(folder).removeprefix("gitdir:").strip()).resolve()
        head = _text(folder / "HEAD")
        if not head.startswith("ref:"):
            return head if FULL.fullmatch(head) else ""
        name = head.removeprefix("ref:").strip()
        common = folder / "commondir"
        shared = (folder / _text(common)).resolve() if common.is_file() else folder
        for one in (folder, shared):
            if (one / name).is_file():
                return _text(one / name)
        lines = (line.split() for line in _text(shared / "packed-refs").splitlines())
        return next((line[0] for line in lines if line[1:] == [name]), "")
    except (OSError, ValueError):
        return ""


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace").strip()
