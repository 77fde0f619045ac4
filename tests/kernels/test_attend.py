"""Compiled attention equals torch's, and the bits of a row do not depend on other rows, at all block boundaries."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lookahead.kernels.attend import (
    ROW_GROUP,
    VALUE_BLOCK,
    attend,
    in_token_order,
    kv_interleave,
    kv_storage,
    move_columns,
    scratch_floats,
)
from lookahead.kernels.vectors import KEY_BLOCK, LANES, ROWS

LENGTHS = (
    1, LANES - 1, LANES, KEY_BLOCK - 1, KEY_BLOCK, KEY_BLOCK + 1, VALUE_BLOCK, VALUE_BLOCK + 1, 3 * VALUE_BLOCK - 2,
)  # fmt: skip
HEADS = [(9, 3), (4, 4), (8, 1), (6, 3)]  # of queries and of keys: groups of 3, 1, 8 and 2 heads


def storage_of(heads, keys):
    """Return the storage format of keys [kv, length, dim] for a model with this number of heads."""
    return kv_storage(SimpleNamespace(heads=heads, kv_heads=len(keys), head_dim=keys.shape[2]), keys.dtype)


def cache_layout(keys, values, storage):
    """Return keys and values [kv, length, dim] in the layout of a cache.

    The last block is padded with NaN.
    """
    kv, length, dim = keys.shape
    blocks = -(-length // KEY_BLOCK)
    padding = torch.full((kv, blocks * KEY_BLOCK - length, dim), torch.nan, dtype=keys.dtype)
    keys, values = (torch.cat([tensor, padding], 1) for tensor in (keys, values))
    interleave = kv_interleave(storage)
    keys = keys.reshape(kv, blocks, KEY_BLOCK, dim // interleave, interleave).transpose(2, 3).reshape(kv, -1, dim)
    return keys, values.reshape(kv, -1, interleave, dim).transpose(2, 3).reshape(kv, -1, dim)


def compute_attention(query, keys, values, prefix, branch=None, counts=None, window=0):
    """Compute the attention of rows [n, heads, dim] to the first `prefix` columns and those of their `branch`."""
    (n, heads, dim), kv, storage = query.shape, len(keys), storage_of(query.shape[1], keys)
    keys, values = cache_layout(keys, values, storage)
    counts = np.zeros(n, np.int64) if counts is None else counts
    branch = np.zeros((n, 1), np.int64) if branch is None else branch
    last = np.where(counts, np.take_along_axis(branch, np.maximum(counts - 1, 0)[:, None], 1)[:, 0], prefix - 1)
    max_columns, capacity = int(last.max()) + 1, keys.shape[1]
    query, output = query.float().contiguous(), torch.empty(n, heads, dim)
    # NaN, because unwritten scratch must not be read.
    scratch = torch.full((scratch_floats(n, heads, kv, max_columns, dim),), torch.nan)
    attend().ctypes(
        query.data_ptr(), heads * dim, keys.data_ptr(), values.data_ptr(), capacity, dim, output.data_ptr(),
        scratch.data_ptr(), max_columns, prefix.ctypes.data, branch.ctypes.data, branch.shape[1], counts.ctypes.data, n, heads,
        kv, 0, kv, window, storage, dim**-0.5,
    )  # fmt: skip
    return output


def random_inputs(heads, kv, length, dtype, rows, dim=64):
    torch.manual_seed(length)
    query, keys, values = torch.randn(rows, heads, dim), torch.randn(kv, length, dim), torch.randn(kv, length, dim)
    return query.to(dtype), keys.to(dtype), values.to(dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize(("heads", "kv"), HEADS)
@pytest.mark.parametrize("length", LENGTHS)
def test_attention_equals_torchs(length, heads, kv, dtype):
    query, keys, values = random_inputs(heads, kv, length, dtype, rows=1)
    ours = compute_attention(query, keys, values, np.array([length]))
    theirs = torch.nn.functional.scaled_dot_product_attention(
        query.float().transpose(0, 1), keys.float(), values.float(), enable_gqa=True
    )
    torch.testing.assert_close(
        ours, theirs.transpose(0, 1), **({"atol": 0.02, "rtol": 0.02} if dtype == torch.bfloat16 else {})
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize(("heads", "kv"), HEADS)
@pytest.mark.parametrize("first", LENGTHS)
def test_rows_of_a_chain_have_the_bits_of_single_rows(first, heads, kv, dtype):
    count = ROW_GROUP + 1
    query, keys, values = random_inputs(heads, kv, first + count, dtype, rows=count)
    prefix = first + np.arange(count)
    alone = [compute_attention(query[row : row + 1], keys, values, prefix[row : row + 1]) for row in range(count)]
    for rows in (*range(2, 2 * ROWS + 2), count):
        assert torch.equal(compute_attention(query[:rows], keys, values, prefix[:rows]), torch.cat(alone[:rows])), rows


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("past", [1, KEY_BLOCK - 2, 2 * VALUE_BLOCK + 1])
def test_a_branch_has_the_bits_of_the_same_chain(past, dtype):
    """Three columns follow the past: a, b, c. The rows see a; a and b; a and c. Column c is after b."""
    query, keys, values = random_inputs(9, 3, past + 3, dtype, rows=3)
    prefix, branch = np.array([past + 1, past + 2, past + 1]), np.array([[0], [0], [past + 2]])
    tree = compute_attention(query, keys, values, prefix, branch, np.array([0, 0, 1]))
    for moved in (keys, values):
        moved[:, past + 1] = moved[:, past + 2]
    assert torch.equal(tree[2:], compute_attention(query[2:], keys, values, np.array([past + 2])))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("window", [1, 2, KEY_BLOCK - 1, KEY_BLOCK, VALUE_BLOCK + 3])
@pytest.mark.parametrize("length", [1, KEY_BLOCK + 1, VALUE_BLOCK, 3 * VALUE_BLOCK - 2])
def test_a_row_attends_to_the_columns_of_its_window(length, window, dtype):
    """Compares with attention to these columns only."""
    query, keys, values = random_inputs(6, 3, length, dtype, rows=1)
    alone = compute_attention(query, keys, values, np.array([length]), window=window)
    oldest = max(0, length - window)
    expected = torch.nn.functional.scaled_dot_product_attention(
        query.float().transpose(0, 1), keys[:, oldest:].float(), values[:, oldest:].float(), enable_gqa=True
    )
    tolerance = {"atol": 0.02, "rtol": 0.02} if dtype == torch.bfloat16 else {}
    torch.testing.assert_close(alone, expected.transpose(0, 1), **tolerance)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("window", [1, 3, KEY_BLOCK + 1])
@pytest.mark.parametrize("past", [1, KEY_BLOCK - 2, 2 * VALUE_BLOCK + 1])
def test_rows_with_a_window_have_the_bits_of_single_rows(past, window, dtype):
    """Half of the rows are a chain; the others are a second branch after the past, longer than the shortest windows."""
    count = ROW_GROUP + 2
    half, n = count // 2, past + count
    query, keys, values = random_inputs(6, 3, n, dtype, rows=count)
    chain = np.arange(past + 1, past + half + 1)
    prefix, counts = np.append(chain, [past] * half), np.append([0] * half, np.arange(1, half + 1))
    branch = np.tile(np.arange(past + half, n), (count, 1))
    together = compute_attention(query, keys, values, prefix, branch, counts, window)
    for row in range(half):
        alone = compute_attention(query[row : row + 1], keys, values, chain[row : row + 1], window=window)
        assert torch.equal(together[row : row + 1], alone)
    for moved in (keys, values):
        moved[:, past : past + half] = moved[:, past + half :].clone()
    for row in range(half):
        alone = compute_attention(query[half + row :][:1], keys, values, chain[row : row + 1], window=window)
        assert torch.equal(together[half + row :][:1], alone)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("dim", [32, 48, 64])
def test_columns_are_moved_and_read_in_order(dtype, dim):
    _, keys, values = random_inputs(3, 3, 2 * KEY_BLOCK, dtype, 1, dim)
    storage = storage_of(3, keys)
    stored, start, columns = (
        cache_layout(keys, values, storage),
        KEY_BLOCK - 2,
        torch.tensor([KEY_BLOCK - 2, KEY_BLOCK, KEY_BLOCK + 1, KEY_BLOCK + 5, 2 * KEY_BLOCK - 1]),
    )
    assert all(map(torch.equal, in_token_order(*stored, storage), (keys, values)))
    addresses = torch.tensor([tensor.data_ptr() for tensor in stored])
    move_columns().ctypes(
        addresses.data_ptr(), 1, 3, 2 * KEY_BLOCK, dim, storage, start, columns.data_ptr(), len(columns)
    )
    for tensor in (keys, values):
        tensor[:, start : start + len(columns)] = tensor[:, columns]
    assert all(map(torch.equal, in_token_order(*stored, storage), (keys, values)))
