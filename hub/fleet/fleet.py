"""A fleet: the pools of a fleet file, kept alive on this machine until the agent ends, and read again when asked."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hub.client import NodeAgent
from hub.errors import StartRefused
from hub.fleet.driver import Driver, SlotPlan
from hub.fleet.file import FleetFile, read_fleet
from hub.fleet.place import Home, SlotPlace
from hub.fleet.processes import Unwell
from hub.fleet.supervised import STARTING, Item, Supervised, bounded, pause_s
from hub.fleet.tables import PoolTable
from hub.observability.logs import get_logger

_log = get_logger("hub.fleet")
_FIRST_LOOK_S = 10.0  # how long the registration of the node waits for a driver that does not say its slots


class DrivenPool:
    """A pool of the file, and the slots that its driver says there are, by key."""

    def __init__(self, driver: Driver[PoolTable]) -> None:
        self.driver = driver
        self.label = driver.table.label
        self.slots: dict[str, Supervised] = {}
        self.listed = False
        self.watch: asyncio.Task[None] | None = None
        self.trouble = ""

    def troubled(self, why: str) -> None:
        """Log a failure of the driver as a whole, once until another one or a success ('')."""
        if why and why != self.trouble:
            _log.warning("fleet pool unwell", pool=self.label, why=why)
        self.trouble = why


class Fleet:
    """The slots of this machine. Make it, `plan` it, give `slots` and `held` to an agent, `start` it, and `stop` it."""

    def __init__(self, file: FleetFile, home: Home) -> None:
        self._home = home
        self._pools = {driver.table.label: DrivenPool(driver) for driver in file.drivers}
        self._slots: dict[str, Supervised] = {}  # by id; one that leaves, until it is gone
        self._agent: NodeAgent | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None

    async def plan(self) -> list[Supervised]:
        """Ask each driver for its slots, and return them; a driver that fails is asked again after the start."""
        await asyncio.gather(*(self._list(pool, _FIRST_LOOK_S) for pool in self._pools.values()))
        return list(self._slots.values())

    def troubles(self) -> dict[str, str]:
        """Return label -> why its driver fails as a whole."""
        return {label: pool.trouble for label, pool in self._pools.items() if pool.trouble}

    def slots(self) -> list[Item]:
        """Return the slots as they are registered before they run."""
        return [slot.item() for slot in self._slots.values()]

    def held(self) -> Mapping[str, str]:
        """Return slot id -> reason: none is lent before it runs. A lease of an earlier run goes on."""
        return dict.fromkeys(self._slots, STARTING)

    async def make_fresh(self, slot_id: str) -> Item | None:
        """Make a slot fresh after a lease; return it when it has changed. Given to the agent as `on_recycle`."""
        return await self._slots[slot_id].make_fresh()

    def start(self, agent: NodeAgent) -> None:
        """Start all slots, and keep them alive until `stop`."""
        self._agent = agent
        for slot in self._slots.values():
            self._run(self._live(slot, agent))
        for pool in self._pools.values():
            if pool.watch is None:  # else the file was read again before the node was announced
                pool.watch = self._run(self._look_after(pool))

    async def stop(self) -> None:
        """Stop all slots; then nothing that was started is left. Raises the error that has ended supervision."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._failure is not None:
            raise self._failure

    async def read_again(self, path: Path) -> None:
        """Add the pools that are new in the file, retire those that left it; a file with a mistake changes nothing."""
        try:
            drivers = {driver.table.label: driver for driver in read_fleet(path).drivers}
        except StartRefused as refused:
            _log.error("fleet file not reloaded", why=str(refused))
            return
        _log.info("fleet file reloaded", pools=len(drivers))
        for label, pool in list(self._pools.items()):
            new = drivers.pop(label, None)
            if new is not None and new.table == pool.driver.table:
                continue
            if pool.watch is not None:
                pool.watch.cancel()
            if new is None or new.table.without_size() != pool.driver.table.without_size():
                self._set(pool, [])
                del self._pools[label]
                drivers |= {label: new} if new is not None else {}
            else:
                pool.driver, pool.listed = new, False
                pool.watch = self._run(self._look_after(pool))
        for label, driver in drivers.items():
            self._pools[label] = DrivenPool(driver)
            self._pools[label].watch = self._run(self._look_after(self._pools[label]))

    async def _look_after(self, pool: DrivenPool) -> None:
        """List the slots of a pool, and look at it as a whole where its driver does, for ever."""
        table, failures = pool.driver.table, 0
        while not pool.listed:
            if failures:
                await asyncio.sleep(pause_s(failures))
            await self._list(pool, table.start_timeout)
            failures += 1
        while pool.driver.observes:
            await asyncio.sleep(table.check.every)
            lent = self._agent.lent if self._agent is not None else {}
            keys = [key for key, slot in pool.slots.items() if slot.place.id in lent]
            try:
                seen = await bounded(pool.driver.observe(keys), table.start_timeout, "looking at the pool")
            except Unwell as unwell:
                pool.troubled(str(unwell))
                continue
            pool.troubled("")
            if seen.slots is not None:
                self._set(pool, seen.slots)
            for key, slot in pool.slots.items():
                slot.observe(seen.unwell.get(key, ""))

    async def _list(self, pool: DrivenPool, timeout_s: float) -> None:
        try:
            self._set(pool, await bounded(pool.driver.slots(), timeout_s, "listing the slots"))
        except Unwell as unwell:
            pool.troubled(str(unwell))
        else:
            pool.listed = True

    def _set(self, pool: DrivenPool, plans: Iterable[SlotPlan]) -> None:
        """Add the slots of a pool that are new, and retire those that are planned no longer or otherwise."""
        wanted = {plan.key: plan for plan in plans}
        for key, slot in list(pool.slots.items()):
            plan = wanted.get(key)
            if plan is None or plan != replace(slot.plan, index=plan.index):
                pool.slots.pop(key).retire()
        for key in [key for key in wanted if key not in pool.slots]:
            slot_id = f"{self._home.node}-{pool.label.replace(':', '.')}-{key}"
            plan, before = wanted[key], self._slots.get(slot_id)
            slot = Supervised(plan, SlotPlace(self._home, slot_id, plan.index, plan.item), pool.driver, before)
            pool.slots[key] = self._slots[slot_id] = slot
            if self._agent is not None:
                self._run(self._live(slot, self._agent))

    async def _live(self, slot: Supervised, agent: NodeAgent) -> None:
        await slot.live(agent)
        if self._slots.get(slot.place.id) is slot:
            del self._slots[slot.place.id]

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """End the agent when supervision itself has failed, because its slots may not be live."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = error
            if self._agent is not None:
                self._agent.stop()
