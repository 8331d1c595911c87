"""`hub jobs`, `workers`, `tasks`, `submit`, `cancel` and `retry`: over HTTP, with tokens, and straight on Redis."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from tests.cli.command import Command
from tests.cli.joblib import Joblib
from tests.world import wait_until

NOBODY = "00000000-0000-4000-8000-000000000000"


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()[1:]]


def test_jobs_and_workers_are_shown_by_room(command: Command, joblib: Joblib, room: str):
    assert command("jobs", "--room", room).stdout == "No jobs.\n"
    first, second = joblib.register(room), joblib.register(room)
    joblib.register(room, "b", resultSchema={"title": "Turned"})
    assert rows(command("jobs", "--room", room).stdout) == [[f"{room}:modifiers:b", "1"], [f"{room}:modifiers:a", "2"]]
    assert command.json("jobs", "--room", room)["total"] == 2
    found = command.json("workers", "--room", room)
    assert found["total"] == 3
    assert {first, second} < {worker["id"] for worker in found["workers"]}
    assert first in command("workers").stdout
    shown = command("job", "show", f"{room}:modifiers:a").stdout
    assert [first in shown, second in shown] == [True, True]
    assert command.json("job", "show", f"{room}:modifiers:a")["fullName"] == f"{room}:modifiers:a"
    assert '{"title": "Turned"}' in command("job", "show", f"{room}:modifiers:b").stdout
    assert first in command("worker", "ls", "--room", room).stdout
    assert "alive" in command("worker", "show", first).stdout
    assert command.json("worker", "show", first)["kind"] == "worker"
    nobody = command("worker", "show", "00000000-0000-4000-8000-000000000000")
    assert (nobody.returncode, nobody.stderr.partition("worker")[0]) == (1, "hub: Nothing is known of a ")
    cut = command("workers", "--room", room, "--limit", "1")
    assert (len(rows(cut.stdout)), cut.stderr) == (1, "hub: 1 of 3 workers shown; --limit shows more.\n")


def test_a_job_is_shown_with_its_needs_its_limits_and_who_is_at_one(command: Command, joblib: Joblib, room: str):
    needs = [{"label": "gpu:a100", "where": "vram >= 40", "count": 2}]
    limits = [{"key": "customer", "running": 1}, {"rate": "100/m"}]
    worker = joblib.register(room, limits=limits)
    for _ in range(3):
        joblib.ask("POST", f"/rooms/{room}/tasks/{room}:modifiers:a", payload={"customer": "acme"})
    joblib.ask("POST", "/tasks/claim", worker_id=worker, limit=9, start=True)
    shown = command("job", "show", f"{room}:modifiers:a").stdout
    assert "1 running by customer, 100/m" in shown
    assert "AT LIMIT" in shown
    assert ["1", "running", "by", "customer", "acme", "1", "0", "2"] in [line.split() for line in shown.splitlines()]
    joblib.register(room, "b", needs=needs, sameNode=True)
    assert "2 gpu:a100 where vram >= 40, on one node" in command("job", "show", f"{room}:modifiers:b").stdout
    assert "NEEDS" not in shown


def test_providers_are_shown_by_room(command: Command, joblib: Joblib, room: str):
    assert command("provider", "ls", "--room", room).stdout == "No providers.\n"
    worker = joblib.register(room)
    schema = {"title": "Frame"}
    joblib.ask("PUT", f"/rooms/{room}/providers", category="frames", name="Disk", schema=schema, worker_id=worker)
    full = f"{room}:frames:Disk"
    assert [row[:2] for row in rows(command("provider", "ls", "--room", room).stdout)] == [[full, worker]]
    assert command.json("provider", "ls", "--room", room)["providers"][0]["fullName"] == full
    assert '{"title": "Frame"}' in command("provider", "show", full).stdout
    assert command.json("provider", "show", full)["workerId"] == worker
    gone = command("provider", "show", f"{room}:frames:Tape")
    assert (gone.returncode, gone.stderr) == (1, f"hub: There is no provider {room}:frames:Tape in room {room}.\n")


def test_one_task_is_shown_with_its_progress_its_log_and_its_result(command: Command, joblib: Joblib, room: str):
    worker, job = joblib.register(room), f"{room}:modifiers:a"
    task = command("submit", job, '{"x": 1.0}', "--max-silence", "60").stdout.strip()
    assert "RESULT" not in command("tasks", task).stdout
    joblib.ask("POST", "/tasks/claim", worker_id=worker, limit=1, start=True)
    report = {"id": task, "progress": 0.4, "message": "step 3", "log": ["reads \x1b[31m", "writes"]}
    joblib.ask("POST", "/tasks/progress", worker_id=worker, tasks=[report])
    shown = command("tasks", task.upper()).stdout
    assert "40% step 3" in shown
    assert shown.splitlines()[-1].endswith(" ago  writes")
    assert "\x1b" not in shown
    joblib.ask("PATCH", f"/tasks/{task}", status="completed", result={"ß": [1.0]})
    assert '{"ß": [1.0]}' in command("tasks", task).stdout
    found = command.json("tasks", task)
    assert (found["result"], found["maxSilenceSeconds"], found["progress"]) == ({"ß": [1.0]}, 60, 0.4)
    unknown = command("tasks", "00000000-0000-4000-8000-000000000000")
    assert (unknown.returncode, unknown.stderr.count("\n")) == (1, 1)


def test_a_task_can_be_submitted_shown_cancelled_and_submitted_again(command: Command, joblib: Joblib, room: str):
    joblib.register(room)
    job = f"{room}:modifiers:a"
    done = command("submit", job, '{"x": 1.0, "big": 12345678901234567890}', "--priority", "-5")
    assert (done.returncode, done.stderr) == (0, "")
    task = done.stdout.strip()
    kept = joblib.task(task)
    assert (kept["room_id"], kept["priority"]) == (room, -5)
    assert json.dumps(kept["payload"]) == '{"x": 1.0, "big": 12345678901234567890}'
    (row,) = rows(command("tasks", "--job", job).stdout)
    assert row[:4] == [task, "pending", job, room]
    assert command.json("tasks", "--room", room, "--status", "claimed") == {"total": 0, "tasks": []}
    assert command("tasks", "--room", room, "--status", "running").stdout == "No tasks.\n"
    assert command("cancel", task.upper()).stdout == f"{task} is cancelled.\n"
    twice = command("cancel", task)
    assert (twice.returncode, twice.stdout, twice.stderr.count("\n")) == (1, "", 1)
    again = command("retry", task.replace("-", "")).stdout.strip()
    assert joblib.task(again)["payload"] == kept["payload"]
    assert [each["id"] for each in command.json("tasks", "--room", room, "--status", "pending")["tasks"]] == [again]


def test_a_payload_may_come_from_stdin_and_the_room_may_be_another(command: Command, joblib: Joblib, room: str):
    joblib.register(room)
    done = subprocess.run(
        [sys.executable, "-m", "hub.cli", "submit", f"{room}:modifiers:a", "-", "--room", f"{room}-x", "--json"],
        env=command.environment, input='{"name": "Zoë"}\n', capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert (made["roomId"], made["payload"], made["status"]) == (f"{room}-x", {"name": "Zoë"}, "pending")


def test_a_submit_with_the_same_key_gets_the_same_task(command: Command, joblib: Joblib, room: str):
    joblib.register(room)
    job = f"{room}:modifiers:a"
    words = ("submit", job, "--key", f"key-{room}", "--max-attempts", "3", "--not-before", "2090-01-01T00:00:00+00:00")
    task = command(*words).stdout
    assert command(*words).stdout == task
    kept = joblib.task(task.strip())
    assert (kept["maxAttempts"], kept["notBefore"]) == (3, "2090-01-01T00:00:00.000000Z")
    other = command("submit", job, "--key", f"key-{room}", '{"other": 1}')
    assert (other.returncode, other.stdout, other.stderr.count("\n")) == (1, "", 1)
    assert command("submit", job).stdout != command("submit", job).stdout


@pytest.mark.parametrize(
    ("status", "error", "code", "note"),
    [
        ("completed", None, 0, ""),
        ("failed", "it broke", 1, "hub: the task has failed: it broke.\n"),
        ("cancelled", None, 1, "hub: the task was cancelled.\n"),
    ],
)
def test_task_wait_ends_with_the_task(command: Command, joblib: Joblib, room: str, status, error, code, note):
    worker = joblib.register(room)
    waiting = command.start("submit", f"{room}:modifiers:a", "--wait")
    as_json = command.start("submit", f"{room}:modifiers:a", "--wait", "--json")
    wait_until(lambda: joblib.ask("GET", f"/rooms/{room}/tasks?status=pending")["total"] == 2)
    assert waiting.process.poll() is None
    ended = {joblib.work(worker, status, error) for _ in range(2)}
    assert (waiting.end(), waiting.err) == (code, note)
    assert (as_json.end(), as_json.err) == (code, note)
    shown = json.loads(as_json.out)
    assert {waiting.out.strip(), shown["id"]} == ended
    assert (shown["status"], shown["error"]) == (status, error)


def test_an_interrupted_task_wait_leaves_the_task_alone(command: Command, joblib: Joblib, room: str):
    joblib.register(room)
    waiting = command.start("submit", f"{room}:modifiers:a", "--wait")
    waiting.until_out("\n")
    task = waiting.out.strip()
    waiting.signal(signal.SIGINT)
    assert (waiting.end(), waiting.err) == (1, f"hub: Interrupted; task {task} goes on.\n")
    assert joblib.task(task)["status"] == "pending"


def test_an_unknown_job_task_or_worker_is_reported_in_one_sentence(command: Command, room: str):
    for words, sentence in (
        (("submit", f"{room}:modifiers:a"), f"There is no active job {room}:modifiers:a."),
        (("tasks", "--job", f"{room}:modifiers:a"), f"There is no active job {room}:modifiers:a."),
        (("cancel", NOBODY), f"Task {NOBODY} is not known."),
        (("retry", NOBODY), f"Task {NOBODY} is not known."),
    ):
        done = command(*words)
        assert (done.returncode, done.stdout, done.stderr) == (1, "", f"hub: {sentence}\n"), words


def test_a_token_decides_who_submits_and_a_wrong_one_is_refused(command: Command, joblib: Joblib, room: str):
    joblib.register(room)
    job = f"{room}:modifiers:a"
    secret = command("token", "create", "--user", "ann", "--scope", "submit").stdout.strip()
    task = command("submit", job, "--token", secret).stdout.strip()
    assert joblib.task(task)["status"] == "pending"
    stranger = command("token", "create", "--user", "bob").stdout.strip()
    refused = command("cancel", task, HUB_TOKEN=stranger)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)
    assert command("cancel", task, HUB_TOKEN=secret).returncode == 0
    for more in (("--token", command.kept("nonsense")), ("--secret", command.kept("nonsense"))):
        wrong = command("submit", job, *more)
        assert (wrong.returncode, wrong.stdout, wrong.stderr.count("\n")) == (1, "", 1)
        assert f"refuses the {more[0][2:]}" in wrong.stderr
        assert "HUB_TOKEN" in wrong.stderr
    assert command("retry", task, HUB_TOKEN=stranger, HUB_ADMIN_SECRET="").returncode == 1
    assert command("retry", task, "--secret", command.environment["HUB_ADMIN_SECRET"], HUB_TOKEN="no").returncode == 0


def test_tasks_can_be_submitted_and_awaited_straight_on_redis(lone_command: Command, start_hub, room: str):
    """A hub serves somewhere, but none where the command looks."""
    hub = start_hub()
    joblib = Joblib(hub)
    try:
        worker = joblib.register(room)
        lone_command.environment |= {"HUB_REDIS_URL": hub.redis_url, "HUB_ADMIN_SECRET": hub.admin_secret}
        waiting = lone_command.start("submit", f"{room}:modifiers:a", "--wait")
        waiting.until_out("\n")
        assert lone_command.json("tasks", "--room", room)["total"] == 1
        assert joblib.work(worker, "completed") == waiting.out.strip()
        assert waiting.end() == 0
        assert "working straight on Redis" in waiting.err
    finally:
        joblib.close()


@pytest.mark.parametrize("line", ["jobs", "workers", "tasks", f"cancel {NOBODY}", "submit a:b:c", "dead ls"])
def test_without_a_hub_and_a_store_a_command_says_what_to_do(line: str, lone_command: Command):
    done = lone_command(*line.split())
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "No hub listens at http://127.0.0.1:9" in done.stderr


def test_why_explains_the_state_of_a_task_and_of_its_worker(command: Command, joblib: Joblib, room: str):
    worker = joblib.register(room)
    task = command("submit", f"{room}:modifiers:a").stdout.strip()
    for subject in (task, task.replace("-", "")):
        assert command("why", subject).stdout.startswith(f"task {task} is pending: It is number 1 of 1")
    assert command("why", worker).stdout.startswith(f"worker {worker} is alive: ")
    assert command("why", f"{room}:modifiers:a").stdout.startswith(f"job {room}:modifiers:a is active: ")
    nobody = command("why", NOBODY)
    assert (
        nobody.stderr
        == f"hub: Nothing is known of a node or a slot or a ticket or a run or a task or a worker {NOBODY}.\n"
    )
    joblib.ask("DELETE", f"/workers/{worker}")
    assert [event["event"] for event in command.json("events", "--worker", worker)["events"]] == ["worker.gone"]
    assert "worker.gone" in command("events", "--kind", "worker").stdout


def test_the_brake_on_workers_is_shown_and_released(start_hub, tmp_path, redis):
    hub = start_hub(HUB_SWEEPER_INTERVAL_SECONDS="0.2")
    joblib, command = Joblib(hub), Command(hub, tmp_path)
    try:
        off = (
            "The brake is off; it is engaged when more than 20 % of the workers, and at least 3, are silent at once.\n"
        )
        assert command("brake", "--workers").stdout == off
        silent_ms = int(redis.hget("hub:store", "clock_ms")) - 300_000
        for number in range(4):
            joblib.register("one", f"a{number}")
        workers = redis.zrange("hub:workers", 0, -1)
        for worker in workers:
            redis.hincrby(f"hub:worker:{worker}", "beat", 1)  # those that never beat are no reason for a brake
        redis.zadd("hub:worker_beats", dict.fromkeys(workers, silent_ms))
        wait_until(lambda: redis.hget("hub:worker_brake", "state") == "engaged")
        assert command.json("brake")["state"] == "off"
        shown = command("brake", "--workers").stdout
        assert ": 4 of 4 workers are silent. None is removed" in shown
        assert shown.endswith("`hub brake release --workers` lets them go.\n")
        released = command("brake", "release", "--workers").stdout
        assert "4 of 4 workers are silent" in released or released == off  # a sweep may have let them go meanwhile
        wait_until(lambda: joblib.ask("GET", "/workers")["total"] == 0)
    finally:
        joblib.close()
