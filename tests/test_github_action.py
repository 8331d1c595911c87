"""The action of GitHub in `deploy/github/`: its two steps, run as a runner runs them, against a real hub."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.cli.command import alive, register
from tests.world import PATIENCE_S, HubProcess, clean_environment, wait_until

ACTION = Path(__file__).parent.parent / "deploy" / "github"
STEPS = yaml.safe_load((ACTION / "action.yml").read_text())
NODE = {"slots": [{"label": "gpu:a100", "slotId": "s1", "address": "ssh://n1/s1", "attributes": {"index": 3}}]}
_VALUE = re.compile(r"(?ms)^(.+?)<<(.+?)\n(.*?)\n\2\n")


class Job:
    """A job of a runner, with the files by which its steps speak to the runner."""

    def __init__(self, folder: Path, environment: dict[str, str], **inputs: str) -> None:
        self.folder = folder
        defaults = {name: str(each.get("default", "")) for name, each in STEPS["inputs"].items()}
        given = {f"INPUT_{name.upper()}": text for name, text in {**defaults, **inputs}.items()}
        files = {f"GITHUB_{name}": str(folder / name) for name in ("ENV", "OUTPUT", "STATE")}
        own = {"XDG_RUNTIME_DIR": str(folder), "DISABLE_DOTENV": "1"}
        self._environment = {**clean_environment(), **environment, **given, **files, **own}

    def start(self, step: str) -> subprocess.Popen[str]:
        """Start a step, `main` or `post`; the latter with what the former has told the runner to keep."""
        state = {f"STATE_{name}": text for name, text in self.told("STATE").items()}
        words = ["node", str(ACTION / STEPS["runs"][step])]
        environment, pipe = {**self._environment, **state}, subprocess.PIPE
        return subprocess.Popen(words, env=environment, stdout=pipe, stderr=subprocess.STDOUT, text=True)

    def run(self, step: str) -> tuple[int, str]:
        """Run a step to its end; return its exit code and what it prints."""
        with self.start(step) as process:
            said = process.communicate(timeout=2 * PATIENCE_S)[0]
            return process.returncode, said

    def told(self, name: str) -> dict[str, str]:
        """Return the values that steps have written to a file of the runner, as the runner reads it."""
        file = self.folder / name
        text = file.read_text() if file.exists() else ""
        assert _VALUE.sub("", text) == ""
        return {name: value for name, _, value in _VALUE.findall(text)}

    def keepers(self) -> list[int]:
        """Return the process ids of the keepers that have a record."""
        records = (self.folder / f"capacity-hub-{os.getuid()}").glob("*")
        return [json.loads(record.read_text())["keeper"] for record in records]


@pytest.fixture
def lending(start_hub: Callable[..., HubProcess]) -> HubProcess:
    hub = start_hub(HUB_NODE_TIMEOUT="600", HUB_REVOKE_GRACE_SECONDS="0")
    register(hub, "n1", **NODE)
    return hub


@pytest.fixture
def job(lending: HubProcess, tmp_path: Path) -> Iterator[Callable[..., Job]]:
    """Make jobs that find the command `hub`; their keepers are ended with the test."""
    made: list[Job] = []
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    def make(**inputs: str) -> Job:
        (tmp_path / f"job-{len(made)}").mkdir()
        usual = {"url": lending.url, "secret": lending.runner_secret, "label": "gpu:a100", "wait": "0", "ttl": "60"}
        made.append(Job(tmp_path / f"job-{len(made)}", {"PATH": path}, **{**usual, **inputs}))
        return made[-1]

    yield make
    for keeper in [keeper for each in made for keeper in each.keepers() if alive(keeper)]:
        os.kill(keeper, signal.SIGKILL)


def ask(hub: HubProcess, path: str) -> Any:
    return httpx.get(hub.url + path, headers={"x-hub-secret": hub.runner_secret}, timeout=PATIENCE_S).json()


def lent(hub: HubProcess) -> list[str]:
    return [each["browserId"] for each in ask(hub, "/sessions")["sessions"]]


def waiting_in(hub: HubProcess) -> int:
    return int(ask(hub, "/queue")["waiting"])


def test_a_job_holds_a_slot_from_the_step_that_borrows_to_its_end(job: Callable[..., Job], lending: HubProcess):
    one = job()
    code, said = one.run("main")
    assert code == 0, said
    assert lending.runner_secret not in said
    assert "::notice::s1 of gpu:a100 on n1 is lent to this job." in said
    assert one.told("OUTPUT") == {"slot": "s1", "endpoint": "ssh://n1/s1"}
    assert set(one.told("OUTPUT")) == set(STEPS["outputs"])
    assert one.told("ENV") == {
        "HUB_SLOT_ID": "s1", "HUB_SLOT_IDS": "s1", "HUB_SLOT_ENDPOINT": "ssh://n1/s1", "HUB_SLOT_LABEL": "gpu:a100",
        "HUB_SLOT_POOL": "gpu:a100", "HUB_SLOT_NODE": "n1", "HUB_SLOT_INDEX": "3",
    }  # fmt: skip
    assert f"::add-mask::{one.told('STATE')['token']}" in said
    (keeper,) = one.keepers()
    assert (lent(lending), alive(keeper)) == (["s1"], True)
    assert one.run("post") == (0, "")
    assert lent(lending) == []
    wait_until(lambda: not alive(keeper))
    assert one.keepers() == []


def test_a_job_whose_runner_dies_frees_its_slot_within_the_lease(job: Callable[..., Job], lending: HubProcess):
    one = job(ttl="0.5")
    assert one.run("main")[0] == 0
    (keeper,) = one.keepers()
    os.kill(keeper, signal.SIGKILL)
    wait_until(lambda: lent(lending) == [])
    code, said = one.run("post")  # of a runner that came back
    assert (code, said) == (1, "::error::The lease of s1 had ended before the job: its last steps had no slot.\n")


def test_a_job_whose_lease_an_operator_ended_fails(job: Callable[..., Job], lending: HubProcess):
    one = job()
    assert one.run("main")[0] == 0
    (keeper,) = one.keepers()
    proof = {"XDG_RUNTIME_DIR": str(one.folder / "other"), "HUB_URL": lending.url}
    words = [sys.executable, "-m", "hub.cli", "return", "s1", "--force", "--reason", "a test"]
    environment = {**clean_environment(), **proof, "HUB_RUNNER_SECRET": lending.runner_secret}
    subprocess.run(words, env=environment, check=True, capture_output=True)
    wait_until(lambda: not alive(keeper))
    assert one.run("post")[0] == 1


def test_a_job_that_is_cancelled_while_it_waits_leaves_the_queue(job: Callable[..., Job], lending: HubProcess):
    first, second = job(), job(wait="60")
    assert first.run("main")[0] == 0
    with second.start("main") as waiting:
        wait_until(lambda: waiting_in(lending) == 1)
        waiting.send_signal(signal.SIGINT)
        said = waiting.communicate(timeout=2 * PATIENCE_S)[0]
    assert (waiting.returncode, "::error::No slot of gpu:a100 was lent." in said) == (1, True)
    assert waiting_in(lending) == 0
    assert second.run("post") == (0, "")
    assert lent(lending) == ["s1"]


def test_a_step_that_gets_no_slot_fails_with_the_reason(job: Callable[..., Job], tmp_path: Path):
    code, said = job(label="gpu:a10O").run("main")
    assert (code, "did you mean gpu:a100?" in said) == (75, True)
    code, said = job(secret="wrong").run("main")
    assert (code, "refuses the secret" in said) == (77, True)
    without = Job(tmp_path, {"PATH": str(Path("/usr/bin"))}, label="gpu:a100", url="http://127.0.0.1:9")
    code, said = without.run("main")
    assert (code, "::error::The command hub cannot be run (ENOENT)" in said) == (127, True)


def test_no_text_of_a_hub_sets_another_variable_or_commands_the_runner(tmp_path: Path):
    evil = "x\nPATH=/evil\nEOF\n::set-env name=PATH::/evil"
    variables = [f"HUB_SLOT_ID={evil}", "HUB_SLOT_A=b=c"]
    slot: dict[str, Any] = {"slotId": evil, "pool": evil, "nodeId": evil, "address": evil, "environment": variables}
    (tmp_path / "answer").write_text(json.dumps({**slot, "lease": {"token": "7"}}))
    (tmp_path / "hub").write_text(f"#!/bin/sh\ncat {tmp_path}/answer\n")
    (tmp_path / "hub").chmod(0o755)
    one = Job(tmp_path, {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}, label="a:b", url="http://hub")
    code, said = one.run("main")
    assert (code, one.told("ENV")) == (0, {"HUB_SLOT_ID": evil, "HUB_SLOT_A": "b=c"})
    assert [line.split("::")[1] for line in said.splitlines()] == ["add-mask", "notice"]


def test_every_input_that_is_declared_is_read_and_no_other():
    scripts = "".join(path.read_text() for path in ACTION.glob("*.js"))
    assert set(re.findall(r"input\('(\w+)'\)", scripts)) == set(STEPS["inputs"])
    assert STEPS["runs"]["post-if"] == "always()"
