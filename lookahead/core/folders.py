"""Folders of the user."""

import os
from pathlib import Path


def cache() -> Path:
    """The folder of cached files, next to the caches of other programs."""
    return Path(f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/lookahead").expanduser()
