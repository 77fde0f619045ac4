"""Weights lie side by side in large pages, each with its own numbers."""

from __future__ import annotations

import numpy as np

from lookahead.hardware.large_pages import CHUNK, LINE, in_large_pages


def test_copies_are_contiguous_and_begin_lines():
    given = [np.random.default_rng(n).integers(0, 99, (n, 7), dtype=np.uint16).T for n in (1, 5, 300)]
    copies = [in_large_pages(numbers) for numbers in given]
    for numbers, copy in zip(given, copies, strict=True):
        assert copy.flags.c_contiguous and copy.ctypes.data % LINE == 0 and copy.dtype == numbers.dtype
        np.testing.assert_array_equal(copy, numbers)  # those that came later have not been written over it


def test_more_than_a_chunk_has_one_of_its_own():
    numbers = np.arange(CHUNK // 8 + 5)
    np.testing.assert_array_equal(in_large_pages(numbers), numbers)
