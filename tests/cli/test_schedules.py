"""`hub schedule`: schedules are made, listed, looked at, paused, and taken away."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hub.cli import schedules
from hub.cli.answers import cells
from tests.cli.command import Command
from tests.cli.joblib import Joblib


@pytest.fixture(autouse=True)
def job(joblib: Joblib, room: str) -> Iterator[None]:
    """A job in the room, whose schedules go with the test."""
    joblib.register(room)
    yield
    for schedule in joblib.ask("GET", f"/rooms/{room}/schedules")["items"]:
        joblib.ask("DELETE", f"/rooms/{room}/schedules/{schedule['name']}")


def test_schedules_can_be_made_and_listed(command: Command, room: str):
    assert command("schedule", "ls", "--room", room).stdout == "No schedules.\n"
    job = f"{room}:modifiers:a"
    made = command("schedule", "add", "often", job, '{"n": 1}', "--every", "90s")
    assert made.stdout.startswith("often is due in 1 min ")
    command("schedule", "add", "nightly", job, "--cron", "30 2 * * *", "--zone", "Europe/Berlin", "--room", room)
    listed = command.json("schedule", "ls", "--room", room)
    assert [(each["name"], each["payload"], each["catchUp"]) for each in listed["schedules"]] == [
        ("nightly", {}, "one"),
        ("often", {"n": 1}, "one"),
    ]
    lines = command("schedule", "ls", "--room", room, "--wide").stdout.splitlines()
    assert "30 2 * * * Europe/Berlin" in lines[1]
    assert "every 1 min 30 s" in lines[2]


def test_a_schedule_can_be_shown_paused_resumed_and_removed(command: Command, room: str):
    command("schedule", "add", "s", f"{room}:modifiers:a", "--cron", "0 0 1 1 *", "--catch-up", "all")
    where = ("s", "--room", room)
    facts = dict(line.split(maxsplit=1) for line in command("schedule", "show", *where).stdout.splitlines())
    assert (facts["SCHEDULE"], facts["TIMES"], facts["FIRED"]) == ("s", "0 0 1 1 * UTC", "0")
    assert command("schedule", "pause", *where).stdout == "s is paused.\n"
    assert command.json("schedule", "show", *where)["nextAt"] is None
    assert command("schedule", "resume", *where).stdout.startswith("s is due in ")
    assert command("schedule", "rm", *where).stdout == "s is no schedule any more.\n"
    gone = command("schedule", "show", *where)
    assert (gone.returncode, f"There is no schedule s in room {room}" in gone.stderr) == (1, True)


def test_why_of_a_schedule_says_when_it_is_due_or_why_it_is_not(command: Command, room: str):
    command("schedule", "add", "s", f"{room}:modifiers:a", "--every", "2h")
    printed = command("why", f"{room}:s").stdout
    assert printed.startswith(f"schedule {room}:s is active: It is due at ")
    assert "next  task.scheduled in 1 h 59 min. " in printed or "next  task.scheduled in 2 h" in printed
    command("schedule", "pause", "s", "--room", room)
    assert "is paused: It is paused, so it makes no task." in command("why", f"{room}:s").stdout


def test_an_impossible_schedule_is_refused_in_a_sentence(command: Command, room: str):
    wrong = command("schedule", "add", "s", f"{room}:modifiers:a", "--cron", "99 * * * *")
    assert (wrong.returncode, "is no cron expression: bad minute" in wrong.stderr) == (1, True)


def test_a_schedule_that_was_put_aside_is_listed_with_its_problem():
    found = {"name": "s", "job": "r:m:a", "cron": "0 0 * * *", "timeZone": "Europe/Atlantis", "problem": "no such zone"}
    assert cells(schedules._SCHEDULES.columns, found)[2:] == [
        "0 0 * * * Europe/Atlantis",
        "put aside",
        "",
        None,
        "no such zone",
    ]
