"""`hub borrow --detach` and `hub return`: a slot is held in the background, and nothing of that is left afterwards."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Command, alive, register
from tests.cli.terminal import Terminal
from tests.world import PATIENCE_S, HubProcess, wait_until

NODE = {"slots": [{"labelKey": "gpu:a100", "slotId": "s1", "endpoint": "ws://n1/s1", "attributes": {"index": 3}}]}


@pytest.fixture(autouse=True)
def node(announce: Callable[..., None]) -> None:
    """A node with one slot in the shared hub."""
    announce("n1", **NODE)


@pytest.fixture
def command(command: Command, tmp_path: Path) -> Iterator[Command]:
    """The command with a folder of its own for what it keeps of slots in the background; their keepers are ended."""
    command.environment["XDG_RUNTIME_DIR"] = str(tmp_path)
    yield command
    for record in records(tmp_path):
        with suppress(FileNotFoundError):  # its keeper has ended meanwhile
            if alive(keeper := json.loads(record.read_text())["keeper"]):
                os.kill(keeper, signal.SIGKILL)


def records(tmp_path: Path) -> list[Path]:
    return list((tmp_path / f"capacity-hub-{os.getuid()}").glob("*"))


def sessions(command: Command) -> list[str]:
    return [each["browserId"] for each in command.ask("/sessions")["sessions"]]


def detach(command: Command, *words: str, ttl: str = "60") -> dict[str, Any]:
    """Hold a slot in the background, and return what is printed of it."""
    found: dict[str, Any] = command.json("borrow", "gpu:a100", "--detach", "--ttl", ttl, *words)
    assert alive(found["keeper"])
    return found


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def risen(left: list[float]) -> int:
    return sum(before < after for before, after in pairwise(left))


def test_a_slot_is_held_after_the_command_has_ended_until_it_is_returned_by_its_id(command: Command, tmp_path: Path):
    slot = detach(command, ttl="0.5")
    assert (slot["slotId"], "HUB_SLOT_INDEX=3" in slot["environment"]) == ("s1", True)
    assert os.getsid(slot["keeper"]) == slot["keeper"]
    left = [0.5]
    wait_until(lambda: left.append(command.ask("/sessions/s1")["secondsLeft"]) or risen(left) > 2)  # it is renewed
    assert [path.stat().st_mode & 0o777 for path in (records(tmp_path)[0].parent,)] == [0o700]
    done = command("return", "s1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "s1 is given back.\n", "")
    assert sessions(command) == []
    wait_until(lambda: not alive(slot["keeper"]))
    assert records(tmp_path) == []
    again = command("return", "s1")
    assert (again.returncode, again.stderr) == (1, "hub: The slot s1 is not lent.\n")


def test_the_keeper_lets_go_of_the_pipes_and_files_of_its_caller(command: Command, tmp_path: Path):
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        words = [sys.executable, "-m", "hub.cli", "borrow", "gpu:a100", "--detach"]
        how: dict[str, Any] = {"pass_fds": [lock.fileno()], "timeout": PATIENCE_S, "text": True}
        done = subprocess.run(words, env=command.environment, capture_output=True, check=True, **how)
    assert "renewed until hub return s1\n" in done.stdout
    (record,) = records(tmp_path)
    keeper = json.loads(record.read_text())["keeper"]
    opened = {os.readlink(path) for path in Path(f"/proc/{keeper}/fd").iterdir()}
    assert not {name for name in opened if name.startswith("pipe:") or name.endswith("/lock")}, opened
    with (tmp_path / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert command("return", "s1").returncode == 0


def test_the_keeper_outlives_the_terminal(command: Command, terminal: Callable[..., Terminal], tmp_path: Path):
    front = terminal(command, "borrow", "gpu:a100", "--detach")
    front.until("KEEPER")
    assert front.end() == 0
    front.hang_up()
    (record,) = records(tmp_path)
    assert alive(json.loads(record.read_text())["keeper"])
    assert command("return", "s1").stdout == "s1 is given back.\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_to_the_keeper_gives_the_slot_back(number: signal.Signals, command: Command, tmp_path: Path):
    slot = detach(command)
    os.kill(slot["keeper"], number)
    wait_until(lambda: not alive(slot["keeper"]))
    assert (sessions(command), records(tmp_path)) == ([], [])


def test_the_lease_of_a_killed_keeper_lapses(command: Command):
    slot = detach(command, ttl="0.5")
    os.kill(slot["keeper"], signal.SIGKILL)
    wait_until(lambda: sessions(command) == [])


def test_a_slot_whose_keeper_was_killed_is_returned_and_its_record_does_not_touch_a_later_lease(
    command: Command, tmp_path: Path
):
    slot = detach(command)
    os.kill(slot["keeper"], signal.SIGKILL)
    (record,) = records(tmp_path)
    kept = record.read_text()
    assert command("return", "s1").stdout == "s1 is given back.\n"
    assert records(tmp_path) == []
    command.start("borrow", "gpu:a100").until_out("TOKEN")
    record.write_text(kept)
    late = command("return", "s1")
    assert (late.returncode, late.stdout.startswith("s1: ")) == (0, True)
    assert (sessions(command), records(tmp_path)) == (["s1"], [])


def test_a_keeper_whose_lease_an_operator_ended_ends(command: Command, tmp_path: Path):
    slot = detach(command)
    assert command("return", "s1", "--force", "--reason", "a test").stdout == "s1 is given back.\n"
    wait_until(lambda: not alive(slot["keeper"]))
    assert records(tmp_path) == []


def test_the_token_of_another_lease_ends_no_keeper(command: Command):
    slot = detach(command)
    assert command("return", "s1", "--label", "gpu:a100", "--token", "1").returncode == 0
    assert (sessions(command), alive(slot["keeper"])) == (["s1"], True)
    assert command("return", "s1", "--token", slot["lease"]["token"]).stdout == "s1 is given back.\n"
    wait_until(lambda: not alive(slot["keeper"]))


def test_a_refused_return_leaves_the_slot_with_its_keeper(own_command: Command, own_hub: HubProcess, tmp_path: Path):
    own_command.environment["XDG_RUNTIME_DIR"] = str(tmp_path)
    register(own_hub, "n1", **NODE)
    ann, bob = (own_command.json("token", "create", "--user", user)["token"] for user in ("ann", "bob"))
    as_ann, as_bob = ({"HUB_RUNNER_SECRET": "", "HUB_ADMIN_SECRET": "", "HUB_TOKEN": token} for token in (ann, bob))
    borrowed = own_command("borrow", "gpu:a100", "--detach", "--ttl", "600", **as_ann)
    assert borrowed.returncode == 0, borrowed.stderr
    (record,) = records(tmp_path)
    keeper = json.loads(record.read_text())["keeper"]
    for refused in (
        own_command("return", "s1", HUB_RUNNER_SECRET="wrong"),
        own_command("return", "s1", HUB_RUNNER_SECRET=own_hub.admin_secret),
        own_command("return", "s1", **as_bob),
        own_command("return", "s1", "--token", record.suffix[1:], **as_bob),
        own_command("return", "s1", "--run", "another", **as_ann),
    ):
        assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1), refused
        assert (sessions(own_command), alive(keeper), records(tmp_path)) == (["s1"], True, [record]), refused
    assert own_command("return", "s1", **as_ann).stdout == "s1 is given back.\n"
    wait_until(lambda: not alive(keeper))
    assert (sessions(own_command), records(tmp_path)) == ([], [])


def test_a_return_of_a_lease_that_is_over_ends_its_keeper(command: Command, tmp_path: Path):
    slot = detach(command)
    os.kill(slot["keeper"], signal.SIGSTOP)  # it does not hear of the end
    try:
        assert command("return", "s1", "--force", "--reason", "a test").stdout == "s1 is given back.\n"
        assert (alive(slot["keeper"]), len(records(tmp_path))) == (True, 1)
        late = command("return", "s1")
        assert (late.returncode, late.stdout) == (0, "s1: already returned.\n")
        assert records(tmp_path) == []
    finally:
        os.kill(slot["keeper"], signal.SIGCONT)
    wait_until(lambda: not alive(slot["keeper"]))


def test_a_return_that_no_hub_answers_is_delivered_by_the_keeper_when_one_does(
    own_command: Command, own_hub: HubProcess, start_hub: Callable[..., HubProcess], tmp_path: Path
):
    own_command.environment["XDG_RUNTIME_DIR"] = str(tmp_path)
    register(own_hub, "n1", **NODE)
    slot = own_command.json("borrow", "gpu:a100", "--detach", "--ttl", "600")
    own_hub.kill()
    done = own_command("return", "s1")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    start_hub(HUB_NODE_TIMEOUT="600", HUB_PORT=str(own_hub.port))
    wait_until(lambda: not alive(slot["keeper"]))
    assert (sessions(own_command), records(tmp_path)) == ([], [])


def test_a_borrow_that_gets_no_slot_leaves_no_keeper(command: Command, tmp_path: Path):
    slot = detach(command)
    refused = command("borrow", "gpu:a100", "--detach", "--exit-code-on-refusal", "9")
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (9, "", 1)
    assert len(records(tmp_path)) == 1
    waiting = command.start("borrow", "gpu:a100", "--detach", "--wait", "60")
    waiting.until_err("number 1 in the queue")
    (keeper,) = children(waiting.process.pid)
    waiting.signal(signal.SIGINT)
    assert waiting.end() == 1
    assert waiting.err.endswith("hub: Interrupted before a slot of gpu:a100 was lent.\n")
    assert not alive(keeper)
    assert command.ask("/queue")["waiting"] == 0
    assert sessions(command) == [slot["slotId"]]


def test_a_slot_that_comes_after_the_command_was_killed_is_given_back(command: Command, tmp_path: Path):
    detach(command)
    waiting = command.start("borrow", "gpu:a100", "--detach", "--wait", "60")
    waiting.until_err("number 1 in the queue")
    (keeper,) = children(waiting.process.pid)
    waiting.kill()
    assert command("return", "s1").returncode == 0
    wait_until(lambda: not alive(keeper))
    assert (sessions(command), records(tmp_path)) == ([], [])


def test_a_folder_that_others_can_reach_is_refused_and_the_slot_is_given_back(command: Command, tmp_path: Path):
    folder = tmp_path / f"capacity-hub-{os.getuid()}"
    folder.mkdir(mode=0o755)
    done = command("borrow", "gpu:a100", "--detach")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"hub: The record of a slot is not kept in {folder}: others could reach it there.\n"
    assert sessions(command) == []
    elsewhere = command("borrow", "gpu:a100", "--detach", XDG_RUNTIME_DIR=str(tmp_path / "none"))
    assert (elsewhere.returncode, elsewhere.stderr.count("\n"), sessions(command)) == (1, 1, [])
