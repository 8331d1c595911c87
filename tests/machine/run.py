"""Running the machine: so many examples of a hundred steps each."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.machine.base import LABELS, NODES, SLOTS
from tests.machine.borrowers import Accidents, Borrowers
from tests.machine.direct import Direct
from tests.machine.fleet import Fleet
from tests.machine.look import Look
from tests.world import RedisServer

STEPS = 100  # per example


class Machine(Fleet, Borrowers, Accidents):
    """Every rule there is."""


def run(server: RedisServer, examples: int, *, shrink: bool) -> None:
    """Raises what the first failing example raises; `Machine.steps` counts. `shrink` also varies the examples."""
    Machine.steps = 0
    Machine.direct = Direct(server)
    Machine.look = Look(server.url, LABELS, SLOTS, NODES)
    try:
        run_state_machine_as_test(
            Machine,
            settings=settings(
                max_examples=examples,
                stateful_step_count=STEPS,
                phases=[Phase.generate, *([Phase.shrink] if shrink else [])],
                deadline=None,
                suppress_health_check=list(HealthCheck),
                derandomize=not shrink,
                database=None,
                print_blob=True,
            ),
        )
    finally:
        Machine.look.close()
        Machine.direct.close()
