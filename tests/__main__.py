"""The whole suite, as `python -m tests`: what is not timed on three workers side by side, then what is timed, alone.

Further arguments go to both runs of pytest.
"""

from __future__ import annotations

import os
import subprocess
import sys

STAGES = (
    ("-n", "3", "--dist", "loadgroup", "--no-loadscope-reorder", "-m", "not timed"),  # in the order of `conftest`
    ("-m", "timed"),
)
KEPT = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}  # what is compiled once, for dozens of processes


def main(arguments: list[str]) -> int:
    """The worst exit status of both; no test selected in one of them is none of its faults."""
    command = [sys.executable, "-m", "pytest", "--durations=25"]  # where the suite's time goes
    codes = [subprocess.call([*command, *stage, *arguments], env=KEPT) for stage in STAGES]
    return max(0 if code == 5 and min(codes) == 0 else code for code in codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
