"""The version of the package, and the git revision of the running copy."""

import os
import re
from collections.abc import Mapping

VERSION = "0.1.0"  # read by pyproject.toml
VARIABLES = ("LOOKAHEAD_REVISION", "SPACE_COMMIT_SHA", "SOURCE_COMMIT", "SOURCE_VERSION", "RENDER_GIT_COMMIT", "RAILWAY_GIT_COMMIT_SHA", "GITHUB_SHA")  # fmt: skip
FULL, SHORT = re.compile(r"[0-9a-f]{40,64}"), 9


def revision(environment: Mapping[str, str] = os.environ) -> str:
    """Return the first of `VARIABLES` that is set, or an empty string. A full hash is shortened."""
    text = next((environment[name] for name in VARIABLES if environment.get(name)), "")
    text = "".join(c for c in text.strip() if c.isprintable())
    return text[:SHORT] if FULL.fullmatch(text) else text[:40]
