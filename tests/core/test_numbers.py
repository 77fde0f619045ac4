"""Numbers for readers: the unit is right, also after rounding."""

import pytest

from lookahead.core import numbers


@pytest.mark.parametrize(
    ("write", "written"),
    [
        (numbers.decimal, {0: "0.00", 0.0512: "0.05", 2: "2.00", 9.996: "10.0", 99.94: "99.9", 99.96: "100", 12345: "12,345"}),
        (numbers.significant, {0.00412: "0.00412", 0.004: "0.004", 2: "2", 1e-9: "1e-09"}),
        (numbers.seconds, {
            0: "0.00 ms", 4.2e-6: "under 0.01 ms", 0.00012: "0.12 ms", 0.00842: "8.42 ms", 0.9994: "999 ms", 0.9996: "1.00 s", 95: "95.0 s", 390: "6.5 min",
        }),
        (numbers.ratio, {2.407: "2.41x", 0.8349: "0.83x", 1: "1.00x", 12.345: "12.3x"}),
        (numbers.percent, {0.224: "22%", 1: "100%", None: "-"}),
        (numbers.count, {20_000: "20,000", 0: "0", 300.0: "300", 2.5: "2.5"}),
        (numbers.millions, {13_640_000: "13.6 M", 999_600_000: "1.00 B", 1.2e9: "1.20 B", 70e9: "70.0 B"}),
        (numbers.size, {52_000: "52 kB", 13_600_000: "13.6 MB", 1.25e9: "1.2 GB"}),
        (numbers.speed, {12.34e9: "12.3 GB/s"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)  # fmt: skip
def test_figures(write, written):
    assert {value: write(value) for value in written} == written


def test_nouns_follow_their_number():
    assert [numbers.counted(n, "run") for n in (0, 1, 2, 1000)] == ["0 runs", "1 run", "2 runs", "1,000 runs"]
