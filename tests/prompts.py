"""A hundred different short prompts, for tests with many prompts."""

from __future__ import annotations

OPENINGS = (
    "Once upon a time there was a {0} who", "{0} and {1} went to the park. They saw", "The {0} was very sad because",
    "Explain the {0} like I'm five years old.", "Name: {0}\nAge: 7\n\nName: {1}\nAge:", "def {0}(a, b):\n    return",
    "{0}, {1}, {0}, {1}, {0},", "What is 3 + 4? The {0} says", "[1, 2, 3, 1, 2, 3, 1,", "\"{0}!\" said the {1}. \"{0}!\" said",
)  # fmt: skip
WORDS = ("frog", "Lily", "dragon", "moon", "Ben", "robot", "\u96ea", "old king", "x1", "caf\u00e9")
HUNDRED = [opening.format(WORDS[i], WORDS[(i + 3) % 10]) for opening in OPENINGS for i in range(10)]
ENDLESS = "1, 2, 3, 4,"  # the bundled target counts until the length limit
