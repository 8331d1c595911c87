"""Signals that end a process which holds something, so that it gives that back before it ends."""

from __future__ import annotations

import signal
from pathlib import Path

# These say that the process is to end.
MEANT = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")
# These mean what the program makes of them; with no handler they end it.
FOR_THE_PROGRAM = ("SIGUSR1", "SIGUSR2")
# These come from timers, limits and supervisors; with no handler they end the process. Faults of the program itself, as
# SIGSEGV, are not among them: there is no going on from those, not even to give something back.
_MORE = (
    "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGXCPU", "SIGIO", "SIGPWR", "SIGSTKFLT", "SIGABRT", "SIGTRAP", "SIGSYS",
)  # fmt: skip
_ALWAYS = (signal.SIGTERM, signal.SIGINT)
_BY_SHELLS = "SIGQUIT"  # ignored in the background of a shell, as SIGINT: that says nothing about the process


def ending() -> list[int]:
    """Return the numbers of signals to handle: each that would end this process as it is now.

    One that is ignored, as SIGHUP by nohup, or that the program handles is left to it; SIGTERM and SIGINT never are.
    """
    names = (*MEANT, *_MORE, *FOR_THE_PROGRAM)
    numbers = [int(getattr(signal, name)) for name in names if hasattr(signal, name)]
    if hasattr(signal, "SIGRTMIN"):
        numbers += range(signal.SIGRTMIN, signal.SIGRTMAX + 1)
    handled = _handled_outside_python()
    return [
        number
        for number in numbers
        if number in _ALWAYS
        or (signal.getsignal(number) is signal.SIG_DFL and not handled >> (number - 1) & 1)
        or (signal.getsignal(number) is signal.SIG_IGN and named(number) == _BY_SHELLS)
    ]


def _handled_outside_python() -> int:
    """Return a bit for each signal with a handler, also where `signal` does not know of it, as of faulthandler's."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:  # another system: what Python knows has to do
        return 0
    return int(status.partition("SigCgt:")[2].split(maxsplit=1)[0], 16)


def is_for_the_program(number: int) -> bool:
    """Say whether a signal has the meaning that the program gives it."""
    return number >= getattr(signal, "SIGRTMIN", signal.NSIG) or named(number) in FOR_THE_PROGRAM


def named(number: int) -> str:
    """Return the name of a signal, such as SIGTERM."""
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
