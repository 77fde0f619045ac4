"""Type errors that basedpyright reports: none in public modules, and elsewhere no more than `MAX_ERRORS`, which may only fall.

`python tests/type_errors.py` exits with 1 if there are more. A public module is one that `lookahead/__init__.pyi` imports.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "lookahead"
MAX_ERRORS = 482  # 476, and a margin for types of dependencies that are not pinned


def public() -> set[Path]:
    """The modules whose names `lookahead` exports, and what their signatures and results consist of."""
    stub = PACKAGE / "__init__.pyi"
    names = [node.module for node in ast.parse(stub.read_text()).body if isinstance(node, ast.ImportFrom)]
    modules = [PACKAGE / name.replace(".", "/") for name in (*names, "core.options", "trace.results")]
    return {stub, *(path / "__init__.py" if path.is_dir() else path.with_suffix(".py") for path in modules)}


def errors() -> list[tuple[Path, int, str]]:
    """Every type error of the package: file, line and message."""
    command = [Path(sys.executable).with_name("basedpyright"), "--outputjson", "--level", "error"]
    done = subprocess.run([*command, "--pythonpath", sys.executable], cwd=ROOT, capture_output=True, text=True)
    return [
        (Path(found["file"]), found["range"]["start"]["line"] + 1, found["message"])
        for found in json.loads(done.stdout)["generalDiagnostics"]
        if found["severity"] == "error"
    ]


def main() -> int:
    found, exported = errors(), public()
    wrong = [error for error in found if error[0] in exported]
    for path, line, message in found if "-v" in sys.argv else wrong:
        print(f"{path.relative_to(ROOT)}:{line}: {message}")
    print(f"{len(wrong)} type errors in public modules, {len(found)} in all; {MAX_ERRORS} are allowed.")
    return int(bool(wrong) or len(found) > MAX_ERRORS)


if __name__ == "__main__":
    sys.exit(main())
