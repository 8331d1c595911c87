"""`hub team set`, `ls` and `rm`, and what `hub borrow` says when its lease is recalled for another team."""

from __future__ import annotations

import httpx
import pytest

from tests.cli.command import Command, register
from tests.world import PATIENCE_S, HubProcess, wait_until

POOL = "gpu:a100"


@pytest.fixture(autouse=True)
def node(own_hub: HubProcess) -> None:
    """A node with two slots."""
    register(own_hub, "n1", pools={POOL: 2})


def token_of(hub: HubProcess, user: str, team: str) -> str:
    """Return a token with which a user borrows for a team."""
    wish = {"user": user, "team": team, "scopes": ["borrow"]}
    secret = {"x-hub-secret": hub.admin_secret}
    answer = httpx.post(f"{hub.url}/admin/tokens", json=wish, headers=secret, timeout=PATIENCE_S)
    assert answer.is_success, answer.text
    return str(answer.json()["token"])


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_a_row_is_set_shown_and_removed(own_command: Command):
    assert own_command("team", "ls").stdout.startswith("No team has a row")
    words = ["--label", "gpu:*", "--guarantee", "1", "--ceiling", "8", "--weight", "2.5"]
    done = own_command("team", "set", "ml", *words)
    assert (done.stdout, done.stderr) == ("ml of gpu:*: 1 guaranteed, at most 8, weight 2.5.\n", "")
    assert own_command("team", "set", "web", "--label", "gpu:*").stdout == (
        "web of gpu:*: 0 guaranteed, any number, weight 1.\n"
    )
    head, *shown = rows(own_command("team", "ls", "--wide").stdout)
    assert head[:9] == ["TEAM", "LABEL", "HELD", "DUE", "WAITING", "RECALLED", "GUARANTEE", "CEILING", "WEIGHT"]
    found = {row[0]: row for row in shown}
    assert found["ml"][4:9] == ["0", "0", "1", "8", "2.5"]
    assert found["web"][4:9] == ["0", "0", "0", "none", "1"]
    assert {row["team"] for row in own_command.json("team", "ls")["teams"]} == {"ml", "web"}
    assert own_command("team", "rm", "ml", "--label", "gpu:*").stdout == "ml has no row for gpu:* now.\n"
    assert own_command("team", "rm", "web", "--label", "gpu:*").returncode == 0
    assert own_command("team", "ls").stdout.startswith("No team has a row")


def test_a_guarantee_beyond_what_is_published_is_set_with_a_warning(own_command: Command):
    done = own_command("team", "set", "ml", "--label", "gpu:*", "--guarantee", "3")
    assert done.stdout.startswith("ml of gpu:*: 3 guaranteed")
    assert len(done.stderr.splitlines()) == 1
    assert "2" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["ml"],
        ["ml", "--label", "gpu:*", "--guarantee", "-1"],
        ["ml", "--label", "gpu:*", "--guarantee", "4", "--ceiling", "2"],
        ["ml", "--label", "gpu:*", "--weight", "0"],
        ["ml", "--label", "gpu:*", "--weight", "1001"],
        ["ml", "--label", "g pu", "--guarantee", "1"],
        [" ", "--label", "gpu:*", "--guarantee", "1"],
    ],
    ids=str,
)
def test_what_is_no_row_is_refused_in_a_sentence(own_command: Command, words: list[str]):
    done = own_command("team", "set", *words)
    assert done.returncode in (1, 2)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr.rstrip().endswith(".")


def test_a_borrow_says_that_its_lease_is_recalled_and_stops_its_command(own_command: Command, own_hub: HubProcess):
    assert own_command("team", "set", "ml", "--label", "gpu:*", "--guarantee", "1").returncode == 0
    tokens = {team: token_of(own_hub, f"u-{team}", team) for team in ("web", "ml")}
    secrets = {"HUB_RUNNER_SECRET": "", "HUB_ADMIN_SECRET": "", "HUB_NODE_SECRET": ""}
    heard = "trap 'echo heard' USR1; echo begun; while :; do sleep 0.1; done"
    line = ["borrow", POOL, "--ttl", "5", "--signal-ending", "--", "sh", "-c", heard]
    holders = []
    for _ in range(2):
        holders.append(own_command.start(*line, HUB_TOKEN=tokens["web"], **secrets))
        holders[-1].until_out("begun")
    waiter = own_command.start(
        "borrow", POOL, "--wait", "60", "--", "sh", "-c", "echo lent", HUB_TOKEN=tokens["ml"], **secrets
    )
    newest = holders[1]
    newest.until_out("heard")
    assert "it is recalled for a team below its guarantee" in newest.err
    assert newest.end() != 0
    assert "is recalled for a team, and the command was stopped" in newest.err
    waiter.until_out("lent")
    assert waiter.end() == 0
    assert "ends in" not in holders[0].err


def test_leases_and_teams_show_what_is_recalled(own_command: Command, own_hub: HubProcess):
    assert own_command("team", "set", "ml", "--label", "gpu:*", "--guarantee", "1").returncode == 0
    for number in range(2):
        headers = {"authorization": f"Bearer {token_of(own_hub, f'u{number}', 'web')}"}
        body = {"labelKey": POOL, "runId": f"r{number}", "ttlSeconds": 600}
        httpx.post(f"{own_hub.url}/session/borrow", json=body, headers=headers).raise_for_status()
    secrets = {"HUB_RUNNER_SECRET": "", "HUB_ADMIN_SECRET": "", "HUB_NODE_SECRET": ""}
    own_command.start("borrow", POOL, "--wait", "60", "--", "true", HUB_TOKEN=token_of(own_hub, "ann", "ml"), **secrets)
    wait_until(lambda: sum(each["recalled"] for each in own_command.ask("/teams")["teams"]) == 1)
    assert "recall, in" in own_command("lease", "ls", "--wide").stdout
    shown = {row[0]: row for row in rows(own_command("team", "ls", "--wide").stdout)}
    assert (shown["web"][2], shown["web"][5:9]) == ("2", ["1", "none", "none", "none"])
    assert (shown["ml"][2], shown["ml"][4]) == ("0", "1")
    (ticket,) = [each["ticket"] for line in own_command.ask("/queue")["labels"] for each in line["tickets"]]
    why = own_command("why", ticket)
    assert why.returncode == 0, why.stderr
    assert "team ml has 0 slots under gpu:*, below its guarantee of 1" in why.stdout


def test_the_status_names_guarantees_beyond_what_is_published_and_who_waits_at_its_ceiling(
    own_command: Command, own_hub: HubProcess
):
    own_command("expire", "on")
    assert own_command("status").returncode == 0
    assert own_command("team", "set", "ml", "--label", "gpu:*", "--guarantee", "3").returncode == 0
    wait_until(lambda: own_command("status").returncode == 3)
    words = "The guarantees under gpu:* are 3 slots together, and 2 are published"
    assert f"warning: More is guaranteed to teams than is published. {words}." in own_command("status").stdout
    assert own_command("team", "set", "ml", "--label", "gpu:*", "--ceiling", "0").returncode == 0
    secrets = {"HUB_RUNNER_SECRET": "", "HUB_ADMIN_SECRET": "", "HUB_NODE_SECRET": ""}
    token = token_of(own_hub, "ann", "ml")
    refused = own_command("borrow", POOL, "--wait", "0", "--", "true", HUB_TOKEN=token, **secrets)
    assert refused.returncode != 0
    assert "the ceiling of team ml there is 0" in refused.stderr
    own_command.start("borrow", POOL, "--wait", "60", "--", "true", HUB_TOKEN=token, **secrets)
    waits = "warning: Teams wait at their ceilings. gpu:a100: borrowers wait although slots may be free"
    wait_until(lambda: waits in own_command("status").stdout)
    assert "Overloaded" not in own_command("status").stdout
