"""Standard streams that cannot fail on a character."""

import sys


def tolerate_any_text() -> None:
    """Make stdout and stderr print a replacement for characters that the terminal's encoding lacks, instead of raising."""
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="replace")
