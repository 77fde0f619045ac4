"""Generated exercises: record conversion, copying, sums in stories, and the small functions of `functions.py`.

The drills teach a small model to copy from the question, which is rare in collected text. The same seed generates the same
drills on every machine. Some of them are held out by the split of the corpus.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from random import Random

from .functions import functions

NAMES = "Anna Ben Lily Tom Mia Sam Rosa Omar Leo Maya Jack Emma Max Sara Tim Lucy Noah Ella Finn Ruth Ivan Nina Paul Zoe Ali Eva Hugo Ida Jon Kim".split()  # fmt: skip
CITIES = "Denver,Miami,Boston,Paris,Rome,Oslo,Berlin,Chicago,Houston,Dallas,Seattle,London,Madrid,Lisbon,New York,San Jose,Phoenix,Austin,Vienna,Dublin".split(",")  # fmt: skip
THINGS = "apples pears books stickers marbles coins shells pencils cookies flowers stones cards balloons nuts eggs toys".split()
ANIMALS = "dog cat rabbit hen duck horse goat frog mouse pony parrot turtle".split()
COLORS = "red blue green yellow white black brown pink orange gray".split()
JOBS = "baker,teacher,farmer,doctor,painter,pilot,nurse,cook,driver,singer,builder,writer".split(",")
WORDS = "the a small big old young happy little tree river house garden road bird sun moon star boat hill lake box cake song game friend window door rain snow wind morning night ran sat found made saw took gave under over near with and".split()  # fmt: skip

Record = dict[str, str | int]
Drill = tuple[str, str, str]  # domain, question ("" for plain text), answer

COLUMNS: dict[str, Callable[[Random], str | int]] = {
    "Name": lambda r: r.choice(NAMES), "Age": lambda r: r.randrange(5, 90), "City": lambda r: r.choice(CITIES),
    "Job": lambda r: r.choice(JOBS), "Pet": lambda r: r.choice(ANIMALS), "Color": lambda r: r.choice(COLORS),
    "Price": lambda r: r.randrange(1, 500), "Item": lambda r: r.choice(THINGS), "Year": lambda r: r.randrange(1950, 2025),
}  # fmt: skip


def as_csv(rows: list[Record]) -> str:
    """Return a header line and one line per record."""
    return "\n".join([",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)])


def as_json(rows: list[Record]) -> str:
    """Return a JSON list of objects, indented by four spaces."""
    return json.dumps(rows, indent=4)


def as_yaml(rows: list[Record]) -> str:
    """Return a YAML list of mappings."""
    return "\n".join("- " + "\n  ".join(f"{key}: {value}" for key, value in row.items()) for row in rows)


def as_table(rows: list[Record]) -> str:
    """Return a Markdown table."""
    lines = [list(rows[0]), ["---"] * len(rows[0]), *([str(v) for v in row.values()] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def as_lines(rows: list[Record]) -> str:
    """Return one line of keys and values per record."""
    return "\n".join(" | ".join(f"{key}: {value}" for key, value in row.items()) for row in rows)


def as_blocks(rows: list[Record]) -> str:
    """Return one line per key and value, with an empty line between records."""
    return "\n\n".join("\n".join(f"{key}: {value}" for key, value in row.items()) for row in rows)


FORMATS = {"CSV": as_csv, "JSON": as_json, "yaml": as_yaml, "a table": as_table, "plain text": as_lines}
REQUESTS = (
    "Convert this {a} to {b}:\n{text}", "Turn this {a} into {b}:\n{text}", "Change this {a} to {b}.\n{text}",
    "Here is some {a}, can you convert it to {b}?\n{text}", "Write this {a} as {b}:\n{text}", "{text}\nConvert this to {b}.",
)  # fmt: skip


def records(draws: Random) -> list[Record]:
    """Draw two to six records with the same two to four columns."""
    columns = ["Name", *draws.sample([c for c in COLUMNS if c != "Name"], draws.randrange(1, 4))]
    if draws.random() < 0.3:
        draws.shuffle(columns)
    return [{column: COLUMNS[column](draws) for column in columns} for _ in range(draws.randrange(2, 7))]


def converted(draws: Random) -> Drill:
    """Draw a conversion of records from one format to another."""
    (a, from_form), (b, to_form) = draws.sample(list(FORMATS.items()), 2)
    rows = records(draws)
    question = draws.choice(REQUESTS).format(a=a.removeprefix("a "), b=b, text=from_form(rows))
    return "records", question, to_form(rows)


def extracted(draws: Random) -> Drill:
    """Draw sentences about people to convert to JSON or CSV."""
    people = [(draws.choice(NAMES), draws.randrange(5, 90), draws.choice(CITIES)) for _ in range(draws.randrange(1, 5))]
    template = draws.choice(
        ("{0} is {1} years old and lives in {2}.", "{0} is {1} and comes from {2}.", "{0}, {1}, lives in {2}.")
    )
    form, write = draws.choice((("JSON", as_json), ("JSON", as_json), ("CSV", as_csv)))
    text = " ".join(template.format(*person) for person in people)
    rows: list[Record] = [{"Name": name, "Age": age, "City": city} for name, age, city in people]
    ask = draws.choice(("Turn this into {}: {}", "Write this as {}:\n{}", "Make {} from this text:\n{}"))
    return "records", ask.format(form, text), write(rows)


def listed(draws: Random) -> Drill:
    """Draw records as plain text, without a question."""
    columns = ["Name", *draws.sample([c for c in COLUMNS if c != "Name"], draws.randrange(1, 4))]
    rows = [{column: COLUMNS[column](draws) for column in columns} for _ in range(draws.randrange(5, 16))]
    return "records", "", draws.choice((as_csv, as_json, as_yaml, as_lines, as_blocks, as_blocks))(rows)


def copied(draws: Random) -> Drill:
    """Draw random words to copy. They can be predicted only by copying."""
    lines = [" ".join(draws.choices(WORDS, k=draws.randrange(3, 12))) for _ in range(draws.randrange(1, 6))]
    text = "\n".join(lines)
    ask = draws.choice(("Copy this text:\n{}", "Repeat this:\n{}", "Write this again:\n{}", "Say this once more: {}"))
    if draws.random() < 0.3:
        return "records", f"Write this in capital letters:\n{text}", text.upper()
    return "records", ask.format(text), text


GIRLS = frozenset("Anna Lily Mia Rosa Maya Emma Sara Lucy Ella Ruth Nina Zoe Eva Ida".split())
BOXES = "boxes bags baskets jars".split()
LOSES = ("{who} gives {n} to {other}", "{who} loses {n}", "{other} takes {n}", "{who} eats {n}", "{who} sells {n}")
GAINS = ("{who} buys {n} more", "{other} gives {who} {n} more", "{who} finds {n} more", "{who} gets {n} from {other}")


def story_sum(draws: Random) -> Drill:
    """Draw a sum in a story with a solution in steps."""
    who, other = draws.sample(NAMES, 2)
    thing, have = draws.choice(THINGS), draws.randrange(4, 30)
    events, steps, now = [], [], have
    for step in range(1, draws.randrange(1, 4) + 1):
        n = draws.randrange(1, 12)
        fewer = draws.random() < 0.5 and n < now
        then = now - n if fewer else now + n
        events.append(draws.choice(LOSES if fewer else GAINS).format(who=who, other=other, n=n))
        steps.append(f"Step {step}: {now} {'-' if fewer else '+'} {n} = {then}.")
        now = then
    steps.append(f"{who} has {now} {thing} now. The answer is {now}.")
    she = "she" if who in GIRLS else "he"
    ask = draws.choice((f"does {who} have now", f"does {who} have", f"does {she} have", f"does {she} have now"))
    question = f"{who} has {have} {thing}. {_narrated(draws, events, who, she)} How many {thing} {ask}?"
    return "arithmetic", question, "\n".join(steps)


def _narrated(draws: Random, events: list[str], who: str, she: str) -> str:
    """Return events as sentences that repeat the person's name, use a pronoun, or omit both."""
    out = ""
    for event in events:
        by_who = event.startswith(f"{who} ")
        draw = draws.random()
        if by_who and draw < 0.3 and out and not out.endswith(","):
            out = f"{out[:-1]} and {event.removeprefix(who + ' ')}."
        elif by_who and draw < 0.65:
            out += f" {she.capitalize()} {event.removeprefix(who + ' ')}."
        else:
            out += f" {event}."
    return out.strip()


def compared(draws: Random) -> Drill:
    """Draw a sum, a difference or a product of numbers of things."""
    who, other = draws.sample(NAMES, 2)
    thing, kind = draws.choice(THINGS), draws.randrange(3)
    a, b = sorted((draws.randrange(2, 40), draws.randrange(2, 40)), reverse=True)
    if kind == 2:
        a, b, box = draws.randrange(2, 13), draws.randrange(2, 10), draws.choice(BOXES)
        return (
            "arithmetic", f"There are {a} {thing} in each of {b} {box}. How many {thing} are there?",
            f"Step 1: {b} x {a} = {a * b}.\nThere are {a * b} {thing}. The answer is {a * b}.",
        )  # fmt: skip
    facts = f"{who} has {a} {thing} and {other} has {b} {thing}."
    if kind:
        return (
            "arithmetic", f"{facts} How many {thing} do they have together?",
            f"Step 1: {a} + {b} = {a + b}.\nThey have {a + b} {thing} together. The answer is {a + b}.",
        )  # fmt: skip
    return (
        "arithmetic", f"{facts} How many more {thing} does {who} have?",
        f"Step 1: {a} - {b} = {a - b}.\n{who} has {a - b} more. The answer is {a - b}.",
    )  # fmt: skip


def plain_sum(draws: Random) -> Drill:
    """Draw the sum or difference of two numbers below a hundred."""
    a, b = sorted((draws.randrange(1, 100), draws.randrange(1, 100)), reverse=True)
    sign, result = draws.choice((("+", a + b), ("-", a - b)))
    ask = draws.choice(("What is {}?", "How much is {}?", "Calculate {}."))
    return "arithmetic", ask.format(f"{a} {sign} {b}"), f"{a} {sign} {b} = {result}. The answer is {result}."


# number of drills of each kind
COUNTS: tuple[tuple[Callable[[Random], Drill], int], ...] = (
    (converted, 8000), (extracted, 3000), (listed, 2500), (copied, 3000), (story_sum, 16000), (compared, 4000), (plain_sum, 5000),
)  # fmt: skip


def drills(seed: int = 0) -> Iterator[Drill]:
    """Yield all drills: (domain, question, answer)."""
    draws = Random(seed)
    for make, count in COUNTS:
        for _ in range(count):
            yield make(draws)
    yield from (("code", question, code) for question, code in functions())
