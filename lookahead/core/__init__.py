"""What a pass is: events, draft trees, acceptance rules and the formulas of the field."""
