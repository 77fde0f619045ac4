"""The types of a decoding run, draft trees, acceptance rules, and the formulas of speculative decoding."""
