"""`hub agent --fleet` as a command: its trial, its file read again, and addresses of plain slots."""

from __future__ import annotations

import signal
import socket

from tests.fleet.conftest import NODE, SERVERS, Machine, told
from tests.world import wait_until

SLEEPERS = '[[pools]]\nlabel = "worker:sleeper"\ndriver = "process"\ncommand = ["sleep", "1000"]\ncount = COUNT\n'


def reread(machine: Machine, text: str) -> None:
    machine.write(text)
    machine.command.started[-1].signal(signal.SIGHUP)


def test_a_trial_starts_checks_and_stops_each_slot_and_names_what_fails(machine: Machine):
    machine.write(
        SERVERS.replace("COUNT", "1")
        + '[[pools]]\nlabel = "dev:x"\ndriver = "command"\nitems = ["a", "b"]\n'
        + 'start = ["sh", "-c", "test {item} = a || { echo no device {item} >&2; exit 3; }"]\n'
    )
    done = machine.command(
        "agent", "--node", "n1", "--fleet", str(machine.file), "--check", HUB_URL="http://127.0.0.1:1"
    )
    rows = [line.split() for line in done.stdout.splitlines()]
    assert done.returncode == 1
    assert [row[:2] for row in rows[1:]] == [
        ["n1-web.small-1", "process"],
        ["n1-dev.x-a", "command"],
        ["n1-dev.x-b", "command"],
    ]
    assert rows[3][2] == "failed"
    assert "the program ended with status 3: no device b" in done.stdout
    machine.until_nothing_is_left()
    machine.write(SERVERS.replace("COUNT", "1"))
    assert machine.command("agent", "--node", "n1", "--fleet", str(machine.file), "--check").returncode == 0


def test_a_bad_file_refuses_the_start_in_one_sentence(machine: Machine):
    machine.write(SLEEPERS.replace("COUNT", '"2"'))
    done = machine.command("agent", "--fleet", str(machine.file))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "hub: fleet.toml, line 5: count: input should be a valid integer.\n"


def test_a_file_that_is_read_again_adds_pools_and_takes_away_what_left_it_once_it_is_free(machine: Machine):
    machine.write(SERVERS.replace("COUNT", "2"))
    machine.begin()
    machine.until_lendable(2)
    lease = machine.borrow().json()
    reread(machine, SLEEPERS.replace("COUNT", "1"))
    wait_until(lambda: set(machine.slots()) == {lease["browserId"], f"{NODE}-worker.sleeper-1"}, why=machine.log)
    assert machine.slots()[lease["browserId"]]["state"] == "lent"
    assert told(lease)["slot"] == lease["browserId"]
    machine.give_back(lease)
    machine.until_lendable(1)
    assert list(machine.slots()) == [f"{NODE}-worker.sleeper-1"]
    wait_until(lambda: machine.programs(lease["browserId"]) == [])


def test_a_pool_that_grows_keeps_its_slots_and_one_that_changes_starts_them_anew(machine: Machine):
    machine.write(SLEEPERS.replace("COUNT", "1"))
    machine.begin()
    machine.until_lendable(1)
    (first,) = machine.programs()
    reread(machine, SLEEPERS.replace("COUNT", "2"))
    machine.until_lendable(2)
    assert first in machine.programs()
    reread(machine, SLEEPERS.replace("COUNT", "2").replace("1000", "2000"))
    wait_until(lambda: first not in machine.programs())
    machine.until_lendable(2)


def test_a_file_may_be_read_again_before_a_hub_answers(machine: Machine, start_hub):
    machine.write(SLEEPERS.replace("COUNT", "1"))
    machine.hub.kill()
    agent = machine.command.start("agent", "--node", NODE, "--fleet", str(machine.file))
    agent.until_err("node announcing")
    reread(machine, SLEEPERS.replace("COUNT", "2") + SLEEPERS.replace("COUNT", "1").replace("worker:", "other:"))
    agent.until_err("fleet file reloaded")
    start_hub(HUB_PORT=str(machine.hub.port))
    machine.until_lendable(3)
    assert len(machine.programs()) == 3


def test_a_file_with_a_mistake_is_told_and_the_fleet_stays_as_it_was(machine: Machine):
    machine.write(SLEEPERS.replace("COUNT", "1"))
    machine.begin()
    machine.until_lendable(1)
    before = machine.programs()
    reread(machine, SLEEPERS.replace("COUNT", "none"))
    machine.command.started[-1].until_err("fleet file not reloaded")
    assert machine.programs() == before
    machine.until_lendable(1)


def test_plain_slots_have_the_address_that_the_command_line_gives_them(machine: Machine):
    words = ["--node", "n1", "--slots", "gpu:a100=2", "--address", "ssh://{host}/{slot}?{index}"]
    machine.command.start("agent", *words).until_err("node announced")
    host = socket.gethostname()
    found = {machine.borrow("gpu:a100").json()["webSocketEndpoint"] for _ in range(2)}
    assert found == {f"ssh://{host}/n1-gpu.a100-1?0", f"ssh://{host}/n1-gpu.a100-2?1"}


def test_an_address_with_an_unknown_name_is_refused(machine: Machine):
    done = machine.command("agent", "--slots", "gpu:a100=2", "--address", "ssh://{hots}")
    assert done.returncode == 2
    assert "--address has an unknown name {hots}; did you mean '{host}'?" in done.stderr
