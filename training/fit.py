"""The training loop of all stages, which differ in model, loss and rows.

The learning rate warms up, stays constant, and falls linearly to zero over the last part of the budget. The budget is
counted in tokens, so a run on a busy machine takes longer but has the same result. Rows depend only on the step, so a
checkpoint is enough to resume a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import nn

from lookahead.train.optimizers import optimizers, scale_rates

from .batches import Batches
from .plan import Plan

Loss = Callable[[nn.Module, torch.Tensor], torch.Tensor]
TIMED_STEPS = 8  # steps before a time budget becomes a token budget


@dataclass(frozen=True, slots=True)
class Report:
    """Progress of a stage. `loss` is smoothed. `accepted` is a drafter's last measured number of tokens per pass."""

    stage: str
    tokens: int
    budget: int
    loss: float
    tokens_per_second: float
    seconds: float
    accepted: float | None = None

    @property
    def seconds_left(self) -> float:
        """Estimate from the current tokens per second."""
        return (self.budget - self.tokens) / max(self.tokens_per_second, 1e-9)


Watch = Callable[[Report], None]


@dataclass(slots=True)
class Budget:
    """The budget of a stage: tokens, or minutes, which are converted to tokens after the first steps."""

    tokens: int | None = None
    minutes: float | None = None


def rate(plan: Plan, step: int, share: float) -> float:
    """Return the factor on the learning rates at a step; `share` of the budget is spent before it."""
    warm = min(1.0, (step + 1) / plan.warm_steps)
    return warm * min(1.0, max(0.0, (1 - share) / plan.cooling_share))


def fit(*arguments: Any, watch: Watch, **options: Any) -> Report:
    """Run all `steps`, pass each report to `watch`, and return the last one."""
    for report in steps(*arguments, **options):
        watch(report)
    return report


def steps(
    model: nn.Module,
    loss: Loss,
    batches: Batches,
    plan: Plan,
    budget: Budget,
    *,
    stage: str,
    folder: Path,
    resume: bool = False,
    scale: float = 1.0,
    check: Callable[[nn.Module], float] | None = None,
) -> Iterator[Report]:
    """Train `model` until the budget is spent and yield a report per step, then a last one.

    `resume` continues from the checkpoint of this stage. `scale` is a factor on the learning rates, below 1 for trained
    weights. `check` measures a drafter every `plan.check_every_s` seconds and at the end.
    """
    device = next(model.parameters()).device
    steppers = optimizers(model, plan.matrix_rate, plan.other_rate, plan.weight_decay)
    checkpoint = folder / f"{stage}.pt"
    tokens, step, seconds, row = 0, 0, 0.0, 0
    total = budget.tokens
    if resume and checkpoint.is_file():
        state = torch.load(checkpoint, map_location=device, weights_only=True)
        model.load_state_dict(state["model"])
        for optimizer, state_dict in zip(steppers, state["optimizers"], strict=True):
            optimizer.load_state_dict(state_dict)
        tokens, step, seconds, row = state["tokens"], state["step"], state["seconds"], state["row"]
        total = budget.tokens or state["budget"]
    shown, saved, checked, times = None, perf_counter(), perf_counter(), []

    def save() -> None:
        partial = checkpoint.with_suffix(".new")
        state = {
            "model": model.state_dict(), "optimizers": [o.state_dict() for o in steppers],
            "tokens": tokens, "step": step, "seconds": seconds, "row": row, "budget": total,
        }  # fmt: skip
        torch.save(state, partial)
        partial.replace(checkpoint)

    model.train()
    accepted = None
    report = Report(stage, tokens, total or 0, float("nan"), 0.0, seconds)
    while total is None or tokens < total:
        start = perf_counter()
        spent = tokens / total if total else 0.0
        length = next((tokens for until, tokens in plan.rows if spent < until), plan.rows[-1][1])
        rows = max(1, plan.step_tokens // length)
        scale_rates(steppers, scale * rate(plan, step, spent))
        ids = batches.batch(row, rows, length).to(device)
        with torch.autocast(device.type, torch.bfloat16):
            value = loss(model, ids)
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in steppers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        now = float(value.detach())
        shown = now if shown is None else 0.95 * shown + 0.05 * now
        took = perf_counter() - start
        times = [*times[-30:], took]
        tokens, step, seconds, row = tokens + rows * length, step + 1, seconds + took, row + rows
        pace = rows * length / sorted(times)[len(times) // 2]
        if total is None and len(times) > TIMED_STEPS:
            total = max(tokens, int(budget.minutes * 60 * pace))
        if check and perf_counter() - checked > plan.check_every_s:
            accepted, checked = check(model), perf_counter()
        report = Report(stage, tokens, total or 0, shown, pace, seconds, accepted)
        yield report
        if perf_counter() - saved > plan.save_every_s:
            save()
            saved = perf_counter()
    save()
    model.eval()
    yield replace(report, accepted=check(model)) if check else report
