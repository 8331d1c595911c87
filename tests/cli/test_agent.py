"""`hub agent`: a machine, or the life of a command, as a node."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.cli.command import Command, alive, leave
from tests.world import PATIENCE_S, HubProcess, wait_until


@pytest.fixture
def own_hub(start_hub) -> HubProcess:
    """A hub that the test may kill, and whose nodes beat several times a second."""
    return start_hub()


@pytest.fixture(autouse=True)
def tidy(shared_hub: HubProcess, command: Command) -> Iterator[None]:
    """Takes away the nodes of agents that could not leave."""
    yield
    command.close()
    for node in httpx.get(f"{shared_hub.url}/nodes", timeout=PATIENCE_S).json():
        leave(shared_hub, node)


def node_ids(command: Command) -> list[str]:
    return [node["nodeId"] for node in command.ask("/nodes?detail=1")["nodes"]]


def test_an_agent_registers_its_machine_with_its_facts_and_leaves_on_sigterm(command: Command):
    words = "--slots gpu:a100=2 --slots licence:catia=1 --label region=eu --label os=linux --base-url http://n1:9000"
    agent = command.start("agent", "--node", "n1", *words.split())
    agent.until_err("announced")
    node = command.ask("/nodes/n1")
    slots = sorted((slot["browserId"], slot["labelKey"]) for slot in node["slotList"])
    assert slots == [
        ("n1-gpu.a100-1", "gpu:a100"),
        ("n1-gpu.a100-2", "gpu:a100"),
        ("n1-licence.catia-1", "licence:catia"),
    ]
    assert (node["labels"], node["baseUrl"], node["capacity"]) == ({"region": "eu", "os": "linux"}, "http://n1:9000", 3)
    agent.signal(signal.SIGTERM)
    assert agent.end() == 0
    assert (node_ids(command), command.ask("/pools")["total"]) == ([], 0)


@pytest.mark.parametrize(
    ("environment", "expected"), [({"HUB_NODE_ID": "rack-7"}, "rack-7"), ({}, None)], ids=["HUB_NODE_ID", "host name"]
)
def test_a_node_without_a_name_takes_one_from_its_environment(environment, expected, command: Command):
    agent = command.start("agent", "--slots", "gpu:a100=1", **environment)
    agent.until_err("announced")
    assert node_ids(command) == [expected or socket.gethostname()]


def test_an_agent_keeps_its_node_alive_and_registers_it_again_when_the_hub_forgot_it(own_command: Command, own_hub):
    own_command.start("agent", "--node", "n1", "--slots", "gpu:a100=2").until_err("announced")
    own_hub.redis.flushall()
    wait_until(lambda: [node["slots"] for node in own_command.ask("/nodes?detail=1")["nodes"]] == [2])


def test_an_agent_waits_for_a_hub_that_has_not_started(own_command: Command, own_hub: HubProcess, start_hub):
    own_hub.kill()
    agent = own_command.start("agent", "--node", "n1", "--slots", "gpu:a100=1")
    agent.until_err("goes on trying")
    start_hub(HUB_PORT=str(own_hub.port))
    agent.until_err("announced")
    assert node_ids(own_command) == ["n1"]


def test_an_agent_that_waits_for_a_hub_can_be_stopped(own_command: Command, own_hub: HubProcess):
    own_hub.kill()
    agent = own_command.start("agent", "--node", "n1")
    agent.until_err("goes on trying")
    agent.signal(signal.SIGINT)
    assert agent.end() == 0
    assert "Traceback" not in agent.err
    assert " announced " not in agent.err


def test_an_agent_with_a_wrong_secret_ends(command: Command):
    done = command("agent", "--node", "n1", "--secret", "wrong")
    assert (done.returncode, done.stdout) == (1, "")
    assert "HUB_NODE_SECRET" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_an_agent_whose_secret_is_refused_later_ends_with_its_command(
    own_command: Command, own_hub, start_hub, tmp_path
):
    pid = tmp_path / "pid"
    agent = own_command.start("agent", "--node", "n1", "--", "sh", "-c", f"echo $$ > {pid}; exec sleep 100")
    agent.until_err("announced")
    wait_until(lambda: pid.exists() and pid.read_text().strip() != "")
    own_hub.kill()
    start_hub(HUB_PORT=str(own_hub.port), HUB_NODE_SECRET="another")
    assert agent.end() == 1
    assert not alive(int(pid.read_text()))
    assert "Traceback" not in agent.err


def test_an_agent_ends_with_its_command_and_with_the_same_exit_code(command: Command, tmp_path: Path):
    script = f'echo "I am $HUB_NODE_ID"; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done; exit 5'
    agent = command.start("agent", "--node", "n1", "--slots", "gpu:a100=1", "--", "sh", "-c", script)
    agent.until_err("announced")
    assert node_ids(command) == ["n1"]
    (tmp_path / "go").touch()
    assert (agent.end(), agent.out) == (5, "I am n1\n")
    assert node_ids(command) == []


def test_on_sigterm_the_agent_passes_the_signal_on_and_leaves_when_its_command_has_ended(
    command: Command, tmp_path: Path
):
    script = f"trap 'echo told > {tmp_path}/told; exit 4' TERM; echo up; while :; do sleep 0.02; done"
    agent = command.start("agent", "--node", "n1", "--", "sh", "-c", script)
    agent.until_out("up")
    agent.until_err("announced")
    agent.signal(signal.SIGTERM)
    assert (agent.end(), (tmp_path / "told").read_text()) == (4, "told\n")
    assert node_ids(command) == []


def test_the_command_of_an_agent_runs_although_no_hub_answers(own_command: Command, own_hub: HubProcess):
    own_hub.kill()
    done = own_command("agent", "--node", "n1", "--", "sh", "-c", "echo ran; exit 6")
    assert (done.returncode, done.stdout) == (6, "ran\n")


def test_an_agent_joins_and_drains_its_node_with_a_token_of_its_own(
    shared_hub: HubProcess, command: Command, tmp_path: Path
):
    join = command("token", "create", "--join", "fleet")
    assert (join.returncode, "of nodes that join: fleet" in join.stderr) == (0, True)
    (tmp_path / "join").write_text(join.stdout)
    files = ["--join-token-file", str(tmp_path / "join"), "--token-file", str(tmp_path / "token")]
    agent = command.start("agent", "--node", "rack-7", *files, "--slots", "gpu:a100=1", HUB_NODE_SECRET="")
    agent.until_err("announced")
    another = ["--join-token-file", str(tmp_path / "join"), "--token-file", str(tmp_path / "another")]
    cloned = command("agent", "--node", "rack-7", *another, HUB_NODE_SECRET="")
    assert (cloned.returncode, "rack-7" in cloned.stderr.splitlines()[-1]) == (76, True), cloned.stderr
    own = (tmp_path / "token").read_text().strip()
    only = {"HUB_ADMIN_SECRET": own, "HUB_RUNNER_SECRET": "", "HUB_NODE_SECRET": ""}
    done = command("drain", "rack-7", "--wait", **only)
    assert (done.returncode, "safe to kill" in done.stdout) == (0, True), done.stderr
    refused = command("drain", "rack-8", **only)
    assert (refused.returncode, "rack-7" in refused.stderr) == (1, True), refused.stderr
    agent.signal(signal.SIGTERM)
    assert agent.end() == 0
    command("token", "revoke", *[each["id"] for each in command.json("token", "ls")["tokens"]])


ELSEWHERE = "import hub.client.state as state; state.gethostname = lambda: 'rack-8'"


def test_of_two_machines_with_one_node_id_the_second_ends_and_the_first_goes_on(own_command: Command):
    """When neither named its machine, they took turns for ever: each ended the other as soon as it was started."""
    first = own_command.start("agent", "--node", "n1", "--slots", "gpu:a100=1")
    first.until_err("announced")
    second = own_command.start("agent", "--node", "n1", "--slots", "gpu:a100=1", before=ELSEWHERE)
    assert second.end() == 76, second.err
    assert socket.gethostname() in second.err.splitlines()[-1]
    assert first.process.poll() is None, first.err
    assert [slot["browserId"] for slot in own_command.ask("/nodes/n1")["slotList"]] == ["n1-gpu.a100-1"]
    first.signal(signal.SIGTERM)
    assert first.end() == 0
    third = own_command.start("agent", "--node", "n1", before=ELSEWHERE)
    third.until_err("announced")  # the node that left is free for another machine


def test_an_agent_on_the_same_machine_takes_over_and_the_older_one_ends(own_command: Command):
    old = own_command.start("agent", "--node", "n1")
    old.until_err("announced")
    own_command.start("agent", "--node", "n1").until_err("announced")
    assert old.end() == 76
    assert "another process is node n1 by now" in old.err.splitlines()[-1]


def test_fresh_slots_are_refused_without_a_fleet_file_that_makes_them_fresh(lone_command: Command):
    done = lone_command("agent", "--slots", "gpu:a100=1", "--policy", "fresh")
    sentence = "--policy fresh needs a program that makes a slot fresh: name it in a fleet file, --fleet FILE."
    assert (done.returncode, done.stderr) == (2, f"hub: {sentence}\n")


def test_a_machine_that_was_switched_off_without_a_word_loses_its_node_id_to_another_one(own_command: Command):
    """A reboot makes the same machine another one for the hub, too."""
    first = own_command.start("agent", "--node", "n1", "--slots", "gpu:a100=1")
    first.until_err("announced")
    first.kill()
    second = own_command.start("agent", "--node", "n1", "--slots", "gpu:a100=1", before=ELSEWHERE)
    second.until_err("announced")
    assert node_ids(own_command) == ["n1"]
    assert second.process.poll() is None
