"""`hub status`: one sentence, every trouble by name, and an exit code for scripts."""

from __future__ import annotations

import signal
from collections.abc import Callable

import httpx

from tests.cli.command import Command, register
from tests.world import PATIENCE_S, HubProcess, age_node, wait_until


def test_a_fleet_without_troubles_has_the_status_ok(own_command: Command, own_hub: HubProcess) -> None:
    register(own_hub, "n1", pools={"gpu:a100": 2})
    own_command("expire", "on")
    done = own_command("status")
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[0] == "All is well: 1 node is alive, 0 of 2 slots lent, nobody waits."
    assert "1 alive, 0 suspect, 0 silent, 0 held back by an operator; 1 registered" in done.stdout
    assert "0 lent, 2 free, 0 held back" in done.stdout


def test_status_names_a_warning_and_shows_it_in_its_exit_code(own_command: Command, own_hub: HubProcess) -> None:
    register(own_hub, "n1", pools={"gpu:a100": 1})
    own_command("expire", "off")
    done = own_command("status")
    assert done.returncode == 3
    assert "warning: Expiry is off. Dead nodes are kept on the books, switched by " in done.stdout


def test_a_stale_node_that_is_kept_is_shown_as_silent_since_its_last_heartbeat(
    own_command: Command, own_hub: HubProcess
) -> None:
    register(own_hub, "n1", pools={"gpu:a100": 1})
    own_command("expire", "off")
    age_node(own_hub.redis, "n1", 7200)
    wait_until(lambda: own_hub.redis.ttl("node_alive:n1") > 0, why=own_hub.log)  # by a sweep
    done = own_command("status")
    assert "critical: Nobody is alive." in done.stdout
    assert "1 node is kept although silent." in done.stdout
    assert "0 alive, 0 suspect, 1 silent" in done.stdout
    [row] = [line for line in own_command("node", "ls").stdout.splitlines() if line.startswith("n1 ")]
    assert ("stale" in row, "2 h" in row) == (True, True), row


def test_status_prints_no_control_characters_of_a_callers_name(own_command: Command, own_hub: HubProcess) -> None:
    body = {"expire": False, "by": "ann\x1b[2J\nAll is well"}
    headers = {"x-hub-secret": own_hub.admin_secret}
    register(own_hub, "n1", pools={"gpu:a100": 1})
    httpx.put(f"{own_hub.url}/admin/sweeper", json=body, headers=headers, timeout=PATIENCE_S).raise_for_status()
    done = own_command("status").stdout
    assert "switched by ann" in done
    assert "\x1b" not in done
    assert "\nAll is well" not in done


def test_status_has_different_exit_codes_for_critical_and_warning(own_command: Command, own_hub: HubProcess) -> None:
    register(own_hub, "n1", pools={"gpu:a100": 1})
    headers = {"x-hub-secret": own_hub.runner_secret}
    body = {"labelKey": "gpu:a100"}
    httpx.post(f"{own_hub.url}/session/borrow", json=body, headers=headers, timeout=PATIENCE_S).raise_for_status()
    waiting = own_command.start("borrow", "gpu:a100", "--wait", "60", "--", "true")
    wait_until(lambda: own_command.ask("/queue")["waiting"] == 1)
    done = own_command("status")
    waiting.kill()
    assert done.returncode == 4, done.stdout
    assert "critical: Overloaded. 1 borrower waits, and no slot for gpu:a100 is free" in done.stdout


def test_status_names_a_hub_with_other_settings_and_config_shows_those_in_force(
    own_command: Command, own_hub: HubProcess, start_hub: Callable[..., HubProcess]
) -> None:
    register(own_hub, "n1", pools={"gpu:a100": 1})
    own_command("expire", "on")
    assert own_command("config").stderr == ""
    other = start_hub(
        HUB_REDIS_URL=own_hub.redis_url, HUB_KEY_PREFIX=own_hub.environment.get("HUB_KEY_PREFIX", ""),
        HUB_NODE_TIMEOUT=own_hub.environment["HUB_NODE_TIMEOUT"], HUB_BORROW_WILDCARDS="true",
    )  # fmt: skip
    wait_until(lambda: own_command("status").returncode == 3, why=other.log)
    done = own_command("status")
    assert (
        "1 hub was given other settings than those that hold for all. HUB_BORROW_WILDCARDS=true where false"
        in done.stdout
    )
    shown = {row["name"]: row for row in own_command.json("config")["settings"]}["HUB_BORROW_WILDCARDS"]
    ((hub, given),) = shown["otherwise"].items()
    assert (shown["value"], given) == ("false", "true")
    table = own_command("config")
    rows = [line.split(maxsplit=3) for line in table.stdout.splitlines()]
    assert ["HUB_BORROW_WILDCARDS", "false", "-", f"true by hub {hub}"] in rows
    assert "Give every hub the same" in table.stderr
    assert own_command.json("config", "show", "HUB_BORROW_WILDCARDS") == shown
    assert f"true by hub {hub}" in own_command("config", "show", "HUB_BORROW_WILDCARDS").stdout
    gone = own_command("config", "show", "HUB_PAINT")
    assert (gone.returncode, "hub config ls shows them" in gone.stderr) == (1, True)
    other.signal(signal.SIGTERM)  # a hub that is killed would be a trouble
    wait_until(lambda: "Give every hub" not in own_command("config").stderr)
    assert own_command("status").returncode == 0
