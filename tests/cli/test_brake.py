"""`hub brake`, and what `hub sweep` says of it, over HTTP and straight on Redis."""

from __future__ import annotations

import socket

import pytest

from tests.cli.command import Command, register
from tests.world import HubProcess, age_node

OFF = "The brake is off; it is engaged when more than 20 % of the nodes, and at least 3, are silent at once.\n"


@pytest.fixture
def own_hub(start_hub) -> HubProcess:
    """A hub that does not sweep by itself, with five nodes that have all fallen silent."""
    hub = start_hub(HUB_NODE_TIMEOUT="60", HUB_NODE_SWEEP_INTERVAL_SECONDS="3600")
    for number in range(1, 6):
        register(hub, f"n{number}")
        age_node(hub.redis, f"n{number}", 300)
    return hub


def test_the_brake_is_shown_released_and_off_again(own_command: Command):
    assert own_command("brake").stdout == OFF
    refused = own_command("brake", "release")
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)
    assert "nothing to release" in refused.stderr
    dry = own_command("sweep", "--once", "--dry-run").stdout
    assert dry.startswith(
        "Nodes: 5 scanned, 5 stale, which would be expired but for 4 held back by the brake; 0 errors"
    )
    assert dry.count("  stale: n") == 5
    assert "5 stale: 1 expired, 0 kept, 4 held back by the brake; " in own_command("sweep", "--once").stdout
    shown = own_command("brake", "status").stdout
    assert shown.startswith("The brake is engaged since ")
    assert shown.endswith(
        ": 5 of 5 nodes are silent. Each sweep interval removes at most 1 and holds 4 back; "
        "`hub brake release` lets them go.\n"
    )
    released = own_command("brake", "release").stdout
    assert released.startswith("The brake was released by ")
    assert f"@{socket.gethostname()} at " in released
    assert own_command("brake").stdout == released
    assert own_command.json("brake")["state"] == "released"
    assert "4 stale: 4 expired, 0 kept; " in own_command("sweep", "--once").stdout
    own_command("sweep", "--once")
    assert own_command("brake").stdout == OFF


def test_it_works_straight_on_redis_when_no_hub_listens(own_command: Command, own_hub, redis_server):
    own_hub.kill()
    own_command.environment |= {"HUB_REDIS_URL": redis_server.url, "HUB_SWEEPER_EXPIRE": "true"}
    assert own_command.json("sweep", "--once")["nodes"]["heldBack"] == 4
    assert own_command.json("brake")["state"] == "engaged"
    assert own_command.json("brake", "release")["state"] == "released"
    assert own_command.json("sweep", "--once")["nodes"]["expired"] == 4


def test_only_operators_release_it(own_command: Command, own_hub):
    own_command("sweep", "--once")
    for secret in (own_hub.node_secret, own_hub.runner_secret):
        assert own_command("brake", "release", "--secret", secret).returncode == 1
    assert own_command.json("brake")["state"] == "engaged"
