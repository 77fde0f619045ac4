"""A small corpus in the formats of the real one, and a plan for tiny models, so that training takes seconds."""

import json
import lzma
import random

from training import drills
from training.plan import Plan, Shape

NAMES, ANIMALS, PLACES = ("Anna", "Ben", "Mia", "Tom"), ("frog", "dog", "cat", "hen"), ("park", "wood", "town", "barn")
SMALL = Plan(
    vocab=512, context=512, target=Shape(2, 64, 2, 96), draft=Shape(1, 64, 2, 64), rows=((0.7, 32), (1.0, 64)), step_tokens=256,
    warm_steps=4, texts_together=16, writing_tokens=4000, answer_tokens=60, head_step_tokens=256,
)  # fmt: skip
FEW_DRILLS = tuple((make, count // 50) for make, count in drills.COUNTS)


def lines(rows):
    """Return rows as JSON lines."""
    return "\n".join(map(json.dumps, rows))


def write(folder, name, text):
    with lzma.open(folder / f"{name}.xz", "wt", encoding="utf-8") as file:
        file.write(text)


def write_corpus(folder):
    """Write a small file of every kind in the formats of the real corpus; return the folder."""
    draws = random.Random(0)

    def story():
        name, animal, place = (draws.choice(x) for x in (NAMES, ANIMALS, PLACES))
        return f"Once there was a {animal} named {name}. {name} went to the {place} {draws.randrange(1000)} times. The {animal} was glad."

    def joined(make, n):
        return "\n<|endoftext|>\n".join(make() for _ in range(n))

    write(folder, "tinystories_clean.txt", joined(lambda: story() + " " + story(), 300))
    kinds = ("generated-child", "generated-campfire")
    tales = [{"kind": draws.choice(kinds), "prompt": f"Tell a tale about {i}.", "text": story()} for i in range(120)]
    (folder / "stories_clean.jsonl").write_text(lines(tales), encoding="utf-8")  # not compressed
    prompts = [f"Convert: {draws.choice(NAMES)},{i}" for i in range(150)]
    tasks = [{"kind": "format-conv", "prompt": prompt, "text": f'{{"Age": {i}}}'} for i, prompt in enumerate(prompts)]
    write(folder, "tasks.jsonl", lines(tasks))
    write(folder, "qa_expository_clean.txt", joined(lambda: f"Explain the {draws.choice(PLACES)} {draws.random()}.\n\n" + story(), 80))  # fmt: skip
    sums = joined(lambda: f"What is {draws.randrange(999)} + 1?\nStep 1:\nAdd.", 120)
    write(folder, "step_by_step_math_clean.txt", sums)
    write(folder, "gsm8k_train_clean.txt", joined(lambda: f"Question: {draws.randrange(999)} eggs?\nAnswer: Many.", 60))
    function = 'def add{n}(a, b):\n    """Add two numbers and return the sum."""\n    return a + b + {n}\n'
    write(folder, "python_clean.txt", joined(lambda: function.format(n=draws.randrange(10**6)), 120))
    dialogue = "User: I want a table for {n}.\nAssistant: At what time?\nUser: At {n}.\nAssistant: Done."
    write(folder, "sgd_train_clean.txt", joined(lambda: dialogue.format(n=draws.randrange(10**6)), 100))
    return folder
