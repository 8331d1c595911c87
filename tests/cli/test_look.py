"""`hub nodes`, `hub pools`, `hub leases` against a real hub."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from hub.cli import look, main
from tests.cli.command import Command, leave, register
from tests.world import PATIENCE_S, HubProcess, wait_until


@pytest.fixture(scope="module", autouse=True)
def fleet(shared_hub: HubProcess) -> Iterator[dict[str, Any]]:
    """Three nodes; one of three slots is lent, on n1; the answer to that borrow."""
    for name, pools in (("n1", {"gpu:a100": 2}), ("n2", {"gpu:v100": 1}), ("n3", {})):
        register(shared_hub, name, pools=pools, labels={"region": "eu"})
    wanted = {"labelKey": "gpu:a100", "runId": "run-7", "ttlSeconds": 300}
    runner = {"x-hub-secret": shared_hub.runner_secret}
    answer = httpx.post(f"{shared_hub.url}/session/borrow", json=wanted, headers=runner, timeout=PATIENCE_S)
    assert answer.status_code == 200, answer.text
    yield answer.json()
    for name in ("n1", "n2", "n3"):
        leave(shared_hub, name)


def test_nodes_are_shown_with_their_slots_and_facts(command: Command):
    done = command("nodes")
    assert (done.returncode, done.stderr) == (0, "")
    head, *rows = done.stdout.splitlines()
    assert head.split() == ["NODE", "STATE", "SLOTS", "LENT", "HELD", "LAST", "BEAT", "LABELS"]
    assert sorted((row.split()[:5], row.split()[-1]) for row in rows) == [
        (["n1", "alive", "2", "1", "0"], "region=eu"),
        (["n2", "alive", "1", "0", "0"], "region=eu"),
        (["n3", "alive", "0", "0", "0"], "region=eu"),
    ]


def test_one_node_is_shown_with_each_of_its_slots(command: Command):
    done = command("nodes", "n1")
    assert (done.returncode, done.stderr) == (0, "")
    slots = [line.split() for line in done.stdout.splitlines() if "gpu:a100" in line]
    assert slots == [["n1-gpu.a100-1", "gpu:a100", "lent", "-"], ["n1-gpu.a100-2", "gpu:a100", "free", "-"]]
    assert {slot["state"] for slot in command.json("nodes", "n1")["slotList"]} == {"free", "lent"}


def test_one_node_is_shown_with_its_orders(command: Command, shared_hub: HubProcess):
    assert command.json("nodes", "n3")["orders"] == []
    admin = {"x-hub-secret": shared_hub.admin_secret}
    assert httpx.post(f"{shared_hub.url}/admin/nodes/n3/sidecar/upgrade", headers=admin).status_code == 200
    (orders,) = (line.split() for line in command("nodes", "n3").stdout.splitlines() if line.startswith("ORDERS"))
    assert orders[1:3] == ["rebuild", "within"]


def test_pools_are_shown_with_their_free_and_lent_slots(command: Command):
    done = command("pools")
    assert [line.split() for line in done.stdout.splitlines()[1:]] == [
        ["gpu:a100", "2", "1", "1", "0", "-", "no"],
        ["gpu:v100", "1", "1", "0", "0", "-", "no"],
    ]
    assert "FREE          1" in command("pools", "gpu:a100").stdout
    assert [pool["label"] for pool in command.json("pools")["pools"]] == ["gpu:a100", "gpu:v100"]


def test_leases_can_be_listed_and_filtered(command: Command, fleet):
    row = command("leases").stdout.splitlines()[1].split()
    assert row[:6] == [fleet["browserId"], "gpu:a100", "gpu:a100", "n1", "127.0.0.1", "run-7"]
    for words, total in (
        (["--run", "run-7"], 1),
        (["--run", "other"], 0),
        (["--node", "n1"], 1),
        (["--pool", "gpu:v100"], 0),
    ):
        assert command.json("leases", *words)["total"] == total, words
    assert command.json("leases", fleet["browserId"])["runId"] == "run-7"
    assert command("leases", "--run", "other").stdout == "No leases.\n"


@pytest.mark.parametrize("words", [("nodes", "n9"), ("pools", "no:such"), ("leases", "s9")], ids=str)
def test_showing_an_unknown_id_fails_with_one_sentence(words, command: Command):
    done = command(*words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)


@pytest.mark.parametrize(
    ("noun", "member"), [("nodes", "nodeId"), ("pools", "label")], ids=["nodes by cursor", "pools by offset"]
)
def test_all_pages_are_read_up_to_the_limit(noun, member, command: Command, monkeypatch, capsys):
    monkeypatch.setattr(look, "PAGE", 1)
    for name, value in command.environment.items():
        monkeypatch.setenv(name, value)
    everything = command.json(noun)
    assert main([noun, "--json"]) == 0
    assert [row[member] for row in json.loads(capsys.readouterr().out)[noun]] == [
        row[member] for row in everything[noun]
    ]
    assert main([noun, "--limit", "1"]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 2
    assert err == f"hub: 1 of {everything['total']} {noun} shown; --limit shows more.\n"


def test_a_refusal_of_a_wrong_secret_names_the_variables_to_set(command: Command):
    done = command("pools", "--secret", command.kept("wrong"))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "HUB_RUNNER_SECRET" in done.stderr


def test_any_secret_may_read_and_of_a_list_of_secrets_the_first_is_shown(command: Command, shared_hub):
    for name in ("HUB_RUNNER_SECRET", "HUB_NODE_SECRET", "HUB_ADMIN_SECRET"):
        command.environment.pop(name)
    command.environment["HUB_NODE_SECRET"] = f" {shared_hub.node_secret}, old-one"
    assert command("nodes").returncode == 0


def test_the_nearest_env_file_supplies_the_hub_address_and_its_secret(command: Command, shared_hub, tmp_path):
    variables = f"HUB_URL={shared_hub.url}\nHUB_RUNNER_SECRET={shared_hub.runner_secret}\n"
    (tmp_path / ".env").write_text(variables)
    (tmp_path / "below").mkdir()
    for name in ("DISABLE_DOTENV", "HUB_URL", "HUB_RUNNER_SECRET", "HUB_NODE_SECRET", "HUB_ADMIN_SECRET"):
        command.environment.pop(name)
    assert command("pools", cwd=tmp_path / "below").stdout.startswith("POOL ")


def test_a_hub_is_found_under_a_name_with_several_addresses(command: Command, shared_hub):
    assert command("pools", "--url", f"http://localhost:{shared_hub.port}").returncode == 0
    gone = command("pools", "--url", "http://localhost:9")
    assert (gone.returncode, gone.stderr) == (1, "hub: No hub listens at http://localhost:9.\n")


def test_another_program_that_answers_is_not_taken_for_a_hub(command: Command, tmp_path):
    other = subprocess.Popen(
        [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert other.stdout is not None
    port = other.stdout.readline().split()[5]
    done = command("nodes", "--url", f"http://127.0.0.1:{port}")
    other.kill()
    other.communicate()
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "Traceback" not in done.stderr


def test_times_are_shown_as_ages_and_with_utc_as_timestamps(command: Command, fleet):
    since = [re.split(r"  +", command("lease", "ls", *words).stdout.splitlines()[1])[6] for words in ((), ("--utc",))]
    assert re.fullmatch(r"[0-9.]+ (s|min|h)( [0-9]+ (s|min))? ago", since[0])
    assert re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z", since[1])


def test_with_json_a_failure_is_one_line_of_json_on_stderr(command: Command):
    done = command("node", "show", "nobody", "--json")
    assert (done.returncode, done.stdout) == (1, "")
    problem = json.loads(done.stderr)
    assert (problem["code"], problem["exitCode"]) == ("unknown-node", 1)
    assert "nobody" in problem["detail"]
    wrong = command("node", "ls", "--json", "--limit", "none")
    assert (json.loads(wrong.stderr)["code"], json.loads(wrong.stderr)["exitCode"]) == ("usage", 2)
    refused = command("borrow", "gpu:t4", "--json")
    assert (json.loads(refused.stderr)["code"], refused.returncode) == ("no-such-pool", 75)


def test_node_watch_shows_the_nodes_repeatedly(command: Command):
    watching = command.start("node", "ls", "--watch", "--json")
    wait_until(lambda: watching.out.count("\n") >= 2, why=lambda: watching.err)
    watching.signal(signal.SIGINT)
    assert (watching.end(), watching.err) == (0, "")
    assert [json.loads(line)["total"] for line in watching.out.splitlines()][:2] == [3, 3]
