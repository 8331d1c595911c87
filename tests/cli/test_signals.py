"""Every signal that would end a process x everything that holds something: what it held is given back before it ends,
and nothing that it has started is left."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from hub.client.signals import named
from tests.cli.command import Command, Running, alive
from tests.world import PATIENCE_S, HubProcess, wait_until

# Ignored where no handler is, by the system or by Python; stops, after which a process goes on; faults of its own.
OTHERS = {
    "CHLD", "CLD", "URG", "WINCH", "CONT", "PIPE", "XFSZ", "KILL", "STOP", "TSTP", "TTIN", "TTOU",
    "SEGV", "BUS", "FPE", "ILL",
}  # fmt: skip
SIGNALS = sorted(
    {signal.SIGRTMIN + 1, *(int(each) for each in signal.Signals if each.name.removeprefix("SIG") not in OTHERS)}
)
LABEL = "held:it"
NODE = {"slots": [{"labelKey": LABEL, "slotId": f"s{at}", "endpoint": "ws://n/s"} for at in range(len(SIGNALS) + 1)]}
HURRY = "from hub.cli import child; child.REST_GRACE_S = child.HANG_UP_GRACE_S = 0.5"
# A command, something that it has left running beside it, and something that has left its group; each says who it is.
FAMILY = (
    "(trap '{beside}' TERM HUP; echo x$$x; while :; do sleep 0.1; done) & "
    "setsid sh -c \"trap '{beside}' TERM HUP; echo x\\$\\$x; while :; do sleep 0.1; done\" & "
    "trap '{itself}' TERM HUP; echo x$$x; while :; do sleep 0.02; done"
)
# By the SDK: what a program of its own would be.
WORKERS = {
    "Worker": "from asyncio import run; from hub.client.jobs import Worker as W; go = lambda: run(w.run())",
    "SyncWorker": "from hub.client.jobs import SyncWorker as W; go = lambda: w.run()",
}
WORK = """
import os, sys, logging
logging.basicConfig(level=logging.INFO)
{make}
w = W(token=os.environ["TOKEN"])
@w.job("modifiers", "Held{number}")
def held(payload: dict) -> None: pass
go()
sys.exit(0)
"""
MANAGE = """
import os, sys
from hub.client.jobs import Category, Extension, JobManager
class Held(Extension):
    category = Category.MODIFIER
    def run(self, vis, **more): pass
with JobManager(os.environ["HUB_URL"], os.environ["TOKEN"], execute=print) as manager:
    manager.register(Held)
    print("registered", flush=True)
    manager.wait()
sys.exit(0)
"""


@pytest.fixture(autouse=True)
def node(announce: Callable[..., None]) -> None:
    """A node with a slot for each signal; nothing but the borrowers decides about it."""
    announce("held", **NODE)


@pytest.fixture
def token(shared_hub: HubProcess) -> Iterator[str]:
    """A token of a worker."""
    headers = {"x-hub-secret": shared_hub.admin_secret}
    with httpx.Client(base_url=shared_hub.url, headers=headers, timeout=PATIENCE_S) as api:
        made = api.post("/admin/tokens", json={"user": "held", "superuser": True}).json()
        yield made["token"]
        api.delete(f"/admin/tokens/{made['id']}")


def lent(command: Command) -> list[str]:
    return [session["browserId"] for session in command.ask("/sessions")["sessions"]]


def nodes(command: Command) -> list[str]:
    return [each["nodeId"] for each in command.ask("/nodes?detail=1")["nodes"] if each["nodeId"] != "held"]


def family(text: str) -> list[int]:
    """The processes that have text who they are."""
    return [int(pid) for pid in re.findall(r"x(\d+)x\s", text)]


def is_complete(running: Running) -> bool:
    return len(family(running.out)) == 3


def on_each_signal(
    start: Callable[[int], Running], is_ready: Callable[[Running], bool]
) -> Iterator[tuple[str, int, Running]]:
    """One of it for each signal, which has ended it: the name of the signal, and the exit code."""
    running = {number: start(number) for number in SIGNALS}
    for each in running.values():
        wait_until(
            lambda each=each: is_ready(each) or each.process.poll() is not None,
            120,
            lambda each=each: f"{each.out}\n{each.err}",
        )
    for number, each in running.items():
        each.process.send_signal(number)
    for number, each in running.items():
        yield named(number), each.end(), each


def test_on_each_ending_signal_a_borrow_returns_its_slot(command: Command):
    ended = on_each_signal(lambda _: command.start("borrow", LABEL), lambda held: "TOKEN" in held.out)
    for name, code, held in ended:
        assert (name, code, held.err.count("is given back.")) == (name, 0, 1), held.err
    assert lent(command) == []


@pytest.mark.parametrize("beside", ["exit", ""], ids=["heeds", "ignores"])
def test_on_each_ending_signal_the_command_of_a_borrow_ends_with_all_its_processes(command: Command, beside: str):
    script = FAMILY.format(itself="exit 3", beside=beside)
    words = "borrow", LABEL, "--", "sh", "-c", script
    for name, code, running in on_each_signal(lambda _: command.start(*words, before=HURRY), is_complete):
        assert (name, code) in (
            (name, 3),
            (name, 128 + int(getattr(signal, name, 0))),
            (name, 128 + signal.SIGRTMIN + 1),
        ), running.err
        assert (name, [pid for pid in family(running.out) if alive(pid)]) == (name, [])
    assert lent(command) == []


def test_user_signals_are_passed_to_the_command_which_goes_on(command: Command):
    script = 'for n in USR1 USR2; do trap "echo heard $n" $n; done; echo up; while :; do sleep 0.02; done'
    running = command.start("borrow", LABEL, "--", "sh", "-c", script)
    running.until_out("up")
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        running.signal(number)
        running.until_out(f"heard {number.name.removeprefix('SIG')}")
    assert (running.process.poll(), len(lent(command))) == (None, 1)
    running.signal(signal.SIGQUIT)
    assert (running.end(), lent(command)) == (128 + signal.SIGTERM, [])


def test_on_each_ending_signal_an_agent_leaves(command: Command):
    def start(number: int) -> Running:
        return command.start("agent", "--node", f"n{number}", "--slots", "gpu:a100=1")

    for name, code, agent in on_each_signal(start, lambda agent: "announced" in agent.err):
        assert (
            name,
            code,
            agent.err.count(f"why={name if name.startswith('SIG') else repr(name)}".replace("'", '"')),
        ) == (name, 0, 1), agent.err
    assert nodes(command) == []


def test_on_each_ending_signal_an_agent_leaves_with_its_command_and_its_processes(command: Command):
    words = "--slots", "gpu:a100=1", "--", "sh", "-c", FAMILY.format(itself="exit 3", beside="")

    def start(number: int) -> Running:
        return command.start("agent", "--node", f"n{number}", *words, before=HURRY)

    for name, code, agent in on_each_signal(start, lambda agent: is_complete(agent) and "announced" in agent.err):
        assert (name, code > 0) == (name, True)
        assert (name, [pid for pid in family(agent.out) if alive(pid)]) == (name, [])
    assert nodes(command) == []


def test_on_each_ending_signal_an_agent_of_the_sdk_alone_leaves(command: Command):
    def start(number: int) -> Running:
        words = f"['--node', 'n{number}', '--slots', 'gpu:a100=1']"
        return command.start(
            before=f"import sys; from hub.client import __main__ as it; sys.argv[1:] = {words}; sys.exit(it.main())"
        )

    for name, code, agent in on_each_signal(start, lambda agent: "is announced" in agent.err):
        assert (name, code) == (name, 0), agent.err
    assert nodes(command) == []


def test_on_each_ending_signal_drain_wait_ends_and_the_node_goes_on_draining(command: Command):
    command.start("borrow", LABEL).until_out("TOKEN")
    start = lambda _: command.start("drain", "held", "--wait")  # noqa: E731 - as in the other rows
    for name, code, waiting in on_each_signal(start, lambda waiting: "waiting: " in waiting.err):
        assert (name, code, waiting.err.splitlines()[-1]) == (name, 1, "hub: Interrupted; held goes on draining.")
    assert command("undrain", "held").returncode == 0


@pytest.mark.parametrize("kind", WORKERS)
def test_on_each_ending_signal_a_worker_leaves(command: Command, token: str, kind: str):
    def start(number: int) -> Running:
        return command.start(before=WORK.format(make=WORKERS[kind], number=number), TOKEN=token)

    known = {str(each["id"]) for each in command.json("worker", "ls")["workers"]}
    running = on_each_signal(start, lambda _: len(command.json("worker", "ls")["workers"]) == len(known) + len(SIGNALS))
    for name, code, worker in running:
        assert (name, code) == (name, 0), worker.err
    assert {str(each["id"]) for each in command.json("worker", "ls")["workers"]} == known


def test_on_each_ending_signal_a_job_manager_leaves(command: Command, token: str):
    known = len(command.json("worker", "ls")["workers"])
    for name, code, manager in on_each_signal(
        lambda _: command.start(before=MANAGE, TOKEN=token), lambda manager: "registered" in manager.out
    ):
        assert (name, code) == (name, 0), manager.err
    assert len(command.json("worker", "ls")["workers"]) == known


def test_on_each_ending_signal_an_executor_ends_in_order(command: Command, shared_hub: HubProcess):
    chosen = {"HUB_REDIS_URL": shared_hub.redis_url, "HUB_INTERNAL_JOBS": "tests.internal.sample"}
    top = Path(__file__).parent.parent.parent
    before = f"import os, sys; os.chdir({str(top)!r}); sys.path[0] = {str(top)!r}"
    for name, code, worker in on_each_signal(
        lambda _: command.start("internal-worker", before=before, **chosen),
        lambda worker: "internal worker started" in worker.err,
    ):
        assert (name, code) == (name, 0), worker.err
