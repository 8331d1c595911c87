"""`hub memory` and what `hub status` says of the memory of Redis."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.cli.command import Command
from tests.world import PATIENCE_S, HubProcess, wait_until

J = "/v1/joblib"


@pytest.fixture
def held(own_hub: HubProcess) -> str:
    """A user with a job, a schedule and an open task; returns the name."""
    admin = {"x-hub-secret": own_hub.admin_secret}
    with httpx.Client(base_url=own_hub.url, timeout=PATIENCE_S) as api:
        made = api.post("/admin/tokens", json={"user": "ada"}, headers=admin)
        shown = {"authorization": f"Bearer {made.json()['token']}"}
        job = api.put(f"{J}/rooms/lab/jobs", json={"category": "modifiers", "name": "A"}, headers=shown)
        assert job.status_code == 201, job.text
        about = {"job": "lab:modifiers:A", "everySeconds": 3600}
        assert api.put(f"{J}/rooms/lab/schedules/s", json=about, headers=shown).status_code == 201
        payload = {"payload": {"text": "x" * 5000}}
        assert api.post(f"{J}/rooms/lab/tasks/lab:modifiers:A", json=payload, headers=shown).status_code == 202
    return "ada"


def test_memory_shows_who_holds_what_and_the_share_of_the_limit(own_command: Command, held: str) -> None:
    done = own_command("memory", "--store")
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[0][0] == "STORE"
    assert "in use" in done.stdout.splitlines()[0]
    assert ["schedules", "user", held, "1", "1000", "0", "%"] in rows
    assert ["schedules", "room", "lab", "1", "4000", "0", "%"] in rows
    assert ["rooms", "user", held, "1", "10000", "0", "%"] in rows
    assert any(row[:4] == ["open", "tasks", "user", held] for row in rows)


def test_memory_can_be_printed_as_json(own_command: Command, held: str) -> None:
    found = json.loads(own_command("memory", "--store", "--json").stdout)
    assert found["store"]["usedBytes"] > 100_000
    [tasks] = [each for each in found["holders"] if (each["kind"], each["owner"]) == ("tasks", "user")]
    assert (tasks["name"], tasks["held"]) == (held, 5000 + 11 + 2 + 2 * 512)
    assert "store" not in json.loads(own_command("memory", "--json").stdout)


def test_status_shows_how_full_redis_is_and_who_holds_most(
    own_command: Command, own_hub: HubProcess, held: str
) -> None:
    [line] = [each for each in own_command("status").stdout.splitlines() if each.startswith("STORE")]
    assert f"Redis has no maxmemory; user {held} holds 6." in line
    used = own_hub.redis.info("memory")["used_memory"]
    own_hub.redis.config_set("maxmemory", int(used * 1.02))
    try:
        full = "critical: Redis is full but for its reserve."
        wait_until(lambda: full in own_command("status").stdout)  # a look is good for two seconds
        done = own_command("status")
        assert (done.returncode, full in done.stdout) == (4, True)
        assert "kept for nodes, leases and ends" in done.stdout
    finally:
        own_hub.redis.config_set("maxmemory", 0)
