"""What a stage learns from and how: the target's writing, its stored outputs, a resumed run, the learning rate."""

import dataclasses

import numpy as np
import pytest
import torch
from small_training import SMALL

from lookahead.train import heads
from lookahead.train.losses import next_token
from lookahead.train.rows import Rows
from training import states, writing
from training.batches import Batches, Streams
from training.family import new_model
from training.fit import Budget, fit, rate
from training.plan import Plan

pytestmark = pytest.mark.models

STREAMS = Streams({"stories": np.arange(3, 503, dtype=np.uint16)}, {})


def test_a_resumed_run_is_the_run_it_would_have_been(tmp_path):
    stream = {"a": np.random.default_rng(0).integers(0, 512, 4000).astype(np.uint16)}
    batches, told = Batches(stream, {"a": 1.0}, 0), []

    def run(folder, tokens, seed, plan=SMALL, **options):
        folder.mkdir(exist_ok=True)
        model, options = new_model(SMALL.target, SMALL, seed), {"watch": told.append, **options}
        report = fit(model, next_token, batches, plan, Budget(tokens=tokens), stage="s", folder=folder, **options)
        return report, model.state_dict()

    whole_report, whole = run(tmp_path / "whole", 256 * 12, 1)

    class Enough(Exception):
        pass

    def stop_after_six(report):
        if report.tokens == 256 * 6:
            raise Enough

    # Break off after six steps with a checkpoint that was just written, as a killed run would have it.
    plan = dataclasses.replace(SMALL, save_every_s=0.0)
    with pytest.raises(Enough):
        run(tmp_path / "parts", 256 * 12, 1, plan, watch=stop_after_six)
    report, parts = run(tmp_path / "parts", None, 99, resume=True)
    assert report.tokens == whole_report.tokens == 256 * 12
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    assert told[-1].loss < told[0].loss + 0.5


def test_the_rate_warms_up_stays_and_cools_down():
    plan = Plan()
    assert rate(plan, 0, 0.0) < 0.05
    assert rate(plan, 500, 0.3) == 1.0
    assert rate(plan, 5000, 1 - plan.cooling_share / 2) == pytest.approx(0.5)
    assert rate(plan, 9000, 1.0) == 0.0


def write_rows(target, folder, rows, together, streams=STREAMS, plan=SMALL, resume=False, written=writing.WRITTEN):
    """Rows that the target writes, `together` at a time."""
    plan, tokens = dataclasses.replace(plan, texts_together=together), rows * (writing.OPENING + written - 1)
    return writing.written_rows(target, streams, plan, tokens, folder, lambda report: None, resume, written=written)


def test_the_target_keeps_what_it_thought(tmp_path):
    target = new_model(SMALL.target, SMALL, 1).eval()
    rows = writing.WrittenBatches(write_rows(target, tmp_path / "own", 3, 3)).batch(0, 3, writing.ROW)
    with torch.no_grad():
        logp = target(rows.ids[:, :-1]).logits[:, writing.OPENING - 1 :].float().log_softmax(-1)
    assert torch.allclose(logp.gather(-1, rows.likely), rows.logp, atol=0.05), "bfloat16 against float32"
    greedy = (rows.ids[:, writing.OPENING :] == rows.likely[..., 0]).float().mean()
    assert greedy > 0.95, "what a greedy text says next is the likeliest_weight, but where another text is opened"


def test_where_the_target_ends_a_text_another_is_opened(tmp_path):
    target, undecided = new_model(SMALL.target, SMALL, 1), dataclasses.replace(SMALL, writing_temperatures=(100.0,))
    questions = [[1, 300 + i, 2, *range(10, 40), 0] for i in range(50)]
    streams = Streams({"tales": np.array([token for q in questions for token in q], dtype=np.uint16)}, {})
    again = writing.NextOpening(writing.beginnings(streams.training, {"tales": 1.0}, (0, 0)), end=0)
    text, given = torch.tensor([[5, 0], [5, 6]]), []
    for _ in range(4):
        scores = again(text, torch.zeros(2, 512))
        given.append(int(scores[0].argmax()) if scores[0].isinf().any() else None)
        assert not scores[1].any(), "a text that goes on is left alone"
        text = torch.cat([text, torch.tensor([[given[-1] or 7], [6]])], 1)
    assert given[0] == 1 and given[1] >= 300 and given[2] == 2 and given[3] is None
    rows = write_rows(target, tmp_path, 16, 16, streams, undecided)
    ended = [(row, i) for row in rows["ids"].tolist() for i in range(writing.OPENING, writing.ROW - 3) if row[i] == 0]
    assert ended and all(row[i + 1] == 1 and row[i + 3] == 2 for row, i in ended)


def test_writing_that_was_stopped_goes_on_where_it_was(tmp_path):
    target = new_model(SMALL.target, SMALL, 1)
    whole = write_rows(target, tmp_path / "whole", 6, 2, written=40)
    part = write_rows(target, tmp_path / "part", 3, 2, written=40)
    rest = write_rows(target, tmp_path / "part", 6, 2, resume=True, written=40)
    assert whole["ids"].shape == (6, writing.OPENING + 40) and len(part) == 4
    assert np.array_equal(rest, whole)
    assert (whole["ids"][:, : writing.OPENING] < 503).all()
    write_rows(target, tmp_path / "part", 1, 2, written=40)
    assert len([*(tmp_path / "part").iterdir()]) == 1, "a new run keeps nothing of an old one"


def test_rows_begin_with_whole_instructions_where_the_target_chats(tmp_path):
    target, asked = new_model(SMALL.target, SMALL, 1).eval(), [[1, *range(100 + i, 160 + 2 * i), 2] for i in range(99)]
    seeds = []

    def openings(seed):
        seeds.append(seed)
        return iter(asked)

    rows = writing.written_rows(
        target, None, dataclasses.replace(SMALL, texts_together=4), 4 * 80, tmp_path, lambda report: None, False,
        instructed=openings, written=60,
    )  # fmt: skip
    assert rows["ids"].shape == (4, writing.OPENING + 60) and rows["likely"].shape == (4, 60, writing.LIKELY)
    for row, opening in zip(rows["ids"].tolist(), asked, strict=False):
        assert row[: len(opening)] == opening
    assert seeds == [(SMALL.seed, 0)]
    greedy = (rows["ids"][0, 62:] == rows["likely"][0, 62 - writing.OPENING :, 0]).mean()
    assert greedy > 0.9, "likeliest stand beside their tokens"


def test_what_the_target_makes_of_its_writing_is_kept_and_read_as_it_was(tmp_path, monkeypatch):
    """A head learns the same from files as from passes; rows that were added later are computed alone."""
    monkeypatch.setattr(states, "BLOCK", 4)
    target = new_model(SMALL.target, SMALL, 1).eval()
    target.requires_grad_(False)
    ids = np.random.default_rng(0).integers(0, SMALL.vocab, (7, 40), np.uint16)
    network = heads.new_head("block", target, 0, 1)
    kept, told = states.States(tmp_path, network.shape.taps), []
    kept.fill(target, ids[:5, :-1], told.append)
    assert told[-1].tokens == 5 * 39 and len(list(tmp_path.glob("*.npy"))) == 2 * (len(network.shape.taps) + 2)
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.glob("00000-*")}
    kept = states.States(tmp_path, network.shape.taps)
    kept.fill(target, ids[:, :-1], told.append)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("00000-*")} == stamps
    numbers = np.array([6, 1, 4])
    rows = Rows(torch.from_numpy(ids[numbers].astype(np.int64)), None, None)
    loss = heads.BlockLoss(target, likeliest_weight=0.5)
    values = []
    for outputs in (None, kept.at(numbers)):
        torch.manual_seed(3)
        with torch.autocast("cpu", torch.bfloat16):
            values.append(loss(network, rows._replace(outputs=outputs)).item())
    assert values[0] == pytest.approx(values[1], rel=0.01)
    assert states.States.nbytes(target, ids[:, :-1], network.shape.taps) == pytest.approx(
        sum(path.stat().st_size for path in tmp_path.glob("*.npy")), rel=0.1
    )
