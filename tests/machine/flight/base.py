"""The ground of the flight machine: servers, hubs, time, errands that may be repeated, and broken rules."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.machine.flight.box import NODE_S, SECRET, Box, Call
from tests.machine.flight.clock import Clock
from tests.machine.flight.servers import Server

HUBS = 3
GRACE_S = 5.0  # HUB_REVOKE_GRACE_SECONDS
TURNS = 20  # of the event loop, in which all that waits for this process alone has done its next step
HEARS_S = 3.0  # after a disturbance every listener is told of all within so long
BEHIND_MS = 3 * 3_600_000  # the clock of the second server
LAST_MS = 1000  # what a server loses at most with appendfsync everysec, and a replica that lags
FENCE_S = 3.5  # a hub that was heard no more for as long, and a tick, changes nothing
SETTLED_MS = 4000  # after which every hub and node has reported


class Broken(Exception):
    """A rule does not hold: its name, and what was seen."""

    def __init__(self, rule: str, seen: str) -> None:
        super().__init__(f"{rule}: {seen}")
        self.rule = rule


async def turns() -> None:
    """Let everything in this process go on that can, however slow the machine is."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


@dataclass(eq=False)
class Errand:
    """A call of a client. A caller without an answer repeats it, at any hub."""

    what: str
    method: str
    path: str
    body: dict[str, Any] | None
    took: Callable[[Call, Box], None]
    key: str = ""
    query: str = ""
    repeatable: bool = True
    patience_s: int | None = None
    secret: str = SECRET
    answered: bool = False
    since_s: float = 0.0
    calls: list[tuple[Call, Box]] = field(default_factory=list)


class Stage:
    """Two servers and three hubs, used by one world after the other."""

    def __init__(self, folder: Path) -> None:
        self.clock = Clock()
        self.servers = [Server(folder, name) for name in ("A", "B")]
        self.primary = self.servers[0]
        self.up = True
        self.boxes = [Box(f"h{n}", str(folder / f"h{n}.sock"), self.where) for n in range(HUBS)]

    def where(self) -> Server | None:
        """Return where a new connection leads to."""
        return self.primary if self.up else None

    async def start(self) -> None:
        for box in self.boxes:
            await box.wire.start()

    async def stop(self) -> None:
        for box in self.boxes:
            await box.wire.stop()
        for server in self.servers:
            server.stop()


class Base:
    """Time, calls and rules; what people do is added by its children."""

    def __init__(self, stage: Stage, rules: Set[str] | None = None) -> None:
        self.stage, self.rules = stage, rules
        self.boxes = stage.boxes
        self.errands: list[Errand] = []
        self.gathered: dict[str, tuple[int, str]] | None = None  # the first that was seen of each rule, and on it goes
        self.steps = 0
        self.heard: Counter[str] = Counter()  # calls that were answered as they should be
        self._clock = (-1.0, 0)
        self.numbers = itertools.count(1)
        self.unsettled_until_ms = 0
        self.deaf_until_s = 0.0  # until then those who listen may hear nothing
        self.image: tuple[float, list[bytes]] | None = None

    async def begin(self) -> None:
        stage = self.stage
        for server in stage.servers:
            server.begin()
        stage.servers[1].set_clock(-BEHIND_MS)
        stage.primary, stage.up = stage.servers[0], True
        for box in self.boxes:
            box.wire.held = box.wire.twice = False
            box.wire.stall_after = -1
            box.frozen = False
            await box.begin()
        stage.primary.text.hincrby("hub:store", "clock_ms", 3_600_000)
        await asyncio.gather(*(box.tick() for box in self.boxes))

    async def end(self) -> None:
        await asyncio.gather(*(box.end() for box in self.boxes))

    # -- facts

    @property
    def redis(self) -> Any:
        return self.stage.primary.text

    @property
    def now_s(self) -> float:
        return self.stage.clock.now()

    def clock_ms(self) -> int:
        """Return the hub clock, to the step."""
        if self._clock[0] != self.now_s // 0.05:
            self._clock = (self.now_s // 0.05, int(self.redis.hget("hub:store", "clock_ms") or 0))
        return self._clock[1]

    @property
    def settled(self) -> bool:
        return self.stage.up and self.now_s * 1000 >= self.unsettled_until_ms

    def unsettle(self, ms: int = SETTLED_MS) -> None:
        self.unsettled_until_ms = max(self.unsettled_until_ms, int(self.now_s * 1000) + ms)

    def disturb(self) -> None:
        """Note that waiting calls may have lost their notifications."""
        self.deaf_until_s = self.now_s + HEARS_S

    def live(self) -> list[Box]:
        return [box for box in self.boxes if not box.frozen]

    def box(self, number: int) -> Box:
        return self.boxes[number % HUBS]

    def live_box(self, number: int) -> Box | None:
        live = self.live()
        return live[number % len(live)] if live else None

    def complain(self, rule: str, seen: str) -> None:
        """Note a broken rule, unless that rule is not checked."""
        if self.gathered is not None:
            self.gathered.setdefault(rule, (self.steps, seen))
        elif self.rules is None or rule in self.rules:
            raise Broken(rule, seen)

    # -- calls

    async def send(self, errand: Errand, box: Box) -> Call:
        """Send an errand to a hub. The caller hangs up when the hub stands still and does not answer."""
        await asyncio.gather(*(self.tick(each) for each in self.live() if each.due and self.stage.up))
        if errand not in self.errands:
            self.errands.append(errand)
            errand.since_s = self.now_s
        call = Call(errand.what, errand.method, errand.path, errand.body, errand.key, errand.query)
        call.patience_s, call.sent_s, call.secret = errand.patience_s, self.now_s, errand.secret
        errand.calls.append((call, box))
        box.begin_call(call)
        assert call.task
        waits = any((errand.body or {}).get(name) for name in ("maxWaitSeconds", "waitSeconds"))
        await self.settle(call.task, box)
        for _ in range(3):  # what waits for the next tick need not wait for a step
            if not call.task.done() and self.stage.up and not box.frozen and not box.wire.waiting and not waits:
                await asyncio.gather(*(self.tick(each) for each in self.live()))
                await self.settle(call.task, box)
        if call.status == 0 and (box.frozen or not self.stage.up or box.wire.waiting):
            call.unread = box.still
            call.hang_up()
        self.collect()
        return call

    def nobody_hears(self, errand: Errand, call: Call) -> bool:
        """Return whether its caller can no longer hear of it, and its hub knows, or has had the time to know."""
        told = FENCE_S if call.patience_s is None else call.patience_s
        return call.disconnected and (errand.answered or call.unread or self.now_s - call.sent_s > told)

    async def settle(self, task: asyncio.Future[None], box: Box) -> None:
        """Wait until it is done, or waits for something that we decide."""
        quiet = 0
        while not task.done() and quiet < 4:
            moved = box.wire.moved
            await asyncio.wait({task}, timeout=0.001)
            await turns()
            if box.still or (box.wire.waiting and not box.wire.busy):
                quiet += 1
            quiet = quiet + 1 if box.wire.moved == moved and not box.wire.busy else 0

    async def finish(self, task: asyncio.Future[None], box: Box) -> None:
        """To its end, while hubs tick; what is held back ends with the world."""
        for _ in range(20):
            await self.settle(task, box)
            if task.done():
                task.result()
                return
            await asyncio.gather(*(self.tick(each) for each in self.live()))

    async def calm(self) -> None:
        """Wait until nothing moves any more in any hub."""
        quiet = 0
        while quiet < 3:
            moved = sum(box.wire.moved for box in self.boxes)
            await asyncio.sleep(0.0003)
            await turns()
            same = moved == sum(box.wire.moved for box in self.boxes)
            quiet = quiet + 1 if same and not any(box.wire.busy for box in self.boxes) else 0
        self.collect()

    def collect(self) -> None:
        """Deliver the answers that came meanwhile to the callers that are still there."""
        for errand in self.errands:
            for call, box in list(errand.calls):
                if call.task and call.task.done():
                    errand.calls.remove((call, box))
                    if not call.task.cancelled() and (error := call.task.exception()):
                        raise AssertionError(f"{call.what} at {box.name} raised {error!r}") from error
                    if call.heard:
                        self.heard[call.what] += call.status < 300
                        if call.status >= 500 and call.status != 503:
                            raise AssertionError(f"{call.what} at {box.name} was answered {call.status} {call.answer}")
                        errand.answered |= call.status != 503
                        errand.took(call, box)
        self.errands = [
            e
            for e in self.errands
            if e.calls or (e.repeatable and not e.answered and self.now_s - e.since_s < 3 * NODE_S)
        ]

    # -- time

    async def tick(self, box: Box) -> None:
        if box.frozen or (box.ticking and not box.ticking.done()):
            return
        box.ticking = asyncio.ensure_future(box.tick())
        await self.settle(box.ticking, box)
        if box.hub.clock.away_since is None and (box.rounding is None or box.rounding.done()):
            box.rounding = asyncio.ensure_future(box.look_after())
            await self.settle(box.rounding, box)

    async def shift(self, ms: int) -> None:
        """Let time pass for all; on the hub clock only while a hub is heard."""
        stage = self.stage
        stage.clock.pass_time(ms)
        for server in stage.servers:
            server.pass_time(ms, heard=server is stage.primary and stage.up and bool(self.live()))
        for box in self.live():
            box.hub.store.silence.ticked()  # it has ticked all the while
        await asyncio.gather(*(self.tick(box) for box in self.live()))
        await self.calm()
