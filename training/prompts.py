"""The twenty prompts of the model card: (prompt, chat). Documents that contain one are held out of training."""

from __future__ import annotations

SAMPLES: tuple[tuple[str, bool], ...] = (
    ("Once upon a time there was a small frog who", False),
    ("Lily and Ben went to the park. They saw a big", False),
    ("One sunny morning a little mouse found a golden key", False),
    ("Tom had a red kite. It was a windy day, so", False),
    ("The old lighthouse keeper had a secret. Every night he", False),
    ("Sara wanted to bake a cake for her grandmother, but", False),
    ("Deep in the forest there lived a shy dragon named Pip.", False),
    ("Write a short story about a robot who learns to paint.", True),
    ("Tell a bedtime story about a sleepy cloud.", True),
    ("Tell the child-appropriate tale called `The Brave Little Snail`.", True),
    ("Write a bedtime story called `The Lantern in the Snow`.", True),
    ("Explain rainbows to a child.", True),
    ("Explain the moon like I'm five years old.", True),
    ("Explain quantum computing:", True),
    ("Why do birds fly south in the winter?", True),
    ("Convert this CSV to JSON:\nName,Age,City\nAnna,23,Denver\nBen,31,Miami\nLily,40,Boston", True),
    ("Convert this yaml to CSV:\n- Name: Rosa\n  Age: 28\n- Name: Omar\n  Age: 35\n- Name: Mia\n  Age: 19", True),
    ("Write a Python function that adds two numbers.", True),
    ("Write a Python function that does this: Return the largest number in a list.", True),
    ("Maya has 12 apples. She gives 5 to Leo and buys 3 more. How many apples does she have?", True),
)
