"""A fleet before a real hub: what it lends is live, fresh, and gone with the agent."""

from __future__ import annotations

import asyncio
import os
import signal

import httpx

from hub.client import HubClient
from tests.fleet.conftest import SERVERS, Machine, told
from tests.world import PATIENCE_S, eventually, wait_until


def test_a_fleet_lends_what_runs_and_leaves_nothing_on_sigterm(machine: Machine):
    machine.write(SERVERS.replace("COUNT", "2"))
    agent = machine.begin()
    machine.until_lendable(2)
    lease = machine.borrow().json()
    assert told(lease)["slot"] == lease["browserId"] == lease["item"]["browserId"]
    agent.signal(signal.SIGTERM)
    assert agent.end() == 0
    assert (machine.slots(), machine.programs(), machine.folders()) == ({}, [], [])


def test_each_borrower_gets_a_process_that_no_other_has_used(machine: Machine):
    machine.write(SERVERS.replace("COUNT", "1"))
    machine.begin()
    seen = set()
    for number in range(4):
        machine.until_lendable(1)
        lease = machine.borrow().json()
        answer = httpx.post(lease["webSocketEndpoint"], content=f"secret {number}", timeout=PATIENCE_S).json()
        assert answer["words"] == [f"secret {number}"]
        seen.add(answer["pid"])
        machine.give_back(lease)
    assert len(seen) == 4


def test_a_killed_process_is_held_and_lent_again_only_once_it_was_started_again(machine: Machine):
    machine.write(SERVERS.replace("COUNT", "1"))
    machine.begin()
    (slot_id,) = machine.until_lendable(1)
    (server,) = machine.programs()
    machine.broken.touch()
    os.kill(server, signal.SIGKILL)
    wait_until(lambda: "the disk is full" in machine.slots()[slot_id].get("held", ""), why=machine.log)
    assert "was ended by signal 9" in machine.log()
    assert machine.borrow(wait_s=0).status_code == 503
    machine.broken.unlink()
    machine.until_lendable(1)
    assert told(machine.borrow().json())["slot"] == slot_id


async def test_a_process_that_hangs_is_killed_and_its_borrower_told_while_the_lease_goes_on(machine: Machine):
    machine.write(SERVERS.replace("COUNT", "1"))
    machine.begin()
    machine.until_lendable(1)
    heard: list[str | None] = []
    async with HubClient(machine.hub.url, machine.hub.runner_secret) as client, client.borrow("web:small") as slot:
        slot.on_unwell(heard.append)
        (first,) = machine.programs()
        os.kill(first, signal.SIGSTOP)
        await eventually(lambda: first not in machine.programs())
        await eventually(lambda: heard[-1:] == [None])
        assert heard[0] == "a program of it is stopped"
        answer = await asyncio.to_thread(told, {"webSocketEndpoint": slot.address})
        assert (answer["slot"], answer["pid"] != first, slot.lost.is_set()) == (slot.id, True, False)
    machine.until_lendable(1)
