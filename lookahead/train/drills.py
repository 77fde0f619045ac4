"""Practice made by program: converting records, copying, small functions, sums told as stories.

What a small model has to see often, and collected text shows seldom: that an answer may copy from
its question, key by key. The same seed makes the same documents on every machine; the corpus'
split holds some of them out like any other.

Knows a random number generator. It does not know tokens, models or the corpus' files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from random import Random

NAMES = "Anna Ben Lily Tom Mia Sam Rosa Omar Leo Maya Jack Emma Max Sara Tim Lucy Noah Ella Finn Ruth Ivan Nina Paul Zoe Ali Eva Hugo Ida Jon Kim".split()  # fmt: skip
CITIES = "Denver,Miami,Boston,Paris,Rome,Oslo,Berlin,Chicago,Houston,Dallas,Seattle,London,Madrid,Lisbon,New York,San Jose,Phoenix,Austin,Vienna,Dublin".split(",")  # fmt: skip
THINGS = "apples pears books stickers marbles coins shells pencils cookies flowers stones cards balloons nuts eggs toys".split()
ANIMALS = "dog cat rabbit hen duck horse goat frog mouse pony parrot turtle".split()
COLORS = "red blue green yellow white black brown pink orange gray".split()
JOBS = "baker,teacher,farmer,doctor,painter,pilot,nurse,cook,driver,singer,builder,writer".split(",")
WORDS = "the a small big old young happy little tree river house garden road bird sun moon star boat hill lake box cake song game friend window door rain snow wind morning night ran sat found made saw took gave under over near with and".split()  # fmt: skip

Record = dict[str, str | int]
Made = tuple[str, str, str]  # domain, question ("" for plain text), answer

COLUMNS: dict[str, Callable[[Random], str | int]] = {
    "Name": lambda r: r.choice(NAMES), "Age": lambda r: r.randrange(5, 90), "City": lambda r: r.choice(CITIES),
    "Job": lambda r: r.choice(JOBS), "Pet": lambda r: r.choice(ANIMALS), "Color": lambda r: r.choice(COLORS),
    "Price": lambda r: r.randrange(1, 500), "Item": lambda r: r.choice(THINGS), "Year": lambda r: r.randrange(1950, 2025),
}  # fmt: skip


def as_csv(rows: list[Record]) -> str:
    """A header and a line a record."""
    return "\n".join([",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)])


def as_json(rows: list[Record]) -> str:
    """A list of objects, four spaces deep."""
    return json.dumps(rows, indent=4)


def as_yaml(rows: list[Record]) -> str:
    """A list of mappings."""
    return "\n".join("- " + "\n  ".join(f"{key}: {value}" for key, value in row.items()) for row in rows)


def as_table(rows: list[Record]) -> str:
    """A Markdown table."""
    lines = [list(rows[0]), ["---"] * len(rows[0]), *([str(v) for v in row.values()] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def as_lines(rows: list[Record]) -> str:
    """Keys and values of a record on one line."""
    return "\n".join(" | ".join(f"{key}: {value}" for key, value in row.items()) for row in rows)


def as_blocks(rows: list[Record]) -> str:
    """A key and value a line, an empty line between records."""
    return "\n\n".join("\n".join(f"{key}: {value}" for key, value in row.items()) for row in rows)


FORMATS = {"CSV": as_csv, "JSON": as_json, "yaml": as_yaml, "a table": as_table, "plain text": as_lines}
ASKED = (
    "Convert this {a} to {b}:\n{text}", "Turn this {a} into {b}:\n{text}", "Change this {a} to {b}.\n{text}",
    "Here is some {a}, can you convert it to {b}?\n{text}", "Write this {a} as {b}:\n{text}", "{text}\nConvert this to {b}.",
)  # fmt: skip


def records(draws: Random) -> list[Record]:
    """Two to six records with the same two to four columns."""
    columns = ["Name", *draws.sample([c for c in COLUMNS if c != "Name"], draws.randrange(1, 4))]
    if draws.random() < 0.3:
        draws.shuffle(columns)
    return [{column: COLUMNS[column](draws) for column in columns} for _ in range(draws.randrange(2, 7))]


def converted(draws: Random) -> Made:
    """Records in one form, asked for in another."""
    (a, from_form), (b, to_form) = draws.sample(list(FORMATS.items()), 2)
    rows = records(draws)
    asked = draws.choice(ASKED).format(a=a.removeprefix("a "), b=b, text=from_form(rows))
    return "records", asked, to_form(rows)


def extracted(draws: Random) -> Made:
    """Sentences about people, asked for as JSON or CSV."""
    people = [(draws.choice(NAMES), draws.randrange(5, 90), draws.choice(CITIES)) for _ in range(draws.randrange(1, 5))]
    says = draws.choice(
        ("{0} is {1} years old and lives in {2}.", "{0} is {1} and comes from {2}.", "{0}, {1}, lives in {2}.")
    )
    form, write = draws.choice((("JSON", as_json), ("JSON", as_json), ("CSV", as_csv)))
    told = " ".join(says.format(*person) for person in people)
    rows: list[Record] = [{"Name": name, "Age": age, "City": city} for name, age, city in people]
    ask = draws.choice(("Turn this into {}: {}", "Write this as {}:\n{}", "Make {} from this text:\n{}"))
    return "records", ask.format(form, told), write(rows)


def listed(draws: Random) -> Made:
    """Records that simply go on, as they stand in files."""
    columns = ["Name", *draws.sample([c for c in COLUMNS if c != "Name"], draws.randrange(1, 4))]
    rows = [{column: COLUMNS[column](draws) for column in columns} for _ in range(draws.randrange(5, 16))]
    return "records", "", draws.choice((as_csv, as_json, as_yaml, as_lines, as_blocks, as_blocks))(rows)


def copied(draws: Random) -> Made:
    """Words in no order, to be written again: nothing but copying helps."""
    lines = [" ".join(draws.choices(WORDS, k=draws.randrange(3, 12))) for _ in range(draws.randrange(1, 6))]
    text = "\n".join(lines)
    ask = draws.choice(("Copy this text:\n{}", "Repeat this:\n{}", "Write this again:\n{}", "Say this once more: {}"))
    if draws.random() < 0.3:
        return "records", f"Write this in capital letters:\n{text}", text.upper()
    return "records", ask.format(text), text


# what it does -> (name, parameters, body)
FUNCTIONS: dict[str, tuple[str, str, str]] = {
    "adds two numbers": ("add", "a, b", "return a + b"),
    "subtracts two numbers": ("subtract", "a, b", "return a - b"),
    "multiplies two numbers": ("multiply", "a, b", "return a * b"),
    "divides two numbers": ("divide", "a, b", "if b == 0:\n    return None\nreturn a / b"),
    "returns the larger of two numbers": ("larger", "a, b", "if a > b:\n    return a\nreturn b"),
    "returns the smaller of two numbers": ("smaller", "a, b", "if a < b:\n    return a\nreturn b"),
    "returns the square of a number": ("square", "x", "return x * x"),
    "returns the cube of a number": ("cube", "x", "return x * x * x"),
    "tells whether a number is even": ("is_even", "n", "return n % 2 == 0"),
    "tells whether a number is odd": ("is_odd", "n", "return n % 2 == 1"),
    "tells whether a number is positive": ("is_positive", "n", "return n > 0"),
    "returns the largest number in a list": ("largest", "numbers", "best = numbers[0]\nfor n in numbers:\n    if n > best:\n        best = n\nreturn best"),
    "returns the smallest number in a list": ("smallest", "numbers", "best = numbers[0]\nfor n in numbers:\n    if n < best:\n        best = n\nreturn best"),
    "returns the sum of a list": ("total", "numbers", "result = 0\nfor n in numbers:\n    result += n\nreturn result"),
    "returns the average of a list": ("average", "numbers", "return sum(numbers) / len(numbers)"),
    "counts the items in a list": ("count", "items", "result = 0\nfor item in items:\n    result += 1\nreturn result"),
    "counts the even numbers in a list": ("count_even", "numbers", "result = 0\nfor n in numbers:\n    if n % 2 == 0:\n        result += 1\nreturn result"),
    "returns the even numbers of a list": ("evens", "numbers", "return [n for n in numbers if n % 2 == 0]"),
    "removes duplicates from a list": ("unique", "items", "result = []\nfor item in items:\n    if item not in result:\n        result.append(item)\nreturn result"),
    "reverses a list": ("reverse", "items", "return items[::-1]"),
    "reverses a string": ("reverse", "text", "return text[::-1]"),
    "counts the vowels in a string": ("count_vowels", "text", "result = 0\nfor letter in text:\n    if letter in 'aeiou':\n        result += 1\nreturn result"),
    "counts the words in a string": ("count_words", "text", "return len(text.split())"),
    "tells whether a word is a palindrome": ("is_palindrome", "word", "return word == word[::-1]"),
    "makes a string upper case": ("upper", "text", "return text.upper()"),
    "returns the factorial of a number": ("factorial", "n", "result = 1\nfor i in range(1, n + 1):\n    result *= i\nreturn result"),
    "returns the first n Fibonacci numbers": ("fibonacci", "n", "result = [0, 1]\nwhile len(result) < n:\n    result.append(result[-1] + result[-2])\nreturn result[:n]"),
    "tells whether a number is prime": ("is_prime", "n", "if n < 2:\n    return False\nfor i in range(2, n):\n    if n % i == 0:\n        return False\nreturn True"),
    "converts Celsius to Fahrenheit": ("to_fahrenheit", "celsius", "return celsius * 9 / 5 + 32"),
    "returns the area of a rectangle": ("area", "width, height", "return width * height"),
    "returns the perimeter of a rectangle": ("perimeter", "width, height", "return 2 * (width + height)"),
    "returns the area of a circle": ("area", "radius", "return 3.14159 * radius * radius"),
    "prints the numbers from 1 to n": ("count_to", "n", "for i in range(1, n + 1):\n    print(i)"),
    "says hello to somebody": ("hello", "name", 'return f"Hello, {name}!"'),
}  # fmt: skip
CODE_ASKED = (
    "Write a Python function that {}.", "Write a function in Python that {}.", "Please write a Python function that {}.",
    "I need a Python function that {}.", "Write Python code for a function that {}.", "Python: a function that {}.",
)  # fmt: skip


def functions() -> Iterator[Made]:
    """Functions small enough to be known by heart, each asked for in every way."""
    for does, (name, parameters, body) in FUNCTIONS.items():
        code = f"def {name}({parameters}):\n" + "\n".join("    " + line for line in body.split("\n"))
        yield from (("code", ask.format(does), code) for ask in CODE_ASKED)


def told_sum(draws: Random) -> Made:
    """A sum told as a story, worked out step by step."""
    who, other = draws.sample(NAMES, 2)
    thing, have = draws.choice(THINGS), draws.randrange(4, 30)
    text, steps, now = f"{who} has {have} {thing}.", [], have
    for turn in range(draws.randrange(1, 4)):
        n = draws.randrange(1, 12)
        if draws.random() < 0.5 and n < now:
            text += draws.choice((f" {who} gives {n} to {other}.", f" {who} loses {n}.", f" {other} takes {n}."))
            steps.append(f"Step {turn + 1}: {now} - {n} = {now - n}.")
            now -= n
        else:
            text += draws.choice(
                (f" {who} buys {n} more.", f" {other} gives {who} {n} more.", f" {who} finds {n} more.")
            )
            steps.append(f"Step {turn + 1}: {now} + {n} = {now + n}.")
            now += n
    steps.append(f"{who} has {now} {thing} now. The answer is {now}.")
    return "arithmetic", f"{text} How many {thing} does {who} have now?", "\n".join(steps)


# how many of each
MADE: tuple[tuple[Callable[[Random], Made], int], ...] = (
    (converted, 5000), (extracted, 2000), (listed, 1500), (copied, 2500), (told_sum, 3000),
)  # fmt: skip


def drills(seed: int = 0) -> Iterator[Made]:
    """All of them: (domain, question, answer)."""
    draws = Random(seed)
    for make, count in MADE:
        for _ in range(count):
            yield make(draws)
    yield from functions()
