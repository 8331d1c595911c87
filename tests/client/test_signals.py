"""Which signals a process that holds something handles, and which it leaves to the program around it."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys

from hub.client.signals import handled, is_for_the_program, named
from tests.world import PATIENCE_S

LEFT = """
import faulthandler, signal
from hub.client.signals import ending
before = set(ending())
faulthandler.register(signal.SIGUSR1)
signal.signal(signal.SIGALRM, lambda *_: None)
for number in (signal.SIGHUP, signal.SIGUSR2, signal.SIGQUIT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
print(*sorted(before - set(ending())))
"""


def test_only_ending_signals_that_the_program_does_not_handle_itself_are_handled():
    done = subprocess.run([sys.executable, "-c", LEFT], capture_output=True, text=True, check=True, timeout=60)
    left = {int(number) for number in done.stdout.split()}
    assert left == {signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGHUP}


async def test_the_handlers_that_the_program_has_set_come_back():
    loop, heard, ours = asyncio.get_running_loop(), asyncio.Event(), []
    former = signal.getsignal(signal.SIGINT)
    loop.add_signal_handler(signal.SIGTERM, heard.set)
    try:
        with handled(ours.append, loop):
            signal.raise_signal(signal.SIGTERM)
        heard.clear()
        signal.raise_signal(signal.SIGTERM)
        await asyncio.wait_for(heard.wait(), PATIENCE_S)
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
    assert ours == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGINT) is former
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL


def test_every_signal_has_a_name_and_a_meaning():
    assert [named(number) for number in (signal.SIGTERM, signal.SIGRTMIN + 1)] == [
        "SIGTERM",
        f"signal {signal.SIGRTMIN + 1}",
    ]
    ours = [number for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGRTMAX) if is_for_the_program(number)]
    assert ours == [signal.SIGUSR1, signal.SIGRTMAX]
