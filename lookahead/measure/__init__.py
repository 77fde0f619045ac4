"""Measurements: the bench, the Lab's experiments and sweeps, the report on whether to turn speculation on.

A measurement is a generator of `Progress` with the result so far. It may be closed at any point. Only `bugs.py`,
`checks.py` and `whatif.py` replace parts of the engine, and only for their runs.
"""
