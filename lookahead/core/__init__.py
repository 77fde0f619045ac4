"""What a pass is: events, draft trees, acceptance rules and the formulas of the field.

Knows token ids, logits and numbers. It does not know a model, a clock or text.
"""
