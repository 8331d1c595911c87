"""`hub agent`: a machine, or the life of a command, as a node."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.cli.command import Command, alive
from tests.world import HubProcess, wait_until


def node_ids(command: Command) -> list[str]:
    return [node["nodeId"] for node in command.json("nodes")["nodes"]]


def test_a_machine_is_announced_with_its_facts_and_leaves_on_sigterm(command: Command):
    words = "--slots gpu:a100=2 --slots licence:catia=1 --label region=eu --label os=linux --base-url http://n1:9000"
    agent = command.start("agent", "--node", "n1", *words.split())
    agent.until_err("announced")
    node = command.json("nodes", "n1")
    slots = sorted((slot["browserId"], slot["labelKey"]) for slot in node["slotList"])
    assert slots == [
        ("n1-gpu.a100-1", "gpu:a100"),
        ("n1-gpu.a100-2", "gpu:a100"),
        ("n1-licence.catia-1", "licence:catia"),
    ]
    assert (node["labels"], node["baseUrl"], node["capacity"]) == ({"region": "eu", "os": "linux"}, "http://n1:9000", 3)
    agent.signal(signal.SIGTERM)
    assert agent.end() == 0
    assert (node_ids(command), command.json("pools")["total"]) == ([], 0)


@pytest.mark.parametrize(
    ("environment", "expected"), [({"HUB_NODE_ID": "rack-7"}, "rack-7"), ({}, None)], ids=["HUB_NODE_ID", "host name"]
)
def test_a_node_without_a_name_gets_one_from_its_surroundings(environment, expected, command: Command):
    import socket

    agent = command.start("agent", "--slots", "gpu:a100=1", **environment)
    agent.until_err("announced")
    assert node_ids(command) == [expected or socket.gethostname()]


def test_a_machine_is_kept_alive_and_announced_again_when_the_hub_has_forgotten_it(command: Command, live_hub):
    command.start("agent", "--node", "n1", "--slots", "gpu:a100=2").until_err("announced")
    live_hub.redis.flushall()
    wait_until(lambda: [node["slots"] for node in command.json("nodes")["nodes"]] == [2])


def test_an_agent_waits_for_a_hub_that_is_not_there_yet(command: Command, live_hub: HubProcess, start_hub):
    live_hub.kill()
    agent = command.start("agent", "--node", "n1", "--slots", "gpu:a100=1")
    agent.until_err("goes on trying")
    start_hub(HUB_PORT=str(live_hub.port))
    agent.until_err("announced")
    assert node_ids(command) == ["n1"]


def test_an_agent_that_waits_for_a_hub_can_be_stopped(command: Command, live_hub: HubProcess):
    live_hub.kill()
    agent = command.start("agent", "--node", "n1")
    agent.until_err("goes on trying")
    agent.signal(signal.SIGINT)
    assert agent.end() == 0
    assert "Traceback" not in agent.err
    assert " announced " not in agent.err


def test_a_refused_secret_ends_the_agent(command: Command):
    done = command("agent", "--node", "n1", "--secret", "wrong")
    assert (done.returncode, done.stdout) == (1, "")
    assert "HUB_NODE_SECRET" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_a_secret_refused_later_on_ends_the_agent_and_its_command(command: Command, live_hub, start_hub, tmp_path):
    pid = tmp_path / "pid"
    agent = command.start("agent", "--node", "n1", "--", "sh", "-c", f"echo $$ > {pid}; exec sleep 100")
    agent.until_err("announced")
    live_hub.kill()
    start_hub(HUB_PORT=str(live_hub.port), HUB_NODE_SECRET="another")
    assert agent.end() == 1
    assert not alive(int(pid.read_text()))
    assert "Traceback" not in agent.err


def test_an_agent_lives_as_long_as_its_command_and_ends_with_its_code(command: Command, tmp_path: Path):
    script = f'echo "I am $HUB_NODE_ID"; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done; exit 5'
    agent = command.start("agent", "--node", "n1", "--slots", "gpu:a100=1", "--", "sh", "-c", script)
    agent.until_err("announced")
    assert node_ids(command) == ["n1"]
    (tmp_path / "go").touch()
    assert (agent.end(), agent.out) == (5, "I am n1\n")
    assert node_ids(command) == []


def test_sigterm_goes_to_the_command_and_the_node_leaves_when_that_has_ended(command: Command, tmp_path: Path):
    script = f"trap 'echo told > {tmp_path}/told; exit 4' TERM; echo up; while :; do sleep 0.02; done"
    agent = command.start("agent", "--node", "n1", "--", "sh", "-c", script)
    agent.until_out("up")
    agent.until_err("announced")
    agent.signal(signal.SIGTERM)
    assert (agent.end(), (tmp_path / "told").read_text()) == (4, "told\n")
    assert node_ids(command) == []


def test_a_command_that_cannot_be_refused_a_hub_runs_without_one(command: Command, live_hub: HubProcess):
    live_hub.kill()
    done = command("agent", "--node", "n1", "--", "sh", "-c", "echo ran; exit 6")
    assert (done.returncode, done.stdout) == (6, "ran\n")
