"""The place of a slot on this machine: its id, port, folder and programs, which are marked as its own."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path

from hub.fleet.processes import Program, output_of
from hub.fleet.templates import filled
from hub.processes import environments, without_secrets

FLEET, SLOT, RUN = "HUB_FLEET", "HUB_SLOT_ID", "HUB_FLEET_RUN"
_ROUNDS = 50
_ROUND_S = 0.02


@dataclass(frozen=True)
class Home:
    """The facts that all slots of a run of the agent share; `folder` is that of the run, and `run` names it."""

    node: str
    run: str
    folder: Path
    host: str
    numbers: Iterator[int] = field(default_factory=count)


class SlotPlace:
    """The place in which a driver starts a slot. It stays the same over restarts of the slot."""

    def __init__(self, home: Home, slot_id: str, index: int, item: str) -> None:
        self.id = slot_id
        self.index = index
        self.item = item
        self.node = home.node
        self.host = home.host
        self._home = home
        self._folder = home.folder / str(next(home.numbers))  # a short path: that of a socket in it has a limit
        self.changed = asyncio.Event()  # a program has ended, or supervision is asked for something
        self._programs: list[Program] = []

    @cached_property
    def port(self) -> int:
        """Return a TCP port of this machine that was free when it was first asked for."""
        with socket.socket() as probe:
            probe.bind(("", 0))
            return int(probe.getsockname()[1])

    def move(self) -> None:
        """Take another port, because another program may have this one."""
        self.__dict__.pop("port", None)

    @property
    def folder(self) -> Path:
        """Return a folder for the slot alone, which is made when it is missing and removed after each stop."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        return self._folder

    def fill(self, text: str) -> str:
        """Return a text of the fleet file with the names in braces replaced."""
        return filled(text, lambda name: self.id if name == "slot" else str(getattr(self, name)))

    async def spawn(
        self, command: Sequence[str], environment: Mapping[str, str | None] | None = None, cwd: Path | None = None
    ) -> Program:
        """Start a program that runs for the slot until it is stopped; its words may have names in braces.

        `environment` changes variables, None removes one. `cwd` is its working folder, unless that of the agent.
        """
        words, variables = [self.fill(word) for word in command], self._environment(environment or {})
        program = await Program.start(words, variables, cwd=cwd, on_end=self.changed.set)
        self._programs.append(program)
        return program

    async def run(self, command: Sequence[str], timeout_s: float) -> str:
        """Run a command to its end and return what it printed. Raises `Unwell` when it fails or takes too long."""
        return await output_of([self.fill(word) for word in command], timeout_s, self._environment({}))

    async def clear(self) -> None:
        """Kill all programs that carry the marks of the slot, and remove its folder."""
        while self._programs:
            await self._programs.pop().kill()
        await kill_marked({RUN: self._home.run, SLOT: self.id})
        for _ in range(_ROUNDS):  # a thread of what was killed may still write a file
            if not self._folder.exists():
                break
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
            await asyncio.sleep(_ROUND_S if self._folder.exists() else 0)

    def _environment(self, changes: Mapping[str, str | None]) -> dict[str, str]:
        marks = {FLEET: self.node, SLOT: self.id, RUN: self._home.run}
        variables = {**without_secrets(os.environ), **changes, **marks}
        return {name: value for name, value in variables.items() if value is not None}


async def kill_marked(marks: Mapping[str, str]) -> int:
    """Kill all processes with these marks; return how many there were.

    They are looked for again until there are none, because one may start another while it is killed.
    """
    killed: set[int] = set()
    for _ in range(_ROUNDS):
        found = {
            pid for pid, given in environments(RUN) if all(given.get(name) == value for name, value in marks.items())
        } - {os.getpid()}
        if not found:
            break
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        killed |= found
        await asyncio.sleep(_ROUND_S)
    _reap(killed)
    return len(killed)


def _reap(pids: Iterable[int]) -> None:
    """Take note of the end of orphans, which are children of this process where it is the first of a container."""
    for pid in pids:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
