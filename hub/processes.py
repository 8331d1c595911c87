"""Processes of this machine: their parents and children, and what they are given when they start."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_SECRET_NAME = re.compile(r"HUB_(.+_)?SECRETS?|HUB_JOIN_TOKEN|HUB_REDIS_URL")
libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def without_secrets(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without those of secrets of the hub, for a command that runs for a slot or with one."""
    return {name: value for name, value in variables.items() if not _SECRET_NAME.fullmatch(name)}


def die_with(parent: int, signum: signal.Signals) -> Callable[[], None]:
    """Return a function to call between fork and exec: on Linux the child then gets `signum` when its parent dies."""

    def prepare() -> None:
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, int(signum))
        if os.getppid() != parent:
            os._exit(1)

    return prepare


def children(pid: int) -> list[int]:
    """Return the ids of the child processes of a process; none where /proc is missing, or once it has ended."""
    found: list[int] = []
    with suppress(OSError):  # the process may end at any moment
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found


def descendants(pid: int) -> list[int]:
    """Return the ids of the child processes of a process, and of theirs."""
    found: dict[int, None] = {}
    left = [pid]
    while left:  # not by recursion: what a borrower runs may be nested more deeply than Python's stack
        new = [child for child in children(left.pop()) if child not in found]
        found |= dict.fromkeys(new)
        left += new
    return list(found)


def environments(name: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the id and the first environment of each process of this user that has the variable; none without /proc."""
    for entry in os.listdir("/proc") if libc is not None else ():
        if entry.isdigit():
            with suppress(OSError):  # of another user, or ended by now
                text = Path(f"/proc/{entry}/environ").read_bytes()
                if f"{name}=".encode() in text:
                    words = text.decode("utf-8", "replace").split("\0")
                    yield int(entry), dict(word.split("=", 1) for word in words if "=" in word)
