"""Progress of a training run, on stderr."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import isnan
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from lookahead.core.numbers import count, decimal, seconds, significant

from .fit import Report, Watch

LOG_EVERY_S = 60.0


@contextmanager
def progress() -> Iterator[Watch]:
    """Show one bar per stage with loss, tokens per second and remaining time; yield the function that takes reports.

    If stderr is not a terminal, print one line per minute instead.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[status]}"))
    console = Console(stderr=True)
    with Progress(*columns, console=console) as bar:
        tasks: dict[str, TaskID] = {}
        written = -LOG_EVERY_S

        def watch(report: Report) -> None:
            nonlocal written
            if report.stage not in tasks:
                tasks[report.stage] = bar.add_task(report.stage, total=None, status="")
            left = f"{seconds(report.seconds_left)} left" if report.budget else "estimating the time"
            # Stages that write text or states have no loss.
            loss = "" if isnan(report.loss) else f"loss {significant(report.loss, 4)}  "
            accepted = "" if report.accepted is None else f"{decimal(report.accepted)} tokens per pass  "
            status = f"{loss}{accepted}{decimal(report.tokens_per_second)} tokens/s  {left}"
            bar.update(tasks[report.stage], total=report.budget or None, completed=report.tokens, status=status)
            if not console.is_terminal and monotonic() - written >= LOG_EVERY_S:
                written = monotonic()
                console.print(
                    f"{report.stage}: {count(report.tokens)} of {count(report.budget)} tokens  {status}", soft_wrap=True
                )

        yield watch
