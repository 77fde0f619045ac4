"""Format numbers for readers, on the page, in tables and in a terminal.

seconds(0.00842)  "8.42 ms"      ratio(2.407)     "2.41x"       count(20000)        "20,000"
seconds(95)       "95.0 s"       percent(0.224)   "22%"         size(13_600_000)    "13.6 MB"
seconds(390)      "6.5 min"      decimal(3.583)   "3.58"        millions(1.2e9)     "1.20 B"
"""

UNKNOWN = "-"


def decimal(value: float | None) -> str:
    """Format a measured number: two decimals below 10, three digits above, and commas from 1,000 on; a dash if it is None."""
    if value is None:
        return UNKNOWN
    size = abs(value)
    return f"{value:.2f}" if size < 9.995 else f"{value:.1f}" if size < 99.95 else f"{value:,.0f}"


def ratio(value: float) -> str:
    """Format a factor: 2.41x."""
    return f"{decimal(value)}x"


def significant(value: float, digits: int = 3) -> str:
    """Format a number of any size, such as a probability, with `digits` digits and without trailing zeros."""
    return f"{value:.{digits}g}"


def percent(share: float | None, digits: int = 0) -> str:
    """Format a share of 1 as a percentage; a dash if it is None."""
    return UNKNOWN if share is None else f"{share:.{digits}%}"


def seconds(value: float) -> str:
    """Format a duration: milliseconds below 1 s, minutes from 2 min on."""
    if value >= 120:
        return f"{value / 60:.1f} min"
    if value >= 0.9995:
        return f"{decimal(value)} s"
    return f"{decimal(1e3 * value)} ms" if value >= 5e-6 or not value else "under 0.01 ms"


def count(value: float) -> str:
    """Format a whole number with commas; other numbers keep their decimals."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,g}"


def counted(value: int, noun: str) -> str:
    """Format a number with its noun: 1 run, 2 runs."""
    return f"{count(value)} {noun}" if value == 1 else f"{count(value)} {noun}s"


def ranged(between: tuple[float, float] | None) -> str:
    """Format an interval of ratios: 1.90x to 2.10x; a dash if it is None."""
    return f"{ratio(between[0])} to {ratio(between[1])}" if between else UNKNOWN


def millions(value: float) -> str:
    """Format a number of parameters or of training tokens: 13.6 M, 1.20 B."""
    return f"{decimal(value / 1e9)} B" if value >= 0.9995e9 else f"{decimal(value / 1e6)} M"


def power(n: int) -> str:
    """Format a whole number in superscript digits."""
    return "".join("\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"[int(digit)] for digit in str(n))


def size(value: float) -> str:
    """Format bytes by powers of ten: 52 kB, 13.6 MB, 1.2 GB."""
    if value >= 1e9:
        return f"{value / 1e9:,.1f} GB"
    return f"{value / 1e6:,.1f} MB" if value >= 1e5 else f"{value / 1e3:,.0f} kB"


def speed(bytes_per_s: float) -> str:
    """Format a memory bandwidth: 12.3 GB/s."""
    return f"{decimal(bytes_per_s / 1e9)} GB/s"
