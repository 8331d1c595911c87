"""The client where nothing is installed but the wheel and httpx, against a real hub."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.alone import make_environment, needed_by
from tests.client.jobs.live import TOKEN, tokens_file
from tests.world import PATIENCE_S, HubProcess, clean_environment

pytestmark = pytest.mark.slow

# Imports every module of the client, and tells what that loads of other packages beyond what httpx loads by itself.
# Left out: what is for records, which need a database, and the two classes that are pydantic models.
LOADS = """
import importlib, json, pathlib, sys
import httpx
before = set(sys.modules)
import hub.client
top = pathlib.Path(hub.client.__file__).parent
names = {".".join(file.relative_to(top).with_suffix("").parts) for file in top.rglob("*.py")}
names = {name for name in names if not name.startswith("records.") and name != "jobs.extension"}
assert {"watch", "jobs.worker", "__main__"} <= names
for name in names:
    importlib.import_module(f"hub.client.{name}".removesuffix(".__init__"))
tops = {name.partition(".")[0] for name in set(sys.modules) - before}
print(json.dumps(sorted(tops - set(sys.stdlib_module_names) - {"__mp_main__"})))  # what multiprocessing calls this
"""
BORROWS = """
import asyncio
from hub.client import HubClient, NoCapacity, SyncHubClient

async def main():
    async with HubClient() as client, client.borrow("gpu:a100", wait=60) as slot:
        print(slot.id)
        try:
            await client.acquire("gpu:a100")
        except NoCapacity as error:
            print(error.code)

asyncio.run(main())
with SyncHubClient() as client:
    with client.borrow("gpu:a100", wait=60) as slot:
        print(slot.id)
"""
WORKS = """
import asyncio
from hub.client.jobs import JobsClient, Worker

class Square:  # what a pydantic model is to a worker
    @classmethod
    def model_json_schema(cls):
        return {"type": "object"}

    @classmethod
    def model_validate(cls, given):
        if "n" not in given:
            raise ValueError("n is missing")
        made = cls()
        made.n = given["n"]
        return made

worker = Worker(concurrency=2)

@worker.job("analysis", "Square", schema=Square)
async def square(payload, task):
    print(payload.n ** 2)

async def main():
    async with worker, JobsClient() as jobs:
        task = await jobs.submit("@global:analysis:Square", {"n": 12}, "lab")
        print((await jobs.wait_for(task, timeout=30)).status)
        task = await jobs.submit("@global:analysis:Square", {}, "lab")
        print((await jobs.wait_for(task, timeout=30)).error)

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    return make_environment(tmp_path_factory.mktemp("alone") / "environment", wheel)


@pytest.fixture
def environment(live_hub: HubProcess) -> dict[str, str]:
    secrets = {"HUB_RUNNER_SECRET": live_hub.runner_secret, "HUB_NODE_SECRET": live_hub.node_secret}
    return {**clean_environment(), **secrets, "HUB_URL": live_hub.url, "HUB_TOKEN": TOKEN}


@pytest.fixture
def live_hub(start_hub, tmp_path: Path) -> HubProcess:
    """A hub whose workers have a token."""
    return start_hub(HUB_TOKENS_FILE=tokens_file(tmp_path))


@pytest.fixture
def node(alone: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    words = [alone, "-I", "-m", "hub.client", "--node", "n1", "--slots", "gpu:a100=1", "--label", "region=eu"]
    process = subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.communicate()


def run(python: Path | str, text: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-I", "-c", text], env=environment, capture_output=True, text=True, timeout=2 * PATIENCE_S
    )


def lines(python: Path, text: str, environment: dict[str, str]) -> list[str]:
    done = run(python, text, environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_an_installation_of_the_client_alone_contains_only_the_hub_and_httpx(alone: Path):
    found = lines(alone, "import importlib.metadata as m; print(*(d.name for d in m.distributions()), sep='\\n')", {})
    assert {name.lower().replace("_", "-") for name in found} == {"capacity-hub", "httpx"} | needed_by("httpx")


def test_the_client_imports_only_the_standard_library_and_httpx(alone: Path):
    beside_everything = subprocess.run([sys.executable, "-c", LOADS], check=True, capture_output=True, text=True)
    assert json.loads(beside_everything.stdout) == ["hub"]
    assert json.loads(lines(alone, LOADS, {})[-1]) == ["hub"]


async def test_nodes_and_borrowers_work_with_the_client_alone(
    alone: Path, environment: dict[str, str], node: subprocess.Popen[str], live_hub: HubProcess
):
    assert lines(alone, BORROWS, environment) == ["n1-gpu.a100-1", "no-capacity", "n1-gpu.a100-1"]
    async with live_hub.client() as admin:
        known = (await admin.get("/nodes/n1")).json()
        assert (known["labels"], known["apps"]) == ({"region": "eu"}, ["gpu:a100"])
        node.send_signal(signal.SIGTERM)
        said = node.communicate(timeout=PATIENCE_S)[1]
        assert node.returncode == 0, said
        assert (await admin.get("/nodes/n1")).status_code == 404


def test_a_worker_works_with_the_client_alone(alone: Path, environment: dict[str, str]):
    assert lines(alone, WORKS, environment) == ["144", "completed", "n is missing"]


def test_an_agent_that_the_hub_refuses_prints_the_reason_in_a_sentence(alone: Path, environment: dict[str, str]):
    words = [alone, "-I", "-m", "hub.client", "--node", "n1"]
    environment = {**environment, "HUB_NODE_SECRET": "another-secret-than-that"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
    assert "ERROR" in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--slots", "gpu:a100"], "'gpu:a100' is not LABEL=N"),
        (["--slots", "gpu:a100=0"], "N from 1 to 100000"),
        (["--slots", "gpu:a100=1", "--slots", "gpu:a100=2"], "--slots names something twice"),
        (["--label", "eu"], "'eu' is not KEY=VALUE"),
    ],
)
def test_a_wrong_command_line_of_the_client_is_refused_in_a_sentence(alone: Path, words: list[str], says: str):
    done = subprocess.run([alone, "-I", "-m", "hub.client", *words], env={}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert says in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("from hub.client.jobs import Extension", "Extension needs pydantic; run: pip install pydantic"),
        ("from hub.client.jobs import Worker; Worker(socket=True)", 'pip install "python-socketio[client]"'),
        ("import hub.recovery.loop", "records need SQLAlchemy; run: pip install 'capacity-hub[sql]'"),
        (
            "import hub.cli",
            "which is not installed; run: pip install capacity-hub. Without it, `python -m hub.client` ",
        ),
    ],
)
def test_a_feature_that_needs_a_missing_package_names_the_package(alone: Path, text: str, says: str):
    done = run(alone, text, {})
    assert done.returncode == 1
    assert says in done.stderr.splitlines()[-1]
