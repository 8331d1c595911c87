"""`hub borrow --count`: several slots at once, for one command; and what other commands show of bundles."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.cli.command import Command, Running
from tests.contract.names import old_names
from tests.world import PATIENCE_S, HubProcess, wait_until

LABEL = "gpu:a100"
TABLE = "import os, json; print(json.dumps(dict(os.environ)))"


def slots_of(node: str, count: int, **attributes: Any) -> dict[str, Any]:
    each = [
        {"label": LABEL, "slotId": f"{node}-s{n}", "attributes": {"index": n, **attributes}}
        for n in range(1, count + 1)
    ]
    return {"slots": each}


@pytest.fixture(autouse=True)
def nodes(announce: Callable[..., None]) -> None:
    """Two nodes, the first of them with two slots and the second with three."""
    announce("n1", **slots_of("n1", 2, vram=80))
    announce("n2", **slots_of("n2", 3))


def leases(command: Command) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = command.ask("/sessions")["sessions"]
    return found


def environment(command: Command, *words: str, **outer: str) -> dict[str, str]:
    """Return the environment of a command that runs with slots."""
    done = command("borrow", LABEL, *words, "--", "python3", "-c", TABLE, **outer)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def waits(command: Command, *words: str) -> Running:
    """A borrow that waits."""
    before = command.ask("/queue")["waiting"]
    borrower = command.start("borrow", LABEL, "--wait", "60", *words)
    wait_until(lambda: command.ask("/queue")["waiting"] > before, why=lambda: borrower.err)
    return borrower


def ended(running: Running) -> int:
    running.signal(signal.SIGTERM)
    return running.end()


def test_a_command_finds_all_slots_of_one_node_in_its_environment(command: Command):
    found = environment(command, "--count", "3", "--same-node", "--env", "MINE={node}:{index}", HUB_BUNDLE="outer")
    ids = found["HUB_SLOT_IDS"].split(",")
    indexes = [slot_id[-1] for slot_id in ids]
    assert sorted(ids) == ["n2-s1", "n2-s2", "n2-s3"]
    assert (found["HUB_SLOT_ID"], found["HUB_SLOT_NODE"], found["HUB_SLOT_INDEX"]) == (ids[0], "n2", indexes[0])
    assert found["CUDA_VISIBLE_DEVICES"] == ",".join(indexes)
    assert found["MINE"] == f"n2,n2,n2:{','.join(indexes)}"
    assert found["HUB_BUNDLE"].startswith("b")
    assert found["HUB_LEASE_TOKEN"]
    assert leases(command) == []


def test_indexes_of_several_nodes_choose_no_gpus_and_the_users_own_variable_holds(command: Command):
    assert "CUDA_VISIBLE_DEVICES" not in environment(command, "--count", "5")
    mine = environment(command, "--count", "2", "--same-node", "--env", "CUDA_VISIBLE_DEVICES={id}")
    assert mine["CUDA_VISIBLE_DEVICES"] == mine["HUB_SLOT_IDS"]


def test_a_borrow_of_one_slot_has_its_id_in_the_list_and_no_bundle(command: Command):
    found = environment(command, HUB_BUNDLE="outer", HUB_SLOT_IDS="x,y")
    assert found["HUB_SLOT_IDS"] == found["HUB_SLOT_ID"]
    assert "HUB_BUNDLE" not in found


def test_slots_are_held_together_printed_and_given_back(command: Command):
    held = command.start("borrow", LABEL, "--count", "2", "--where", "vram >= 80", "--together")
    held.until_err("the slots are yours until you stop this command (Ctrl-C).")
    lines = [line.split() for line in held.out.splitlines()]
    ids = [line[1] for line in lines if line[:1] == ["SLOT"]]
    assert sorted(ids) == ["n1-s1", "n1-s2"]
    (bundle,) = {line[1] for line in lines if line[:1] == ["BUNDLE"]}
    assert {lease["bundle"] for lease in leases(command)} == {bundle}
    rows = [line.split() for line in command("leases").stdout.splitlines()]
    assert (rows[0][-1], {row[-1] for row in rows[1:]}) == ("BUNDLE", {bundle})
    assert command.json("leases", "n1-s1")["bundle"] == bundle
    assert ended(held) == 0
    assert held.err.endswith(f"hub: {', '.join(ids)} are given back.\n")
    assert leases(command) == []


def test_a_bundle_is_given_back_by_its_id(command: Command):
    url, secret = command.environment["HUB_URL"], {"x-hub-secret": command.environment["HUB_RUNNER_SECRET"]}
    parts = {"parts": [{"label": LABEL, "count": 2}]}
    found = httpx.post(f"{url}/v2/bundles", json=parts, headers=secret, timeout=PATIENCE_S).json()
    ids = ", ".join(slot["slotId"] for slot in found["slots"])
    done = command("return", found["bundle"])
    assert (done.returncode, done.stdout) == (0, f"{ids} of {found['bundle']} are given back.\n")
    assert leases(command) == []
    again = command("return", found["bundle"])
    assert (again.returncode, again.stdout) == (0, f"{found['bundle']}: already returned.\n")


def test_a_wait_for_a_bundle_that_was_in_vain_says_what_it_was_for(command: Command):
    one = command.start("borrow", LABEL)
    one.until_out("TOKEN")
    done = command("borrow", LABEL, "--count", "5", "--wait", "1", "--quiet", "--", "true")
    assert (done.returncode, done.stderr) == (75, f"hub: Borrow timed out after 1s for 5 slots of {LABEL}.\n")


def test_slots_are_printed_as_one_document(command: Command):
    held = command.start("borrow", LABEL, "--count", "3", "--same-node", "--json")
    held.until_out('"environment"')
    wait_until(lambda: held.out.endswith("}\n"))
    document = json.loads(held.out)
    assert old_names(document) == []
    ids = [slot["slotId"] for slot in document["slots"]]
    assert sorted(ids) == ["n2-s1", "n2-s2", "n2-s3"]
    assert {lease["bundle"] for lease in leases(command)} == {document["bundle"]}
    assert f"HUB_SLOT_IDS={','.join(ids)}" in document["environment"]
    assert ended(held) == 0


def test_a_lost_slot_stops_the_command_and_the_others_are_given_back(command: Command, shared_hub: HubProcess):
    running = command.start("borrow", LABEL, "--count", "5", "--", "sh", "-c", "echo up; sleep 60")
    running.until_out("up")
    node = {"x-hub-secret": shared_hub.node_secret}
    answer = httpx.delete(f"{shared_hub.url}/node/n1/slots/n1-s2", headers=node, timeout=PATIENCE_S)
    assert answer.status_code == 200, answer.text
    assert running.end() == 1
    assert running.err.splitlines()[-1].startswith(f"hub: slot n1-s2 of {LABEL} is lost: the hub ended the lease")
    wait_until(lambda: leases(command) == [])


def test_with_together_the_loss_of_one_slot_ends_all_leases(command: Command, shared_hub: HubProcess):
    held = command.start("borrow", LABEL, "--count", "3", "--together", "--same-node")
    held.until_err("the slots are yours")
    node = {"x-hub-secret": shared_hub.node_secret}
    httpx.delete(f"{shared_hub.url}/node/n2/slots/n2-s2", headers=node, timeout=PATIENCE_S)
    assert held.end() == 1
    assert leases(command) == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--count", "6"), "5 slots of gpu:a100 are published, 6 are wanted"),
        (("--count", "4", "--same-node"), "No node has 4 slots of gpu:a100"),
        (("--count", "3", "--where", "vram >= 80"), "2 slots of gpu:a100"),
    ],
)
def test_more_than_is_published_is_refused_at_once(words: tuple[str, ...], sentence: str, command: Command):
    done = command("borrow", LABEL, *words, "--wait", "60", "--", "true")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (75, "", 1)
    assert sentence in done.stderr
    assert done.stderr.endswith("; --wait-for-pool waits for what comes later.\n")


def test_a_bundle_that_waits_is_shown_explained_and_cancelled(command: Command):
    one = command.start("borrow", LABEL)
    one.until_out("TOKEN")
    refused = command("borrow", LABEL, "--count", "5", "--", "true")
    assert (refused.returncode, refused.stderr.count("\n")) == (75, 1)
    assert refused.stderr.endswith("; --wait SECONDS waits for them.\n")
    borrower = waits(command, "--count", "5", "--run", "r5")
    borrower.until_err(f"hub: waiting for 5 slots of {LABEL}: number 1 in the queue, how long it takes is not known.")
    done = command("queue")
    head, row = [line.split() for line in done.stdout.splitlines()]
    assert head == ["SLOTS", "POSITION", "TICKET", "HOLDER", "RUN", "PRIORITY", "WAITING", "SINCE"]
    assert (row[:3], row[5]) == (["5", LABEL, "1"], "r5")
    assert done.stderr == ""
    (bundle,) = command.json("queue")["bundles"]
    assert command.json("queue", "other:label")["bundles"] == []
    facts = dict(line.split(maxsplit=1) for line in command("queue", "show", bundle["ticket"]).stdout.splitlines())
    assert (facts["STATE"], facts["WANTS"], facts["POSITION"]) == ("waiting", f"5 {LABEL}", "1")
    why = command("why", bundle["ticket"]).stdout
    assert LABEL in why
    assert "a bundle waits in the line of bundles" in " ".join(why.split())
    assert command("queue", "cancel", bundle["ticket"]).returncode == 0
    assert borrower.end() == 1
    assert "was given up" in borrower.err


def test_slots_that_are_given_back_serve_a_bundle_that_waits(command: Command):
    one = command.start("borrow", LABEL)
    one.until_out("TOKEN")
    borrower = waits(command, "--count", "5", "--together", "--", "sh", "-c", "echo $HUB_SLOT_IDS; sleep 60")
    (place,) = command.json("queue")["bundles"]
    assert ended(one) == 0
    borrower.until_out("\n")
    ids = borrower.out.strip()
    assert len(ids.split(",")) == 5
    facts = dict(line.split(maxsplit=1) for line in command("queue", "show", place["ticket"]).stdout.splitlines())
    assert (facts["STATE"], facts["SLOT"], facts["BUNDLE"][0]) == ("granted", ids.replace(",", ", "), "b")
    assert ended(borrower) == 128 + signal.SIGTERM
    assert leases(command) == []


def test_a_bundle_whose_caller_is_interrupted_leaves_the_queue(command: Command):
    one = command.start("borrow", LABEL)
    one.until_out("TOKEN")
    borrower = waits(command, "--count", "5", "--quiet")
    assert ended(borrower) == 1
    assert borrower.err == f"hub: Interrupted before 5 slots of {LABEL} were lent.\n"
    wait_until(lambda: command.ask("/queue")["waiting"] == 0)


def test_slots_of_a_command_that_is_killed_are_lent_again_once_their_leases_lapse(command: Command):
    held = command.start("borrow", LABEL, "--count", "3", "--ttl", "2", "--", "sh", "-c", "echo up; sleep 60")
    held.until_out("up")
    assert len(leases(command)) == 3
    held.kill()
    wait_until(lambda: leases(command) == [])


def test_nothing_is_lent_to_a_command_that_was_killed_while_it_waited(command: Command):
    one = command.start("borrow", LABEL)
    one.until_out("TOKEN")
    borrower = waits(command, "--count", "5")
    (place,) = command.json("queue")["bundles"]
    borrower.kill()
    wait_until(lambda: command.ask(f"/queue/{place['ticket']}")["state"] == "away")
    assert ended(one) == 0
    assert leases(command) == []
    assert command("queue", "cancel", place["ticket"]).returncode == 0


def test_a_bundle_is_not_ended_by_a_proof_for_one_slot_and_the_refusal_names_its_slots(command: Command):
    holder = command.start("borrow", LABEL, "--count", "2", "--same-node")
    wait_until(lambda: len(leases(command)) == 2, why=lambda: holder.err)
    ids, bundle = [each["slotId"] for each in command.json("leases")["leases"]], leases(command)[0]["bundle"]
    for proof in (("--force", "--reason", "away"), ("--run", "nightly")):
        refused = command("return", bundle, *proof)
        assert (refused.returncode, refused.stdout, refused.stderr) == (
            1,
            "",
            f"hub: {bundle} is a bundle. Its holder gives it back with hub return {bundle}; an operator ends its slots "
            f"one by one: {', '.join(ids)}.\n",
        )
    assert command("return", ids[0], "--force", "--reason", "away").returncode == 0
    ended(holder)  # it gives the other one back
    gone = command("return", bundle, "--force", "--reason", "away")
    assert (gone.returncode, gone.stderr) == (1, f"hub: The slot {bundle} is not lent.\n")
