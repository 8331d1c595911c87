"""`hub dead`: dead letters are listed, looked at, submitted anew, and taken off the list."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.command import Command
from tests.cli.joblib import Joblib


@pytest.fixture(autouse=True)
def no_letters_left(joblib: Joblib) -> Iterator[None]:
    """Remove the dead letters of the test."""
    yield
    for letter in joblib.ask("GET", "/dead?limit=500")["items"]:
        joblib.ask("DELETE", f"/dead/{letter['id']}")


@pytest.fixture
def letters(joblib: Joblib, room: str) -> list[str]:
    """Two tasks of a room of their own that failed twice, as often as they might; the later one first."""
    worker = joblib.register(room)
    made = []
    for _ in range(2):
        task = joblib.submit(f"{room}:modifiers:a", maxAttempts=2, backoffSeconds=0)
        assert {joblib.work(worker, "failed", f"it broke in {room}") for _ in range(2)} == {task}
        made.insert(0, task)
    return made


def test_the_command_names_an_empty_list_of_dead_letters(command: Command, joblib: Joblib):
    assert command("dead", "ls").stdout == "No dead letters.\n"
    assert command.json("dead", "ls") == {"total": 0, "tasks": []}


def test_dead_letters_are_listed_newest_first_and_shown_with_their_errors(command: Command, letters: list[str]):
    lines = command("dead", "ls").stdout.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [[task, "failed"] for task in letters]
    cut = command("dead", "ls", "--limit", "1")
    assert cut.stderr == "hub: 1 of 2 dead letters shown; --limit shows more.\n"
    facts = dict(line.split(maxsplit=1) for line in command("dead", "show", letters[0]).stdout.splitlines())
    assert (facts["TASK"], facts["ATTEMPTS"], facts["PAYLOAD"]) == (letters[0], "2", "{}")
    assert facts["ERROR"].startswith("it broke in room-")
    assert command.json("dead", "show", letters[1])["id"] == letters[1]


def test_a_retried_dead_letter_is_submitted_anew_and_leaves_the_list(
    command: Command, joblib: Joblib, letters: list[str]
):
    made = command("dead", "retry", letters[0]).stdout.strip()
    assert joblib.task(made)["status"] == "pending"
    assert joblib.task(letters[0])["status"] == "failed"
    assert [each["id"] for each in command.json("dead", "ls")["tasks"]] == [letters[1]]
    twice = command("dead", "retry", letters[0])
    assert (twice.returncode, twice.stdout) == (1, "")
    assert twice.stderr == f"hub: Task {letters[0]} is no dead letter.\n"


def test_a_dropped_dead_letter_leaves_the_list_and_its_task_stays_failed(
    command: Command, joblib: Joblib, letters: list[str]
):
    assert command("dead", "drop", letters[0]).stdout == f"{letters[0]} is no dead letter any more.\n"
    assert command.json("dead", "drop", letters[1]) == {"id": letters[1], "dropped": True}
    assert joblib.task(letters[0])["status"] == "failed"
    for words in (("drop", letters[0]), ("show", letters[0]), ("retry", letters[1])):
        done = command("dead", *words)
        assert (done.returncode, done.stdout, done.stderr) == (1, "", f"hub: Task {words[1]} is no dead letter.\n")


def test_only_operators_may_see_and_drop_dead_letters(command: Command, letters: list[str]):
    token = command("token", "create", "--user", "eve").stdout.strip()
    for words in (("ls",), ("show", letters[0]), ("drop", letters[0])):
        done = command("dead", *words, "--token", command.kept(token))
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        assert "superusers" in done.stderr
    assert command.json("dead", "ls")["total"] == 2
