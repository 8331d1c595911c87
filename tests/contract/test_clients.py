"""Clients that are generated from the contract are typed and work, and linters find no fault in the contract."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from hub.api.publish import FILE, SPOKEN
from tests.world import PATIENCE_S, HubProcess

HERE = Path(__file__).parent / "clients"
TOOLS = Path(f"{sys.prefix}.clients")  # `make clients` installs them there
BIN = TOOLS / "node_modules" / ".bin"
PROGRAM_S = 240
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (TOOLS / ".installed").exists(), reason="`make clients` installs what generates clients"),
]


def run(*command: str | Path, cwd: Path, **more: str) -> str:
    """Run a program and return its output; fail with all its output when it fails."""
    environment = {**os.environ, "REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true", **more}
    said = [str(each) for each in command]
    done = subprocess.run(said, cwd=cwd, env=environment, capture_output=True, text=True, timeout=PROGRAM_S)
    assert done.returncode == 0, f"{said}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def patient_hub(start_hub: Callable[..., HubProcess]) -> HubProcess:
    """A hub that lends the slot of a node that never beats for as long as a program takes to start."""
    return start_hub(HUB_NODE_TIMEOUT="600")


def offer(hub: HubProcess) -> None:
    """A slot to borrow."""
    body = {"nodeId": "n1", "slots": [{"labelKey": "gpu:a100", "slotId": "s1"}]}
    secret = {"x-hub-secret": hub.node_secret}
    answer = httpx.post(f"{hub.url}/node/register", json=body, headers=secret, timeout=PATIENCE_S)
    assert answer.status_code == 200, answer.text


ROUND_TRIP = {
    "code": "no-such-pool", "slot": "s1", "seconds": 120, "returned": "s1", "status": "completed",
    "result": {"images": 40},
}  # fmt: skip


def test_a_generated_typescript_client_is_typed_and_works(tmp_path, patient_hub):
    (tmp_path / "node_modules").symlink_to(TOOLS / "node_modules")
    for name in ("borrower.ts", "package.json"):
        (tmp_path / name).write_text((HERE / name).read_text())
    run(BIN / "openapi-typescript", FILE, "-o", "hub.ts", cwd=tmp_path)
    strictly = ("--strict", "--target", "es2022", "--module", "nodenext", "--types", "node")
    run(BIN / "tsc", *strictly, "borrower.ts", cwd=tmp_path)
    offer(patient_hub)
    secrets = (patient_hub.runner_secret, patient_hub.admin_secret)
    said = json.loads(run("node", "borrower.js", patient_hub.url, *secrets, cwd=tmp_path))
    assert said.pop("neutral") == ["s1", "gpu:a100", "a100", 120, "s1"]
    assert said == ROUND_TRIP
    (tmp_path / "borrower.ts").write_text((HERE / "borrower.ts").read_text().replace("grant.leaseToken", "grant.token"))
    with pytest.raises(AssertionError, match="Property 'token' does not exist on type"):
        run(BIN / "tsc", *strictly, "borrower.ts", cwd=tmp_path)


def test_a_generated_python_client_is_typed_and_works(tmp_path, patient_hub):
    path = f"{TOOLS / 'bin'}{os.pathsep}{os.environ['PATH']}"
    generator = (TOOLS / "bin" / "openapi-python-client", "generate", "--path", FILE, "--meta", "none")
    run(*generator, "--output-path", tmp_path / "capacity_hub_client", cwd=tmp_path, PATH=path)
    check = (sys.executable, "-m", "mypy", "--strict", "--config-file", os.devnull, "--follow-imports", "silent")
    run(*check, HERE / "borrower.py", cwd=tmp_path, MYPYPATH=str(tmp_path))
    offer(patient_hub)
    secrets = (patient_hub.runner_secret, patient_hub.admin_secret)
    program = (TOOLS / "bin" / "python", HERE / "borrower.py", patient_hub.url, *secrets)
    assert json.loads(run(*program, cwd=tmp_path, PYTHONPATH=str(tmp_path))) == ROUND_TRIP


@pytest.mark.parametrize("file", [FILE, SPOKEN], ids=["openapi", "asyncapi"])
def test_a_linter_finds_no_fault_in_the_contract(tmp_path, file):
    found = json.loads(run(BIN / "redocly", "lint", "--format", "json", file, cwd=tmp_path))
    assert (found["totals"]["errors"], found["problems"]) == (0, [])
