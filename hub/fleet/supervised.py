"""One slot that is kept alive: it is started, checked, held while it is unwell, and made fresh after each lease."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from hub.client import NodeAgent
from hub.client.guard import is_set_within
from hub.errors import BadInput, HubError, SlotLent
from hub.fleet.driver import Driver, Running, SlotPlan
from hub.fleet.place import SlotPlace
from hub.fleet.processes import Unwell
from hub.fleet.tables import Action, PoolTable
from hub.observability.logs import get_logger
from hub.retries import now_s

_log = get_logger("hub.fleet")
T = TypeVar("T")
Item = dict[str, Any]

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
# A slot that was up for so long was not started in vain: after its next failure the pauses begin anew.
STEADY_S = 10.0
STARTING = "it is being started"
_REASON_MAX = 200
_DESCRIBED: dict[str, Any] = {"attributes": {}, "warm": []}  # members that may change during a lease -> for none
_LEAVE_LOOK_S, _START_LOOK_S = 5.0, 0.5


def pause_s(failures: int) -> float:
    """Return the seconds before a slot is started again after so many failures in a row."""
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(failures - 1, 16))


async def bounded(work: Awaitable[T], seconds: float, what: str) -> T:
    """Return what a call of a driver returns; raises `Unwell` when it fails in any way or takes longer."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except Unwell:
        raise
    except TimeoutError:
        raise Unwell(f"{what} did not end within {seconds:g} s") from None
    except Exception as error:
        _log.exception("fleet driver failed", doing=what)
        raise Unwell(f"{what} failed: {type(error).__name__}: {error}") from error


class Supervised:
    """A slot of a fleet, its driver, and what the hub is told of it through `agent`."""

    def __init__(
        self, plan: SlotPlan, place: SlotPlace, driver: Driver[PoolTable], after: Supervised | None = None
    ) -> None:
        """Plan a slot; it is started once the slot `after`, whose id it takes over, is gone."""
        self.plan, self.place, self.driver = plan, place, driver
        self.gone = asyncio.Event()
        self.running: Running | None = None
        self._after = after
        self._retired = False
        self._observed = ""  # the reason of the driver not to lend the slot, though its checks succeed
        self._asked: asyncio.Future[Item | None] | None = None  # the slot is to be made fresh
        self._confirmed: Item | None = None  # the slot as the hub surely has it
        self._up, self._up_s = False, 0.0  # it may be lent as far as supervision knows
        self._publishing = 0
        self._moved = False  # it has another address than its borrower knows
        self._uses, self._since_s = 0, 0.0
        self._calls: set[asyncio.Task[None]] = set()

    def item(self) -> Item:
        """Return the slot as it is published: with all facts while it runs, else with those known before."""
        table, running = self.driver.table, self.running
        item: Item = {"slotId": self.place.id, "labelKey": self.plan.label or table.label, "endpoint": ""}
        item |= self.plan.members
        attributes = dict(self.plan.attributes)
        if running is not None:
            item |= {"endpoint": running.endpoint, **running.members}
            attributes |= running.attributes
        elif isinstance(table.address, str) and "{port}" not in table.address:
            item["endpoint"] = self.place.fill(table.address)
        described = {"attributes": attributes | table.attributes, "warm": table.warm}
        return item | {name: value for name, value in described.items() if value}

    async def live(self, agent: NodeAgent) -> None:
        """Keep the slot alive until it is retired, or this is cancelled; then nothing that was started is left."""
        self._agent = agent
        failures = 0
        try:
            if self._after is not None:
                await self._after.gone.wait()
            self._confirmed = None if self._is_lent() else agent.slots.get(self.place.id)  # type: ignore[assignment]
            while not self._retired:
                asked = self._asked
                try:
                    await self.start()
                    await self.prove(lent=self._is_lent())
                    self._offer(asked)
                    self._up_s = now_s()
                    _log.info("fleet slot up", slot=self.place.id, address=self.item()["endpoint"])
                    await self._watch()
                except Unwell as unwell:
                    failures = 1 if self._up and now_s() - self._up_s > STEADY_S else failures + 1
                    _log.warning("fleet slot unwell", slot=self.place.id, why=str(unwell), again_s=pause_s(failures))
                    self._up = False
                    self._hold(str(unwell))
                    await self._end(kill=True)
                    if failures > 1 and not self._is_lent():
                        self.place.move()
                    await self._pause(pause_s(failures), whole=True)
            await self._leave()
        finally:
            try:
                await self._end()
            finally:
                self.gone.set()

    async def make_fresh(self) -> Item | None:
        """Make the slot fresh after a lease; return it when it has changed."""
        if self._after is not None and not self._after.gone.is_set():
            return await self._after.make_fresh()
        self.place.changed.set()
        if self._retired or self._publishing:  # as a new slot, which nothing has used
            return None
        self._asked = asyncio.get_running_loop().create_future()
        return await self._asked

    def observe(self, reason: str) -> None:
        """Take what the driver says of a slot that runs: a reason not to lend it, or '' when there is none."""
        if reason != self._observed:
            self._observed = reason
            self._hold_or_release()

    def retire(self) -> None:
        """Have the slot leave the hub, once it is free, and end."""
        self._retired = True
        self.place.changed.set()

    # -- what runs --------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the slot, so that `running` is set; raises `Unwell`."""
        table, self._uses, self._since_s = self.driver.table, 0, now_s()
        self.running = await bounded(self.driver.start(self.place), table.start_timeout, "the start")
        if isinstance(table.address, Action):
            address = (await self.place.run(table.address.command, table.address.timeout)).strip()
            self.running = replace(self.running, endpoint=address)
        elif table.address:
            self.running = replace(self.running, endpoint=self.place.fill(table.address))

    async def check(self, *, lent: bool = False) -> None:
        """Check the slot once; raises `Unwell`."""
        assert self.running is not None
        if any(program.is_stopped() for program in self.running.programs):
            raise Unwell("a program of it is stopped")
        await bounded(self.driver.check(self.running, lent=lent), self.driver.table.check.timeout, "the check")

    async def end(self, *, kill: bool = False) -> None:
        """Stop the slot, and end all that was started for it: at once with `kill`, else after it was asked to.

        Raises `Unwell` when the driver could not stop it; the rest is done all the same.
        """
        running, self.running = self.running, None
        try:
            if running is not None:
                await bounded(self.driver.stop(running), self.driver.table.start_timeout, "the stop")
        finally:
            if running is not None and not kill:
                await asyncio.gather(*(program.end() for program in running.programs))
            await self.place.clear()

    async def _end(self, *, kill: bool = False) -> None:
        try:
            await self.end(kill=kill)
        except Unwell as unwell:
            _log.warning("fleet slot not stopped", slot=self.place.id, why=str(unwell))

    async def prove(self, *, lent: bool = False) -> None:
        """Wait until a slot that was started passes its checks; raises `Unwell` when that takes too long."""
        table, passed = self.driver.table, 0
        while passed < table.check.up_after:
            self._see_whether_it_runs()
            try:
                await self.check(lent=lent)
                passed += 1
            except Unwell:
                passed = 0
                if now_s() - self._since_s > table.start_timeout:
                    raise
            if passed < table.check.up_after:
                await self._pause(table.check.every if passed else min(table.check.every, _START_LOOK_S))

    async def _watch(self) -> None:
        """Check the slot, and make it fresh when it is asked for, until it is retired; raises `Unwell`."""
        check, failed = self.driver.table.check, 0
        while not self._retired:
            await self._pause(check.every)
            if self._asked is not None:
                await self._freshen(self._asked)
                continue
            self._see_whether_it_runs()
            try:
                await self.check(lent=self._is_lent())
            except Unwell:
                failed += 1
                if failed >= check.down_after:
                    raise
            else:
                failed = 0
                if self._moved and not self._is_lent():
                    self._offer(None)
                if self._is_worn() and not self._is_lent():
                    await self._replace()

    def _see_whether_it_runs(self) -> None:
        for program in self.running.programs if self.running else ():
            if program.code is not None:
                raise Unwell(program.why())

    def _is_worn(self) -> bool:
        recycle, running = self.driver.table.recycle, self.running
        assert running is not None
        if recycle.memory and sum(program.memory() for program in running.programs) > recycle.memory:
            return True
        return bool(recycle.age and now_s() - self._since_s > recycle.age)

    async def _freshen(self, asked: asyncio.Future[Item | None]) -> None:
        self._uses += 1
        bound = self.driver.table.recycle.uses
        if self.driver.anew or (bound and self._uses >= bound) or self._is_worn():
            await self._end()
            await self.start()
        else:
            assert self.running is not None
            again = self.driver.recycle(self.running)
            self.running = await bounded(again, self.driver.table.start_timeout, "making it fresh")
        self._offer(asked)

    async def _replace(self) -> None:
        """Start a free slot anew, whose program is too old or too large; a slot that is lent by now stays."""
        try:
            await self._agent.withdraw(self.place.id, only_free=True)
        except HubError:
            return
        await self._end()
        await self.start()
        self._offer(None)

    async def _pause(self, seconds: float, *, whole: bool = False) -> None:
        """Wait, until something has changed; when it shall be the `whole` time, until the slot is retired."""
        until_s = now_s() + seconds
        while (left_s := until_s - now_s()) > 0 and not self._retired:
            if await is_set_within(left_s, self.place.changed):
                self.place.changed.clear()
                if not whole:
                    return

    # -- what the hub is told ---------------------------------------------------------------------------------------

    def _is_lent(self) -> bool:
        return self.place.id in self._agent.lent

    def _offer(self, asked: asyncio.Future[Item | None] | None) -> None:
        """Tell the hub that the slot is up. `asked` is the request to make it fresh, which this meets."""
        self._up, self._moved = True, False
        item, told = self.item(), self._agent.slots.get(self.place.id)
        if asked is not None and told is not None:
            self._answer(asked, None if item == self._confirmed else item)
            self._confirmed = item
        elif item != told or (item != self._confirmed and not self._is_lent()):
            if told is not None and self._is_lent():
                self._differs(item, dict(told))
                return
            self._publishing += 1
            self._tell(self._publish(item))
            if self._asked is not None:
                self._answer(self._asked, None)  # a slot that was never lent is fresh
            return
        self._hold_or_release()

    def _answer(self, asked: asyncio.Future[Item | None], fresh: Item | None) -> None:
        self._asked = None
        if not asked.done():
            asked.set_result(fresh)

    def _differs(self, item: Item, told: Item) -> None:
        """Note that a lent slot is not as its borrower was told: it is elsewhere, or only described otherwise."""
        differing = {name for name in {*item, *told} if item.get(name) != told.get(name)}
        if differing <= _DESCRIBED.keys():
            facts = {name: item.get(name, _DESCRIBED[name]) for name in differing}
            self._tell(self._agent.describe(self.place.id, **facts))
            self._hold_or_release()
        else:
            self._is_elsewhere()

    def _is_elsewhere(self) -> None:
        self._moved = True
        self._hold("it was started anew during its lease, at another address")

    async def _publish(self, item: Item) -> None:
        status = ""
        try:
            (outcome,) = await self._agent.publish([item])
            status = outcome["status"]
        finally:
            self._publishing -= 1
            if status == "lent" and self._up:  # since before it was held: the hub has the item of that lease
                self._is_elsewhere()
            else:  # where the call fails now, the agent publishes the slot later
                self._confirmed = item if status else None
                self._hold_or_release()

    def _hold_or_release(self) -> None:
        if not self._up:
            return
        if self._observed:
            self._hold(self._observed)
        elif self.place.id in self._agent.held:
            self._tell(self._agent.release(self.place.id))

    def _hold(self, reason: str) -> None:
        line = " ".join("".join(letter if letter.isprintable() else " " for letter in reason).split())
        if self.place.id in self._agent.slots:
            self._tell(self._agent.hold(self.place.id, line[:_REASON_MAX]))

    def _tell(self, call: Coroutine[Any, Any, Any]) -> None:
        """Call the hub without waiting for it; the agent keeps the order, and repeats a call that fails now."""
        task = asyncio.create_task(self._told(call))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _told(self, call: Coroutine[Any, Any, Any]) -> None:
        try:
            await call
        except BadInput as refused:
            _log.error("fleet slot refused", slot=self.place.id, why=str(refused))
        except HubError as error:
            _log.debug("fleet slot not told to the hub", slot=self.place.id, why=str(error))

    async def _leave(self) -> None:
        """Withdraw the slot once it is not lent."""
        self._up = False
        self._hold("it leaves the fleet")
        while self.place.id in self._agent.slots:
            if self._asked is not None:
                self._answer(self._asked, None)
            try:
                await self._agent.withdraw(self.place.id, only_free=True)
            except HubError as error:
                if not isinstance(error, SlotLent):
                    _log.debug("fleet slot not told to the hub", slot=self.place.id, why=str(error))
                await is_set_within(_LEAVE_LOOK_S, self.place.changed)
                self.place.changed.clear()
        _log.info("fleet slot removed", slot=self.place.id)
