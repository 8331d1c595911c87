"""The command line and realms: which one a command is for, all of them at a glance, and the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hub.settings.realms import read_realms
from tests.cli.command import Command
from tests.realms.world import EU, write_realms
from tests.world import RedisServer, wait_until


@pytest.fixture
def bad(tmp_path: Path) -> RedisServer:
    """A server that was never started."""
    return RedisServer(tmp_path)


@pytest.fixture
def hub(start_hub, tmp_path, second, bad):
    """A hub with `eu`, and `us` whose store is not there."""
    spilling = {**EU, "spill_to": ["us", "default"], "spill_after_s": 90}
    file = write_realms(tmp_path / "realms.toml", eu=(second.url, spilling), us=(bad.url, {}))
    return start_hub(HUB_REALMS_FILE=str(file))


@pytest.fixture
def command(hub, tmp_path):
    """The command, at that hub."""
    found = Command(hub, tmp_path)
    found.environment["HUB_REALMS_FILE"] = hub.environment["HUB_REALMS_FILE"]
    wait_until(lambda: found.ask("/realms")["realms"][1]["state"] == "open")
    yield found
    found.close()


def test_a_command_with_realm_works_on_that_realm(command):
    agent = command.start("agent", "--realm", "eu", "--node", "rack", "--slots", "gpu:a100=2")
    wait_until(lambda: "rack" in command("nodes", "--realm=eu").stdout)
    assert "rack" not in command("nodes").stdout
    assert "rack" not in command("nodes", "--realm", "default").stdout
    asks = {"_HUB_COMPLETE": "complete_fish", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    tab = [
        command(**asks, _TYPER_COMPLETE_ARGS=f"hub node show --realm {name} ra").stdout.split()
        for name in ("eu", "default", "asia")
    ]
    assert tab == [["rack"], [], []]
    assert command(**asks, _TYPER_COMPLETE_ARGS="hub nodes --realm e").stdout.split() == ["eu"]
    lent = command("borrow", "--realm", "eu", "gpu:a100", "--", "printenv", "HUB_SLOT_ID")
    assert (lent.returncode, lent.stdout.startswith("rack")) == (0, True), lent.stderr
    agent.kill()
    unknown = command("nodes", "--realm", "asia")
    assert unknown.returncode == 1
    assert "This hub serves no realm 'asia'; it serves default, eu, us." in unknown.stderr
    for wrong in ("EU", "a/b"):
        assert command("nodes", "--realm", wrong).returncode == 2
    for line in (["borrow", "gpu:a100", "--", "true"], ["nodes", "rack"], ["leases", "s1"], ["pools", "gpu:a"]):
        refused = command(*line[:2], "--realm", "*", *line[2:])
        assert (refused.returncode, "'*'" in refused.stderr) == (2, True), refused.stderr


def test_status_shows_all_realms_and_a_dead_one_only_fails_its_own_line(command):
    wait_until(lambda: "does not answer" in (command("realm", "show", "us").stdout))
    done = command("status", "--realm", "*")
    assert done.returncode == 4
    first, second, third = done.stdout.splitlines()[1:]
    assert (first.split()[0], second.split()[0], third.split()[0]) == ("default", "eu", "us")
    assert "does not answer" in third
    told = json.loads(command("status", "--realm", "*", "--json").stdout)["realms"]
    assert [(each["realm"], each["status"] is None, each["error"] is None) for each in told] == [
        ("default", False, True), ("eu", False, True), ("us", True, False),
    ]  # fmt: skip
    assert command("status", "--realm", "eu").returncode in (0, 3, 4)


def test_realms_can_be_listed_and_shown(command):
    assert [line.split()[:2] for line in command("realm", "ls").stdout.splitlines()[1:]] == [
        ["default", "open"], ["eu", "open"], ["us", "opening"],
    ]  # fmt: skip
    shown = command("realm", "show", "eu").stdout
    assert ("gpu:*:eu" in shown, "us, default after 1 min 30 s" in shown) == (True, True)
    told = command.json("realm", "show", "eu")
    assert (told["nodes"], told["spillTo"], told["spillAfterSeconds"]) == (["eu-*"], ["us", "default"], 90)
    told = command.json("realm", "show", "us")
    assert (told["spillTo"], told["spillAfterSeconds"]) == ([], None)
    assert "SPILLS" not in command("realm", "show", "us").stdout
    assert command("realm", "show", "nobody").returncode == 1


def test_the_doctor_can_examine_the_store_of_one_realm(command, second):
    clean = command("doctor", "--realm", "eu")
    assert clean.returncode == 0, clean.stderr
    assert second.url in clean.stdout
    with second.client() as client:
        client.rpush(
            "{eu}:available:gpu:a", '{"browserId": "s1", "nodeId": "n1"}', '{"browserId": "s1", "nodeId": "n1"}'
        )
    assert command("doctor", "--realm", "eu").returncode == 1
    wrong = command("doctor", "--realm", "asia")
    assert wrong.returncode == 2
    assert "There is no realm asia" in wrong.stderr


def test_commands_about_all_realms_list_each_realm_and_name_one_that_does_not_answer(command):
    """Each realm that answers has its list with a total; the exit code says that one did not answer."""
    agents = [
        command.start("agent", "--realm", realm, "--node", f"{realm}-1", "--slots", "gpu:a100=2")
        for realm in ("eu", "default")
    ]
    for realm in ("eu", "default"):
        wait_until(lambda realm=realm: f"{realm}-1" in command("nodes", "--realm", realm).stdout)
    assert command("borrow", "--realm", "eu", "gpu:a100", "--", "true").returncode == 0
    with_lease = command.start("borrow", "--realm", "eu", "gpu:a100", "--", "sleep", "600")
    wait_until(lambda: "eu-1" in command("leases", "--realm", "eu").stdout)
    shown = command("nodes", "--realm", "*")
    rows = [line.split()[:3] for line in shown.stdout.splitlines()]
    assert rows == [["REALM", "NODE", "STATE"], ["default", "default-1", "alive"], ["eu", "eu-1", "alive"]]
    assert (shown.returncode, "realm us is not shown: " in shown.stderr) == (1, True)
    (lease,) = command("leases", "--realm", "*").stdout.splitlines()[1:]
    assert (lease.split()[0], "eu-1-gpu.a100-" in lease) == ("eu", True)
    told = json.loads(command("pools", "--realm", "*", "--json").stdout)["realms"]
    assert [(each["realm"], each["total"], bool(each["asOf"]), bool(each["error"])) for each in told] == [
        ("default", 1, True, False), ("eu", 1, True, False), ("us", None, False, True),
    ]  # fmt: skip
    for running in (with_lease, *agents):
        running.kill()


def test_the_doctor_can_examine_the_stores_of_all_realms(command, second):
    looked = command("doctor", "--realm", "*")
    assert (looked.returncode, looked.stdout) == (1, "Every invariant holds in default, eu.\n")
    assert "realm us is not shown: " in looked.stderr
    with second.client() as client:
        client.rpush("{eu}:available:gpu:a", *['{"browserId": "s1", "nodeId": "n1"}'] * 2)
    told = json.loads(command("doctor", "--realm", "*", "--json").stdout)
    found = {
        each["realm"]: (each["asOf"] is not None, bool(each["error"]), len(each["findings"])) for each in told["realms"]
    }
    assert (told["clean"], found) == (
        False,
        {"default": (True, False, 0), "eu": (True, False, 1), "us": (False, True, 0)},
    )


def test_a_token_made_in_a_realm_names_its_realm(command):
    assert command("token", "create", "--user", "ann", "--realm", "eu").stdout.startswith("hub_eu.")


def test_realms_can_be_added_to_the_file_and_removed_from_it(tmp_path):
    command, file = Command(None, tmp_path), tmp_path / "realms.toml"

    def run(*words: str) -> str:
        done = command("realm", *words, "--file", str(file))
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("add", "eu", "redis://:p@eu:6379", "--label", "gpu:*:eu", "--label", 'a"b', "--node", "eu-*")
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text("# ours\n" + file.read_text() + "# and theirs\n")
    assert "SIGHUP" in run("add", "us", "us:6379")
    eu, us = read_realms(file)
    assert (eu.labels, eu.nodes, us.url) == (("gpu:*:eu", 'a"b'), ("eu-*",), "redis://us:6379")
    run("rm", "us")
    run("add", "us", "us:6379", "--spill-to", "eu", "--spill-to", "default", "--spill-after", "0.5")
    us = read_realms(file)[1]
    assert (us.spill_to, us.spill_after_s) == (("eu", "default"), 0.5)
    run("rm", "us")
    assert [realm.name for realm in read_realms(file)] == ["eu"]
    assert file.read_text().startswith("# ours\n")
    kept = file.read_text()
    refusals = [
        ("add", "us", "redis://b", "--spill-to", "asia"),
        ("add", "us", "redis://b", "--spill-after", "-1"),
        ("add", "default", "redis://b"),
        ("add", "eu", "redis://b"),
        ("add", "A", "redis://b"),
        ("add", "b", "ftp://b"),
        ("rm", "none"),
    ]
    for words in refusals:
        refused = command("realm", *words, "--file", str(file))
        assert refused.returncode in (1, 2)
        assert refused.stderr.count("\n") == 1
    assert file.read_text() == kept
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".realms")] == []
    run("rm", "eu")
    assert read_realms(file) == ()


def test_commands_that_change_the_realms_file_need_its_path(tmp_path):
    assert "set HUB_REALMS_FILE" in Command(None, tmp_path)("realm", "rm", "eu").stderr
