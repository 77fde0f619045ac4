"""Run the full suite with `python -m tests`: first untimed tests on three workers, then timed tests alone.

Further arguments are passed to both runs of pytest. Under CI and without arguments, vLLM is installed in the background during
the untimed tests.
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
# Compiles and measures once before the tests; otherwise all workers and their apps would do this at the same time.
PREPARE = "import lookahead; lookahead.load('pocket')"
VLLM = Path(__file__).with_name("vllm_environment.py")
ENVIRONMENT = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}  # many processes share the compiled bytecode


def main(arguments: list[str]) -> int:
    """Return the worst exit status of both runs. A run that selects no test counts as passed if the other run passes."""
    command = [sys.executable, "-m", "pytest", "--durations=25"]  # prints the slowest tests
    full_suite = not arguments and "CI" in ENVIRONMENT and "VLLM_PYTHON" not in ENVIRONMENT
    installing = subprocess.Popen([sys.executable, VLLM]) if full_suite else None
    if not arguments:
        subprocess.call([sys.executable, "-c", PREPARE], env=ENVIRONMENT)
    codes = []
    for stage in STAGES:
        codes.append(subprocess.call([*command, *stage, *arguments], env=ENVIRONMENT))
        if installing:
            installing.wait()
    return max(0 if code == 5 and min(codes) == 0 else code for code in codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
