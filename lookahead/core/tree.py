"""The shape of a draft: depths, who sees whom, and root-to-leaf paths.

A tree is a tuple of parents: `parents[i]` is the row that row i continues, -1 the root (the last accepted token). Parents come
before children. Chains, candidate tries and draft trees have this one shape.
"""

from collections.abc import Sequence


def depths(parents: Sequence[int]) -> list[int]:
    """Distance of each row from the root; a child of the root has depth 1."""
    out: list[int] = []
    for parent in parents:
        out.append(1 if parent < 0 else out[parent] + 1)
    return out


def ancestors(parents: Sequence[int], row: int) -> list[int]:
    """The rows from the root down to `row`, which is included."""
    path = []
    while row >= 0:
        path.append(row)
        row = parents[row]
    return path[::-1]


def ancestor_mask(parents: Sequence[int]) -> list[list[bool]]:
    """`mask[i][j]` is True when row i may look at row j: j is i or an ancestor of i."""
    mask: list[list[bool]] = []
    for i, parent in enumerate(parents):
        row = list(mask[parent]) if parent >= 0 else [False] * len(parents)
        row[i] = True
        mask.append(row)
    return mask


def children(parents: Sequence[int]) -> list[list[int]]:
    """The children of every node, elder first. Entry 0 is the root's; entry i + 1 is row i's."""
    out: list[list[int]] = [[] for _ in range(len(parents) + 1)]
    for row, parent in enumerate(parents):
        out[parent + 1].append(row)
    return out


def is_chain(parents: Sequence[int]) -> bool:
    """Whether every row continues the row before it."""
    return [*parents] == [*range(-1, len(parents) - 1)]


def branch_count(parents: Sequence[int]) -> int:
    """How many root-to-leaf paths there are; 1 without rows."""
    return max(1, len(parents) - len({parent for parent in parents if parent >= 0}))


def trie(candidates: Sequence[Sequence[int]], rows: int) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    """Merge candidate continuations into one tree of at most `rows` rows: (tokens, parents, origins).

    The first candidate is a chain of the first rows. `origins[i]` is the (candidate, place in it) of row i.
    """
    tokens: list[int] = []
    parents: list[int] = []
    origins: list[tuple[int, int]] = []
    index: dict[tuple[int, int], int] = {}
    for c, candidate in enumerate(candidates):
        node = -1
        for place, token in enumerate(candidate):
            row = index.get((node, token))
            if row is None:
                if len(tokens) >= rows:
                    break
                row = index[node, token] = len(tokens)
                tokens.append(token)
                parents.append(node)
                origins.append((c, place))
            node = row
    return tokens, parents, origins
