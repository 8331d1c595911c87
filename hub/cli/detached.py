"""Slots held in the background: `hub borrow --detach` leaves a process that renews, its keeper; `hub return` ends it.

The keeper has a record, a file with the token of the lease, which it locks while it runs. When it is killed the record
stays: the slot can be returned all the same, and its lease lapses.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import signal
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from typer import Exit

from hub.client import Slot
from hub.client.signals import ending
from hub.errors import HubError


class Detached(NamedTuple):
    """The record of a slot that a keeper holds, or held: its file, and the process id of the keeper."""

    path: Path
    keeper: int
    pool: str
    token: str

    def end(self) -> None:
        """Ask the keeper to give the slot back and end, if it runs, and delete the record."""
        with suppress(FileNotFoundError), self.path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:  # the keeper has the lock, so this process id is still its own
                os.kill(self.keeper, signal.SIGTERM)
            self.path.unlink()


def find(url: str, slot_id: str) -> Detached | None:
    """Return the latest record of a slot that was borrowed from the hub at `url`, None without one."""
    try:
        path = max(
            _folder().glob(f"{_name(url, slot_id)}.*"), key=lambda path: int(path.suffix[1:])
        )  # tokens only rise
        return Detached(path, **json.loads(path.read_text()))
    except (HubError, OSError, ValueError, TypeError):  # there is none, or none that can be read
        return None


@contextmanager
def recorded(url: str, slot: Slot) -> Iterator[None]:
    """Keep the record of a slot, for a keeper, while the block runs; raises `HubError` for an unsafe folder."""
    path = _folder() / f"{_name(url, slot.id)}.{slot.token}"
    try:
        with path.open("x") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            json.dump({"keeper": os.getpid(), "pool": slot.pool, "token": slot.token}, file)
            file.flush()
            yield
    finally:
        path.unlink(missing_ok=True)


def fork() -> int:
    """Fork a process in a session of its own, to become a keeper, and return in it its end of a pipe.

    The first process passes signals on until the keeper holds a slot or ends, and then ends too: raises `Exit`.
    """
    hears, tells = os.pipe()
    if pid := os.fork():
        os.close(tells)
        for number in ending():
            signal.signal(number, lambda number, _: os.kill(pid, number))
        code = 0 if os.read(hears, 1) else os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        raise Exit(code if code >= 0 else 128 - code)
    os.setsid()
    for first, end in ((3, tells), (tells + 1, os.sysconf("SC_OPEN_MAX"))):  # a lock of the caller must not live on
        os.closerange(first, end)
    return tells


def leave_terminal(tells: int) -> None:
    """Let go of the standard streams and have the first process end; raises `HubError` where that one is gone."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    try:
        os.write(tells, b"!")
    except BrokenPipeError:
        raise HubError("The command was killed before it could say which slot it holds.") from None
    os.close(tells)


def _name(url: str, slot_id: str) -> str:
    return hashlib.sha256(f"{url} {slot_id}".encode()).hexdigest()[:32]


def _folder() -> Path:
    folder = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / f"capacity-hub-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    facts = folder.stat(follow_symlinks=False)
    if facts.st_uid != os.getuid() or facts.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise HubError(f"The record of a slot is not kept in {folder}: others could reach it there.")
    return folder
