"""The processes that compile kernels next to this one (`kernels.first_start`).

A process takes seconds to import torch. So the app starts them before it imports torch itself.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

from . import folders, processor

MAX_PROCESSES = 4  # with this one
MARK = "complete-"  # start of the name of a file in a folder of the cache: everything is compiled
_COMMAND = [sys.executable, "-m", "lookahead.kernels.first_start"]
_waiting: list[subprocess.Popen[bytes]] = []
_suspended: set[subprocess.Popen[bytes]] = set()


def further() -> int:
    """Return the number of processes that compile next to this one."""
    return min(processor.cores(), MAX_PROCESSES) - 1


def start_if_first() -> None:
    """Start the processes if nothing was compiled before, neither on this machine nor when the container was built."""
    cache = Path(os.environ.get("NUMBA_CACHE_DIR") or folders.cache() / "kernels")
    if not os.environ.get("LOOKAHEAD_KERNELS") and not any(cache.glob(f"*/{MARK}*")):
        _waiting.extend(_new() for _ in range(further()))


def take() -> subprocess.Popen[bytes]:
    """Return a process that waits, or a new one. It ends when its input is closed. Raises `OSError` if it cannot be started."""
    return _waiting.pop() if _waiting else _new()


def suspend(process: subprocess.Popen[bytes]) -> None:
    """Let a process compute nothing until `resume`, if the system supports this."""
    _suspended.add(process)
    _signal(process, "SIGSTOP")


def resume(process: subprocess.Popen[bytes]) -> None:
    """Let a suspended process continue."""
    _suspended.discard(process)
    _signal(process, "SIGCONT")


def _signal(process: subprocess.Popen[bytes], name: str) -> None:
    if hasattr(signal, name):  # not on Windows
        process.send_signal(getattr(signal, name))


def stop() -> None:
    """End the processes that wait, and those that are suspended."""
    while _waiting:
        with _waiting.pop():  # closes its input
            pass
    while _suspended:
        _suspended.pop().kill()


def _new() -> subprocess.Popen[bytes]:
    return subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
