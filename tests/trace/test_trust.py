"""Whether the clock of a race is steady."""

from synthetic import trace

from lookahead.trace.schema import LaneRecord, StepRecord
from lookahead.trace.verdict import trust


def race_of(times, drafted=()):
    """Return a race of a naive lane with these seconds per pass, and a lane that writes two tokens per pass."""
    naive = [
        StepRecord(kind="verify", index=i, emitted=[1], pieces=["a"], origins=["bonus"], verify_s=s)
        for i, s in enumerate(times)
    ]
    other = [
        StepRecord(kind="verify", index=i, emitted=[1, 1], pieces=["a", "a"], origins=["accepted", "bonus"], verify_s=s)
        for i, s in enumerate(drafted)
    ]
    return trace(
        LaneRecord(method="naive", steps=naive), *([LaneRecord(method="draft", steps=other)] if drafted else [])
    )


def test_a_steady_clock_differs_from_a_busy_machine():
    steady = trust(race_of([0.004, 0.0041, 0.0042] * 10, [0.005] * 15))
    assert steady == {"steady": True, "sentence": "Steady clock: naive's passes took 4.00 ms to 4.20 ms."}
    busy = trust(race_of([0.04] * 20 + [0.39] * 10, [0.05] * 15))
    assert not busy["steady"]
    assert busy["sentence"] == "Busy machine (naive's passes took 40.0 ms to 390 ms): compare passes."
    assert trust(race_of([0.004] * 30 + [0.1]))["steady"], "a single slow pass does not matter"
    assert trust(race_of([0.004] * 5)) is None, "too few passes"
