"""Folders that belong to the user of this computer."""

from __future__ import annotations

import os
from pathlib import Path


def cache() -> Path:
    """Where this program keeps what it can compute again, beside other programs' caches."""
    return Path(f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/lookahead").expanduser()
