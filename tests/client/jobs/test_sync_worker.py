"""A worker without asyncio, its handlers in threads and in processes; against a real hub."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from hub.client.jobs import SyncJobsClient, SyncWorker, Task, TaskFailed
from hub.errors import JobNotFound, Unauthorized
from tests.cli.command import alive
from tests.client.jobs import computing
from tests.client.jobs.live import QUICK, ROOM, TOKEN, tokens_file
from tests.world import PATIENCE_S, HubProcess, RedisServer, wait_until

pytestmark = pytest.mark.story
TOP = Path(__file__).parents[3]


@pytest.fixture
def hub(start_hub: Callable[..., HubProcess], tmp_path: Path) -> HubProcess:
    return start_hub(HUB_TOKENS_FILE=tokens_file(tmp_path), **QUICK)


@pytest.fixture
def client(hub: HubProcess) -> Iterator[SyncJobsClient]:
    with SyncJobsClient(hub.url, TOKEN) as client:
        yield client


def job(function: Any) -> str:
    return f"@global:analysis:{function.__name__}"


def pid_in(begun: Path) -> int:
    """Which process a task runs in, once it does."""
    wait_until(lambda: begun.exists() and begun.read_text() != "")
    return int(begun.read_text())


@contextmanager
def working(hub: HubProcess, *functions: Any, attempts: int = 1, **options: Any) -> Iterator[SyncWorker]:
    """A worker of these handlers in processes, one unless said."""
    runtime = options.pop("max_runtime", None)
    worker = SyncWorker(hub.url, TOKEN, **{"processes": 1, "heartbeat_interval": 1000.0, **options})
    for function in functions:
        worker.job("analysis", attempts=attempts, backoff=0, max_runtime=runtime)(function)
    with worker:
        yield worker


def test_plain_functions_run_in_threads_and_the_worker_leaves_at_the_end(
    client: SyncJobsClient, hub: HubProcess
) -> None:
    with working(hub, computing.area, processes=0) as worker:
        assert worker.worker_id is not None
        task = client.submit(job(computing.area), {"side": 3}, ROOM)
        assert client.result(task, PATIENCE_S) == {"area": 9, "pid": os.getpid()}
        info = client.task(task)
        assert (info.progress, info.message, list(info.log)) == (0.5, "attempt 1", ["Square"])
        wait_until(lambda: worker.counts == {"claimed": 1, "completed": 1})
        worker.stop()
        worker.ended()
    assert worker.worker_id is None


def test_several_tasks_run_at_a_time_each_in_its_own_process(
    client: SyncJobsClient, hub: HubProcess, tmp_path: Path
) -> None:
    names = [str(tmp_path / "a"), str(tmp_path / "b")]
    with working(hub, computing.meet, computing.area, processes=2):
        tasks = [client.submit(job(computing.meet), {"me": name, "others": names}, ROOM) for name in names]
        pids = {client.result(task, PATIENCE_S) for task in tasks}
        assert len(pids) == 2
        assert os.getpid() not in pids
        task = client.submit(job(computing.area), {"side": 4}, ROOM)
        found = client.result(task, PATIENCE_S)
        assert found["area"] == 16
        assert found["pid"] in pids, "a process is used again"
        info = client.task(task)
        assert (info.progress, info.message, list(info.log)) == (0.5, "attempt 1", ["Square"])
    assert not any(map(alive, pids))


def test_an_exception_in_a_handler_process_fails_the_task(client: SyncJobsClient, hub: HubProcess) -> None:
    with working(hub, computing.wrong, computing.area):
        for payload, why in (
            ({}, "invalid literal for int() with base 10: 'seven'"),
            ({"exit": True}, "ended by SystemExit(3)"),
            ({"result": True}, "the result, object, is not JSON"),
        ):
            task = client.submit(job(computing.wrong), payload, ROOM)
            assert str(client.wait_for(task, PATIENCE_S).error).startswith(why)


def test_a_result_that_does_not_fit_its_return_annotation_is_refused_in_a_process_too(
    client: SyncJobsClient, hub: HubProcess
) -> None:
    with working(hub, computing.narrow):
        found, lost = (client.submit(job(computing.narrow), {"found": {"side": side}}, ROOM) for side in ("4", "wide"))
        assert client.result(found, PATIENCE_S) == {"side": 4}
        assert str(client.wait_for(lost, PATIENCE_S).error).startswith("the result does not fit Square: ")


def test_a_handler_process_that_dies_fails_the_attempt_and_not_the_worker(
    client: SyncJobsClient, hub: HubProcess
) -> None:
    with working(hub, computing.die, attempts=2) as worker:
        before = worker.worker_id
        task = client.submit(job(computing.die), {}, ROOM)
        assert client.result(task, PATIENCE_S) == "alive"
        assert client.task(task).attempt == 2
        assert worker.worker_id == before
        assert worker.counts["failed"] == 1


def test_the_error_of_a_task_says_how_its_process_died(client: SyncJobsClient, hub: HubProcess, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    with working(hub, computing.await_go):
        task = client.submit(job(computing.await_go), {"begun": str(begun), "go": str(tmp_path / "go")}, ROOM)
        os.kill(pid_in(begun), signal.SIGKILL)
        with pytest.raises(TaskFailed, match="the process of the task was ended by SIGKILL"):
            client.result(task, PATIENCE_S)


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_cancelled_task_sees_task_lost_and_its_process_is_killed_if_it_goes_on(
    client: SyncJobsClient, hub: HubProcess, tmp_path: Path, stubborn: bool
) -> None:
    with working(hub, computing.long, computing.area, cancel_grace=0.2 if stubborn else PATIENCE_S):
        begun, lost = tmp_path / "begun", tmp_path / "lost"
        payload = {"begun": str(begun), "lost": str(lost), "stubborn": stubborn}
        task = client.submit(job(computing.long), payload, ROOM)
        behind = client.submit(job(computing.area), {"side": 2}, ROOM)
        pid = pid_in(begun)
        client.cancel(task)
        found = client.result(behind, PATIENCE_S)
        assert found["area"] == 4, "its place is free"
        assert (lost.exists(), found["pid"] == pid) == (not stubborn, not stubborn)
        assert client.task(task).status == "cancelled"


def test_a_task_that_takes_too_long_is_killed(client: SyncJobsClient, hub: HubProcess, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    with working(hub, computing.long, computing.area, max_runtime=2.0):
        task = client.submit(job(computing.long), {"begun": str(begun), "stubborn": True}, ROOM)
        assert client.wait_for(task, PATIENCE_S).error == "Runtime exceeded"
        pid = begun.read_text() if begun.exists() else ""
        wait_until(lambda: not pid or not alive(int(pid)))
        task = client.submit(job(computing.area), {"side": 2}, ROOM)
        assert client.result(task, PATIENCE_S)["area"] == 4, "its place is free"


@pytest.mark.parametrize("how", ["too long", "it dies", "the worker ends"])
def test_processes_started_by_a_handler_end_with_its_process(
    client: SyncJobsClient, hub: HubProcess, tmp_path: Path, how: str
) -> None:
    begun = tmp_path / "begun"
    runtime = 3.0 if how == "too long" else None
    with working(hub, computing.beget, max_runtime=runtime, grace=0.1):
        task = client.submit(job(computing.beget), {"begun": str(begun)}, ROOM)
        wait_until(lambda: (begun.exists() and " " in begun.read_text()) or ended(client, task))
        pids = [int(pid) for pid in begun.read_text().split()] if begun.exists() else []
        if how == "it dies":
            os.kill(pids[0], signal.SIGKILL)
        if how != "the worker ends":
            wait_until(lambda: ended(client, task))
            wait_until(lambda: not any(map(alive, pids)))
    wait_until(lambda: not any(map(alive, pids)))


def ended(client: SyncJobsClient, task: str) -> bool:
    return client.task(task).status == "failed"


@pytest.mark.parametrize("processes", [0, 1])
def test_a_task_that_does_not_end_within_the_grace_is_given_back(
    client: SyncJobsClient, hub: HubProcess, tmp_path: Path, processes: int
) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    with working(hub, computing.await_go, grace=0.1, processes=processes) as worker:
        task = client.submit(job(computing.await_go), {"begun": str(begun), "go": str(go)}, ROOM)
        pid = pid_in(begun)
    assert (client.task(task).status, worker.counts["given back"]) == ("pending", 1)
    assert alive(pid) is not bool(processes)
    go.touch()  # a thread cannot be stopped


def test_a_sync_worker_beats_while_its_handlers_are_busy(
    client: SyncJobsClient, hub: HubProcess, redis_server: RedisServer
) -> None:
    redis, beats = redis_server.client(), threading.Event()

    def busy(payload: dict[str, Any], task: Task) -> bool:
        return beats.wait(PATIENCE_S)

    with working(hub, busy, processes=0, heartbeat_interval=0.05) as worker:
        task = client.submit(job(busy), {}, ROOM)
        wait_until(lambda: client.task(task).status == "running")
        seen = set()

        def beaten() -> bool:
            seen.add(redis.hget(f"hub:worker:{UUID(worker.worker_id).hex}", "beat"))
            return len(seen) > 3

        wait_until(beaten)
        beats.set()
        assert client.result(task, PATIENCE_S) is True


def test_a_handler_that_no_process_can_import_is_refused_before_registration(
    client: SyncJobsClient, hub: HubProcess, redis_server: RedisServer
) -> None:
    def local(payload: dict[str, Any]) -> None: ...

    refused = r"analysis:local cannot run in a process: write it at the top of a module"
    with pytest.raises(ValueError, match=refused), working(hub, local):
        pass
    assert redis_server.client().zcard("hub:worker_beats") == 0


def test_async_handlers_and_refusals_of_the_hub_are_raised(client: SyncJobsClient, hub: HubProcess) -> None:
    async def handler(payload: dict[str, Any]) -> None: ...

    with pytest.raises(ValueError, match="plain functions"), working(hub, handler):
        pass
    with pytest.raises(Unauthorized):
        SyncWorker(hub.url, "of-nobody").run()


SCRIPT = """
import sys
from hub.client.jobs import SyncWorker, Task
from tests.client.jobs.computing import await_file

worker = SyncWorker(processes=1)

@worker.job("analysis")
def work(payload: dict, task: Task) -> str:
    open(payload["begun"], "w").close()
    await_file(payload["go"])
    return __name__

"""


def script(tmp_path: Path, hub: HubProcess, end: str) -> subprocess.Popen[str]:
    (tmp_path / "script.py").write_text(SCRIPT + end)
    environment = {**os.environ, "HUB_URL": hub.url, "HUB_TOKEN": TOKEN, "PYTHONPATH": str(TOP)}
    return subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py")], env=environment, start_new_session=True, stderr=-1, text=True
    )


def test_a_program_stopped_together_with_its_handler_processes_lets_their_tasks_finish(
    client: SyncJobsClient, hub: HubProcess, tmp_path: Path
) -> None:
    program = script(tmp_path, hub, "if __name__ == '__main__':\n    worker.run()\n")
    try:
        begun, go = tmp_path / "begun", tmp_path / "go"
        tasks: list[str] = []

        def submitted() -> bool:
            with suppress(JobNotFound):
                tasks.append(client.submit("@global:analysis:work", {"begun": str(begun), "go": str(go)}, ROOM))
            return bool(tasks)

        wait_until(submitted)
        wait_until(begun.exists)
        os.killpg(program.pid, signal.SIGTERM)
        go.touch()
        assert client.result(tasks[0], PATIENCE_S) == "__mp_main__"
        assert program.wait(PATIENCE_S) == 0, program.stderr
    finally:
        program.kill()
        program.communicate()


def test_a_program_without_a_main_guard_is_told_to_add_one(
    client: SyncJobsClient, hub: HubProcess, tmp_path: Path
) -> None:
    program = script(tmp_path, hub, "worker.run()\n")
    _, said = program.communicate(timeout=PATIENCE_S)
    assert program.returncode == 1
    assert "if __name__ == '__main__':" in said
    assert "a process for handlers ended with 1 before its first task" in said
