"""The runs of agents on this machine: each has a folder of its own, and ends what an earlier run has left."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import stat
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from hub.errors import StartRefused
from hub.fleet.place import FLEET, RUN, Home, kill_marked
from hub.fleet.processes import without_threads
from hub.observability.logs import get_logger
from hub.processes import environments

_log = get_logger("hub.fleet")


@asynccontextmanager
async def new_run(node: str, host: str) -> AsyncIterator[Home]:
    """Begin a run of this node: end what is left of runs whose agent was killed, and at the end of the block this one.

    The lock on the folder of a run says that its agent lives. Raises `StartRefused` when the folder cannot be trusted.
    """
    top = Path(tempfile.gettempdir(), f"hub-fleet-{os.getuid()}")
    without_threads()
    folder = top / uuid.uuid4().hex[:12]
    home = Home(node, str(folder), folder, host)
    with _locked(_own(top)):  # so that no other agent takes the new folder for an old one
        lock = _lock(_own(home.folder))
    try:
        await _sweep(top, node)
        yield home
    finally:
        await kill_marked({RUN: home.run})
        await asyncio.to_thread(shutil.rmtree, home.folder, ignore_errors=True)
        os.close(lock)


async def _sweep(top: Path, node: str) -> None:
    """Kill the processes of this node's runs whose agents live no longer, and of runs that have left a folder."""
    killed, folders = 0, 0
    with _locked(top):
        for folder in map(Path, sorted(os.scandir(top), key=lambda entry: entry.name)):
            if not _lives(folder):
                killed += await kill_marked({RUN: str(folder)})
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
                folders += 1
        # Run -> its folder, as each of its programs sees it: they may have a /tmp of their own.
        runs: dict[str, list[Path]] = {}
        for pid, given in environments(RUN):
            if given.get(FLEET) == node:
                runs.setdefault(given[RUN], [Path(given[RUN])]).append(Path(f"/proc/{pid}/root{given[RUN]}"))
        for run, seen in runs.items():  # of a run whose folder is gone, or in another TMPDIR
            if not any(map(_lives, seen)):
                killed += await kill_marked({RUN: run})
    if killed or folders:
        _log.warning("fleet leftovers ended", node=node, processes=killed, folders=folders)


def _own(folder: Path) -> Path:
    """Make a folder of this user alone, or use it; raises `StartRefused` for one that another user can write."""
    folder.mkdir(mode=0o700, exist_ok=True)
    facts = folder.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
        raise StartRefused(f"{folder} is no folder of this user alone; remove it, or set TMPDIR to another place.")
    return folder


def _lives(folder: Path) -> bool:
    """Return whether the agent of the run with this folder lives."""
    try:
        os.close(_lock(folder))
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    lock = _lock(folder, wait=True)
    try:
        yield
    finally:
        os.close(lock)


def _lock(folder: Path, *, wait: bool = False) -> int:
    """Return a locked descriptor of a folder, which no program inherits; raises `BlockingIOError` while it is taken."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        os.close(number)
        raise
    return number
