"""Runs on their way to the page: batches, gaps, ids, memory."""

import json
import threading
import time

from lookahead.ui import form
from lookahead.ui.runs import MOST_RUNS, Runs, whole


def end():
    return {"kind": "end", "reason": "finished"}


def test_batches_hold_every_event_once_and_in_order():
    run = Runs().open()

    def write():
        for i in range(300):
            run.add({"kind": "step", "i": i, "text": "\u2028</script>\U0001f438"})
            time.sleep(0.001)
        run.add(end())

    writer = threading.Thread(target=write)
    writer.start()
    batches = [json.loads(text) for text in run.batches()]
    writer.join()
    events = []
    for batch in batches:
        assert batch["run"] == run.id
        assert batch["i0"] == len(events)
        events += batch["ev"]
    assert [e["i"] for e in events[:-1]] == list(range(300))
    assert [b.get("end", False) for b in batches] == [False] * (len(batches) - 1) + [True]


def test_heartbeats_let_a_silent_run_be_cancelled():
    run = Runs().open()
    batches = run.batches()
    start = time.monotonic()
    assert json.loads(next(batches))["ev"] == []
    assert time.monotonic() - start < 1
    batches.close()


def test_gaps_are_filled_from_any_index():
    runs = Runs()
    run = runs.open()
    for i in range(5):
        run.add({"kind": "step", "i": i})
    run.add(end())
    assert [e.get("i") for e in json.loads(runs.resend([run.id, 3]))["ev"]] == [3, 4, None]
    assert json.loads(runs.resend([run.id, 3]))["end"] is True
    assert json.loads(runs.resend([run.id, 99]))["ev"] == []


def test_resend_answers_nonsense_with_nothing():
    runs = Runs()
    run = runs.open()
    for nonsense in (
        None,
        [],
        [run.id],
        ["x", 0],
        [run.id, -1],
        [run.id, "0"],
        [run.id, True],
        [None, 0],
        {"run": run.id},
        "x",
        [run.id, 0, 0],
    ):
        assert runs.resend(nonsense) is None


def test_old_runs_are_forgotten_and_ids_cannot_be_guessed():
    runs = Runs()
    opened = [runs.open() for _ in range(MOST_RUNS + 5)]
    assert runs.resend([opened[0].id, 0]) is None
    assert runs.resend([opened[-1].id, 0]) is not None
    assert len({run.id for run in opened}) == len(opened)
    assert all(len(run.id) >= 16 for run in opened)


def test_a_recording_is_one_batch():
    batch = json.loads(whole("recording", [{"kind": "begin"}, end()]))
    assert batch["end"] is True
    assert len(batch["ev"]) == 2


def test_form_values_become_options():
    out = form.options({"max_new_tokens": 12.0, "k": " 4 ", "temperature": "0.5", "stop": "a\n\nb", "seed": 3})
    assert out == {"max_new_tokens": 12, "k": 4, "temperature": 0.5, "stop": ("a", "b"), "seed": 3}
    assert form.options({"k": None})["k"] == "auto"
    assert form.options({"max_new_tokens": 1.5})["max_new_tokens"] == 1.5, "refused later, with words"
