"""Running the machine: so many examples of a hundred steps each."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.machine.base import HUBS, LABELS, NODES, SLOTS, WANTED
from tests.machine.borrowers import Borrowers
from tests.machine.direct import Direct
from tests.machine.health import Health
from tests.machine.jobs.machine import JobsMachine
from tests.machine.jobs.terms import TermsMachine
from tests.machine.look import Look
from tests.machine.ruling import Ruling
from tests.machine.sharing import Sharing
from tests.machine.waiters import Waiters
from tests.machine.wanting import Wanting
from tests.world import RedisServer

STEPS = 100  # per example


class Machine(Sharing, Health, Borrowers, Wanting, Ruling, Waiters):
    """Every rule there is."""

    def come_to_rest(self) -> None:
        for request in sorted(self.model.tickets):
            if ticket := self.model.tickets.get(request):  # the end of a bundle may have served it
                self.undo(request, ticket.attempt, ticket.hub, "stopping")
        self.do_wait(70_000)  # no hub is heard, no place is kept
        while self.do_retire(50):
            pass
        for node in sorted(self.model.leaving):
            self.do_prune(node, 64)
        for node in sorted(self.model.nodes):
            self.do_drain(node, node in self.model.draining, 64)
            self.do_end_drained(node, 64)
        self.do_lapse(sorted(self.model.grants))
        self.do_wait(self.model.grace_ms)
        self.do_relend(64)
        for node in sorted(self.model.nodes):
            self.do_register(node)
            self.do_beat(node, known=False)
        self.do_lapse(sorted(self.model.grants))
        self.do_describe(sorted({record.pool for record in self.model.slots.values()}))
        if self.teams:
            self.do_balance(0)


def run(server: RedisServer, examples: int, *, shrink: bool) -> None:
    """Raises what the first failing example raises; `Machine.steps` counts. `shrink` also varies the examples."""
    Machine.steps = 0
    Machine.direct = Direct(server)
    Machine.look = Look(server.url, sorted({*LABELS, *WANTED}), SLOTS, NODES, HUBS)
    try:
        run_state_machine_as_test(Machine, settings=_chosen(examples, shrink))
    finally:
        Machine.look.close()
        Machine.direct.close()


def run_jobs(server: RedisServer, examples: int, *, shrink: bool) -> None:
    """Run the machine of jobs, workers and tasks."""
    JobsMachine.steps = 0
    JobsMachine.direct = Direct(server)
    try:
        run_state_machine_as_test(JobsMachine, settings=_chosen(examples, shrink))
    finally:
        JobsMachine.direct.close()


def run_terms(server: RedisServer, examples: int, *, shrink: bool) -> None:
    """Run the machine of needs and limits of jobs."""
    TermsMachine.steps = 0
    TermsMachine.direct = Direct(server)
    try:
        run_state_machine_as_test(TermsMachine, settings=_chosen(examples, shrink))
    finally:
        TermsMachine.direct.close()


def _chosen(examples: int, shrink: bool) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        phases=[Phase.generate, *([Phase.shrink] if shrink else [])],
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=not shrink,
        database=None,
        print_blob=True,
    )
