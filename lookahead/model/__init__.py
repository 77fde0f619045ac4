"""A language model that can be rolled back: its cache, attention over draft trees, and passes through transformers' modules."""
