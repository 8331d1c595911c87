"""The descendants of a command are found while some of them end."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hub.processes import descendants, without_secrets

# A process that ends at the moment at which it is looked at: an audit hook hears of every file before it is opened.
LOOK = """
import os, subprocess, sys
from hub import processes
doomed = subprocess.Popen(["sleep", "3600"])
other = subprocess.Popen(["sleep", "3600"])
seen = []
def hear(event, arguments):
    if arguments and str(arguments[0]).startswith(f"/proc/{doomed.pid}/") and event in sys.argv[1:]:
        seen.append(event)
        doomed.kill()
        os.waitid(os.P_PID, doomed.pid, os.WEXITED)
sys.addaudithook(hear)
try:
    found = processes.descendants(os.getpid())
finally:
    other.kill()
assert seen, "nothing was looked at"
assert other.pid in found, found
"""


@pytest.mark.parametrize("events", [["os.listdir", "os.scandir"], ["open"]], ids=["its threads", "their children"])
def test_a_process_that_ends_during_a_look_at_it_raises_nothing(events: list[str]):
    looked = subprocess.run([sys.executable, "-c", LOOK, *events], capture_output=True, text=True, check=False)
    assert (looked.returncode, looked.stderr) == (0, "")


def test_a_chain_of_processes_deeper_than_the_stack_of_python_is_found_whole(monkeypatch: pytest.MonkeyPatch):
    last = 2 * sys.getrecursionlimit()
    monkeypatch.setattr("hub.processes.children", lambda pid: [pid + 1] if pid < last else [])
    assert descendants(1) == list(range(2, last + 1))


def test_what_runs_for_a_slot_is_given_no_credential_of_the_hub():
    given = {"HUB_JOIN_TOKEN": "j", "HUB_REDIS_URL": "redis://:s3@r", "HUB_SECRET": "s", "HUB_NODE_SECRET": "n"}
    assert without_secrets({**given, "HUB_URL": "http://hub", "PATH": "/bin"}) == {
        "HUB_URL": "http://hub",
        "PATH": "/bin",
    }
