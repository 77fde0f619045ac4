"""Folders: the assets that are shipped with the package, and the user's cache."""

import os
from pathlib import Path

_PACKAGED = Path(__file__).parents[1] / "assets"  # in an installed package; in a checkout they are next to it
ASSETS = _PACKAGED if _PACKAGED.is_dir() else Path(__file__).parents[2] / "assets"


def cache() -> Path:
    """The folder of cached files, next to the caches of other programs."""
    return Path(f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/lookahead").expanduser()
