"""The descendants of a command are found while some of them end."""

from __future__ import annotations

import subprocess
import sys

import pytest

# A process that ends at the moment at which it is looked at: an audit hook hears of every file before it is opened.
LOOK = """
import os, subprocess, sys
from hub.cli import child
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
    found = child._descendants(os.getpid())
finally:
    other.kill()
assert seen, "nothing was looked at"
assert other.pid in found, found
"""


@pytest.mark.parametrize("events", [["os.listdir", "os.scandir"], ["open"]], ids=["its threads", "their children"])
def test_a_process_that_ends_during_a_look_at_it_raises_nothing(events: list[str]):
    looked = subprocess.run([sys.executable, "-c", LOOK, *events], capture_output=True, text=True, check=False)
    assert (looked.returncode, looked.stderr) == (0, "")
