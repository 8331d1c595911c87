"""Standard streams that are closed, full or gone."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.command import Command
from tests.world import wait_until

STREAMS = (
    "0<&-", "1>&-", "2>&-", "1>/dev/full", "2>/dev/full", "1>&- 2>&-", "0<&- 1>&- 2>&-", "1>&$gone", "2>&$gone",
)  # fmt: skip
WORDS = (
    "nodes", "node show n1", "nodes --json", "status", "manual", "--version", "--help", "completion zsh", "drain n1",
    "why n1", "events", "nodes nobody", "nodes --no-such-option", "task submit @global:m:X --payload -", "top",
)  # fmt: skip
HELD = {"slots": [{"labelKey": "held:it", "slotId": "s1", "endpoint": "ws://n/s"}]}


def line(words: str, streams: str) -> list[str]:
    """Run `hub` by a shell that redirects streams; $gone is a pipe without a reader."""
    return ["bash", "-c", f"exec {{gone}}> >(:); wait $!; exec {sys.executable} -m hub.cli {words} {streams}"]


@pytest.fixture(autouse=True)
def node(announce: Callable[..., None]) -> None:
    announce("n1", **HELD)


@pytest.mark.parametrize("streams", STREAMS)
def test_a_closed_or_full_output_stream_is_no_fault_of_the_program(command: Command, streams: str):
    """A stream that was closed is as one into nothing. A result that cannot be kept is a failure; a sentence is not."""
    for words in WORDS:
        started = subprocess.Popen(
            line(words, streams), env=command.environment, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        out, err = started.communicate(timeout=60)
        refused = words.endswith(("nobody", "option", "-", "top"))
        assert [text for text in ("Traceback", "fault", "Exception ignored", "NoneType") if text in out + err] == [], (
            words
        )
        assert (words, out.startswith("hub: ")) == (words, False)
        full = "1>/dev/full" in streams and not refused
        codes = {1, 2} if refused else {1} if full else {0}
        if (words, streams) == ("--help", "1>&$gone"):  # which is printed by a library, and its way to end
            codes.add(1)
        assert (words, started.returncode in codes) == (words, True), started.returncode
        assert ("No space left on device" in err) == full


@pytest.mark.parametrize("streams", STREAMS)
def test_a_command_whose_output_is_closed_still_returns_its_slot(command: Command, streams: str):
    done = subprocess.run(
        line("borrow held:it -- sh -c 'exit 7'", streams), env=command.environment, timeout=60, check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert (done.returncode, command.ask("/sessions")["sessions"]) == (7, [])
    holding = subprocess.Popen(
        line("borrow held:it", streams), env=command.environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    if "1>/dev/full" not in streams and "1>&$gone" not in streams:  # there it ends by itself: who holds what is unknown
        wait_until(lambda: len(command.ask("/sessions")["sessions"]) == 1)
        holding.send_signal(signal.SIGTERM)
    code = holding.wait(60)
    assert (code, command.ask("/sessions")["sessions"]) == (1 if "1>/dev/full" in streams else 0, [])


def test_closed_standard_streams_are_replaced_by_the_null_device(command: Command, tmp_path: Path):
    links = "' '.join(os.readlink(f'/proc/self/fd/{at}') for at in range(3))"
    seen = f"import os; open({str(tmp_path / 'seen')!r}, 'w').write({links})"
    words = f"borrow held:it -- {sys.executable} -c {shlex.quote(seen)}"
    done = subprocess.run(line(words, "0<&- 1>&- 2>&-"), env=command.environment, timeout=60, check=False)
    assert (done.returncode, (tmp_path / "seen").read_text()) == (0, "/dev/null /dev/null /dev/null")
