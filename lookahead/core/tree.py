"""The shape of a draft: depths, ancestors, attention masks and tries.

A tree is a tuple of parents: `parents[i]` is the row that row i continues, or -1 for the root (the last accepted token).
Parents come before children. Chains, candidate tries and draft trees have this one shape.
"""

from collections.abc import Sequence


def depths(parents: Sequence[int]) -> list[int]:
    """Return the distance of each row from the root. A child of the root has depth 1."""
    out: list[int] = []
    for parent in parents:
        out.append(1 if parent < 0 else out[parent] + 1)
    return out


def ancestors(parents: Sequence[int], row: int) -> list[int]:
    """Return the rows on the path from the root to `row`, with `row`."""
    path = []
    while row >= 0:
        path.append(row)
        row = parents[row]
    return path[::-1]


def ancestor_mask(parents: Sequence[int]) -> list[list[bool]]:
    """Return a mask: `mask[i][j]` is True if row i attends to row j, because j is i or an ancestor of i."""
    mask: list[list[bool]] = []
    for i, parent in enumerate(parents):
        row = list(mask[parent]) if parent >= 0 else [False] * len(parents)
        row[i] = True
        mask.append(row)
    return mask


def children(parents: Sequence[int]) -> list[list[int]]:
    """Return the children of every node in row order. Entry 0 is the root's; entry i + 1 is row i's."""
    out: list[list[int]] = [[] for _ in range(len(parents) + 1)]
    for row, parent in enumerate(parents):
        out[parent + 1].append(row)
    return out


def is_chain(parents: Sequence[int]) -> bool:
    """Return whether every row continues the row before it."""
    return [*parents] == [*range(-1, len(parents) - 1)]


def branch_count(parents: Sequence[int]) -> int:
    """Return the number of root-to-leaf paths; 1 without rows."""
    return max(1, len(parents) - len({parent for parent in parents if parent >= 0}))


def trie(candidates: Sequence[Sequence[int]], rows: int) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    """Merge candidate continuations into one tree of at most `rows` rows; return (tokens, parents, origins).

    The first rows are the chain of the first candidate. `origins[i]` is the (candidate, index in it) of row i.
    """
    tokens: list[int] = []
    parents: list[int] = []
    origins: list[tuple[int, int]] = []
    index: dict[tuple[int, int], int] = {}
    for c, candidate in enumerate(candidates):
        node = -1
        for position, token in enumerate(candidate):
            row = index.get((node, token))
            if row is None:
                if len(tokens) >= rows:
                    break
                row = index[node, token] = len(tokens)
                tokens.append(token)
                parents.append(node)
                origins.append((c, position))
            node = row
    return tokens, parents, origins
