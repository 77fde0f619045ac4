"""`python -m lookahead train`: check the arguments, train, measure, and write the card."""

from __future__ import annotations

from argparse import Namespace

from lookahead.core.events import SettingsError

from .family import ROLES, Job, describe, train
from .plan import Plan
from .progress import progress


def run(arguments: Namespace) -> None:
    """Train with the parsed arguments and print the path of the card. Raises `LookaheadError`."""
    for name in ("minutes", "tokens"):
        if (value := getattr(arguments, name)) is not None and value <= 0:
            raise SettingsError(name, value, "give a number above 0.")
    roles = arguments.only or ROLES
    if wrong := set(roles) - set(ROLES):
        raise SettingsError("only", ", ".join(sorted(wrong)), f"choose among {', '.join(ROLES)}.")
    only = tuple(role for role in ROLES if role in roles)
    if only != ROLES and not arguments.start_from:
        raise SettingsError("only", ", ".join(only), "give the folder of the others with --start-from.")
    job = Job(
        arguments.corpus, arguments.out, Plan(), arguments.minutes, arguments.tokens, arguments.resume, arguments.compile,
        arguments.start_from, only,
    )  # fmt: skip
    with progress() as watch:
        if not arguments.card:
            train(job, watch)
    print(describe(job))
