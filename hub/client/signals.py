"""The signals that would end this process; it handles them to give back what it holds first."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

# These ask the process to end.
MEANT = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")
# The program gives these a meaning; without a handler they end it.
FOR_THE_PROGRAM = ("SIGUSR1", "SIGUSR2")
# These come from timers, limits and supervisors; without a handler they end the process. Signals of faults, such as
# SIGSEGV, are left out: after one no code can run, not even to give something back.
_MORE = (
    "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGXCPU", "SIGIO", "SIGPWR", "SIGSTKFLT", "SIGABRT", "SIGTRAP", "SIGSYS",
)  # fmt: skip
_ALWAYS = (signal.SIGTERM, signal.SIGINT)
_BY_SHELLS = "SIGQUIT"  # a shell lets background processes ignore it: handled all the same


def ending() -> list[int]:
    """Return the numbers of the signals to handle: those that would end this process now.

    Left out are signals that are ignored, as SIGHUP is under nohup, and those that the program handles. SIGTERM and
    SIGINT are always in the list.
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


@contextmanager
def handled(on_signal: Callable[[int], object], loop: asyncio.AbstractEventLoop | None = None) -> Iterator[None]:
    """Call `on_signal` with the number of each signal that would end the process; then put the former handlers back.

    Outside the main thread, which alone may set handlers, nothing is handled. `on_signal` is called in the main thread
    at any moment, and so must not set an event for which that thread may be waiting: it holds the lock of the event.

    With `loop`, the event loop of the main thread, each signal wakes the loop. Without it, one that comes just before
    the loop sleeps, or that the system gives to another thread, is noticed only when something else wakes the loop.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda number, _: on_signal(number)) for number in ending()}
    # A loop with one handler is woken by every signal. Those that the program has set, maybe on this loop, stay there.
    on_loop = [number for number, handler in before.items() if loop is not None and handler is signal.SIG_DFL]
    if loop is not None:
        for number in on_loop:
            loop.add_signal_handler(number, on_signal, number)
    try:
        yield
    finally:
        if loop is not None:
            for number in on_loop:
                loop.remove_signal_handler(number)
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


def _handled_outside_python() -> int:
    """Return a bit for each signal with a handler, also one that `signal` does not know of, such as faulthandler's."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:  # not Linux: only handlers that Python knows are seen
        return 0
    return int(status.partition("SigCgt:")[2].split(maxsplit=1)[0], 16)


def is_for_the_program(number: int) -> bool:
    """Return whether the program gives this signal its meaning: SIGUSR1, SIGUSR2 and the real-time signals."""
    return number >= getattr(signal, "SIGRTMIN", signal.NSIG) or named(number) in FOR_THE_PROGRAM


def named(number: int) -> str:
    """Return the name of a signal, such as SIGTERM."""
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
