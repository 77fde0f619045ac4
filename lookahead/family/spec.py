"""How a family is named: "pocket", or "target+draft+...", each a hub name or a folder; several families, "a,b".

A folder's name may contain the separators. The longest part that names an existing folder is one name.
"""

from collections.abc import Callable
from pathlib import Path


def families(text: str) -> list[str]:
    """The specs in a list that is separated by commas, each of them once."""
    return list(dict.fromkeys(_split(text, ",", lambda spec: all(map(is_folder, members(spec))))))


def members(spec: str) -> list[str]:
    """The names in a spec, the target's first. A name is empty if there is none between two signs."""
    return _split(spec, "+", is_folder)


def is_folder(name: str) -> bool:
    """Whether a name is that of an existing folder."""
    try:
        return Path(name).is_dir()
    except (OSError, ValueError):  # too long for a file's name, or with a null character
        return False


def _split(text: str, separator: str, whole: Callable[[str], bool]) -> list[str]:
    """Split a text, but keep parts whole that are `whole`."""
    parts, out, start = text.split(separator), [], 0
    while start < len(parts):
        stops = range(len(parts), start + 1, -1)
        stop = next((stop for stop in stops if whole(separator.join(parts[start:stop]).strip())), start + 1)
        out.append(separator.join(parts[start:stop]).strip())
        start = stop
    return out
