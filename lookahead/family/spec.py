"""Specs of families: "pocket", or "target+draft+...", each a hub name, a folder or a GGUF file. Several families: "a,b".

A path may contain the separators. The longest part that is the path of an existing folder or GGUF file is one name.
"""

from collections.abc import Callable
from pathlib import Path


def families(text: str) -> list[str]:
    """Return the specs in a comma-separated list, without duplicates."""
    return list(dict.fromkeys(_split(text, ",", lambda spec: all(map(is_local, members(spec))))))


def members(spec: str) -> list[str]:
    """Return the names in a spec, the target's first. Between two adjacent separators, the name is empty."""
    return _split(spec, "+", is_local)


def is_local(name: str) -> bool:
    """Return whether this is the path of an existing folder or GGUF file."""
    path = Path(name)
    try:
        return path.is_dir() or (path.suffix == ".gguf" and path.is_file())
    except (OSError, ValueError):  # the name is too long, or has a null character
        return False


def _split(text: str, separator: str, is_name: Callable[[str], bool]) -> list[str]:
    """Split a text at the separators, except within the longest parts for which `is_name` is true."""
    parts, names, start = text.split(separator), [], 0
    while start < len(parts):
        stops = range(len(parts), start + 1, -1)
        stop = next((stop for stop in stops if is_name(separator.join(parts[start:stop]).strip())), start + 1)
        names.append(separator.join(parts[start:stop]).strip())
        start = stop
    return names
