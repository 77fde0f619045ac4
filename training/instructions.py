"""Instructions of eight kinds for a chat model. Its drafters are trained on the answers.

Each kind has templates and lists of words for them. There are tens of thousands of instructions, and a run uses a few thousand.
They alternate with questions that the model wrote itself (`questions`) and, if there is a corpus, with instructions about its
`passages`. One instruction in fifty, by a hash of its text, is held out for measuring. So are the prompts of the page and of
the bench.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from lookahead.measure.scenarios import ANSWERS, ANSWERS_BENCH

from .topics import (
    BUGS,
    CITIES,
    CLASSES,
    COLORS,
    ENDS,
    EVENTS,
    FOODS,
    GOODS,
    HEROES,
    JOBS,
    LANGUAGES,
    LISTS,
    MATTERS,
    MESSAGES,
    NAMES,
    PAGES,
    QUERIES,
    SENTENCES,
    STYLES,
    TALK,
    TASKS,
    TEXTS,
    THINGS,
    VERSES,
)

HELD_OUT = 50  # one of 50 instructions
PROMPTS = frozenset(scenario.prompt for scenario in (*ANSWERS, *ANSWERS_BENCH))


def _story(draw: random.Random) -> str:
    hero, event = draw.choice(HEROES), draw.choice(EVENTS)
    return draw.choice((
        f"Write a short story about {hero} who {event}.", f"Tell me a bedtime story about {hero} who {event}.",
        f"Write the beginning of a novel about {hero} who {event}.", f"Write a story of two paragraphs: {hero} {event}.",
        f"Continue this story: One morning {hero} {event}.", f"Write a dialogue between {hero} and {draw.choice(HEROES)}.",
    ))  # fmt: skip


def _explain(draw: random.Random) -> str:
    thing, matter = draw.choice(THINGS), draw.choice(MATTERS)
    return draw.choice((
        f"Explain {matter}.", f"Explain to a beginner {matter}.",
        f"Explain {thing} in simple words.", f"Explain {thing} to a child of eight.", f"What is {thing}, and why does it matter?",
        f"How does {thing} work?", f"Explain {thing} in three sentences.", f"Write a short paragraph about {thing}.",
        f"What are the most important facts about {thing}?", f"What is the difference between {thing} and {draw.choice(THINGS)}?",
    ))  # fmt: skip


def _code(draw: random.Random) -> str:
    task, language = draw.choice(TASKS), draw.choice(LANGUAGES)
    return draw.choice((
        f"Write a {language} function that {task}.", f"Write a {language} program that {task}. Add comments.",
        f"Show me how one {task} in {language}, with an example.", f"Write a function in {language} that {task} and explain it.",
        f"Write a test for a {language} function that {task}.", f"Write a {language} class for {draw.choice(CLASSES)}.",
        f"Write a {language} class for {draw.choice(CLASSES)} with three methods and an example of its use.",
        f"Write an HTML page with {draw.choice(PAGES)}.", f"Write an SQL query that returns {draw.choice(QUERIES)}.",
        f"Fix this code:\n{draw.choice(BUGS)}", f"Find the mistake and correct it:\n{draw.choice(BUGS)}",
        f"Explain what this code does:\n{draw.choice(BUGS)}", f"Write a shell script that {task}.",
    )).replace("how one ", "a program that ")  # fmt: skip


def _list(draw: random.Random) -> str:
    subject, n = draw.choice(LISTS), draw.choice((3, 5, 5, 7, 10))
    return draw.choice((
        f"List {n} {subject}.", f"Give me {n} {subject}, one a line.", f"Make a numbered list of {subject}.",
        f"What are some {subject}? Answer with bullet points.", f"Write {n} {subject} and one sentence about each.",
    ))  # fmt: skip


def _rewrite(draw: random.Random) -> str:
    sentence, text = draw.choice(SENTENCES), draw.choice(TEXTS)
    return draw.choice((
        f"Correct this sentence: {sentence}", f"Fix the grammar: {sentence}", f"Rewrite this text {draw.choice(STYLES)}:\n{text}",
        f"Summarise in one sentence:\n{text}", f"Say this {draw.choice(STYLES)}: {sentence}", f"Give this text a title:\n{text}",
        f"Make this text shorter:\n{text}", f"Summarise this in {draw.choice(('two', 'three'))} short sentences:\n{text}",
        f"Write this as a polite e-mail:\n{draw.choice(MESSAGES)}", f"Turn this note into a formal letter:\n{draw.choice(MESSAGES)}",
        f"Answer this message in a friendly way:\n{draw.choice(MESSAGES)}", f"Write the main points of this text as a list:\n{text}",
    ))  # fmt: skip


def _person(draw: random.Random) -> tuple[str, int, str, str]:
    return draw.choice(NAMES), draw.randrange(18, 80), draw.choice(CITIES), draw.choice(JOBS)


def _extract(draw: random.Random) -> str:
    people = [_person(draw) for _ in range(draw.choice((1, 2, 3)))]
    prose = " ".join(
        f"{name} is {age} years old, lives in {city} and works as a {job}." for name, age, city, job in people
    )
    table = "Name,Age,City\n" + "\n".join(f"{name},{age},{city}" for name, age, city, _ in people)
    foods = ", ".join(draw.sample(FOODS, draw.choice((3, 4, 5))))
    goods = [(draw.choice(GOODS), draw.choice(COLORS), draw.randrange(3, 90)) for _ in range(draw.choice((1, 2, 3, 4)))]
    order = "; ".join(f"{item}, {colour}, {price} euros" for item, colour, price in goods)
    return draw.choice((
        f"Extract the name, age and city as JSON:\n{prose}", f"Write this order as JSON:\n{order}",
        f"Make a table with the columns Item, Colour and Price:\n{order}", f"List the ingredients of this text:\nYou need {foods}.",
        f"Make a shopping list:\nWe are out of {foods}.", f"Answer with JSON, with the keys item, colour and price:\n{order}",
        f"Which colours are named here?\n{order}", f"Write the people in this text as a numbered list:\n{prose}",
        f"Who is the oldest?\n{prose}", f"Write this as YAML:\n{prose}", f"Convert this CSV to JSON:\n{table}",
        f"Make a Markdown table of this text:\n{prose}", f"List all names in this text:\n{prose}",
        f"Turn this text into a CSV file with the columns Name, Age, City, Job:\n{prose}",
    ))  # fmt: skip


def _copy(draw: random.Random) -> str:
    text, (name, *_) = draw.choice(TEXTS), _person(draw)
    day, month, year = draw.randrange(1, 29), draw.randrange(1, 13), draw.randrange(1990, 2027)
    word, other = draw.choice((("the", "THE"), ("and", "&"), ("is", "was"), ("on", "in")))
    foods = "\n".join(f"- {food}" for food in draw.sample(FOODS, draw.choice((3, 4, 5))))
    person = draw.choice(NAMES)
    of_person = text.replace("Rosa", person).replace("Lena", person).replace("Omar", person).replace("Mr Tan", person)
    return draw.choice((
        f"Repeat this text word for word:\n{text}", f"Copy this text and replace \"{word}\" by \"{other}\":\n{text}",
        f"Write this text again, and add one sentence at the end:\n{text}",
        f"Write these dates as YYYY-MM-DD: {day}/{month}/{year}, {month}/{day}/{year + 1}",
        f"Translate into French: {draw.choice(SENTENCES)}", f"Repeat this poem:\n{draw.choice(VERSES)}",
        f"Write this poem again and add two lines:\n{draw.choice(VERSES)}", f"Copy this list in alphabetical order:\n{foods}",
        f"Copy this list and add {draw.choice(FOODS)}:\n{foods}", f"Write this text again, but in capital letters:\n{text}",
        f"Repeat this code and rename the function to {draw.choice(('work', 'run', 'compute'))}:\n{draw.choice(BUGS)}",
        f"Copy this text, but write {draw.choice(NAMES)} instead of {person}:\n{of_person}", f"Write a short e-mail to {name}. Begin with this text:\n{text}",
    ))  # fmt: skip


def _talk(draw: random.Random) -> str:
    return (
        draw.choice(("", "Hi! ", "Hello. ", "One question: ", "Please be honest. "))
        + draw.choice(TALK)
        + draw.choice(ENDS)
    )


KINDS = {
    "story": _story, "explain": _explain, "code": _code, "list": _list, "rewrite": _rewrite, "extract": _extract, "copy": _copy,
    "talk": _talk,
}  # fmt: skip


def held_out(instruction: str) -> bool:
    """Return whether an instruction is reserved for measuring."""
    return instruction in PROMPTS or hashlib.sha256(instruction.encode()).digest()[0] * HELD_OUT < 256


def training(seed: object, questions: Sequence[str] = (), others: Iterable[str] = ()) -> Iterator[str]:
    """Yield an endless sequence of training instructions that cycles through all kinds.

    Each one is followed by a random one of the `questions`, if there are any, and by the next of the `others`, if any are left.
    """
    draw = random.Random(f"{seed}:instructions")
    questions = [question for question in questions if not held_out(question)]
    others = (other for other in others if not held_out(other))
    while True:
        for make in KINDS.values():
            instruction = make(draw)
            while held_out(instruction):
                instruction = make(draw)
            yield instruction
            if questions:
                yield draw.choice(questions)
            yield from islice(others, 1)


def measuring(count: int) -> dict[str, list[str]]:
    """Return up to `count` held-out instructions of every kind."""
    out = {}
    for kind, make in KINDS.items():
        draw, chosen = random.Random(f"measuring:{kind}"), {}
        for _ in range(100_000):
            instruction = make(draw)
            if held_out(instruction):
                chosen[instruction] = None
            if len(chosen) == count:
                break
        out[kind] = list(chosen)
    return out
