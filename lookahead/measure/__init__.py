"""Measurements: the bench, the Lab's experiments and sweeps, the report on whether to turn speculation on.

A measurement is a generator of `Progress`: it has the result so far and may be closed at any point. Parts of the engine are
replaced only in runs of this package's own.
"""
