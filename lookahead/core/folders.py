"""The folders of the package's assets and of the user's cache."""

import os
from pathlib import Path

_PACKAGED = Path(__file__).parents[1] / "assets"  # in an installed package; in a checkout the folder is next to it
ASSETS = _PACKAGED if _PACKAGED.is_dir() else Path(__file__).parents[2] / "assets"


def cache() -> Path:
    """Return the folder of cached files."""
    return Path(f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/lookahead").expanduser()
