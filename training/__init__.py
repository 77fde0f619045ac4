"""Training of the bundled models: corpus, tokenizer, target, drafts and heads, with the card that reports on them.

`python -m lookahead train` runs it. The package is part of the repository only: it may import `lookahead`, whose runtime code
never imports it. If there is a GPU, training uses it, with larger batches (`Plan.on_a_gpu`).
"""
