"""`hub brake`, and what `hub sweep` says of it, over HTTP and straight on Redis."""

from __future__ import annotations

import re
import socket

import pytest

from tests.cli.command import Command, register
from tests.world import HubProcess, age_node, wait_until

OFF = "The brake is off; it is engaged when more than 20 % of the nodes, and at least 3, are silent at once.\n"


@pytest.fixture
def own_hub(start_hub) -> HubProcess:
    """A hub that does not sweep by itself, with five nodes that have all fallen silent."""
    hub = start_hub(HUB_NODE_TIMEOUT="60", HUB_NODE_SWEEP_INTERVAL_SECONDS="3600")
    wait_until(lambda: " node sweep " in hub.log(), why=hub.log)  # the one at its start
    for number in range(1, 6):
        register(hub, f"n{number}")
        age_node(hub.redis, f"n{number}", 300)
    return hub


def test_the_brake_command_shows_an_engaged_and_a_released_brake(own_command: Command, own_hub):
    assert own_command("brake").stdout == OFF
    refused = own_command("brake", "release")
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)
    assert "nothing to release" in refused.stderr
    dry = own_command("sweep", "--once", "--dry-run").stdout
    assert dry.startswith(
        "Nodes: 5 scanned, 5 stale, which would be expired but for 5 held back by the brake; 0 errors"
    )
    assert dry.count("  stale: n") == 5
    assert "5 stale: 0 expired, 0 kept, 5 held back by the brake; " in own_command("sweep", "--once").stdout
    shown = own_command("brake", "status").stdout
    assert shown.startswith("The brake was engaged ")
    assert shown.endswith(
        ": 5 of 5 nodes are silent. None is removed: nobody at all is heard, so it may be the hub that is deaf; "
        "`hub brake release` lets them go.\n"
    )
    register(own_hub, "n1")
    own_command("sweep", "--once")
    assert re.search(
        r": 4 of 5 nodes are silent\. None is removed: nodes that are alive have [1-6]\d s to be heard again; "
        r"`hub brake release` lets them go\.$",
        own_command("brake").stdout,
    )
    released = own_command("brake", "release", "--utc").stdout
    assert released.startswith("The brake was released by ")
    assert f"@{socket.gethostname()} 2" in released
    assert own_command("brake", "--utc").stdout == released
    assert own_command.json("brake")["state"] == "released"
    assert "4 stale: 4 expired, 0 kept; " in own_command("sweep", "--once").stdout
    own_command("sweep", "--once")
    assert own_command("brake").stdout == OFF


def test_after_its_grace_the_brake_command_says_how_many_nodes_each_sweep_removes(own_command: Command, own_hub):
    register(own_hub, "n1")
    own_command("sweep", "--once")
    own_hub.redis.hincrby("hub:brake", "since_ms", -62_000)
    assert "4 stale: 1 expired, 0 kept, 3 held back by the brake; " in own_command("sweep", "--once").stdout
    assert own_command("brake").stdout.endswith(
        ": 4 of 5 nodes are silent. Each sweep interval removes at most 1 and holds 3 back; "
        "`hub brake release` lets them go.\n"
    )
    shown = own_command.json("brake")
    assert (shown["perInterval"], shown["graceSecondsLeft"], shown["why"]) == (1, 0, None)


def test_the_brake_command_works_straight_on_redis_when_no_hub_listens(own_command: Command, own_hub, redis_server):
    own_hub.kill()
    own_command.environment |= {"HUB_REDIS_URL": redis_server.url, "HUB_SWEEPER_EXPIRE": "true"}
    assert own_command.json("sweep", "--once")["nodes"]["heldBack"] == 5
    shown = own_command.json("brake")
    assert (shown["state"], shown["perInterval"], shown["graceSecondsLeft"]) == ("engaged", 1, 60)
    assert own_command.json("brake", "release")["state"] == "released"
    assert own_command.json("sweep", "--once")["nodes"]["expired"] == 5


def test_only_operators_may_release_the_brake(own_command: Command, own_hub):
    own_command("sweep", "--once")
    for secret in (own_hub.node_secret, own_hub.runner_secret):
        assert own_command("brake", "release", "--secret", secret).returncode == 1
    assert own_command.json("brake")["state"] == "engaged"
