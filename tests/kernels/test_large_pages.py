"""Weights lie side by side in large pages, each with its own numbers."""

from __future__ import annotations

import weakref

import numpy as np

from lookahead.kernels.large_pages import CHUNK, MIN_BYTES, LINE, in_large_pages


def numbers(n):
    return np.random.default_rng(n).integers(0, 99, (n, 7), dtype=np.uint16).T


def test_copies_are_contiguous_and_begin_lines():
    given = [numbers(n) for n in (MIN_BYTES, MIN_BYTES + 1, 2 * MIN_BYTES + 5)]
    copies = [in_large_pages(one) for one in given]
    for one, copy in zip(given, copies, strict=True):
        assert copy.flags.c_contiguous and copy.ctypes.data % LINE == 0 and copy.dtype == one.dtype
        np.testing.assert_array_equal(copy, one)  # those that came later have not been written over it


def test_more_than_a_chunk_has_one_of_its_own():
    given = np.arange(CHUNK // 8 + 5)
    np.testing.assert_array_equal(in_large_pages(given), given)


def test_what_is_small_keeps_no_chunk():
    copy = in_large_pages(numbers(5))
    assert copy.flags.c_contiguous and copy.base is None
    np.testing.assert_array_equal(copy, numbers(5))


def test_a_chunk_is_given_back_with_the_last_of_it():
    one = in_large_pages(np.zeros(CHUNK, np.uint8))
    chunk = one
    while chunk.base is not None:
        chunk = chunk.base
    gone = weakref.ref(chunk)
    in_large_pages(np.zeros(CHUNK, np.uint8))  # the next chunk is begun
    assert gone() is not None
    del one, chunk
    assert gone() is None
