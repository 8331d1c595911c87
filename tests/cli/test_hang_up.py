"""A terminal that is closed: the system tells the leader of its session alone. What that held is given back,
and nothing that it has started lives on."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.command import Command, alive
from tests.cli.test_signals import FAMILY, HURRY, NODE, family, lent, nodes
from tests.world import free_port, wait_until


@pytest.fixture(autouse=True)
def node(announce: Callable[..., None]) -> None:
    """Slots to lend; nothing but the borrowers decides about them."""
    announce("held", **NODE)


@pytest.mark.parametrize("beside", ["exit", ""], ids=["heeds", "ignores"])
@pytest.mark.parametrize("itself", ["exit 3", ""], ids=["ends", "stays"])
@pytest.mark.parametrize(
    "words", [["borrow", "held:it"], ["agent", "--node", "n1", "--slots", "gpu:a100=1"]], ids=["borrow", "agent"]
)
def test_a_closed_terminal_ends_a_command_and_all_its_processes(
    terminal, command: Command, words: list[str], itself: str, beside: str
):
    seen = terminal(command, *words, "--", "sh", "-c", FAMILY.format(itself=itself, beside=beside), before=HURRY)
    wait_until(lambda: len(family(seen.shown)) == 3 and (lent(command) or nodes(command)), 60, lambda: seen.shown)
    seen.hang_up()
    assert seen.process.wait(60) == (3 if itself else 128 + 9)
    assert [pid for pid in family(seen.shown) if alive(pid)] == []
    assert (lent(command), nodes(command)) == ([], [])


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["borrow", "held:it"], "TOKEN"), (["agent", "--node", "n1"], "announced"), (["top"], "quit"),
        (["drain", "held", "--wait"], "waiting: "), (["events", "--follow"], "held"), (["nodes", "--watch"], "held"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)  # fmt: skip
def test_a_closed_terminal_returns_the_slot_of_a_borrow_without_a_command(
    terminal, command: Command, words: list[str], shown: str
):
    other = command.start("borrow", "held:it") if words[0] == "drain" else None
    if other is not None:
        other.until_out("TOKEN")
    seen = terminal(command, *words, before="")
    seen.until(shown)
    seen.hang_up()
    assert seen.process.wait(60) in ({1} if other else {0, 1})
    assert nodes(command) == []
    assert len(lent(command)) == (1 if other else 0)
    command("undrain", "held")


def test_a_closed_terminal_ends_a_demo_with_its_hub_store_and_agents(terminal, lone_command: Command, tmp_path: Path):
    seen = terminal(lone_command, "demo", "--port", str(free_port()), before="", more={"TMPDIR": str(tmp_path)})
    seen.until("Ctrl-C ends it all.")
    pids = [
        int(pid)
        for pid in re.findall(r"^demo-\w+ +(\d+) |\(pid (\d+)\)", seen.shown, re.MULTILINE)
        for pid in pid
        if pid
    ]
    assert len(pids) == 4
    seen.hang_up()
    assert seen.process.wait(60) == 0
    assert [pid for pid in pids if alive(pid)] == []
    assert list(tmp_path.glob("hub-demo-*")) == []
