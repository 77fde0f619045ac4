"""The whole suite, as `python -m tests`: what is not timed on three workers side by side, then what is timed, alone.

Further arguments go to both runs of pytest. Where the whole is run under CI, vLLM is installed meanwhile, as far as the tests
that are not timed leave time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

STAGES = (
    ("-n", "3", "--dist", "loadgroup", "--no-loadscope-reorder", "-m", "not timed"),  # in the order of `conftest`
    ("-m", "timed"),
)
# What the app compiles and measures at its first start, where all workers and their apps would, side by side.
PREPARE = "import lookahead; lookahead.load('pocket')"
VLLM = Path(__file__).with_name("vllm_environment.py")
KEPT = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}  # what is compiled once, for dozens of processes


def main(arguments: list[str]) -> int:
    """The worst exit status of both; no test selected in one of them is none of its faults."""
    command = [sys.executable, "-m", "pytest", "--durations=25"]  # where the suite's time goes
    whole = not arguments and "CI" in KEPT and "VLLM_PYTHON" not in KEPT
    installing = subprocess.Popen([sys.executable, VLLM]) if whole else None
    if not arguments:
        subprocess.call([sys.executable, "-c", PREPARE], env=KEPT)
    codes = []
    for stage in STAGES:
        codes.append(subprocess.call([*command, *stage, *arguments], env=KEPT))
        if installing:
            installing.wait()
    return max(0 if code == 5 and min(codes) == 0 else code for code in codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
