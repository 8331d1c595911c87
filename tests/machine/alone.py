"""Running a state machine in a process of its own, so that the same tree plays the same steps."""

import json
import os
import subprocess
import sys

import pytest

GIVEN = os.environ.get("HUB_MACHINE_EXAMPLES")  # makes it longer: other examples each time, and a failure is shortened
timed = pytest.mark.timeout(3600 if GIVEN else 600)


def assert_clean(machine: str, examples: int, steps: int) -> None:
    """Fail with what a machine finds, or where it takes fewer steps than so many examples ever took."""
    command = [sys.executable, "-m", "tests.mutants.attempt", machine, GIVEN or str(examples)]
    command += ["random"] if GIVEN else []
    environment = os.environ | ({} if GIVEN else {"PYTHONHASHSEED": "0"})  # sets in one order
    said = subprocess.run(command, env=environment, text=True, capture_output=True, check=False)
    assert said.returncode == 0, said.stderr
    answer = json.loads(said.stdout.splitlines()[-1])
    assert answer["found"] is None, said.stderr
    assert GIVEN or answer["steps"] >= steps
