"""The shape of a draft: depths, who sees whom, and root-to-leaf paths.

A tree is a tuple of parents: `parents[i]` is the row that row i continues, -1 the root (the last
accepted token). Parents come before children. That one shape carries chains, candidate tries and
draft trees; everything here follows from it.

Knows nothing of tokens, models or torch.
"""

from __future__ import annotations

from collections.abc import Sequence


def depths(parents: Sequence[int]) -> list[int]:
    """Distance of each row from the root; a child of the root has depth 1."""
    out: list[int] = []
    for parent in parents:
        out.append(1 if parent < 0 else out[parent] + 1)
    return out


def ancestors(parents: Sequence[int], row: int) -> list[int]:
    """The rows from the root down to `row`, both `row` itself and its eldest ancestor included."""
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
    return all(parent == i - 1 for i, parent in enumerate(parents))


def branches(parents: Sequence[int]) -> list[tuple[list[int], int]]:
    """The root-to-leaf paths, each as (rows, index of its first row not on an earlier path).

    Every row belongs to exactly one path's own part, and that part is the path's tail: a row
    that was seen before has only ancestors that were seen before.
    """
    seen: set[int] = set()
    out = []
    parents_set = set(parents)
    for leaf in (i for i in range(len(parents)) if i not in parents_set):
        path = ancestors(parents, leaf)
        own = next(i for i, row in enumerate(path) if row not in seen)
        seen.update(path)
        out.append((path, own))
    return out


def trie(candidates: Sequence[Sequence[int]], rows: int) -> tuple[list[int], list[int]]:
    """Merge candidate continuations into one tree of at most `rows` rows: (tokens, parents).

    Earlier candidates come first and whole, so the likeliest continuation is a plain chain at
    the front of the pass.
    """
    tokens: list[int] = []
    parents: list[int] = []
    index: dict[tuple[int, int], int] = {}
    for candidate in candidates:
        node = -1
        for token in candidate:
            row = index.get((node, token))
            if row is None:
                if len(tokens) >= rows:
                    break
                row = index[node, token] = len(tokens)
                tokens.append(token)
                parents.append(node)
            node = row
    return tokens, parents
