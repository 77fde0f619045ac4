"""Run the full suite with `python -m tests`: first untimed tests on four workers, then timed tests alone.

Further arguments are passed to both runs of pytest. Under CI and without arguments, the types are checked and vLLM is installed
in the background.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

STAGES = (
    ("-n", "4", "--dist", "loadgroup", "--no-loadscope-reorder", "-m", "not timed"),  # in the order of `conftest`
    ("-m", "timed"),
)
# Compiles and measures once before the tests; otherwise all workers and their apps would do this at the same time.
PREPARE = "import lookahead; lookahead.load('pocket')"
VLLM, TYPES = (Path(__file__).with_name(name) for name in ("vllm_environment.py", "type_errors.py"))
ENVIRONMENT = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}  # many processes share the compiled bytecode


def main(arguments: list[str]) -> int:
    """Return the worst exit status of both runs. A run that selects no test counts as passed if the other run passes."""
    command = [sys.executable, "-m", "pytest", "--durations=25"]  # prints the slowest tests
    background = []
    if not arguments:
        if "CI" in ENVIRONMENT:  # compiling uses one core
            background = [subprocess.Popen([sys.executable, TYPES])]
        subprocess.call([sys.executable, "-c", PREPARE], env=ENVIRONMENT)
        if "CI" in ENVIRONMENT and "VLLM_PYTHON" not in ENVIRONMENT:
            background.append(subprocess.Popen([sys.executable, VLLM]))
    codes = []
    for stage in STAGES:
        codes.append(subprocess.call([*command, *stage, *arguments], env=ENVIRONMENT))
        for process in background:
            process.wait()
    codes = [0 if code == 5 and min(codes) == 0 else code for code in codes]
    return max(*codes, background[0].returncode if background else 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
