"""`hub slot hold` and `hub slot release`, and the views that show why a slot is held."""

from __future__ import annotations

import httpx
import pytest

from tests.cli.command import Command, register
from tests.world import PATIENCE_S, HubProcess, wait_until

POOL = "gpu:a100"
FIRST, SECOND = "n1-gpu.a100-1", "n1-gpu.a100-2"


@pytest.fixture(autouse=True)
def node(own_hub: HubProcess) -> None:
    """A node with two slots."""
    register(own_hub, "n1", pools={POOL: 2})


def node_says(hub: HubProcess, method: str, slot: str, **body: str) -> None:
    secret = {"x-hub-secret": hub.node_secret}
    path = f"{hub.url}/node/n1/slots/{slot}/hold"
    answer = httpx.request(method, path, json=body or None, headers=secret, timeout=PATIENCE_S)
    assert answer.status_code == 200, answer.text


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_an_operator_holds_a_slot_for_a_reason_and_releases_it(own_command: Command):
    done = own_command("slot", "hold", FIRST, "--reason", " fan is broken ")
    assert done.stdout == f"{FIRST} is held (fan is broken): it is not lent.\n"
    assert own_command.ask(f"/pools/{POOL}")["available"] == 1
    shown = own_command("node", "show", "n1").stdout
    assert [FIRST, POOL, "held", "by", "an", "operator:", "fan", "is", "broken"] in rows(shown)
    done = own_command("slot", "release", FIRST)
    assert done.stdout == f"{FIRST} is held no longer.\n"
    assert [FIRST, POOL, "free", "-"] in rows(own_command("node", "show", "n1").stdout)


def test_a_slot_that_its_node_holds_as_well_stays_held_after_a_release(own_command: Command, own_hub: HubProcess):
    node_says(own_hub, "POST", FIRST, reason="check failed")
    assert own_command.json("slot", "hold", FIRST, "--reason", "mine")["heldBy"] == "operator"
    done = own_command("slot", "release", FIRST)
    assert done.stdout == f"{FIRST} stays held by its node (check failed).\n"


@pytest.mark.parametrize("words", [["hold", "nothing", "--reason", "x"], ["release", "nothing"]])
def test_a_slot_that_does_not_exist_is_refused_in_one_sentence(own_command: Command, words: list[str]):
    done = own_command("slot", *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no slot nothing" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("reason", ["", "two\nlines", "x" * 201])
def test_a_reason_that_is_not_one_short_line_is_refused(own_command: Command, reason: str):
    done = own_command("slot", "hold", FIRST, "--reason", reason)
    assert (done.returncode, "1 to 200 printable characters on one line" in done.stderr) == (1, True), done.stderr
    assert own_command.ask(f"/pools/{POOL}")["available"] == 2


def test_the_holder_of_a_slot_reads_that_it_is_unwell_and_that_it_is_well_again(
    own_command: Command, own_hub: HubProcess
):
    borrowing = own_command.start("borrow", POOL)
    borrowing.until_out("TOKEN")
    (lease,) = own_command.ask("/sessions")["sessions"]
    slot = lease["browserId"]
    node_says(own_hub, "POST", slot, reason="no answer for 6 s")
    borrowing.until_err(f"{slot} is unwell: no answer for 6 s")
    assert "by its node: no answer for 6 s" in own_command("leases").stdout
    node_says(own_hub, "DELETE", slot)
    borrowing.until_err(f"{slot} is well again.")
    done = own_command("slot", "hold", slot, "--reason", "screen is cracked")
    assert done.stdout == f"{slot} is held (screen is cracked): it is still lent, and its holder is told.\n"
    borrowing.until_err(f"{slot} is unwell: screen is cracked")
    assert borrowing.process.poll() is None


def test_slots_held_for_more_than_a_minute_are_a_warning_of_the_status(own_command: Command, own_hub: HubProcess):
    own_command("slot", "hold", FIRST, "--reason", "fan is broken")
    assert own_command("status").returncode == 0
    own_hub.redis.zincrby("hub:unwell", -61_000, FIRST)
    wait_until(lambda: own_command("status").returncode == 3)
    assert f"warning: 1 slot is held back as unwell. {FIRST} of n1: fan is broken." in own_command("status").stdout


def test_pools_say_why_slots_are_held_back(own_command: Command):
    own_command("slot", "hold", FIRST, "--reason", "fan is broken")
    assert [POOL, "2", "1", "0", "1", "1", "unwell", "no"] in rows(own_command("pools").stdout)


def test_the_list_of_slots_can_be_narrowed_to_those_that_are_held(own_command: Command, own_hub: HubProcess):
    register(own_hub, "n2", pools={POOL: 1})
    own_command("slot", "hold", SECOND, "--reason", "fan is broken")
    found = own_command.json("slot", "ls")
    assert (found["total"], [slot["nodeId"] for slot in found["slots"]]) == (3, ["n1", "n1", "n2"])
    (held,) = own_command.json("slot", "ls", "--held")["slots"]
    assert (held["slotId"], held["held"], held["heldBy"]) == (SECOND, "fan is broken", "operator")
    done = own_command("slot", "ls", "--limit", "1")
    assert "1 of 3 slots shown; --limit shows more." in done.stderr
    assert "fan is broken" in own_command("slot", "show", SECOND).stdout
    own_command("slot", "release", SECOND)
    assert own_command("slot", "ls", "--held").stdout == "No slots.\n"
