"""Constructions that CONTRIBUTING.md rules out, counted in prose: documents, lessons, cards, docstrings, comments and strings.

`python tests/language.py [FILE OR FOLDER ...]` prints every place. `tests/test_language.py` compares the counts with
`tests/language_counts.json`, where they may only fall.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ("lookahead", "training", "assets", "docs", "tests", "deploy")
FILES = (
    "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "app.py", "Dockerfile", "pyproject.toml", ".ci/run",
    "requirements.txt", "requirements-dev.txt", "requirements-smol.txt", "requirements-vllm.txt",
)  # fmt: skip
KINDS = (".py", ".pyi", ".js", ".css", ".md", ".html", ".yaml", ".cfg")
SELF = {"language.py", "test_language.py"}
NOUN = r"(?:an?|the|it|its|they|this|that|these|there|each|every|no|nothing|one|both|all|only|neither|some|any)"
UNIT = (
    r"(?:pass|second|row|token|text|step|draft|line|file|lane|prompt|layer|page|method|output|core|run|race|position)"
)
BANNED = {
    "whoever": r"\bwho(?:m|se)?ever\b",
    "foretell": r"\bforet(?:ell|old)\w*",
    "behind": r"\bbehind\b",
    "beside": r"\bbesides?\b",
    "stand": r"\b(?:stands?|stood|standing)\b",
    "what-clause": rf"(?:^|[.:;] )What\b[^?]*?[.:;]|\b(?:of|on|by|to|is|as|with|from|for|than|and|or|see|in) what {NOUN}?\b|\bwhat(?:ever)? (?:{NOUN}|is|was|are|were|has|had)\b",
    ", for": rf", for (?:{NOUN}|he|she|we|you|otherwise|then)\b",
    "where": rf"\bwhere (?:{NOUN}|two|several|more|rows|passes|tokens|texts|models|naive)\b",
    "so many": r"\bso (?:many|much|few)\b",
    "a pass": rf"\b(?:tokens?|rows?|bytes|seconds|times?|pass(?:es)?|words|lines|texts?|inputs|outputs|once|twice|ms|s|numbers|entries|one) an? {UNIT}\b(?! of)",
    "personified": r"\b(?:says?|said|thinks?|knows?|knew|known to|tells?|told|wants|forgets?|remembers|believes|asks? for)\b",
    "nobody": r"\b(?:some|no|every)body\b",
    "quick, dear": r"\b(?:quick(?! brown)(?:ly|er|est)?|dear(?:er|est)?)\b",
    "lies, lay": r"\b(?:lies|lay|lain)\b",
    "go on": r"\b(?:go(?:es)?|went|going) on\b",
    "let go": r"\blets? go\b",
    "own": r"\bof (?:its|their|his|his or her) own\b",
    "British spelling": r"\b\w*(?:colour|licence|behaviour|favour|organis|recognis|neighbour|labelled)\w*|\bgrey\b",
}
PATTERNS = {name: re.compile(pattern, re.IGNORECASE | re.MULTILINE) for name, pattern in BANNED.items()}
PATTERNS["a pass"] = re.compile(BANNED["a pass"])


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """The passages of a file that people read, each with its line."""
    text = path.read_text(encoding="utf-8")
    if path.suffix in (".py", ".pyi"):
        yield from _of_python(text)
    elif path.suffix in (".js", ".css"):
        for found in re.finditer(r"/\*.*?\*/|//[^\n]*|\"[^\"\n]* [^\"\n]*\"|`[^`]* [^`]*`", text, re.DOTALL):
            yield text.count("\n", 0, found.start()) + 1, re.sub(r"\$\{[^}]*\}", "x", found[0])
    elif path.suffix == ".html":
        yield 1, re.sub(r"<[^>]*>", " ", text)
    elif path.suffix == ".md":
        text = text.partition("\n## Samples")[0]  # a model's card quotes the model
        plain = re.sub(
            r"^(```|~~~).*?^\1", lambda code: "\n" * code[0].count("\n"), text, flags=re.DOTALL | re.MULTILINE
        )
        yield 1, re.sub(r"`[^`\n]*`", "x", plain)
    else:
        for line in re.finditer(r"(?<!\S)#+ ([^\n]*)", text):
            yield text.count("\n", 0, line.start()) + 1, line[1]


def _of_python(text: str) -> Iterator[tuple[int, str]]:
    comment, first = "", 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comment, first = f"{comment} {token.string.lstrip('# ')}".strip(), first or token.start[0]
        elif token.type not in (tokenize.NL, tokenize.NEWLINE) and comment:
            yield first, comment
            comment, first = "", 0
    if comment:
        yield first, comment
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "x" for part in node.values]
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, re.sub(r"``?[^`\n]+``?", "x", node.value)


def files(arguments: list[str]) -> list[Path]:
    """The files with prose, in these files and folders or in all."""
    roots = [Path(name).resolve() for name in arguments] or [ROOT / name for name in (*FOLDERS, *FILES)]
    found = (path for root in roots for path in (root.rglob("*") if root.is_dir() else [root]))
    return sorted(path for path in found if (path.suffix in KINDS or path in roots) and path.name not in SELF)


def places(path: Path) -> Iterator[tuple[str, int, str]]:
    """Every banned construction in a file: its name, its line and the words."""
    for line, passage in prose(path):
        for name, pattern in PATTERNS.items():
            for match in pattern.finditer(passage):
                near = passage[max(0, match.start() - 30) : match.end() + 40].replace("\n", " ")
                yield name, line + passage.count("\n", 0, match.start()), near


def counts(paths: list[Path]) -> Counter[str]:
    """How often each construction occurs."""
    return Counter(dict.fromkeys(PATTERNS, 0)) + Counter(name for path in paths for name, _, _ in places(path))


if __name__ == "__main__":
    chosen = files(sys.argv[1:])
    for path in chosen:
        for name, line, near in places(path):
            print(f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}:{line}: [{name}] {near}")
    print(dict(counts(chosen)))
