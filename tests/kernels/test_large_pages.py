"""Weights share large pages, and each keeps its numbers."""

from __future__ import annotations

import weakref

import numpy as np

from lookahead.kernels.large_pages import CHUNK, LINE, MIN_BYTES, in_large_pages


def random_numbers(n):
    return np.random.default_rng(n).integers(0, 99, (n, 7), dtype=np.uint16).T


def test_copies_are_contiguous_and_aligned_to_cache_lines():
    arrays = [random_numbers(n) for n in (MIN_BYTES, MIN_BYTES + 1, 2 * MIN_BYTES + 5)]
    copies = [in_large_pages(array) for array in arrays]
    for array, copy in zip(arrays, copies, strict=True):
        assert copy.flags.c_contiguous and copy.ctypes.data % LINE == 0 and copy.dtype == array.dtype
        np.testing.assert_array_equal(copy, array)  # later copies have not overwritten it


def test_an_array_larger_than_a_chunk_gets_a_separate_chunk():
    array = np.arange(CHUNK // 8 + 5)
    np.testing.assert_array_equal(in_large_pages(array), array)


def test_small_arrays_use_no_chunk():
    copy = in_large_pages(random_numbers(5))
    assert copy.flags.c_contiguous and copy.base is None
    np.testing.assert_array_equal(copy, random_numbers(5))


def test_a_chunk_is_freed_with_its_last_array():
    array = in_large_pages(np.zeros(CHUNK, np.uint8))
    chunk = array
    while chunk.base is not None:
        chunk = chunk.base
    reference = weakref.ref(chunk)
    in_large_pages(np.zeros(CHUNK, np.uint8))  # starts the next chunk
    assert reference() is not None
    del array, chunk
    assert reference() is None
