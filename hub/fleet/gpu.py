"""The driver `gpu`: lends the GPUs of this machine, and tells of programs that use one without a lease."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from hub.fleet.driver import Driver, Observation, Running, SlotPlan
from hub.fleet.nvidia import APPS, GPUS, App, Gpu, read_apps, read_gpus
from hub.fleet.place import SlotPlace
from hub.fleet.processes import Unwell, output_of
from hub.fleet.tables import CheckTable, PoolTable, Seconds


class _Check(CheckTable):
    every: Seconds = 10.0
    timeout: Seconds = 10.0  # nvidia-smi takes seconds where no daemon keeps its driver loaded


class GpuTable(PoolTable):
    """The keys of a pool of GPUs."""

    path: str = "nvidia-smi"
    check: _Check = _Check()


class GpuDriver(Driver[GpuTable]):
    """Lends each GPU that nvidia-smi lists, or each instance of one that MIG divides."""

    Table = GpuTable
    observes = True

    def __init__(self, table: GpuTable) -> None:
        super().__init__(table)
        self._known: dict[str, Gpu] = {}
        self._failures = 0
        self._strays: set[App] = set()

    async def slots(self) -> Sequence[SlotPlan]:
        """Return a slot for each GPU; raises `Unwell` with what nvidia-smi says when it fails."""
        self._known = await self._list()
        return self._plans()

    async def start(self, place: SlotPlace) -> Running:
        """Return at once: a GPU needs no start."""
        return Running(place)

    async def observe(self, lent: Iterable[str]) -> Observation:
        """Return the GPUs, and why some must not be lent: a fault, or a program without a lease.

        One that is no longer listed is kept, and held. All are held when nvidia-smi fails `check.down_after` times.
        """
        try:
            listed = await self._list()
            apps = read_apps(await self._ask(f"--query-compute-apps={','.join(APPS)}"))
        except Unwell as error:
            self._failures += 1
            if self._failures < self.table.check.down_after:
                raise
            return Observation(unwell=dict.fromkeys(self._known, str(error)))
        self._failures = 0
        for uuid, gpu in listed.items():
            if gpu.fault:  # what else is read of it may be wrong
                listed[uuid] = replace(self._known.get(uuid, gpu), fault=gpu.fault)
        cards = {gpu.card for gpu in listed.values()}
        lost = {uuid: gpu for uuid, gpu in self._known.items() if gpu.card not in cards}
        self._known = {**lost, **listed}
        unwell = {**self._used(apps, lent), **dict.fromkeys(lost, "nvidia-smi does not list it any more")}
        return Observation(self._plans(), unwell | {uuid: gpu.fault for uuid, gpu in listed.items() if gpu.fault})

    def _used(self, apps: list[App], lent: Iterable[str]) -> dict[str, str]:
        """Return the GPUs that are used without a lease, and by which program.

        A program counts when it is seen twice, because a lease is heard of a moment after it has begun. nvidia-smi
        does not say on which instance of a card it runs: it counts against all of a card of which none is lent.
        """
        busy = {self._known[uuid].card for uuid in lent if uuid in self._known}
        strays = {app for app in apps if app.card not in busy}
        reasons = {app.card: f"used without a lease: {_described(app)}" for app in sorted(strays & self._strays)}
        self._strays = strays
        return {uuid: reasons[gpu.card] for uuid, gpu in self._known.items() if gpu.card in reasons}

    def _plans(self) -> list[SlotPlan]:
        return [
            SlotPlan(gpu.uuid, gpu.index, gpu.uuid, members={"uuid": gpu.uuid}, attributes={
                "vram": gpu.vram, "model": gpu.model, "driver": gpu.driver, "index": gpu.index,
            })
            for gpu in sorted(self._known.values(), key=lambda gpu: (gpu.index, gpu.uuid))
        ]  # fmt: skip

    async def _list(self) -> dict[str, Gpu]:
        table = await self._ask(f"--query-gpu={','.join(GPUS)}")
        return read_gpus(table, await self._ask("--list-gpus") if ", Enabled," in table else "")

    async def _ask(self, question: str) -> str:
        shape = [] if question == "--list-gpus" else ["--format=csv,noheader,nounits"]
        return await output_of([self.table.path, question, *shape], self.table.check.timeout)


def _described(app: App) -> str:
    """Return the name, the user and the process id of a program; those of another container are not known."""
    user = "an unknown user"
    with suppress(OSError, KeyError):
        user = pwd.getpwuid(os.stat(f"/proc/{app.pid}").st_uid).pw_name
    return f"{app.name} of {user} (pid {app.pid})"
