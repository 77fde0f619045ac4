"""Measurements: the bench, and the Lab's experiments on the engine, each measured here or computed from what was measured.

    timing       one method after another on one clock; naive beside it
    bench        every method over a file of prompts
    whatif       every n-gram and suffix setting's passes from one naive recording, without the model
    bugs         the classic mistakes as switches, and the test that catches each
    dice         the rejection rule thrown thousands of times on a small vocabulary
    experiments  the claims everybody quotes, run here
    sweeps       one setting turned through its range, beside what the formulas expect
    machine      the target's pass by number format and threads, and where its time goes
    intervals    how sure a figure is, by resampling prompts
    decision     whether to turn speculation on: one report, measured here or on servers, or predicted from a race

What takes time is a generator: it says how far it is, holds what is known so far, and may be closed
at any point. The engine does not know this room, which replaces parts of the engine only in runs of
its own.
"""
