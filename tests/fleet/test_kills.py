"""Kills in the middle of a step of a driver: afterwards every slot is there, live and fresh, and nothing is left."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hub.processes import environments
from tests.fleet.conftest import NODE, SERVERS, Machine, told
from tests.world import HubProcess, RedisServer, wait_until

DEVICE = Path(__file__).with_name("device.py")
STEPS = ("start", "check", "recycle", "stop")
DEVICES = f"""
[[pools]]
label = "phone:fake"
driver = "command"
items = ["a", "b"]
start = ["{sys.executable}", "{DEVICE}", "start", "{{slot}}", "{{port}}"]
stop = ["{sys.executable}", "{DEVICE}", "stop", "{{slot}}", "{{port}}"]
check = {{ command = ["{sys.executable}", "{DEVICE}", "check", "{{slot}}", "{{port}}"], every = "1s", timeout = "20s" }}
recycle = {{ command = ["{sys.executable}", "{DEVICE}", "recycle", "{{slot}}", "{{port}}"] }}
address = "http://127.0.0.1:{{port}}"
"""


@pytest.fixture
def own_hub(own_redis: RedisServer, start_hub) -> HubProcess:
    return start_hub(HUB_REDIS_URL=own_redis.url)


@pytest.fixture
def phones(own_hub: HubProcess, tmp_path: Path) -> Iterator[Machine]:
    made = Machine(own_hub, tmp_path)
    gates = tmp_path / "gates"
    gates.mkdir()
    made.command.environment["TEST_GATES"] = str(gates)
    made.write(DEVICES)
    yield made
    made.close()


def bring_to(step: str, phones: Machine, gates: Path) -> None:
    """Have the agent be in the middle of a step of its driver."""
    phones.begin()
    if step != "start":
        phones.until_lendable(2)
    lease = phones.borrow("phone:fake").json() if step == "recycle" else {}
    (gates / step).touch()
    (gates / f"{step}.reached").unlink(missing_ok=True)
    if step == "recycle":
        phones.give_back(lease)
    if step == "stop":
        phones.write(DEVICES.replace('["a", "b"]', '["a"]'))
        phones.command.started[-1].signal(signal.SIGHUP)
    wait_until((gates / f"{step}.reached").exists, why=phones.log)


def killed_agent(phones: Machine, hub: HubProcess, redis: RedisServer, start_hub: Callable[..., HubProcess]) -> None:
    phones.command.started[-1].kill()
    phones.begin()


def killed_session(phones: Machine, hub: HubProcess, redis: RedisServer, start_hub: Callable[..., HubProcess]) -> None:
    agent = phones.command.started[-1]
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            if os.getsid(pid) == agent.process.pid:
                os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    agent.kill()
    phones.begin()


def killed_hub(phones: Machine, hub: HubProcess, redis: RedisServer, start_hub: Callable[..., HubProcess]) -> None:
    hub.kill()
    start_hub(HUB_REDIS_URL=redis.url, HUB_PORT=str(hub.port))


def killed_redis(phones: Machine, hub: HubProcess, redis: RedisServer, start_hub: Callable[..., HubProcess]) -> None:
    redis.kill()
    redis.start()


@pytest.mark.parametrize("kill", [killed_agent, killed_session, killed_hub, killed_redis])
@pytest.mark.parametrize("step", STEPS)
def test_after_a_kill_in_the_middle_of_a_step_all_slots_are_live_and_nothing_is_left(
    step, kill, phones: Machine, own_hub: HubProcess, own_redis: RedisServer, start_hub, tmp_path: Path
):
    gates = tmp_path / "gates"
    bring_to(step, phones, gates)
    before = phones.programs()
    kill(phones, own_hub, own_redis, start_hub)
    if kill in (killed_agent, killed_session):  # the new agent has ended all that the last one started
        assert set(before) & set(phones.programs()) == set()
    (gates / step).unlink()
    count = 1 if step == "stop" else 2
    for slot_id in phones.until_lendable(count):
        lease = phones.borrow("phone:fake").json()
        answer = told(lease)
        assert (answer["slot"], answer["words"]) == (lease["browserId"], []), slot_id
    assert (
        len({given["HUB_FLEET_RUN"] for pid, given in environments("HUB_FLEET_RUN") if pid in phones.programs()}) == 1
    )
    agent = phones.command.started[-1]
    agent.signal(signal.SIGTERM)
    assert agent.end() == 0
    phones.until_nothing_is_left()


@pytest.mark.parametrize("address", ['address = "adb://{host}/{item}"', ""], ids=["with an address", "without one"])
def test_a_lease_of_a_device_goes_on_when_its_agent_is_started_again(phones: Machine, address):
    """Lend a device, and no program of the agent."""
    phones.write(f'[[pools]]\nlabel = "phone:fake"\ndriver = "command"\nitems = ["a"]\n{address}\n')
    phones.begin()
    phones.until_lendable(1)
    lease = phones.borrow("phone:fake").json()
    phones.command.started[-1].kill()
    phones.begin()
    wait_until(lambda: "held" not in phones.slots()[lease["browserId"]])
    assert phones.slots()[lease["browserId"]]["state"] == "lent"
    phones.give_back(lease)
    phones.until_lendable(1)


def test_what_runs_ends_with_an_agent_that_is_killed(machine: Machine):
    machine.write(SERVERS.replace("COUNT", "3"))
    agent = machine.begin()
    machine.until_lendable(3)
    assert len(machine.programs()) == 3
    agent.kill()
    wait_until(lambda: machine.programs() == [])


@pytest.mark.parametrize("temporary", ["t", "another"])
def test_a_new_agent_leaves_alone_what_another_one_that_lives_has_started(machine: Machine, tmp_path: Path, temporary):
    """The sweep must not end what an agent still lends, also when both have one node id."""
    machine.write(SERVERS.replace("COUNT", "2"))
    machine.begin()
    machine.until_lendable(2)
    before = set(machine.programs())
    (tmp_path / temporary).mkdir(exist_ok=True)
    words = ["agent", "--node", NODE, "--fleet", str(machine.file), "--check"]
    done = machine.command(*words, TMPDIR=str(tmp_path / temporary))
    assert done.returncode == 0, done.stderr
    assert set(machine.programs()) == before
