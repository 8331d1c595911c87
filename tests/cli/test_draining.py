"""`hub drain` with a deadline and with `--wait`, and `hub autoscale`."""

from __future__ import annotations

import json
import signal

import httpx
import pytest

from tests.cli.command import Command, leave, register
from tests.world import PATIENCE_S, SLACK_S, HubProcess, wait_until

POOL = "gpu:a100"


@pytest.fixture(autouse=True)
def node(own_hub: HubProcess) -> None:
    """A node with two slots."""
    register(own_hub, "n1", pools={POOL: 2})


def post(hub: HubProcess, path: str, **body: object) -> dict[str, str]:
    headers = {"x-hub-secret": hub.runner_secret}
    answer = httpx.post(f"{hub.url}{path}", json=body, headers=headers, timeout=PATIENCE_S)
    assert answer.status_code == 200, answer.text
    found: dict[str, str] = answer.json()
    return found


def borrow(hub: HubProcess) -> str:
    return post(hub, "/session/borrow", labelKey=POOL)["browserId"]


@pytest.fixture
def slot(own_hub: HubProcess) -> str:
    """Borrow one of the slots and return its id."""
    return borrow(own_hub)


def test_drain_wait_ends_when_the_last_slot_has_come_back(own_command: Command, own_hub, slot):
    waiting = own_command.start("drain", "n1", "--wait")
    waiting.until_err("hub: waiting: 1 of its slots is still lent.")
    post(own_hub, "/session/return", labelKey=POOL, browserId=slot)
    assert waiting.end() == 0
    assert waiting.out == (
        "n1 is draining: 1 slot held back, 1 still lent.\nn1 is safe to kill: It drains, and nothing of it is lent.\n"
    )


def test_the_drain_deadline_ends_the_leases_and_the_wait(own_command: Command, own_hub, slot):
    done = own_command("drain", "n1", "--deadline", f"{SLACK_S:g}s", "--wait", "--json")  # it is still lent at first
    assert (done.returncode, done.stderr) == (0, "hub: waiting: 1 of its slots is still lent.\n")
    answer = json.loads(done.stdout)
    assert (answer["safe"], answer["lent"], answer["draining"]) == (True, 0, True)
    headers = {"x-hub-secret": own_hub.runner_secret}
    answer = httpx.get(f"{own_hub.url}/sessions/{slot}", headers=headers, timeout=PATIENCE_S)
    assert answer.status_code == 404
    wait_until(lambda: "drain deadline passed node=n1 ended=1" in own_hub.log(), why=own_hub.log)


def test_an_interrupted_drain_wait_leaves_the_node_draining(own_command: Command, slot):
    waiting = own_command.start("drain", "n1", "--wait")
    waiting.until_err("waiting")
    waiting.signal(signal.SIGINT)
    assert waiting.end() == 1
    assert waiting.err.splitlines()[-1] == "hub: Interrupted; n1 goes on draining."
    assert own_command.ask("/nodes/n1")["draining"] is True


def test_drain_wait_ends_when_the_node_has_gone(own_command: Command, own_hub, slot):
    waiting = own_command.start("drain", "n1", "--wait")
    waiting.until_err("waiting")
    leave(own_hub, "n1")
    assert waiting.end() == 0
    assert waiting.out.splitlines()[-1] == (
        "n1 is safe to kill: It is not registered any more, and nothing of it is lent."
    )


def test_drain_wait_fails_when_an_operator_undrains_the_node(own_command: Command, slot):
    waiting = own_command.start("drain", "n1", "--wait")
    waiting.until_err("waiting")
    assert own_command("undrain", "n1").returncode == 0
    assert waiting.end() == 1
    assert waiting.err.splitlines()[-1] == "hub: n1 does not drain any more: another operator has undrained it."


def test_drain_wait_survives_a_short_absence_of_the_hub(own_command: Command, own_hub, start_hub, slot):
    waiting = own_command.start("drain", "n1", "--wait")
    waiting.until_err("waiting")
    own_hub.kill()
    wait_until(lambda: waiting.err.count("waiting") >= 2)
    assert waiting.process.poll() is None
    again = start_hub(HUB_NODE_TIMEOUT="600", HUB_PORT=str(own_hub.port))
    post(again, "/session/return", labelKey=POOL, browserId=slot)
    assert waiting.end() == 0


def test_the_drain_deadline_is_shown_wherever_the_drain_is_shown(own_command: Command, slot):
    done = own_command("drain", "n1", "--deadline", "10m")
    assert done.stdout == "n1 is draining: 1 slot held back, 1 still lent; what is lent ends in 10 min.\n"
    assert "alive, draining for 9 min " in own_command("nodes").stdout
    assert 500 < own_command.json("nodes", "n1")["deadlineSecondsLeft"] < 600
    assert own_command("drain", "n1").stdout == "n1 is draining: 1 slot held back, 1 still lent.\n"
    assert "alive, draining\n" in own_command("nodes", "n1").stdout


def test_straight_on_redis_a_drained_node_without_leases_is_safe_at_once(own_command: Command, own_hub, redis_server):
    own_hub.kill()
    own_command.environment["HUB_REDIS_URL"] = redis_server.url
    assert own_command.json("drain", "n1", "--wait")["safe"] is True
    assert own_command.json("autoscale", POOL)["heldBack"] == 2


def test_autoscale_shows_how_many_slots_a_pool_should_have(own_command: Command, slot):
    done = own_command("autoscale", POOL, "--headroom", "2", "--max", "10")
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["POOL", POOL], ["LENT", "1"], ["WAITING", "0"], ["DESIRED", "3"], ["FREE", "1"], ["HELD", "BACK", "0"],
        ["BECAUSE", "-"], ["MAINTENANCE", "no"],
    ]  # fmt: skip
    assert own_command.json("autoscale", POOL, "--min", "5")["desired"] == 5


def test_autoscale_shows_how_many_tasks_of_a_job_there_are(own_command: Command, own_hub):
    job = "@global:analysis:Square"
    done = own_command("autoscale", "--job", job, "--headroom", "2")
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["JOB", job], ["HELD", "0"], ["PENDING", "0"], ["DESIRED", "2"], ["PUT", "OFF", "0"], ["WORKERS", "0"],
        ["RUN", "TIME", "-"],
    ]  # fmt: skip
    assert own_command.json("autoscale", "--job", job, "--min", "5")["desired"] == 5


def test_a_node_is_cordoned_with_a_reason_and_lends_again_afterwards(own_command: Command) -> None:
    printed = own_command("cordon", "n1", "--reason", "disk is being replaced").stdout
    assert printed == "n1 is cordoned (disk is being replaced): 2 slots held back, 0 still lent.\n"
    assert "alive, cordoned" in own_command("nodes").stdout
    assert "disk is being replaced" in own_command("why", "n1").stdout
    assert "lends again" in own_command("undrain", "n1").stdout
    assert own_command("cordon", "n1").returncode == 2  # without a reason
