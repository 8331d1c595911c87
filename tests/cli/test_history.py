"""`hub why` and `hub events` against a real hub, and straight on Redis."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from hub.cli import history, main
from tests.cli.command import Command, leave, register
from tests.world import PATIENCE_S, HubProcess

POOL = "gpu:why"


@pytest.fixture(scope="module", autouse=True)
def lent(shared_hub: HubProcess) -> Iterator[dict[str, Any]]:
    """A node with two slots, one of them lent to a run; the answer to that borrow, and `node` and `run`.

    The hub remembers those of the last time, for the processes of the tests hand these to one another and back.
    """
    node, run = f"why-{uuid4().hex}", f"run-{uuid4().hex}"
    register(shared_hub, node, pools={POOL: 2})
    runner = {"x-hub-secret": shared_hub.runner_secret}
    wanted = {"labelKey": POOL, "runId": run}
    answer = httpx.post(f"{shared_hub.url}/session/borrow", json=wanted, headers=runner, timeout=PATIENCE_S)
    assert answer.status_code == 200, answer.text
    yield {**answer.json(), "node": node, "run": run}
    leave(shared_hub, node)


def test_why_finds_the_kind_of_thing_that_an_id_belongs_to(command: Command, lent):
    for subject, kind in ((lent["browserId"], "slot"), (lent["node"], "node"), (lent["run"], "run")):
        done = command("why", subject)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"{kind} {subject} is "), done.stdout
    assert command.json("why", lent["node"])["found"][0]["kind"] == "node"


def test_why_explains_a_lent_slot_in_readable_lines(command: Command, lent):
    first, *rest = command("why", lent["browserId"], "--kind", "slot").stdout.splitlines()
    assert first.startswith(f"slot {lent['browserId']} is lent: Run {lent['run']} holds it")
    assert any(line.split() == ["pool", POOL] for line in rest)
    (lease,) = [line for line in rest if re.match(r"next  grant\.lapsed in 1\d min", line)]
    assert "Unless it is returned or renewed" in lease
    events = [line for line in rest if line.startswith("2")]
    assert [line.split()[1] for line in events] == ["grant.lent", "slot.published"]
    assert events[0].endswith("no ticket waited for it.")
    assert command.json("why", lent["browserId"], "--kind", "slot")["state"] == "lent"


def test_why_fails_for_an_unknown_id_and_calls_an_unknown_kind_wrong_usage(command: Command, lent):
    done = command("why", "nobody")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "hub: Nothing is known of a node or a slot or a ticket or a run nobody.\n"
    assert command("why", lent["run"], "--kind", "node").returncode == 1
    for words in (("why",), ("why", "x", "--kind", "pool"), ("events", "--kind", "x"), ("events", "--limit", "0")):
        done = command(*words)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), words


def test_events_are_shown_oldest_first_and_filtered_by_their_subject(command: Command, lent):
    done = command("events", "--node", lent["node"])
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split()[1] for line in done.stdout.splitlines()] == [
        "node.registered", "slot.published", "slot.published", "grant.lent",
    ]  # fmt: skip
    found = command.json("events", "--run", lent["run"])["events"]
    assert [(event["event"], event["slot"]) for event in found] == [("grant.lent", lent["browserId"])]
    assert command("events", "--run", "nobody").stdout == "No events.\n"


def test_events_are_followed_until_the_command_is_stopped(command: Command, shared_hub):
    plain = command.start("events", "--follow", "--node", "why-late")
    as_json = command.start("events", "--follow", "--json", "--node", "why-late")
    register(shared_hub, "why-late")
    leave(shared_hub, "why-late")
    for running in (plain, as_json):
        running.until_out("node.left")
        running.signal(signal.SIGINT)
        assert (running.end(), running.err) == (0, "")
    assert [line.split()[1] for line in plain.out.splitlines()] == ["node.registered", "node.left"]
    assert [json.loads(line)["event"] for line in as_json.out.splitlines()] == ["node.registered", "node.left"]


def test_following_shows_events_that_happen_between_the_list_and_the_stream(
    command: Command, shared_hub, monkeypatch, capsys
):
    """Nothing is known of the node yet, so no event of its own says where the stream is to go on."""
    follow, put = history._follow, history._put

    async def late(*where: Any) -> None:
        await asyncio.to_thread(register, shared_hub, "why-between")
        await asyncio.to_thread(leave, shared_hub, "why-between")
        asyncio.get_running_loop().call_later(PATIENCE_S, signal.raise_signal, signal.SIGINT)
        await follow(*where)

    def until_it_left(event: dict[str, Any], as_json: bool) -> None:
        put(event, as_json)
        if event["event"] == "node.left":
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(history, "_follow", late)
    monkeypatch.setattr(history, "_put", until_it_left)
    for name, value in command.environment.items():
        monkeypatch.setenv(name, value)
    assert main(["events", "--follow", "--json", "--node", "why-between"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["event"] for line in shown] == ["node.registered", "node.left"]


def test_without_a_hub_events_are_read_from_redis_and_cannot_be_followed(lone_command: Command, shared_hub, lent):
    lone_command.environment.pop("HUB_URL")
    lone_command.environment |= {"HUB_REDIS_URL": shared_hub.redis_url, "HUB_URL": "http://127.0.0.1:9"}
    found = lone_command("why", lent["node"], "--kind", "node")
    assert (found.returncode, found.stdout.split()[:2]) == (0, ["node", lent["node"]])
    assert "straight on Redis" in found.stderr
    assert "node.registered" in lone_command("events", "--node", lent["node"]).stdout
    done = lone_command("events", "--follow")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "only a running hub can be followed" in done.stderr
