"""Make the standard streams accept every character."""

import sys


def tolerate_any_text() -> None:
    """Make stdout and stderr replace characters that the terminal's encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="replace")
