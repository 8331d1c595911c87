"""`hub drain`, `undrain`, `sweep`, `expire` and `doctor`, over HTTP and straight on Redis."""

from __future__ import annotations

import re
import socket

import pytest

from tests.cli.command import Command, register
from tests.world import HubProcess, age_node, wait_until


@pytest.fixture
def own_hub(start_hub) -> HubProcess:
    """A hub that does not sweep by itself, and does not remove what is dead."""
    return start_hub(HUB_NODE_TIMEOUT="600", HUB_NODE_SWEEP_INTERVAL_SECONDS="3600", HUB_SWEEPER_EXPIRE="false")


@pytest.fixture(autouse=True)
def node(own_hub: HubProcess) -> None:
    """A node with two slots."""
    register(own_hub, "n1", pools={"gpu:a100": 2})


def test_a_drained_node_lends_nothing_until_it_is_undrained(own_command: Command):
    assert own_command("drain", "n1").stdout == "n1 is draining: 2 slots held back, 0 still lent.\n"
    assert own_command("borrow", "gpu:a100", "--", "true").returncode == 75
    assert own_command.json("nodes", "--state", "draining")["total"] == 1
    assert own_command("undrain", "n1").stdout == "n1 lends again; 0 of its slots are lent now.\n"
    assert own_command("borrow", "gpu:a100", "--", "true").returncode == 0
    assert own_command.json("drain", "n1")["draining"] is True


def test_an_unknown_node_cannot_be_drained(own_command: Command):
    done = own_command("drain", "n9")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "n9" in done.stderr


def test_the_expiry_switch_holds_for_all_hubs_and_shows_who_set_it(own_command: Command):
    assert own_command("expire").stdout == "Expiry is off: dead nodes are kept (HUB_SWEEPER_EXPIRE says so).\n"
    switched = own_command("expire", "on", "--utc").stdout
    assert switched.startswith("Expiry is on: dead nodes are removed (set by ")
    assert re.search(rf"@{re.escape(socket.gethostname())} [0-9-]+T[0-9:]+Z; ", switched)
    assert switched.endswith("HUB_SWEEPER_EXPIRE says off).\n")
    assert own_command("expire", "--utc").stdout == switched
    assert own_command.json("expire", "default")["source"] == "setting"


def test_commands_of_operators_need_the_admin_secret(own_command: Command, own_hub):
    for words in (["drain", "n1"], ["expire", "on"], ["sweep", "--once"]):
        done = own_command(*words, "--secret", own_command.kept(own_hub.node_secret))
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert own_command.ask("/nodes/n1")["draining"] is False


def test_a_dry_sweep_names_the_dead_nodes_and_a_real_one_removes_them(own_command: Command, own_hub):
    own_command("expire", "on")
    wait_until(lambda: float(own_hub.redis.hget("hub:store", "clock_ms") or 0) > 0)
    age_node(own_hub.redis, "n1", 1200)
    dry = own_command("sweep", "--once", "--dry-run")
    assert dry.stdout.startswith("Nodes: 1 scanned, 1 stale, which would be expired; 0 errors, ")
    assert dry.stdout.endswith("  stale: n1\nNothing was changed.\n")
    assert own_command.ask("/nodes?detail=1")["total"] == 1
    assert "1 stale: 1 expired, 0 kept" in own_command("sweep", "--once").stdout
    assert own_command.ask("/nodes?detail=1")["total"] == 0


def test_commands_work_straight_on_redis_when_no_hub_listens(own_command: Command, own_hub, redis_server):
    own_hub.kill()
    own_command.environment["HUB_REDIS_URL"] = redis_server.url
    shown = own_command("nodes")
    assert (shown.returncode, shown.stdout.splitlines()[1].split()[:2]) == (0, ["n1", "alive"])
    assert shown.stderr == (f"hub: no hub listens at {own_hub.url}; working straight on Redis at {redis_server.url}.\n")
    assert own_command("drain", "n1").stdout == "n1 is draining: 2 slots held back, 0 still lent.\n"
    assert own_command.json("expire", "on")["expire"] is True
    assert own_command.json("sweep", "--once")["nodes"]["scanned"] == 1
    assert own_command.json("pools", "gpu:a100")["heldBack"] == 2


def test_a_command_straight_on_redis_still_needs_the_secret(own_command: Command, own_hub, redis_server):
    own_hub.kill()
    done = own_command("drain", "n1", "--secret", own_command.kept("wrong"), HUB_REDIS_URL=redis_server.url)
    assert done.returncode == 1


def test_the_doctor_finds_nothing_in_a_sound_store(own_command: Command, redis_server):
    done = own_command("doctor", HUB_REDIS_URL=redis_server.url)
    assert (done.returncode, done.stdout) == (0, f"Every invariant holds in {redis_server.url}.\n")


def test_the_doctor_reports_a_broken_invariant_and_mends_it_when_asked(own_command: Command, own_hub, redis_server):
    own_command.environment |= {
        "HUB_REDIS_URL": redis_server.url,
        "HUB_NODE_SWEEP_INTERVAL_SECONDS": "0.2",  # as long it waits for a sweep to repair what it sees
        "HUB_NODE_SWEEP_INTERVAL_MIN_SECONDS": "0.1",
        "HUB_BORROW_TTL_SWEEP_SECONDS": "0.2",
        "HUB_BORROW_TTL_SWEEP_MIN_SECONDS": "0.1",
    }
    own_hub.kill()
    own_hub.redis.lpush("inuse:gpu:a100", own_hub.redis.rpop("available:gpu:a100"))
    found = own_command("doctor", "--json")
    assert found.returncode == 1
    assert '"clean": false' in found.stdout
    assert own_command("doctor", "--repair").returncode == 0
    assert own_command.json("doctor") == {"clean": True, "findings": []}


def test_without_a_store_the_doctor_fails(lone_command: Command):
    done = lone_command("doctor")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)


@pytest.mark.parametrize(
    ("url", "words"),
    [("redis://127.0.0.1:9", "does not answer"), ("http://127.0.0.1:9", "the hub knows only")],
    ids=["nobody there", "no Redis address"],
)
def test_an_unusable_store_is_reported_in_one_sentence(url, words, lone_command: Command):
    for line in (["doctor"], ["nodes"]):
        done = lone_command(*line, HUB_REDIS_URL=url)
        assert (done.returncode, done.stdout) == (1, "")
        assert words in done.stderr.splitlines()[-1]
        assert "Traceback" not in done.stderr


def test_the_audit_log_shows_who_changed_what_and_finds_it_again(own_command: Command, own_hub: HubProcess):
    register(own_hub, "n1", pools={"gpu:a100": 1})
    own_command("cordon", "n1", "--reason", "its disk is full")
    shown = own_command("audit", "ls").stdout
    assert "node.cordon" in shown
    assert "reason=its disk is full" in shown
    assert re.search(r"^\S+ s ago +node\.cordon", shown, re.MULTILINE)
    (entry,) = own_command.json("audit", "ls", "--action", "node.cordon", "--search", "disk")["entries"]
    assert (entry["action"], entry["details"]["nodeId"]) == ("node.cordon", "n1")
    assert own_command.json("audit", "ls", "--skip", "1000") == {"entries": []}
    assert own_command("audit", "ls", "--search", "nowhere").stdout == "The audit log has no such entry.\n"
    done = own_command("audit", "ls", "--since", "yesterday")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert "sinceUtc must be a time such as" in done.stderr
