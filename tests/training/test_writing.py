"""The training loop and its rows: text of the target, stored outputs, a resumed run, the learning rate."""

import dataclasses

import numpy as np
import pytest
import torch
from small_training import SMALL

from lookahead.train import heads
from lookahead.train.losses import cross_entropy_loss
from lookahead.train.rows import Rows
from training import states, writing
from training.batches import Batches, Streams
from training.family import new_model
from training.fit import Budget, fit, rate
from training.plan import Plan

pytestmark = pytest.mark.models

STREAMS = Streams({"stories": np.arange(3, 503, dtype=np.uint16)}, {})


def test_a_resumed_run_has_the_result_of_an_uninterrupted_run(tmp_path):
    stream = {"a": np.random.default_rng(0).integers(0, 512, 4000).astype(np.uint16)}
    batches, reports = Batches(stream, {"a": 1.0}, 0), []

    def run(folder, tokens, seed, plan=SMALL, **options):
        folder.mkdir(exist_ok=True)
        model, options = new_model(SMALL.target, SMALL, seed), {"watch": reports.append, **options}
        report = fit(
            model, cross_entropy_loss, batches, plan, Budget(tokens=tokens), stage="s", folder=folder, **options
        )
        return report, model.state_dict()

    whole_report, whole = run(tmp_path / "whole", 256 * 12, 1)

    class Enough(Exception):
        pass

    def stop_after_six(report):
        if report.tokens == 256 * 6:
            raise Enough

    # Stop after six steps with a new checkpoint, like a killed run.
    plan = dataclasses.replace(SMALL, save_every_s=0.0)
    with pytest.raises(Enough):
        run(tmp_path / "parts", 256 * 12, 1, plan, watch=stop_after_six)
    report, parts = run(tmp_path / "parts", None, 99, resume=True)
    assert report.tokens == whole_report.tokens == 256 * 12
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    assert reports[-1].loss < reports[0].loss + 0.5


def test_the_rate_warms_up_stays_and_cools_down():
    plan = Plan()
    assert rate(plan, 0, 0.0) < 0.05
    assert rate(plan, 500, 0.3) == 1.0
    assert rate(plan, 5000, 1 - plan.cooling_share / 2) == pytest.approx(0.5)
    assert rate(plan, 9000, 1.0) == 0.0


def write_rows(target, folder, rows, batch_size, streams=STREAMS, plan=SMALL, resume=False, written=writing.WRITTEN):
    """Return rows that the target writes, `batch_size` at a time."""
    plan, tokens = dataclasses.replace(plan, texts_together=batch_size), rows * (writing.OPENING + written - 1)
    return writing.written_rows(target, streams, plan, tokens, folder, lambda report: None, resume, written=written)


def test_rows_have_the_likeliest_tokens_of_the_target(tmp_path):
    target = new_model(SMALL.target, SMALL, 1).eval()
    rows = writing.WrittenBatches(write_rows(target, tmp_path / "own", 3, 3)).batch(0, 3, writing.ROW)
    with torch.no_grad():
        logp = target(rows.ids[:, :-1]).logits[:, writing.OPENING - 1 :].float().log_softmax(-1)
    assert torch.allclose(logp.gather(-1, rows.likely), rows.logp, atol=0.05), "bfloat16 against float32"
    greedy = (rows.ids[:, writing.OPENING :] == rows.likely[..., 0]).float().mean()
    assert greedy > 0.95, "the next token of a greedy text is the likeliest, except in a new opening"


def test_after_the_end_of_a_text_another_opening_follows(tmp_path):
    target, undecided = new_model(SMALL.target, SMALL, 1), dataclasses.replace(SMALL, writing_temperatures=(100.0,))
    questions = [[1, 300 + i, 2, *range(10, 40), 0] for i in range(50)]
    streams = Streams({"tales": np.array([token for q in questions for token in q], dtype=np.uint16)}, {})
    processor = writing.NextOpening(writing.beginnings(streams.training, {"tales": 1.0}, (0, 0)), end=0)
    text, forced = torch.tensor([[5, 0], [5, 6]]), []
    for _ in range(4):
        scores = processor(text, torch.zeros(2, 512))
        forced.append(int(scores[0].argmax()) if scores[0].isinf().any() else None)
        assert not scores[1].any(), "a text without an end is not changed"
        text = torch.cat([text, torch.tensor([[forced[-1] or 7], [6]])], 1)
    assert forced[0] == 1 and forced[1] >= 300 and forced[2] == 2 and forced[3] is None
    rows = write_rows(target, tmp_path, 16, 16, streams, undecided)
    ended = [(row, i) for row in rows["ids"].tolist() for i in range(writing.OPENING, writing.ROW - 3) if row[i] == 0]
    assert ended and all(row[i + 1] == 1 and row[i + 3] == 2 for row, i in ended)


def test_interrupted_writing_can_be_resumed(tmp_path):
    target = new_model(SMALL.target, SMALL, 1)
    whole = write_rows(target, tmp_path / "whole", 6, 2, written=40)
    part = write_rows(target, tmp_path / "part", 3, 2, written=40)
    resumed = write_rows(target, tmp_path / "part", 6, 2, resume=True, written=40)
    assert whole["ids"].shape == (6, writing.OPENING + 40) and len(part) == 4
    assert np.array_equal(resumed, whole)
    assert (whole["ids"][:, : writing.OPENING] < 503).all()
    write_rows(target, tmp_path / "part", 1, 2, written=40)
    assert len([*(tmp_path / "part").iterdir()]) == 1, "a new run deletes the files of an old one"


def test_rows_of_a_chat_model_begin_with_whole_instructions(tmp_path):
    target, instructed = (
        new_model(SMALL.target, SMALL, 1).eval(),
        [[1, *range(100 + i, 160 + 2 * i), 2] for i in range(99)],
    )
    seeds = []

    def openings(seed):
        seeds.append(seed)
        return iter(instructed)

    rows = writing.written_rows(
        target, None, dataclasses.replace(SMALL, texts_together=4), 4 * 80, tmp_path, lambda report: None, False,
        instructed=openings, written=60,
    )  # fmt: skip
    assert rows["ids"].shape == (4, writing.OPENING + 60) and rows["likely"].shape == (4, 60, writing.LIKELY)
    for row, opening in zip(rows["ids"].tolist(), instructed, strict=False):
        assert row[: len(opening)] == opening
    assert seeds == [(SMALL.seed, 0)]
    greedy = (rows["ids"][0, 62:] == rows["likely"][0, 62 - writing.OPENING :, 0]).mean()
    assert greedy > 0.9, "the likeliest tokens are stored at the position of their token"


def test_stored_outputs_equal_computed_ones(tmp_path, monkeypatch):
    """A head has the same loss with stored and computed outputs. Only new rows are computed."""
    monkeypatch.setattr(states, "BLOCK", 4)
    target = new_model(SMALL.target, SMALL, 1).eval()
    target.requires_grad_(False)
    ids = np.random.default_rng(0).integers(0, SMALL.vocab, (7, 40), np.uint16)
    network = heads.new_head("block", target, 0, 1)
    stored, reports = states.States(tmp_path, network.shape.taps), []
    stored.fill(target, ids[:5, :-1], reports.append)
    assert reports[-1].tokens == 5 * 39 and len(list(tmp_path.glob("*.npy"))) == 2 * (len(network.shape.taps) + 2)
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.glob("00000-*")}
    stored = states.States(tmp_path, network.shape.taps)
    stored.fill(target, ids[:, :-1], reports.append)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("00000-*")} == stamps
    numbers = np.array([6, 1, 4])
    rows = Rows(torch.from_numpy(ids[numbers].astype(np.int64)), None, None)
    loss = heads.BlockLoss(target, likeliest_weight=0.5)
    values = []
    for outputs in (None, stored.at(numbers)):
        torch.manual_seed(3)
        with torch.autocast("cpu", torch.bfloat16):
            values.append(loss(network, rows._replace(outputs=outputs)).item())
    assert values[0] == pytest.approx(values[1], rel=0.01)
    assert states.States.nbytes(target, ids[:, :-1], network.shape.taps) == pytest.approx(
        sum(path.stat().st_size for path in tmp_path.glob("*.npy")), rel=0.1
    )
