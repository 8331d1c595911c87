"""The world of the flight machine: every possible step by name, and how the world comes to rest."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from hub.capacity.attributes import read_attributes
from tests.machine.flight.base import LAST_MS, SETTLED_MS
from tests.machine.flight.box import NODE_S, WORKER_S, Box
from tests.machine.flight.fleet import KEYS, OF, SLOTS
from tests.machine.flight.lend import LONG_S, POOLS, TTL_S
from tests.machine.flight.needing import BEYOND_S
from tests.machine.flight.teams import Teams
from tests.machine.flight.wants import WHERES, wheres_of

BEAT_MS = 5000
LOOKS = 40  # two seconds, of which a machine that does nothing else needs none
Step = tuple[str, int, int, int]


class World(Teams):
    """A step is a name and three numbers; what they choose among is what there is at that moment."""

    async def step(self, name: str, a: int = 0, b: int = 0, c: int = 0) -> None:
        self.steps += 1
        action: Callable[[int, int, int], Awaitable[None]] = getattr(self, f"do_{name}")
        await action(a, b, c)
        self.collect()
        self.observe()

    @classmethod
    def names(cls) -> list[str]:
        return sorted(name[3:] for name in dir(cls) if name.startswith("do_"))

    # -- nodes

    async def do_beat(self, a: int, b: int, c: int) -> None:
        await self.beat(self.agent(a), self.box(b))

    async def do_report(self, a: int, b: int, c: int) -> None:
        """A node that believes to be unknown, or whose registration is repeated."""
        agent = self.agent(a)
        if not agent.left and not agent.superseded:
            await self.register(agent, self.box(b))

    async def do_take_off(self, a: int, b: int, c: int) -> None:
        await self.take_off(self.agent(a), c, self.box(b))

    async def do_put_back(self, a: int, b: int, c: int) -> None:
        await self.put_back(self.agent(a), self.box(b))

    async def do_succeed(self, a: int, b: int, c: int) -> None:
        await self.succeed(self.agent(a), self.box(b))

    async def do_old_beats(self, a: int, b: int, c: int) -> None:
        olds = [agent for agents in self.agents.values() for agent in agents[:-1]]
        if olds:
            await self.beat(olds[a % len(olds)], self.box(b))

    async def do_old_leaves(self, a: int, b: int, c: int) -> None:
        await self.old_leaves(a, self.box(b))

    async def do_fall_silent(self, a: int, b: int, c: int) -> None:
        agent = self.agent(a)
        agent.silent = not agent.silent

    async def do_drain(self, a: int, b: int, c: int) -> None:
        await self.drain(sorted(SLOTS)[a % len(SLOTS)], self.box(b), on=True, deadline_s=(None, 1, 10)[c % 3])

    async def do_cordon(self, a: int, b: int, c: int) -> None:
        await self.drain(sorted(SLOTS)[a % len(SLOTS)], self.box(b), on=True, reason="its fan")

    async def do_undrain(self, a: int, b: int, c: int) -> None:
        await self.drain(sorted(SLOTS)[a % len(SLOTS)], self.box(b), on=False)

    async def do_ail(self, a: int, b: int, c: int) -> None:
        agent = self.agent(a)
        if agent.registered and not agent.left and not agent.superseded:
            await self.ail(agent, c, self.box(b), well=c % 5 < 2)

    async def do_describe(self, a: int, b: int, c: int) -> None:
        agent = self.agent(a)
        if agent.registered and not agent.left and not agent.superseded:
            await self.describe(agent, c, c // 8, self.box(b))

    async def do_bar(self, a: int, b: int, c: int) -> None:
        await self.bar(sorted(OF)[a % len(OF)], self.box(b), well=c % 5 < 3)

    # -- borrowers

    async def do_borrow(self, a: int, b: int, c: int) -> None:
        await self.borrow(a, self.box(b), keyed=c % 2 == 1, ttl_s=TTL_S if c % 4 < 2 else LONG_S)

    async def do_wait_for(self, a: int, b: int, c: int) -> None:
        await self.borrow(a, self.box(b), keyed=c % 2 == 1, wait_s=15)

    async def do_borrow_where(self, a: int, b: int, c: int) -> None:
        await self.borrow(a, self.box(b), keyed=c % 2 == 1, wants=self.some_wants(c))

    async def do_wait_where(self, a: int, b: int, c: int) -> None:
        await self.borrow(a, self.box(b), keyed=c % 2 == 1, wait_s=15, wants=self.some_wants(c))

    def some_wants(self, c: int) -> list[str]:
        """Return one of what may be wanted, or with a fourth chance two."""
        first = c // 8 % len(WHERES)
        return [WHERES[first], WHERES[first - 1]] if c // 2 % 4 == 3 else [WHERES[first]]

    async def do_renew(self, a: int, b: int, c: int) -> None:
        if holder := self.holder(a):
            await self.renew(holder, self.box(b))

    async def do_listen(self, a: int, b: int, c: int) -> None:
        if (holder := self.holder(a)) and not holder.ear:
            await self.listen(holder, self.box(b))

    async def do_verify(self, a: int, b: int, c: int) -> None:
        if holder := self.holder(a, tasks=True):
            await self.verify(holder, self.box(b))

    async def do_verify_old(self, a: int, b: int, c: int) -> None:
        await self.verify_old(a, self.box(b), renews=c % 4 == 3)

    async def do_give_back(self, a: int, b: int, c: int) -> None:
        if holder := self.holder(a):
            await self.give_back(holder, self.box(b), keyed=c % 2 == 1)

    async def do_give_up(self, a: int, b: int, c: int) -> None:
        await self.give_up(a, self.box(b))

    async def do_cap(self, a: int, b: int, c: int) -> None:
        """Give that number, or as many as there are again."""
        await self.set_cap(POOLS[a % len(POOLS)], (1, 2, None)[c % 3], self.box(b))

    async def do_end_by_hand(self, a: int, b: int, c: int) -> None:
        await self.end_by_hand(sorted(OF)[a % len(OF)], self.box(b))

    async def do_meddle(self, a: int, b: int, c: int) -> None:
        if holder := self.holder(a):
            await self.meddle(holder, self.box(b), renews=c % 2 == 1)

    # -- workers

    async def do_employ(self, a: int, b: int, c: int) -> None:
        if not self.worker(a).registered:
            await self.employ(self.worker(a), self.box(b))

    async def do_worker_beat(self, a: int, b: int, c: int) -> None:
        await self.worker_beats(self.worker(a), self.box(b))

    async def do_worker_silent(self, a: int, b: int, c: int) -> None:
        self.worker(a).silent = not self.worker(a).silent

    async def do_remove(self, a: int, b: int, c: int) -> None:
        await self.remove(self.worker(a), self.box(b))

    async def do_submit(self, a: int, b: int, c: int) -> None:
        await self.submit(self.box(b), attempts=1 + c % 3)

    async def do_claim(self, a: int, b: int, c: int) -> None:
        await self.claim(self.worker(a), self.box(b), keyed=c % 3 > 0, patience_s=1 if c // 3 % 2 else None)

    async def do_finish(self, a: int, b: int, c: int) -> None:
        busy = [worker for worker in self.workers if worker.runs]
        if busy:
            await self.report(busy[a % len(busy)], a, self.box(b), failed=c % 2 == 1, keyed=c % 4 < 2)

    async def do_cancel(self, a: int, b: int, c: int) -> None:
        if self.submitted:
            await self.cancel(self.submitted[a % len(self.submitted)], self.box(b))

    # -- messages

    async def do_again(self, a: int, b: int, c: int) -> None:
        """Have a caller without an answer ask another hub."""
        some = [e for e in self.errands if e.repeatable and not e.answered]
        if some:
            await self.send(some[a % len(some)], self.box(b))

    async def do_freeze(self, a: int, b: int, c: int) -> None:
        """A hub stands still: before it reads what comes, or between that and Redis. One of them goes on."""
        box = self.box(b)
        if not box.frozen and self.settled and len(self.live()) > 1:
            box.stand_still(between=c % 2 == 1)

    async def do_thaw(self, a: int, b: int, c: int) -> None:
        for box in self.boxes:
            if box.frozen and (b % 4 == 3 or box is self.box(b)):
                await self.goes_on(box)

    async def goes_on(self, box: Box) -> None:
        """A hub that stood still carries out what it has read, and what was on its way: the next beats heal what it
        does too late, so look before them.
        """
        late = [(errand, call) for errand in self.errands for call, at in errand.calls if at is box]
        runs, offered = {worker.id: self.in_the_books(worker) for worker in self.workers}, self.offered()
        employed, withdrawn, caps = self.employed(), self.withdrawn(), self.capped()
        box.go_on()
        self.disturb()
        await self.calm()
        await self.tick(box)
        await self.calm()
        if self.settled:
            self.look_at_late_claims(late, runs)
            self.look_at_late_offers(offered)
            self.look_at_late_removals(late, employed)
            self.look_at_late_orders(late, withdrawn, caps)

    async def do_twice(self, a: int, b: int, c: int) -> None:
        """The next change by a hub is carried out, and its answer lost: the client of Redis sends it again."""
        self.box(b).wire.twice = True
        self.disturb()

    async def do_stall(self, a: int, b: int, c: int) -> None:
        """Delay one of the next commands of a hub, and all that come after it on its connection."""
        self.box(b).wire.stall_after = c % 16

    async def do_flow(self, a: int, b: int, c: int) -> None:
        for box in self.live():
            box.wire.release()
        self.disturb()
        await self.calm()

    # -- time

    async def shift(self, ms: int) -> None:
        """Date what has ended by now to now, not to when time has passed."""
        self.observe()
        await super().shift(ms)

    async def do_pass(self, a: int, b: int, c: int) -> None:
        """Let time pass in which all that are well are heard."""
        await self.pass_time((500, 1000, 2000, 5000, 12_000, 20_000, 35_000)[a % 7], b)

    async def pass_time(self, ms: int, b: int = 0) -> None:
        while ms > 0:
            part = min(ms, BEAT_MS)
            ms -= part
            part = await self.let_hubs_speak(part)
            if self.stage.up:
                await self.everybody_beats(b)
            await self.shift(part)
            self.observe()
        await self.sweep(self.live_box(b))
        self.observe()
        if self.settled and not any(box.frozen or box.wire.waiting for box in self.boxes):
            await self.look_for_idlers()

    async def everybody_beats(self, b: int) -> None:
        if box := self.live_box(b):
            tried = [a for some in self.agents.values() for a in some if a.registered or a.number]
            well = [a for a in tried if not (a.silent or a.left or a.superseded)]
            able = [worker for worker in self.workers if worker.registered and not worker.silent]
            await asyncio.gather(*(self.beat(a, box) for a in well), *(self.worker_beats(w, box) for w in able))
            await self.go_on_listening(box)

    async def do_still(self, a: int, b: int, c: int) -> None:
        """Let time pass in which only hubs are heard."""
        await self.shift(await self.let_hubs_speak((1000, 6000, 16_000, 31_000)[a % 4]))

    async def let_hubs_speak(self, ms: int) -> int:
        """Let hubs tick after a loss; no caller takes a refusal for an end. Return how much time is left."""
        while not self.settled and self.stage.up and ms > 600:
            ms -= 600
            await self.shift(600)
        return ms

    async def do_tick(self, a: int, b: int, c: int) -> None:
        await self.tick(self.box(b))

    async def do_sweep(self, a: int, b: int, c: int) -> None:
        await self.sweep(self.box(b))

    # -- the server

    async def do_mark(self, a: int, b: int, c: int) -> None:
        """From here on nothing is written to disk, or heard by a replica, for a second."""
        if self.stage.up:
            self.image = (self.now_s, self.stage.primary.image())

    def lost_image(self, lost: int) -> list[bytes]:
        """Return what a restart or a failover keeps: all, or what was there a second ago."""
        if lost % 3 and self.image and (self.now_s - self.image[0]) * 1000 <= LAST_MS:
            return self.image[1]
        return self.stage.primary.image()

    def comes_back(self, cut: list[Box]) -> None:
        kept = {(slot, int(t)) for slot in OF if (t := self.redis.hget(f"session:{slot}", "leaseToken"))}
        self.lose(kept, {slot for slot in OF if self.redis.zscore(KEYS.revoked, slot) is not None})
        for worker in self.workers:
            self.settle_runs(worker)
        self.unsettle()
        self.disturb()
        if any(box.frozen for box in self.boxes):  # a use of which only that hub knows may be lost
            self.cleaned |= self.used
        for box in self.boxes:
            box.before = None
        for box in cut:
            box.wire.cut() if not box.frozen else None

    def settle_runs(self, worker: Any) -> None:
        """Expect nothing of tasks that were lost."""
        for task in list(worker.runs):
            status, by = self.redis.hmget(f"hub:task:{task.replace('-', '')}", "status", "worker")
            if by != worker.id.replace("-", "") or status not in ("claimed", "running"):
                del worker.runs[task]

    async def do_restart(self, a: int, b: int, c: int) -> None:
        """Redis dies and comes back with what it had, perhaps without its last second."""
        if self.stage.up:
            server = self.stage.primary
            server.restore(self.lost_image(c))
            server.forget_functions()
            await self.back()

    async def do_wipe(self, a: int, b: int, c: int) -> None:
        """Bring Redis back with nothing, or empty it."""
        if self.stage.up:
            self.stage.primary.wipe()
            self.lost_all_tasks()
            if c % 2:
                self.stage.primary.forget_functions()
            await self.back()

    def lost_all_tasks(self) -> None:
        self.submitted.clear()
        for worker in self.workers:
            worker.runs.clear()
            worker.registered = False

    async def do_fail_over(self, a: int, b: int, c: int) -> None:
        """The other server takes over, perhaps without the last second; it may have been primary before."""
        stage = self.stage
        if stage.up:
            image = self.lost_image(c)
            stage.primary = stage.servers[stage.primary is stage.servers[0]]
            stage.primary.promotions += 1
            stage.primary.restore(image)
            await self.back()

    async def do_demote(self, a: int, b: int, c: int) -> None:
        """Let the other server take over without telling the one before: it answers a hub that is still connected, or
        all, until they ask who the primary is; with `a` their connections are cut, and made anew by the address they
        know. What chance would do meanwhile is lost, and known to be.
        """
        stage = self.stage
        if stage.up and self.settled:
            image = self.lost_image(c)
            before, stage.primary = stage.primary, stage.servers[stage.primary is stage.servers[0]]
            stage.primary.promotions += 1
            stage.primary.restore(image)
            told = [box for box in self.boxes if b % 4 < 3 and box is not self.box(b)]
            self.comes_back(told)
            for box in self.boxes:
                if a % 2 and box not in told:
                    box.before = before
                    box.wire.cut()
            await self.calm()

    async def back(self) -> None:
        self.comes_back(self.boxes)
        await self.calm()

    async def do_go_down(self, a: int, b: int, c: int) -> None:
        """Redis dies."""
        if self.stage.up and self.settled:
            self.lost = self.lost_image(c)
            self.stage.up, self.down_s = False, self.now_s
            for box in self.boxes:
                box.wire.cut() if not box.frozen else None
            await self.calm()
            for box in self.live():
                await self.tick(box)

    async def do_come_up(self, a: int, b: int, c: int) -> None:
        if not self.stage.up:
            self.stage.up = True
            self.stage.primary.restore(self.lost)
            self.stage.primary.forget_functions()
            await self.back()

    # -- the end

    async def rest(self) -> None:
        """Let all go on, and callers without an answer ask again; then nothing may be left over."""
        await self.do_come_up(0, 0, 0)
        for box in self.boxes:
            box.go_on()
            box.wire.twice = False
        await self.calm()
        for box in self.boxes:
            await self.tick(box)
        for agents in self.agents.values():
            agents[-1].silent = False
        for _ in range(3):
            await self.pass_time(2500, self.steps)
            for errand in [e for e in self.errands if e.repeatable and not e.answered and not e.calls]:
                await self.send(errand, self.boxes[self.steps % 3])
        await self.pass_time(int(SETTLED_MS), 1)
        self.observe()
        await self.look_for_leftovers()
        for _ in range(2):
            await self.finish_fresh()
            await self.pass_time(2500, 1)
        await self.pass_time(max(NODE_S, WORKER_S) * 1000 + BEAT_MS, 2)
        self.observe()
        await self.look_for_leftovers()
        self.look_for_tasks()
        self.look_for_offers()
        for _ in range(WORKER_S + BEYOND_S if self.stays() else 0, 0, -20):  # of a claim whose end was lost as well
            await self.pass_time(20_000, 1)
        await self.look_for("stays", self.stays)
        await self.run_tasks()

    async def finish_fresh(self) -> None:
        """Slots that were to be made fresh are so, and on offer again."""
        for agents in self.agents.values():
            agent = agents[-1]
            for slot in [slot for slot, state in agent.off.items() if state == "asked"]:
                await self.take_off(agent, sorted(agent.state.slots).index(slot), self.boxes[0])
            await self.put_back(agent, self.boxes[0])

    async def look_for_leftovers(self) -> None:
        await self.look_for("nobody", self.of_nobody)
        await self.look_for("torn", self.torn)
        await self.look_for_idlers()

    def of_nobody(self) -> str:
        for slot in OF.keys() - self.kept_for():
            token = int(self.redis.hget(f"session:{slot}", "leaseToken") or 0)
            if token and token not in self.told and token not in self.orphans:
                return f"{slot} is lent under {token}, of which nobody was told"
        return ""

    def look_for_tasks(self) -> None:
        """Check that what differs from what workers say is settled within half a timeout."""
        for worker in self.workers:
            if not worker.registered or worker.silent:
                continue
            for task in self.in_the_books(worker):
                if task not in {run.replace("-", "") for run in worker.runs}:
                    self.complain("task", f"worker {worker.number} has {task} in the books and does not know of it")

    async def look_for_idlers(self) -> None:
        """Check that no borrow waits beside a free slot, and none is set aside in vain."""
        await self.look_for("aside", self.aside)
        await self.look_for("below", self.below)
        await self.look_for("idle", self.idlers)

    async def look_for(self, rule: str, seen: Callable[[], str]) -> None:
        """Hubs go on with their rounds, which tell them what they were handed."""
        for _ in range(LOOKS):
            if not (found := seen()):
                return
            await asyncio.sleep(0.05)
            await asyncio.gather(*(self.tick(box) for box in self.live()))
            await self.calm()
        self.complain(rule, found)

    def idlers(self) -> str:
        waiting = [c for box in self.boxes for c in box.calls
                   if c.what == "borrow" and c.task and not c.task.done() and not c.disconnected]  # fmt: skip
        for call in waiting:
            label = call.body["labelKey"]
            if self.is_capped(label) or self.at_ceiling(call):
                continue
            if free := self.free_for(call, [pool for pool in ("gpu:a", "gpu:b") if label.startswith(pool)]):
                return f"{label} is waited for, {wheres_of(call)}, beside {free}"
        return self.idle_bundle() or self.idle_task()

    def look_for_offers(self) -> None:
        for node, agents in self.agents.items():
            agent = agents[-1]
            if agent.left or not agent.registered:
                continue
            for slot in agent.state.slots:
                place, unwell = self.redis.hmget(KEYS.slot(slot), "place", "unwell")
                if place is None:
                    self.complain("offer", f"{node} offers {slot}, and the hub does not know it")
                said = read_attributes(agent.state.slots[slot]["attributes"])
                if place and self.known_of(slot) != said:
                    self.complain("typed", f"{slot} is {self.known_of(slot)} to the hub, and {said} to its node")
                if place and unwell != (said := agent.state.holds.own.get(slot)):
                    self.complain("unwell", f"{slot} is {unwell} to the hub, and {said} to its node")
