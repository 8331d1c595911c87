"""`hub internal-worker` in a process of its own: what its end does to the tasks it runs."""

import signal
import subprocess
import sys

import pytest

from hub.jobs.names import dashed
from tests.internal import sample
from tests.internal.people import ended, submit
from tests.internal.processes import WorkerProcess
from tests.world import clean_environment, eventually, free_port


async def said(file):
    """Return the tasks that have begun to write, as soon as there is one."""
    await eventually(lambda: file.exists() and file.read_text().endswith("\n"))
    return [line.split()[1] for line in file.read_text().splitlines()]


async def gone(worker):
    """Return the exit code of a worker once it has ended."""
    await eventually(lambda: worker.process.poll() is not None)
    return worker.process.returncode


async def test_an_executor_runs_tasks_and_logs_one_line_per_event(worker_process, registered, file):
    worker = worker_process()
    task = await submit(registered, sample.WRITE, {"file": str(file)})
    bad = await submit(registered, sample.FAIL, {"text": "no such atom"})
    await ended(registered, task, "completed")
    await ended(registered, bad, "failed")
    worker.signal(signal.SIGTERM)
    assert await gone(worker) == 0
    lines = worker.log().splitlines()
    assert len([line for line in lines if dashed(task.id) in line]) == 2
    (failed,) = [line for line in lines if "internal task failed" in line]
    assert 'why="no such atom"' in failed
    assert "sample.py:" in failed
    assert [line for line in lines if "Traceback" in line] == []


async def test_a_task_that_a_killed_executor_had_started_is_not_run_again(worker_process, registered, file, tmp_path):
    first = worker_process()
    lost = await submit(registered, sample.HOLD, {"file": str(file), "until": str(tmp_path / "never")})
    assert await said(file) == [dashed(lost.id)]
    first.kill()
    worker_process()
    task = await submit(registered, sample.WRITE, {"file": str(file)})
    await ended(registered, task, "completed")
    assert (await registered.tasks.get(lost.id)).status == "running"
    assert await said(file) == [dashed(lost.id), dashed(task.id)]


async def test_a_task_that_waited_for_a_killed_executor_is_run_by_the_next_one(
    worker_process, registered, file, tmp_path
):
    first = worker_process("--concurrency", "1")
    lost = await submit(registered, sample.LATER, {"file": str(file), "until": str(tmp_path / "never")})
    await said(file)
    waiting = [await submit(registered, sample.WRITE, {"file": str(file)}) for _ in range(3)]
    first.kill()
    worker_process()
    for task in waiting:
        await ended(registered, task, "completed")
    assert (await registered.tasks.get(lost.id)).status == "running"


@pytest.mark.parametrize("full", [sample.LATER, sample.HOLD])
async def test_a_stopping_executor_finishes_running_tasks_and_takes_no_more(
    worker_process, registered, file, tmp_path, full
):
    worker = worker_process("--concurrency", "2")
    running = await submit(registered, full, {"file": str(file), "until": str(tmp_path / "go")})
    await said(file)
    worker.signal(signal.SIGTERM)
    await eventually(lambda: "internal worker stopping" in worker.log())
    waiting = await submit(registered, sample.WRITE, {"file": str(file)})
    (tmp_path / "go").touch()
    assert await gone(worker) == 0
    assert (await registered.tasks.get(running.id)).status == "completed"
    assert (await registered.tasks.get(waiting.id)).status == "claimed"


@pytest.mark.parametrize("full", [sample.LATER, sample.HOLD])
async def test_a_task_that_does_not_end_within_the_grace_fails_and_does_not_delay_the_executor(
    worker_process, registered, file, tmp_path, full
):
    worker = worker_process("--grace", "0.2")
    task = await submit(registered, full, {"file": str(file), "until": str(tmp_path / "never")})
    await said(file)
    worker.signal(signal.SIGTERM)
    assert await gone(worker) == 0
    found = await registered.tasks.get(task.id)
    assert (found.status, found.error) == ("failed", "Internal worker stopped")


async def test_a_second_signal_ends_the_executor_without_the_grace(worker_process, registered, file, tmp_path):
    worker = worker_process("--grace", "3600")
    task = await submit(registered, sample.HOLD, {"file": str(file), "until": str(tmp_path / "never")})
    await said(file)
    worker.signal(signal.SIGTERM)
    await eventually(lambda: "internal worker stopping" in worker.log())
    worker.signal(signal.SIGTERM)
    assert await gone(worker) == 0
    assert (await registered.tasks.get(task.id)).error == "Internal worker stopped"


@pytest.mark.parametrize(
    ("module", "sentence"),
    [
        ("", "HUB_INTERNAL_JOBS names no module with @internal jobs: there is nothing to run."),
        ("no_such_module", "no_such_module cannot be imported: ModuleNotFoundError: No module named 'no_such_module'."),
    ],
)
def test_an_executor_without_jobs_ends_with_a_sentence(redis_server, module, sentence):
    worker = WorkerProcess([], {"HUB_REDIS_URL": redis_server.url, "HUB_INTERNAL_JOBS": module})
    assert worker.process.wait(60) == 1
    assert worker.log().splitlines()[-1].endswith(sentence)
    worker.kill()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_hub_with_an_unusable_module_ends_with_a_sentence(redis_server, workers):
    chosen = {"HUB_REDIS_URL": redis_server.url, "HUB_INTERNAL_JOBS": "no_such_module", "HUB_WORKERS": workers}
    ended = subprocess.run(
        [sys.executable, "-m", "hub.cli", "serve"],
        env={**clean_environment(), **chosen, "HUB_PORT": str(free_port()), "DISABLE_DOTENV": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    sentence = ended.stderr.splitlines()[-1]
    assert sentence.startswith("hub: HUB_INTERNAL_JOBS=no_such_module: no_such_module cannot be imported: ")
