"""`hub usage`: a table, CSV that no spreadsheet runs, and one JSON document."""

from __future__ import annotations

import csv
import io
import json
import time

import pytest

from tests.cli.command import Command
from tests.world import HubProcess

NAMES = ["ann", "=HYPERLINK(1)", "+1", "-1", "@x", 'say "hi", bob', "other"]


@pytest.fixture
def used(own_hub: HubProcess) -> None:
    day = int(time.time()) // 86_400
    figures = {name: f"{n + 1} {(10 - n) * 3_600_000} 1500 0 {n}" for n, name in enumerate(NAMES)}
    own_hub.redis.hset(f"hub:usage:{day}:user", mapping=figures)


def test_usage_shows_a_table_with_those_first_that_held_for_longest(own_command: Command, used: None) -> None:
    done = own_command("usage", "--since", "0d")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["NAME", "LEASES", "HELD", "WAITED", "IDLE", "REFUSALS"]
    assert lines[1].split() == ["ann", "1", "10", "h", "1.5", "s", "0.0", "s", "0"]
    assert "in UTC: 28 leases, held for 2 d 1 h in all." in done.stderr


def test_usage_as_csv_has_a_line_for_each_name_and_no_formula(own_command: Command, used: None) -> None:
    done = own_command("usage", "--by", "user", "--csv", "--since", "1d")
    rows = list(csv.reader(io.StringIO(done.stdout)))
    assert rows[0] == ["user", "leases", "heldSeconds", "waitedSeconds", "idleSeconds", "refusals"]
    assert [row[0] for row in rows[1:]] == [
        "ann", "'=HYPERLINK(1)", "'+1", "'-1", "'@x", 'say "hi", bob', "other",
    ]  # fmt: skip
    assert rows[1][1:] == ["1", "36000.0", "1.5", "0.0", "0"]


def test_usage_as_json_is_the_answer_of_the_hub(own_command: Command, used: None) -> None:
    found = json.loads(own_command("usage", "--json").stdout)
    assert (found["by"], found["total"], found["sum"]["leases"]) == ("user", len(NAMES), 28)


@pytest.mark.parametrize(
    "wrong", [("--csv", "--json"), ("--by", "colour"), ("--since", "soon"), ("--since", "1d", "--until", "2d")]
)
def test_what_cannot_be_shown_is_refused_in_a_sentence(own_command: Command, wrong: tuple[str, ...]) -> None:
    done = own_command("usage", *wrong)
    assert done.returncode != 0
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [("usage",), ("events",), ("autoscale", "gpu:a100"), ("realm", "ls")])
def test_what_takes_no_token_says_so(own_command: Command, words: tuple[str, ...]) -> None:
    token = own_command.json("token", "create", "--user", "ann")["token"]
    done = own_command(*words, HUB_TOKEN=token, HUB_RUNNER_SECRET="", HUB_ADMIN_SECRET="")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "this takes no token and needs HUB_RUNNER_SECRET or HUB_ADMIN_SECRET" in done.stderr
