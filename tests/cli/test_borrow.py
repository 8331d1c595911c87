"""`hub borrow` and `hub return`: the slot is held, handed to a command, given back, and let go of in time."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hub import processes
from hub.cli import child, lent
from hub.cli.child import Signals
from hub.client import Slot
from hub.client.exchange import HubAnswer
from hub.retries import now_s
from tests.cli.command import Command, alive, register
from tests.contract.names import old_names
from tests.world import PATIENCE_S, SLACK_S, HubProcess, eventually, wait_until

TABLE = "import os, json; print(json.dumps({k: v for k, v in os.environ.items() if k.startswith('HUB_')}))"
# Prints its process id and then ignores signals.
STUBBORN = "trap '' TERM INT; echo $$ > {file}; while :; do sleep 0.05; done"


NODE = {"slots": [{"labelKey": "gpu:a100", "slotId": "s1", "endpoint": "ws://n1/s1"}]}


@pytest.fixture(autouse=True)
def node(announce: Callable[..., None]) -> None:
    """A node with one slot; nothing but the borrower decides about it."""
    announce("n1", **NODE)


def sessions(command: Command) -> list[dict[str, Any]]:
    return command.ask("/sessions")["sessions"]


def test_a_command_gets_the_slot_in_its_environment_and_its_exit_code_is_returned(command: Command):
    done = command("borrow", "gpu:a100", "--run", "r7", "--", "sh", "-c", f'python3 -c "{TABLE}"; exit 7')
    seen = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (7, "")
    assert int(seen.pop("HUB_LEASE_TOKEN")) > 0
    assert {name: seen[name] for name in seen if name.startswith(("HUB_SLOT_", "HUB_RUN_ID"))} == {
        "HUB_SLOT_ID": "s1",
        "HUB_SLOT_IDS": "s1",
        "HUB_SLOT_ENDPOINT": "ws://n1/s1",
        "HUB_SLOT_LABEL": "gpu:a100",
        "HUB_SLOT_POOL": "gpu:a100",
        "HUB_SLOT_NODE": "n1",
        "HUB_RUN_ID": "r7",
    }
    assert sessions(command) == []


def test_the_exit_code_of_a_command_ended_by_a_signal_is_128_plus_the_signal(command: Command):
    assert command("borrow", "gpu:a100", "--", "sh", "-c", "kill -9 $$").returncode == 128 + 9


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
def test_a_borrow_without_a_command_holds_its_slot_until_a_signal(number, command: Command):
    held = command.start("borrow", "gpu:a100", "--json")
    held.until_out("}\n")
    slot = json.loads(held.out)
    assert (slot["slotId"], slot["address"], slot["pool"]) == ("s1", "ws://n1/s1", "gpu:a100")
    assert old_names(slot) == []
    assert slot["lease"]["ttlSeconds"] > 0
    assert [session["browserId"] for session in sessions(command)] == ["s1"]
    held.signal(number)
    assert (held.end(), held.err) == (0, "hub: s1 is given back.\n")
    assert sessions(command) == []


def test_a_held_slot_is_renewed_for_longer_than_its_lease(command: Command):
    held = command.start("borrow", "gpu:a100", "--ttl", "10")
    held.until_out("TOKEN")
    first = sessions(command)[0]["borrowedAtUtc"]
    time.sleep(15)  # a lease and a half
    assert [session["borrowedAtUtc"] for session in sessions(command)] == [first]


def test_a_borrow_without_wait_is_refused_at_once_and_one_with_wait_after_it(command: Command):
    held = command.start("borrow", "gpu:a100")
    held.until_out("TOKEN")
    refused = command("borrow", "gpu:a100", "--", "true")
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (75, "", 1)
    chosen = command("borrow", "gpu:a100", "--exit-code-on-refusal", "9", "--wait", "0.1", "--", "true")
    assert (chosen.returncode, chosen.stdout, chosen.stderr.count("\n")) == (9, "", 1)
    waiting = command.start("borrow", "gpu:a100", "--wait", "30", "--", "echo", "got it")
    held.signal(signal.SIGTERM)
    assert (waiting.end(), waiting.out) == (0, "got it\n")


def test_a_refused_borrow_names_the_secret_that_was_shown_and_the_one_that_is_needed(command: Command):
    done = command("borrow", "gpu:a100", "--", "true", HUB_RUNNER_SECRET="wrong")
    assert (done.returncode, done.stdout) == (77, "")
    assert "refuses the secret, which is from HUB_RUNNER_SECRET" in done.stderr
    assert "borrowing and returning needs HUB_RUNNER_SECRET" in done.stderr
    done = command("drain", "n1", HUB_ADMIN_SECRET="", HUB_RUNNER_SECRET="")
    assert (done.returncode, done.stdout) == (1, "")
    assert "refuses a call without a secret" in done.stderr
    assert "needs HUB_ADMIN_SECRET" in done.stderr


def requests(hub: HubProcess) -> float:
    """Return how many calls have asked for the slot."""
    metrics = httpx.get(f"{hub.url}/metrics", timeout=PATIENCE_S).text
    return float(re.search(r'^hub_borrow_requests_total\{label="gpu:a100"\} (\S+)', metrics, re.MULTILINE)[1])


def test_a_waiting_borrow_can_be_interrupted(command: Command, shared_hub: HubProcess):
    command.start("borrow", "gpu:a100").until_out("TOKEN")
    before = requests(shared_hub)
    waiting = command.start("borrow", "gpu:a100", "--wait", "60")
    wait_until(lambda: requests(shared_hub) > before)
    waiting.signal(signal.SIGTERM)
    assert waiting.end() == 1
    assert waiting.err.endswith("hub: Interrupted before a slot of gpu:a100 was lent.\n")


def test_a_waiting_borrow_prints_each_position_once_and_nothing_when_quiet(command: Command):
    held = command.start("borrow", "gpu:a100")
    held.until_out("TOKEN")
    first = command.start("borrow", "gpu:a100", "--wait", "60", "--quiet")
    wait_until(lambda: command.ask("/queue")["waiting"] == 1)
    second = command.start("borrow", "gpu:a100", "--wait", "60", "--", "echo", "mine")
    second.until_err("hub: waiting for gpu:a100: number 2 in the queue, ")
    first.signal(signal.SIGTERM)
    second.until_err("hub: waiting for gpu:a100: number 1 in the queue, ")
    assert (first.end(), first.err) == (1, "hub: Interrupted before a slot of gpu:a100 was lent.\n")
    held.signal(signal.SIGTERM)
    assert (second.end(), second.out) == (0, "mine\n")
    assert [line.split(",")[0][-12:] for line in second.err.splitlines() if "waiting for" in line] == [
        "in the queue", "in the queue",
    ]  # fmt: skip


def test_a_signal_is_passed_to_the_command_and_the_slot_is_returned_when_it_ends(command: Command, tmp_path: Path):
    script = f"trap 'echo told >> {tmp_path}/told; exit 3' TERM; echo up; while :; do sleep 0.05; done"
    running = command.start("borrow", "gpu:a100", "--", "sh", "-c", script)
    running.until_out("up")
    running.signal(signal.SIGTERM)
    assert (running.end(), (tmp_path / "told").read_text()) == (3, "told\n")
    assert sessions(command) == []


@pytest.fixture
def adopts_orphans() -> Iterator[None]:
    """This process runs a command as `hub borrow` does, and must not go on taking in the orphans of later tests."""
    yield
    assert processes.libc is not None
    assert processes.libc.prctl(child._PR_SET_CHILD_SUBREAPER, 0) == 0


@pytest.mark.usefixtures("adopts_orphans")
async def test_a_signal_during_the_start_of_the_command_is_passed_to_the_command(monkeypatch, tmp_path: Path):
    start = asyncio.create_subprocess_exec

    async def slowly(*words: Any, **more: Any) -> asyncio.subprocess.Process:
        process = await start(*words, **more)
        await eventually(lambda: asyncio.sleep(0, (tmp_path / "up").exists()))
        signal.raise_signal(signal.SIGTERM)
        await asyncio.sleep(0.1)
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", slowly)
    script = f"trap 'exit 3' TERM; touch {tmp_path}/up; while :; do sleep 0.02; done"
    lease = {"browserId": "s1", "labelKey": "a:b", "leaseToken": "1", "ttlSeconds": 600}
    slot = Slot(HubAnswer(lease, {}, now_s()))
    with Signals(lambda _: held.cancel()) as signals:
        held = asyncio.ensure_future(lent.run(slot, ["sh", "-c", script], [], signals, signal_ending=False))
        assert await held == 3


def test_a_lost_hub_stops_the_command_before_the_lease_ends(own_command, own_hub, tmp_path: Path):
    register(own_hub, "n1", **NODE)
    pid = tmp_path / "pid"
    running = own_command.start("borrow", "gpu:a100", "--ttl", "8", "--", "sh", "-c", STUBBORN.format(file=pid))
    wait_until(lambda: pid.exists() and pid.read_text().strip() != "")
    own_hub.kill()
    last_renewed_before = time.monotonic()
    started = int(pid.read_text())
    wait_until(lambda: not alive(started))
    assert time.monotonic() < last_renewed_before + 8.0 + SLACK_S
    assert running.end() == 1
    assert "could not be renewed; stopping the command." in running.err
    assert running.err.splitlines()[-1].startswith("hub: slot s1 of gpu:a100 is lost: ")
    assert "Traceback" not in running.err


def test_a_command_that_ends_after_the_warning_is_not_killed_and_the_loss_is_printed(
    own_command, own_hub, tmp_path: Path
):
    register(own_hub, "n1", **NODE)
    script = f"trap 'echo put away > {tmp_path}/done; exit 0' TERM; echo up; while :; do sleep 0.02; done"
    running = own_command.start("borrow", "gpu:a100", "--ttl", "12", "--", "sh", "-c", script)
    running.until_out("up")
    own_hub.kill()
    assert running.end() == 1
    assert (tmp_path / "done").read_text() == "put away\n"
    assert "The lease of s1 could not be renewed, and the command was stopped." in running.err


def begin_to_hold(own_command, own_hub, tmp_path: Path) -> Any:
    """A command that has ended while the hub stood still, and could not give its slot back yet."""
    register(own_hub, "n1", **NODE)
    go = tmp_path / "go"
    script = f"echo up; while [ ! -e {go} ]; do sleep 0.02; done; exit 3"
    running = own_command.start("borrow", "gpu:a100", "--", "sh", "-c", script)
    running.until_out("up")
    own_hub.signal(signal.SIGSTOP)
    go.touch()
    running.until_err("waiting up to 30 s for the hub; Ctrl-C ends that.")
    return running


def test_a_slot_that_could_not_be_returned_is_returned_when_the_hub_goes_on(own_command, own_hub, tmp_path: Path):
    running = begin_to_hold(own_command, own_hub, tmp_path)
    own_hub.signal(signal.SIGCONT)
    assert running.end() == 3
    assert "could not return slot s1 yet (" in running.err
    assert sessions(own_command) == []


def test_a_signal_ends_the_wait_for_the_return_and_the_end_of_the_lease_is_printed(
    own_command, own_hub, tmp_path: Path
):
    running = begin_to_hold(own_command, own_hub, tmp_path)
    try:
        running.process.send_signal(signal.SIGTERM)
        assert running.end() == 3
    finally:
        own_hub.signal(signal.SIGCONT)
    assert re.search(r"could not return slot s1 \(no time is left\); it stays lent until \d\d:\d\d:\d\d", running.err)


def test_a_lease_ended_by_another_caller_stops_the_command(command: Command, tmp_path: Path):
    pid = tmp_path / "pid"
    running = command.start("borrow", "gpu:a100", "--ttl", "8", "--", "sh", "-c", STUBBORN.format(file=pid))
    wait_until(lambda: pid.exists() and pid.read_text().strip() != "")
    assert command("return", "s1", "--force", "--reason", "a test").stdout == "s1 is given back.\n"
    assert running.end() == 1
    assert not alive(int(pid.read_text()))
    assert "is lost" in running.err


def test_a_misspelt_label_is_reported_at_once_unless_the_borrow_waits_for_a_pool(command: Command):
    refused = command("borrow", "gpu:a10O", "--wait", "60", "--", "true")
    refusal = "hub: no pool serves gpu:a10O; did you mean gpu:a100? --wait-for-pool waits for what comes later.\n"
    assert (refused.returncode, refused.stdout, refused.stderr) == (75, "", refusal), "no code of the command's own"
    waited = command("borrow", "gpu:a10O", "--wait", "1", "--wait-for-pool", "--", "true")
    assert (waited.returncode, "did you mean gpu:a100?" in waited.stderr) == (75, True)
    assert "did you mean gpu:a100?" in command("autoscale", "gpu:a10O").stderr


def test_a_command_ends_when_its_borrow_process_is_killed(command: Command, tmp_path: Path):
    pid = tmp_path / "pid"
    running = command.start("borrow", "gpu:a100", "--", "sh", "-c", STUBBORN.format(file=pid))
    wait_until(lambda: pid.exists() and pid.read_text().strip() != "")
    running.kill()
    wait_until(lambda: not alive(int(pid.read_text())))


def test_a_slot_can_be_returned_by_name_by_label_or_by_token(command: Command):
    command.start("borrow", "gpu:a100").until_out("TOKEN")
    other = command("return", "s1", "--label", "gpu:a100", "--token", "1")
    assert (other.returncode, len(sessions(command))) == (0, 1)
    assert command("return", "s1", "--force", "--reason", "a test").stdout == "s1 is given back.\n"
    gone = command("return", "s1")
    assert (gone.returncode, gone.stderr) == (1, "hub: The slot s1 is not lent.\n")
    again = command("return", "s1", "--label", "gpu:a100", "--token", "1")
    assert (again.returncode, again.stdout) == (0, "s1: already returned.\n")


def test_a_return_to_a_store_that_was_just_lost_is_told_to_ask_again(own_command: Command):
    """A store that has just been opened anew: its nodes have the time of a timeout to say what of them is lent."""
    done = own_command("return", "s1", "--token", "1882637656915968002")
    assert done.returncode == 1
    assert done.stderr == (
        "hub: The store was lost, and hubs or the node of s1 have yet to say what is lent; ask again.\n"
    )
    assert own_command("return", "s1", "--token", "1").stderr == "hub: The slot s1 is not lent.\n"


def test_returning_the_slot_of_another_run_needs_force_and_a_reason(command: Command):
    command.start("borrow", "gpu:a100", "--run", "r7").until_out("TOKEN")
    refused = command("return", "s1")
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)
    assert re.search(r"The slot s1 is lent to \S+@\S+:hub for run r7 as gpu:a100, borrowed ", refused.stderr)
    assert "--force --reason TEXT" in refused.stderr
    other = command("return", "s1", "--run", "r8")
    assert (other.returncode, other.stderr) == (1, "hub: The slot s1 is not lent to run r8; nothing was changed.\n")
    assert len(sessions(command)) == 1
    for words in (["--force"], ["--reason", "x"], ["--force", "--reason", " "], ["--token", "1", "--run", "r7"]):
        assert command("return", "s1", *words).returncode == 2
    assert len(sessions(command)) == 1
    assert command.json("return", "s1", "--run", "r7") == {"returned": "s1", "runId": "r7"}
    assert sessions(command) == []
