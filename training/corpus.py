"""Read the training text: documents by domain, split into training and held-out documents.

A document is a list of turns. Plain text is one turn; an instruction and its answer are two. A hash of its text decides
whether a document is held out, so the split is the same on every machine. Documents that contain a prompt of the scenarios
or of the card are always held out.
"""

from __future__ import annotations

import ast
import hashlib
import json
import lzma
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lookahead.core.events import LookaheadError
from lookahead.core.text_files import lines
from lookahead.measure.scenarios import BENCH, SCENARIOS

from .drills import drills
from .prompts import SAMPLES

END = "<|endoftext|>"
TEXT, USER, ASSISTANT = "text", "user", "assistant"
HELD_OUT_IN = 50  # one of 50 documents


class CorpusError(LookaheadError):
    """The corpus folder is missing, unreadable, or contains no known file."""


@dataclass(frozen=True)
class Document:
    """Turns of (role, text) of one domain.

    The document is repeated `weight` times in training. `sibling` is the text of another document with the same answer; the
    two are held out together.
    """

    domain: str
    turns: tuple[tuple[str, str], ...]
    weight: int = 1
    sibling: str = ""

    @cached_property
    def text(self) -> str:
        """The text of all turns."""
        return "\n".join(text for _, text in self.turns)

    @cached_property
    def held_out(self) -> bool:
        """Whether training excludes this document."""
        deciding = self.sibling or self.text
        digest = hashlib.sha256(deciding.encode()).digest()
        has_prompt = any(p in text for p in _PROMPTS for text in (deciding, self.text))
        return has_prompt or int.from_bytes(digest[:4], "big") % HELD_OUT_IN == 0


_PROMPTS = frozenset(s.prompt for s in (*SCENARIOS, *BENCH)) | {prompt for prompt, _ in SAMPLES}


def _parts(text: str) -> list[str]:
    """Return the stripped, non-empty texts of a file."""
    return [part for part in map(str.strip, text.split(END)) if part]


def _plain(domain: str) -> Callable[[str], Iterator[Document]]:
    return lambda text: (Document(domain, ((TEXT, part),)) for part in _parts(text))


HERO = re.compile(
    r"\b(?:was|were|lived|saw|met|found|had) ((?:an?|two) (?:[a-z]+ ){0,3}?[a-z]+(?<!ing)(?: named [A-Z][a-z]+)?)"
    r"(?=[.!]| who\b| that\b| in\b| with\b| on\b| near\b)"
)
WISH = re.compile(r"\b(?:He|She|It|They|[A-Z][a-z]+) (loved|liked|wanted) to ([a-z][a-z ]{3,38}[a-z])[.,!]")
STORY_REQUESTS = (
    "Write a short story about {}.", "Tell a story about {}.", "Tell me a story about {}.", "Write a story about {}.",
    "Tell a short story about {}.", "Tell a bedtime story about {}.", "Write a story for children about {}.",
)  # fmt: skip


def _stories(text: str) -> Iterator[Document]:
    """Yield each story as plain text and, if its opening names the hero, as the answer to a request."""
    for document in _plain("stories")(text):
        yield document
        story = document.text
        if hero := HERO.search(story, 0, 260):
            about = hero[1]
            if len(story) % 2 and (wish := WISH.search(story, 0, 500)):
                about += (
                    f" who {'loves' if wish[1] == 'loved' else 'likes' if wish[1] == 'liked' else 'wants'} to {wish[2]}"
                )
            ask = STORY_REQUESTS[len(story) % len(STORY_REQUESTS)].format(about)
            yield _exchange("stories", ask, story, sibling=story)


def _exchange(domain: str, prompt: str, answer: str, **others: Any) -> Document:
    return Document(domain, ((USER, prompt.strip()), (ASSISTANT, answer.strip())), **others)


SIMPLY = " like I'm five years old."
MORE_REQUESTS = ("{} to a child.", "{}:", "{} in simple words.", "{}.")


def _explained(prompt: str, answer: str) -> Iterator[Document]:
    """Yield an explanation. Yield a simple one also with other wordings of its question, because there are few."""
    document = _exchange("explain", prompt, answer)
    yield document
    if prompt.strip().endswith(SIMPLY):
        topic = prompt.strip().removesuffix(SIMPLY)
        ways = MORE_REQUESTS[:2] if len(answer) % 2 else MORE_REQUESTS[2:]  # two other wordings
        yield from (_exchange("explain", ask.format(topic), answer, sibling=document.text) for ask in ways)


def _drills() -> Iterator[Document]:
    for domain, question, answer in drills():
        weight = 3 if domain == "code" else 1  # there are few code drills
        yield _exchange(domain, question, answer, weight=weight) if question else Document(domain, ((TEXT, answer),))


TALES = ("Write a bedtime story called `{}`.", "Tell a bedtime story called {}.", "Write a story called {}.")
CHILD = "Tell a story for children called {}."


def _tales(text: str) -> Iterator[Document]:
    """Yield stories with their instructions, without the campfire stories."""
    for data in map(json.loads, filter(None, lines(text))):
        if data["kind"] in ("generated-child", "generated-bedtime"):
            # Some prompts also quote the heading of a list.
            title = data["prompt"].strip("`.").rpartition("`")[2].strip()
            if "\n" in title:
                continue
            asks = TALES if data["kind"] == "generated-bedtime" else (*TALES[::-1], CHILD)
            ask = data["prompt"] if len(title) % 2 else asks[len(title) // 2 % len(asks)].format(title)
            yield _exchange("tales", ask, data["text"])


TASKS = {
    "format-conv": "records", "generated-extract": "records", "llama-python": "code", "generated-spelling": "arithmetic",
    "llama-eli5": "explain", "llama-howto": "explain",
}  # fmt: skip


def _tasks(text: str) -> Iterator[Document]:
    for data in map(json.loads, filter(None, lines(text))):
        domain = TASKS.get(data["kind"])
        if domain == "explain":
            yield from _explained(data["prompt"], data["text"])
        elif domain:
            yield _exchange(domain, data["prompt"], data["text"], weight=2 if data["kind"] == "llama-python" else 1)


EXCLUDED = ("capital", "uppercase", "lowercase", " appear ", "letter", " theme", "protagonist", "conflict in")


def _explanations(text: str) -> Iterator[Document]:
    """Yield questions with prose answers; skip poems, answers in capitals, analyses of novels and similar."""
    for part in _parts(text):
        prompt, _, answer = part.partition("\n\n")
        opens = prompt.startswith(("Explain", "What is", "What are", "How do", "Why"))
        if answer.strip() and opens and not any(word in prompt for word in EXCLUDED):
            yield from _explained(prompt, answer)


def _steps(text: str) -> Iterator[Document]:
    for part in _parts(text):
        prompt, _, answer = part.partition("\n")
        if answer.strip() and "hundred" not in prompt and not re.search(r"\d{3}", prompt):
            yield _exchange("arithmetic", prompt, answer)


def _word_problems(text: str) -> Iterator[Document]:
    for part in _parts(text):
        question, _, answer = part.partition("\nAnswer:")
        if answer.strip():
            yield _exchange("arithmetic", question.removeprefix("Question:"), answer)


CODE_REQUESTS = ("Write a Python function that does this: {}", "Write a Python function. {}", "{} Write it in Python.")


def _python(text: str) -> Iterator[Document]:
    """Yield short files unchanged, and every small documented function as an instruction and its answer."""
    for part in _parts(text):
        if len(part) < 2400:
            yield Document("code", ((TEXT, part),))
        try:
            body = ast.parse(part).body
        except (SyntaxError, ValueError):
            continue
        for node in body:
            if not isinstance(node, ast.FunctionDef) or node.decorator_list:
                continue
            summary = (ast.get_docstring(node) or "").strip().split("\n")[0].split(">>>")[0].strip()
            if not 15 <= len(summary) <= 120 or len(node.body) < 2:
                continue
            node.body = node.body[1:]  # the question contains the docstring
            code = ast.unparse(node)
            if code.count("\n") < 25 and len(code) < 900:
                ask = CODE_REQUESTS[len(code) % len(CODE_REQUESTS)].format(summary.rstrip(".") + ".")
                yield _exchange("code", ask, code)


def _dialogues(user: str, assistant: str) -> Callable[[str], Iterator[Document]]:
    """Return a reader of turns that begin with the names of the speakers. Other lines are dropped."""

    def read(text: str) -> Iterator[Document]:
        for part in _parts(text):
            turns = [
                (role, line.removeprefix(mark).strip())
                for line in part.split("\n")
                for role, mark in ((USER, user), (ASSISTANT, assistant))
                if line.startswith(mark)
            ]
            alternate = all(role == (USER, ASSISTANT)[i % 2] for i, (role, _) in enumerate(turns))
            if len(turns) >= 4 and alternate and all(line for _, line in turns):
                yield Document("dialogue", tuple(turns[: len(turns) // 2 * 2]))

    return read


# file name without .xz -> reader; missing files are skipped.
READERS: dict[str, Callable[[str], Iterator[Document]]] = {
    "tinystories_clean.txt": _stories,
    "african_storybook_en_clean.txt": _plain("stories"),
    "stories_clean.jsonl": _tales,
    "tasks.jsonl": _tasks,
    "qa_expository_clean.txt": _explanations,
    "step_by_step_math_clean.txt": _steps,
    "gsm8k_train_clean.txt": _word_problems,
    "python_clean.txt": _python,
    "sgd_train_clean.txt": _dialogues("User:", "Assistant:"),
    "persona_chat_clean.txt": _dialogues("User 1:", "User 2:"),
}


def read(folder: Path) -> list[Document]:
    """Return every document of the corpus, then the drills, without duplicates. Raises `CorpusError`."""
    if not folder.is_dir():
        raise CorpusError("corpus", str(folder), "there is no such folder.")
    documents: dict[str, Document] = {}
    for name, reader in READERS.items():
        text = _text(folder / name)
        for document in reader(text) if text else ():
            documents.setdefault(document.text, document)
    if not documents:
        raise CorpusError("corpus", str(folder), f"it contains none of {', '.join(READERS)} (plain or .xz).")
    return list({document.text: document for document in (*documents.values(), *_drills())}.values())


def _text(path: Path) -> str | None:
    """Return the text of a file, plain or .xz; None if there is neither."""
    packed = path.with_name(path.name + ".xz")
    try:
        if path.is_file():
            return path.read_text(encoding="utf-8-sig")
        return lzma.open(packed, "rt", encoding="utf-8-sig").read() if packed.is_file() else None
    except (OSError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise CorpusError("corpus", str(path), f"it cannot be read ({error.__class__.__name__}).") from None
