"""What this computer makes of a model: whether its rows are exact, in which number format, and what its passes cost.

Knows models and clocks. It does not know families, drafts or races.
"""
