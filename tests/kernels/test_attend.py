"""Compiled attention: what it is, and that a row has the same bits whatever is computed beside it, at every border."""

import numpy as np
import pytest
import torch

from lookahead.kernels.attend import ROW_GROUP, VALUES, attend, in_order, move, multiplied_together, scratch_floats
from lookahead.kernels.vectors import KEY_BLOCK, LANES, ROWS

SEEN = (1, LANES - 1, LANES, KEY_BLOCK - 1, KEY_BLOCK, KEY_BLOCK + 1, VALUES, VALUES + 1, 3 * VALUES - 2)
HEADS = [(9, 3), (4, 4), (8, 1), (6, 3)]  # of queries and of keys: in groups of 3, 1, 8 and 2


def laid(keys, values):
    """Keys and values [kv, room, dim] as a cache has them, with whole blocks of columns, the last of them of NaN."""
    kv, room, dim = keys.shape
    blocks = -(-room // KEY_BLOCK)
    behind = torch.full((kv, blocks * KEY_BLOCK - room, dim), torch.nan, dtype=keys.dtype)
    keys, values = (torch.cat([one, behind], 1) for one in (keys, values))
    together = multiplied_together(dim, keys.dtype == torch.bfloat16)
    keys = keys.reshape(kv, blocks, KEY_BLOCK, dim // together, together).transpose(2, 3).reshape(kv, -1, dim)
    return keys, values.reshape(kv, -1, together, dim).transpose(2, 3).reshape(kv, -1, dim)


def computed(query, keys, values, straight, branch=None, counts=None):
    """Rows [n, heads, dim] that attend to the first `straight` columns and those of their `branch`."""
    (n, heads, dim), kv, (keys, values) = query.shape, len(keys), laid(keys, values)
    counts = np.zeros(n, np.int64) if counts is None else counts
    branch = np.zeros((n, 1), np.int64) if branch is None else branch
    last = np.where(counts, np.take_along_axis(branch, np.maximum(counts - 1, 0)[:, None], 1)[:, 0], straight - 1)
    rounded, most, room = keys.dtype == torch.bfloat16, int(last.max()) + 1, keys.shape[1]
    query, mixed = query.float().contiguous(), torch.empty(n, heads, dim)
    scratch = torch.full((scratch_floats(n, heads, kv, most, dim),), torch.nan)  # what is not written must not be read
    attend().ctypes(
        query.data_ptr(), heads * dim, keys.data_ptr(), values.data_ptr(), room, dim, mixed.data_ptr(), scratch.data_ptr(), most,
        straight.ctypes.data, branch.ctypes.data, branch.shape[1], counts.ctypes.data, n, heads, kv, int(rounded), dim**-0.5,
    )  # fmt: skip
    return mixed


def random(heads, kv, room, dtype, rows, dim=64):
    torch.manual_seed(room)
    query, keys, values = torch.randn(rows, heads, dim), torch.randn(kv, room, dim), torch.randn(kv, room, dim)
    return query.to(dtype), keys.to(dtype), values.to(dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize(("heads", "kv"), HEADS)
@pytest.mark.parametrize("seen", SEEN)
def test_it_is_torchs_attention(seen, heads, kv, dtype):
    query, keys, values = random(heads, kv, seen, dtype, rows=1)
    ours = computed(query, keys, values, np.array([seen]))
    theirs = torch.nn.functional.scaled_dot_product_attention(
        query.float().transpose(0, 1), keys.float(), values.float(), enable_gqa=True
    )
    torch.testing.assert_close(
        ours, theirs.transpose(0, 1), **({"atol": 0.02, "rtol": 0.02} if dtype == torch.bfloat16 else {})
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize(("heads", "kv"), HEADS)
@pytest.mark.parametrize("first", SEEN)
def test_a_chains_rows_have_the_bits_they_have_alone(first, heads, kv, dtype):
    most = ROW_GROUP + 1
    query, keys, values = random(heads, kv, first + most, dtype, rows=most)
    straight = first + np.arange(most)
    alone = [computed(query[row : row + 1], keys, values, straight[row : row + 1]) for row in range(most)]
    for rows in (*range(2, 2 * ROWS + 2), most):
        assert torch.equal(computed(query[:rows], keys, values, straight[:rows]), torch.cat(alone[:rows])), rows


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("past", [1, KEY_BLOCK - 2, 2 * VALUES + 1])
def test_a_branch_has_the_bits_of_a_chain_that_lies_so(past, dtype):
    """Columns behind the past: a, b, c. The rows see a; a and b; a and c, of which c lies behind b."""
    query, keys, values = random(9, 3, past + 3, dtype, rows=3)
    straight, branch = np.array([past + 1, past + 2, past + 1]), np.array([[0], [0], [past + 2]])
    tree = computed(query, keys, values, straight, branch, np.array([0, 0, 1]))
    for moved in (keys, values):
        moved[:, past + 1] = moved[:, past + 2]
    assert torch.equal(tree[2:], computed(query[2:], keys, values, np.array([past + 2])))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("dim", [32, 48])
def test_columns_are_moved_and_read_in_order(dtype, dim):
    _, keys, values = random(3, 3, 2 * KEY_BLOCK, dtype, 1, dim)
    stored, start, columns = (
        laid(keys, values),
        KEY_BLOCK - 2,
        torch.tensor([KEY_BLOCK - 2, KEY_BLOCK, KEY_BLOCK + 1, KEY_BLOCK + 5, 2 * KEY_BLOCK - 1]),
    )
    assert all(map(torch.equal, in_order(*stored), (keys, values)))
    addresses = torch.tensor([one.data_ptr() for one in stored])
    rounded = int(dtype == torch.bfloat16)
    move().ctypes(addresses.data_ptr(), 1, 3, 2 * KEY_BLOCK, dim, rounded, start, columns.data_ptr(), len(columns))
    for one in (keys, values):
        one[:, start : start + len(columns)] = one[:, columns]
    assert all(map(torch.equal, in_order(*stored), (keys, values)))
