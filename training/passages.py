"""Instructions for a chat model about passages of a corpus: copy, change, correct, summarize, extract facts.

A drafter gains most if the answer copies or extracts text. There are too few texts in `topics`, so a drafter would memorize
them. A passage of a corpus is rarely drawn twice.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence

from .corpus import TEXT, Document
from .topics import CITIES, COLORS, FOODS, GOODS, JOBS, NAMES, STYLES

PROSE = ("stories", "stories", "tales", "explain", "dialogue", "arithmetic")  # domains of the passages
QUESTIONS = ("records", "explain", "arithmetic", "tales", "code")  # domains of the questions
SENTENCE = re.compile(r"(?<=[.!?])\s+")
SHORTEST, LONGEST = 15, 200  # characters of a sentence
MAX_CHARACTERS = 700  # characters of an instruction, so that its answer fits after it
TRIES = 50  # documents to search for a passage


class _Texts:
    """Random draws from the documents that are not held out."""

    def __init__(self, documents: Sequence[Document], draw: random.Random):
        self.draw = draw
        self._by_domain: dict[str, list[Document]] = {}
        for document in documents:
            if not document.held_out:
                self._by_domain.setdefault(document.domain, []).append(document)

    def document(self, domains: Sequence[str]) -> Document:
        """Draw a document of one of the domains, or of any domain if these have none."""
        available = [domain for domain in domains if domain in self._by_domain] or [*self._by_domain]
        return self.draw.choice(self._by_domain[self.draw.choice(available)])

    def passage(self, sentences: int) -> str:
        """Draw consecutive sentences, or sentences about people if no text has enough."""
        for _ in range(TRIES):
            text = self.document(PROSE).turns[-1][1].replace("\n", " ")
            parts = [part for part in map(str.strip, SENTENCE.split(text)) if SHORTEST < len(part) < LONGEST]
            if len(parts) >= sentences:
                first = self.draw.randrange(len(parts) - sentences + 1)
                return " ".join(parts[first : first + sentences])
        return self.people()[1]

    def people(self) -> tuple[list[list[str]], str]:
        """Draw a table of people with its header, and sentences with the same facts."""
        draw = self.draw
        rows = [
            [draw.choice(NAMES), str(draw.randrange(5, 90)), draw.choice(CITIES), draw.choice(JOBS)]
            for _ in range(draw.choice((2, 3, 4)))
        ]
        prose = " ".join(
            f"{name} is {age} years old, lives in {city} and works as a {job}." for name, age, city, job in rows
        )
        columns = sorted(draw.sample(range(4), draw.choice((2, 3, 4))))
        return [[row[i] for i in columns] for row in (["Name", "Age", "City", "Job"], *rows)], prose


def _copy(texts: _Texts) -> str:
    draw, text = texts.draw, texts.passage(texts.draw.choice((1, 2, 2, 3, 3, 4)))
    word, other = draw.choice(re.findall(r"[A-Za-z]{3,}", text) or ["the"]), draw.choice((*NAMES, *FOODS, *COLORS))
    foods = "\n".join(f"- {food}" for food in draw.sample(FOODS, draw.choice((3, 4, 5, 6))))
    return draw.choice((
        f"Repeat this text word for word:\n{text}", f"Repeat the following text exactly:\n{text}", f"Copy this text:\n{text}",
        f'Copy this text and replace "{word}" by "{other}":\n{text}', f"Write this text again, but write {other} instead of {word}:\n{text}",
        f"Rewrite this text, but call the hero {draw.choice(NAMES)}:\n{text}", f"Copy this text and add a title:\n{text}",
        f"Write this text again with every sentence on its own line:\n{text}", f"Quote the first sentence of this text:\n{text}",
        f"Say this again, and then ask a question about it:\n{text}", f"Copy this list:\n{foods}",
        f"Repeat this list and add {draw.choice(('two', 'three'))} more items:\n{foods}",
    ))  # fmt: skip


def _corrupted(text: str, draw: random.Random) -> str:
    """Return a text with mistakes: no articles, no capitals and punctuation, misspelled words, or a wrong tense."""
    words = text.split()
    for _ in range(1 + len(words) // 8):
        n = draw.randrange(len(words))
        if len(words[n]) > 4:
            i = draw.randrange(1, len(words[n]) - 2)
            words[n] = words[n][:i] + words[n][i + 1] + words[n][i] + words[n][i + 2 :]
    return draw.choice((
        re.sub(r"\b(a|the) ", "", text), text.lower().replace(".", "").replace(",", ""), " ".join(words),
        re.sub(r"\b(was|were)\b", "is", text).replace(" has ", " have "),
    ))  # fmt: skip


def _rewrite(texts: _Texts) -> str:
    draw, text = texts.draw, texts.passage(texts.draw.choice((1, 2, 3)))
    corrupted = _corrupted(text, draw)
    return draw.choice((
        f"Correct this text:\n{corrupted}", f"Fix the grammar:\n{corrupted}", f"Fix the spelling and the punctuation of this text:\n{corrupted}",
        f"Rewrite this text {draw.choice(STYLES)}:\n{text}", f"Summarise this text in {draw.choice(('one sentence', 'a few words'))}:\n{text}",
        f"Rewrite this in the {draw.choice(('present', 'past'))} tense:\n{text}", f"Make this shorter:\n{text}",
        f"Write this in simpler words:\n{text}", f"Give this text a title and write it again:\n{text}",
    ))  # fmt: skip


def _extract(texts: _Texts) -> str:
    draw, (table, prose) = texts.draw, texts.people()
    text, (head, *rows) = texts.passage(texts.draw.choice((2, 3, 4))), table
    csv = "\n".join(",".join(row) for row in table)
    records = "\n".join(" | ".join(f"{name}: {value}" for name, value in zip(head, row, strict=True)) for row in rows)
    goods = "; ".join(
        f"{draw.choice((*FOODS, *GOODS))}, {draw.choice(COLORS)}, {draw.randrange(1, 20)}.{draw.randrange(10)}0"
        for _ in range(3)
    )
    return draw.choice((
        f"Turn this CSV into JSON:\n{csv}", f"Convert this to a Markdown table:\n{csv}", f"Write this as JSON:\n{records}",
        f"Write this as YAML:\n{records}", f"Make a table with the columns Item, Colour and Price:\n{goods}",
        f"Extract the facts of this text as JSON:\n{prose}", f"List all names in this text:\n{draw.choice((text, prose))}",
        f"Make a bulleted list of this text:\n{text}", f"Who is in this text?\n{text}",
    ))  # fmt: skip


def _code(texts: _Texts) -> str:
    draw, lines = texts.draw, texts.document(["code"]).turns[-1][1].split("\n")
    first = draw.randrange(max(1, len(lines) - 6))
    code = "\n".join(lines[first : first + draw.randrange(3, 10)])
    return draw.choice((
        f"Fix this code:\n{code}", f"Add comments to this code:\n{code}", f"Explain what this code does:\n{code}",
        f"Rewrite this code with better names:\n{code}", f"Complete this code:\n{code}",
    ))  # fmt: skip


def _question(texts: _Texts) -> str:
    """Draw a question of the corpus, or an instruction to continue a passage."""
    (role, text), *_ = texts.document(QUESTIONS).turns
    return f"Continue this text:\n{texts.passage(2)}" if role == TEXT else text


KINDS: tuple[Callable[[_Texts], str], ...] = (_copy, _extract, _rewrite, _copy, _extract, _question, _code)


def about(documents: Sequence[Document], seed: object) -> Iterator[str]:
    """Yield an endless sequence of instructions that cycles through all kinds; nothing if every document is held out."""
    texts = _Texts(documents, random.Random(f"{seed}:passages"))
    while any(not document.held_out for document in documents):
        for make in KINDS:
            if len(instruction := make(texts)) <= MAX_CHARACTERS:
                yield instruction
