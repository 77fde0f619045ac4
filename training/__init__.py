"""Training of the bundled models: corpus, tokenizer, target, drafts and heads, and the model card.

`python -m lookahead train` runs it. The package is part of the repository and is not installed. It may import `lookahead`,
but the runtime code never imports it. Training uses a GPU if there is one, with larger batches (`Plan.on_a_gpu`).
"""
