"""`hub queue` and `hub caps`: who waits, giving a place up, and caps at run time, with a hub and straight on Redis."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from subprocess import CompletedProcess

import httpx
import pytest

from tests.cli.command import Command, Running, leave, register
from tests.world import PATIENCE_S, HubProcess, wait_until

LABEL = "gpu:a100"


@pytest.fixture(autouse=True)
def node(shared_hub: HubProcess, command: Command) -> Iterator[None]:
    """A node with two slots."""
    register(shared_hub, "n1", pools={LABEL: 2})
    yield
    for running in command.started:  # one that is killed leaves a place behind, which is kept for a minute
        if running.process.poll() is None:
            running.signal(signal.SIGTERM)
            running.end()
    leave(shared_hub, "n1")
    headers = {"x-hub-secret": shared_hub.admin_secret}
    for label in ("*", LABEL):
        answer = httpx.put(
            f"{shared_hub.url}/admin/caps/{label}", json={"cap": None}, headers=headers, timeout=PATIENCE_S
        )
        assert answer.status_code == 200, answer.text


def waiting(command: Command) -> int:
    return int(command.ask("/queue")["waiting"])


def shown(done: CompletedProcess[str]) -> dict[str, str]:
    """The facts of one thing."""
    assert done.returncode == 0, done.stderr
    return dict(re.split(r" {2,}", line, maxsplit=1) for line in done.stdout.splitlines())  # type: ignore[misc]


def come(command: Command, *words: str) -> Running:
    """A borrow that waits."""
    before = waiting(command)
    borrower = command.start("borrow", LABEL, "--wait", "60", *words)
    wait_until(lambda: waiting(command) > before, why=lambda: borrower.err)
    return borrower


def lend_both(command: Command) -> None:
    for _ in range(2):
        command.start("borrow", LABEL).until_out("TOKEN")


def test_the_command_names_an_empty_queue(command: Command):
    assert command("queue").stdout == "Nobody waits.\n"
    assert command("queue", LABEL).stdout == f"Nobody waits for {LABEL}.\n"
    assert command.json("queue") == {"total": 0, "waiting": 0, "away": 0, "labels": [], "bundles": []}


def test_waiters_are_shown_in_the_order_of_the_queue(command: Command):
    lend_both(command)
    come(command, "--run", "r1")
    come(command, "--run", "r2", "--priority", "50")
    done = command("queue")
    assert (done.returncode, done.stderr) == (0, "")
    head, *rows = [line.split() for line in done.stdout.splitlines()]
    assert head == ["LABEL", "POSITION", "TICKET", "HOLDER", "RUN", "PRIORITY", "WAITING", "SINCE", "ESTIMATE"]
    assert [(row[0], row[1], row[2][:4], row[4], row[5], row[-1]) for row in rows] == [
        (LABEL, "1", "key-", "r2", "50", "-"),
        (LABEL, "2", "key-", "r1", "0", "-"),
    ]
    assert command("queue", "no:such").stdout == "Nobody waits for no:such.\n"
    cut = command("queue", "--limit", "1")
    assert (len(cut.stdout.splitlines()), cut.stderr) == (2, "hub: 1 of 2 tickets shown; --limit shows more.\n")
    (line,) = command.json("queue", LABEL)["labels"]
    assert [ticket["runId"] for ticket in line["tickets"]] == ["r2", "r1"]
    first = line["tickets"][0]["ticket"]
    facts = shown(command("queue", "show", first))
    assert [facts[name] for name in ("TICKET", "STATE", "LABEL", "POSITION", "RUN")] == [
        first, "waiting", LABEL, "1", "r2",
    ]  # fmt: skip
    assert command.json("queue", "show", first)["position"] == 1
    gone = command("queue", "show", "nobody")
    assert (gone.returncode, gone.stderr.count("No such ticket")) == (1, 1)


def test_cancelling_a_ticket_ends_the_waiting_borrow_with_a_sentence(command: Command):
    lend_both(command)
    borrower = come(command)
    ticket = command.json("queue")["labels"][0]["tickets"][0]["ticket"]
    for _ in range(2):
        done = command("queue", "cancel", ticket)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{ticket} is given up.\n", "")
    assert borrower.end() == 1
    assert "was given up" in borrower.err
    assert command.json("queue")["waiting"] == 0
    gone = command("queue", "cancel", "no-such-key")
    assert (gone.returncode, gone.stdout, gone.stderr.count("\n")) == (1, "", 1)
    assert gone.stderr.startswith("hub: No such ticket")


def test_a_ticket_that_has_become_a_lease_is_not_cancelled(command: Command):
    lend_both(command)
    borrower = come(command, "--", "sleep", "60")
    ticket = command.json("queue")["labels"][0]["tickets"][0]["ticket"]
    assert command("return", "n1-gpu.a100-1", "--force", "--reason", "a test").returncode == 0
    wait_until(lambda: waiting(command) == 0)
    done = command("queue", "cancel", ticket)
    assert (done.returncode, done.stdout) == (1, "")
    assert "This ticket holds n1-gpu.a100-1 by now" in done.stderr
    assert borrower.process.poll() is None


def test_a_borrow_whose_wait_would_be_too_long_or_is_zero_is_refused(command: Command):
    lend_both(command)
    refused = command("borrow", LABEL, "--", "true")
    assert (refused.returncode, refused.stdout) == (75, "")
    assert refused.stderr == f"hub: No slot available for {LABEL}; --wait SECONDS waits for one.\n"
    vain = command("borrow", "nothing:here", "--wait", "0.3", "--wait-for-pool", "--", "true")
    assert (vain.returncode, vain.stderr.count("\n")) == (75, 1)
    assert "Borrow timed out after" in vain.stderr


def test_caps_can_be_shown_set_and_cleared(command: Command, shared_hub: HubProcess):
    command.start("borrow", LABEL).until_out("TOKEN")
    (row,) = [line.split() for line in command("caps").stdout.splitlines()[1:]]
    assert row == ["all", "others", "no", "limit", "default", "-", "-"]
    assert command("caps", "set", LABEL, "1").stdout == (
        f"At most 1 lease of {LABEL} may be live at once (run-time); 1 live, 0 waiting.\n"
    )
    assert command("caps", "set", "*", "5").stdout == (
        "At most 5 leases of any label without a cap of its own may be live at once (run-time).\n"
    )
    rows = [line.split() for line in command("caps").stdout.splitlines()[1:]]
    assert rows == [[LABEL, "1", "run-time", "1", "0"], ["all", "others", "5", "run-time", "-", "-"]]
    cap = {"label": LABEL, "cap": 1, "source": "run-time", "inFlight": 1, "waiting": 0}
    assert command.json("caps") == {"default": 5, "defaultSource": "run-time", "caps": [cap]}
    assert command.json("caps", "show", LABEL) == cap
    assert [shown(command("caps", "show", label))["AT MOST"] for label in (LABEL, "no:such")] == ["1", "5"]
    assert command.json("caps", "set", LABEL, "0") == {**cap, "cap": 0}
    assert command("caps", "clear", LABEL).stdout == (
        f"At most 5 leases of {LABEL} may be live at once (default); 1 live, 0 waiting.\n"
    )
    admin = {"x-hub-secret": shared_hub.admin_secret}
    entries = httpx.get(f"{shared_hub.url}/audit?action=cap.set", headers=admin, timeout=PATIENCE_S).json()
    actors = {entry["actor"] for entry in entries}
    assert any("@" in actor for actor in actors), "who it was at this machine"


def test_raising_a_cap_serves_the_waiting_tickets_it_has_room_for(command: Command):
    assert command("caps", "set", LABEL, "1").returncode == 0
    command.start("borrow", LABEL).until_out("TOKEN")
    borrower = come(command, "--", "echo", "let in")
    assert command("caps", "set", LABEL, "2").stdout.endswith(", 0 waiting.\n")
    assert (borrower.end(), borrower.out) == (0, "let in\n")


def test_straight_on_redis_the_queue_is_shown_and_the_caps_of_the_hubs_stay(lone_command: Command, start_hub, redis):
    """A hub serves somewhere, but none where the command looks: its own environment decides nothing."""
    hub = start_hub(HUB_BORROW_CONCURRENCY_CAPS=f"{LABEL}=3", HUB_NODE_TIMEOUT="600")
    there = Command(hub, lone_command.home)
    lone_command.environment["HUB_REDIS_URL"] = hub.redis_url
    try:
        borrower = there.start("borrow", LABEL, "--wait", "60", "--wait-for-pool", "--run", "r1")
        wait_until(lambda: redis.zcard(f"hub:line:{LABEL}") == 1, why=lambda: borrower.err)
        (line,) = lone_command.json("queue")["labels"]
        assert (line["cap"], [ticket["runId"] for ticket in line["tickets"]]) == (3, ["r1"])
        cap = {"label": LABEL, "cap": 3, "source": "environment", "inFlight": 0, "waiting": 1}
        assert lone_command.json("caps")["caps"] == [cap]
        assert lone_command.json("caps", "set", LABEL, "4") == {**cap, "cap": 4, "source": "run-time"}
        assert lone_command("queue", "cancel", line["tickets"][0]["ticket"]).returncode == 0
        assert borrower.end() == 1
    finally:
        there.close()


def test_a_cap_on_what_is_served_stands_beside_the_other_one_and_an_unknown_label_is_doubted(command: Command):
    done = command("caps", "set", LABEL, "3", "--served")
    assert done.stdout == (
        f"At most 3 leases of {LABEL} and the pools below it may be live at once (served); 0 live, 0 waiting.\n"
    )
    assert command("caps", "set", LABEL, "2").returncode == 0
    rows = [line.split() for line in command("caps").stdout.splitlines()[1:]]
    assert rows[:2] == [[LABEL, "2", "run-time", "0", "0"], [LABEL, "3", "served", "0", "0"]]
    assert command("caps", "clear", LABEL, "--served").returncode == 0
    done = command("caps", "set", f"{LABEL}x", "1")
    assert f"did you mean {LABEL}?" in done.stderr


def test_a_label_of_one_segment_has_a_queue_and_a_cap_too(command: Command):
    assert command("queue", "gpu").stdout == "Nobody waits for gpu.\n"
    assert command("caps", "set", "gpu", "3").returncode == 0
    assert command.json("caps", "show", "gpu")["cap"] == 3
    assert command("caps", "clear", "gpu").returncode == 0
    assert command("leases", "--label", "gpu").returncode == 0
