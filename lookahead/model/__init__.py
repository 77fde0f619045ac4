"""A language model that can be rolled back: its cache, attention over draft trees, and its passes, written out for speed
where that can be.

Knows tensors and transformers' models. It does not know where a model came from, what a pass costs, or drafts.
"""
