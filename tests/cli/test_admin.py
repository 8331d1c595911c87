"""`hub drain`, `undrain`, `sweep`, `expire` and `doctor`, over HTTP and straight on Redis."""

from __future__ import annotations

import socket

import httpx
import pytest

from tests.cli.command import Command
from tests.world import HubProcess, age_node, wait_until


@pytest.fixture
def live_hub(start_hub) -> HubProcess:
    """A hub that does not sweep by itself and takes nobody for dead before a minute has passed."""
    return start_hub(HUB_NODE_TIMEOUT="60", HUB_NODE_SWEEP_INTERVAL_SECONDS="3600", HUB_SWEEPER_EXPIRE="false")


@pytest.fixture(autouse=True)
def node(live_hub: HubProcess) -> None:
    body = {"nodeId": "n1", "slots": [{"labelKey": "gpu:a100", "slotId": f"s{n}"} for n in (1, 2)], "policy": "reuse"}
    headers = {"x-hub-secret": live_hub.node_secret}
    assert httpx.post(f"{live_hub.url}/node/register", json=body, headers=headers).status_code == 200


def test_a_drained_node_lends_nothing_until_it_is_undrained(command: Command):
    assert command("drain", "n1").stdout == "n1 is draining: 2 slots held back, 0 still lent.\n"
    assert command("borrow", "gpu:a100", "--", "true").returncode == 1
    assert command.json("nodes", "--state", "draining")["total"] == 1
    assert command("undrain", "n1").stdout == "n1 lends again; 0 of its slots are lent now.\n"
    assert command("borrow", "gpu:a100", "--", "true").returncode == 0
    assert command.json("drain", "n1")["draining"] is True


def test_a_node_nobody_knows_cannot_be_drained(command: Command):
    done = command("drain", "n9")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "n9" in done.stderr


def test_expiry_is_switched_for_all_hubs_and_shown_with_who_did_it(command: Command):
    assert command("expire").stdout == "Expiry is off: dead nodes are kept (HUB_SWEEPER_EXPIRE says so).\n"
    switched = command("expire", "on").stdout
    assert switched.startswith("Expiry is on: dead nodes are removed (set by ")
    assert f"@{socket.gethostname()} at " in switched
    assert switched.endswith("HUB_SWEEPER_EXPIRE says off).\n")
    assert command("expire").stdout == switched
    assert command.json("expire", "default")["source"] == "setting"


def test_operators_need_the_secret_of_operators(command: Command, live_hub):
    for words in (["drain", "n1"], ["expire", "on"], ["sweep", "--once"]):
        done = command(*words, "--secret", live_hub.node_secret)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert command.json("nodes", "n1")["draining"] is False


def test_a_dry_sweep_names_the_dead_and_a_real_one_removes_them(command: Command, live_hub):
    command("expire", "on")
    wait_until(lambda: float(live_hub.redis.hget("hub:store", "clock_ms") or 0) > 0)
    age_node(live_hub.redis, "n1", 120)
    dry = command("sweep", "--once", "--dry-run")
    assert dry.stdout.startswith("Nodes: 1 scanned, 1 stale, which would be expired; 0 errors, ")
    assert dry.stdout.endswith("  stale: n1\nNothing was changed.\n")
    assert command.json("nodes")["total"] == 1
    assert "1 stale: 1 expired, 0 kept" in command("sweep", "--once").stdout
    assert command.json("nodes")["total"] == 0


def test_commands_work_straight_on_redis_when_no_hub_listens(command: Command, live_hub, redis_server):
    live_hub.kill()
    command.environment["HUB_REDIS_URL"] = redis_server.url
    shown = command("nodes")
    assert (shown.returncode, shown.stdout.splitlines()[1].split()[:2]) == (0, ["n1", "alive"])
    assert shown.stderr == (
        f"hub: no hub listens at {live_hub.url}; working straight on Redis at {redis_server.url}.\n"
    )
    assert command("drain", "n1").stdout == "n1 is draining: 2 slots held back, 0 still lent.\n"
    assert command.json("expire", "on")["expire"] is True
    assert command.json("sweep", "--once")["nodes"]["scanned"] == 1
    assert command.json("pools", "gpu:a100")["heldBack"] == 2


def test_straight_on_redis_the_secret_is_asked_for_all_the_same(command: Command, live_hub, redis_server):
    live_hub.kill()
    done = command("drain", "n1", "--secret", "wrong", HUB_REDIS_URL=redis_server.url)
    assert done.returncode == 1


def test_the_doctor_finds_nothing_in_a_sound_store(command: Command, redis_server):
    done = command("doctor", HUB_REDIS_URL=redis_server.url)
    assert (done.returncode, done.stdout) == (0, f"Every invariant holds in {redis_server.url}.\n")


def test_the_doctor_finds_what_is_wrong_and_mends_it_when_asked(command: Command, live_hub, redis_server):
    command.environment |= {
        "HUB_REDIS_URL": redis_server.url,
        "HUB_NODE_SWEEP_INTERVAL_SECONDS": "0.2",  # as long it waits for a sweep to mend what it sees
        "HUB_NODE_SWEEP_INTERVAL_MIN_SECONDS": "0.1",
        "HUB_BORROW_TTL_SWEEP_SECONDS": "0.2",
        "HUB_BORROW_TTL_SWEEP_MIN_SECONDS": "0.1",
    }
    live_hub.kill()
    live_hub.redis.lpush("inuse:gpu:a100", live_hub.redis.rpop("available:gpu:a100"))
    found = command("doctor", "--json")
    assert found.returncode == 1
    assert '"clean": false' in found.stdout
    assert command("doctor", "--repair").returncode == 0
    assert command.json("doctor") == {"clean": True, "findings": []}


def test_the_doctor_needs_a_store(lone_command: Command):
    done = lone_command("doctor")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)


@pytest.mark.parametrize(
    ("url", "words"),
    [("redis://127.0.0.1:9", "does not answer"), ("http://127.0.0.1:9", "the hub knows only")],
    ids=["nobody there", "no Redis address"],
)
def test_a_store_that_cannot_be_used_is_one_sentence(url, words, lone_command: Command):
    for line in (["doctor"], ["nodes"]):
        done = lone_command(*line, HUB_REDIS_URL=url)
        assert (done.returncode, done.stdout) == (1, "")
        assert words in done.stderr.splitlines()[-1]
        assert "Traceback" not in done.stderr
