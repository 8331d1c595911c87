"""Nodes as their agents see them, and operators who drain."""

from __future__ import annotations

from typing import Any

from hub.client.state import AgentOptions, AgentState
from hub.store.keys import Keys
from tests.machine.flight.base import Base, Errand
from tests.machine.flight.box import NODE_S, Box, Call

KEYS = Keys("")
SLOTS = {"n0": {"s0": "gpu:a", "s1": "gpu:a"}, "n1": {"s2": "gpu:a", "s3": "gpu:b"}, "n2": {"s4": "gpu:b"}}
FRESH = "n1"  # the node that makes its slots fresh after each lease
OF = {slot: node for node, slots in SLOTS.items() for slot in slots}


class Agent:
    """One process that speaks for a node; after a rolling restart there are two of them for a while."""

    def __init__(self, node: str) -> None:
        self.node = node
        options: AgentOptions = {
            "slots": [
                {"slotId": s, "labelKey": pool, "attributes": {"vram": 80 if pool == "gpu:a" else 24}}
                for s, pool in SLOTS[node].items()
            ]
        }
        if node == FRESH:
            options["on_recycle"] = print
        self.state = AgentState(node, options)
        self.registered = self.silent = self.left = self.superseded = False
        self.number = 0  # of the last call about slots
        self.compared = ("", 0)  # at what was offered, by which call
        self.heard_s = -1.0
        self.heard_ms = -1  # when a beat of it was last answered, on the hub clock
        self.off: dict[str, str] = {}  # slots being made fresh: asked, off
        self._uses: dict[str, int] = {}  # slot -> the highest token of a lease that it has heard of

    def named(self) -> dict[str, Any]:
        """Return how a call about slots says whose it is, and in which order it was made."""
        self.number += 1
        return {"incarnation": self.state.incarnation, "number": self.number}

    def note_uses(self) -> None:
        """Keep what it knows of leases, so that the rules need not trust it to keep that."""
        for known in (self.state.lent, self.state.ends, self.state.made):
            for slot, token in known.items():
                self._uses[slot] = max(self._uses.get(slot, 0), int(token or 0))

    def has_heard_of(self, slot: str, token: int) -> bool:
        """Return whether it was told that a slot was lent with this token, or a later one."""
        self.note_uses()
        return self._uses.get(slot, 0) >= token

    def to_compare(self) -> bool:
        """Return whether the hub has other slots of it than it should have, as it said twice."""
        look, before = (self.state.offers, self.number), self.compared
        self.compared = look
        return look != before and self.state.differs()


class Fleet(Base):
    """The steps of agents and their operators."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.agents = {node: [Agent(node)] for node in SLOTS}
        self.used: dict[str, int] = {}  # slot -> the highest token of a holder that was told
        self.cleaned: dict[str, int] = {}  # slot of `FRESH` -> the last end for which it was made fresh
        self.drained: dict[str, float] = {}
        self.drained_at: dict[str, Box] = {}  # the hub that took the drain
        self.outlived: set[str] = set()  # nodes expired since a drain, which a hub may say again to a lost store
        self.draining: set[str] = set()  # asked for, and not answered yet
        self.ill: dict[str, int] = {}  # slot that its node holds, as the hub has heard -> highest token at that time
        self.barred: dict[str, tuple[int, Box]] = {}  # the same of operators, and the hub that took the call

    def agent(self, which: int) -> Agent:
        return self.agents[sorted(SLOTS)[which % len(SLOTS)]][-1]

    def speakers(self, node: str) -> list[Agent]:
        return [agent for agent in self.agents[node] if not agent.left and not agent.silent and not agent.superseded]

    # -- beats

    async def register(self, agent: Agent, box: Box) -> None:
        body, batches = agent.state.registration()
        body |= agent.named()
        if agent is not self.agents[agent.node][-1]:
            self.ill = {slot: token for slot, token in self.ill.items() if OF[slot] != agent.node}

        def took(call: Call, box: Box) -> None:
            if call.status == 409:
                agent.superseded = True
            if call.status == 200:
                self.forget_uses(agent.node)
                agent.registered = True
                agent.state.registered(call.answer)
                agent.state.published(call.answer.get("slots", ()))
                agent.heard_ms, agent.heard_s = self.clock_ms(), self.now_s

        call = await self.send(Errand("register", "POST", "/node/register", body, took, repeatable=False), box)
        if call.heard and call.status == 200:
            for batch in batches:
                await self.publish(agent, batch, box)

    lost_s = -1.0  # when the store last lost something

    def forget_uses(self, node: str) -> None:
        """Expect no memory of uses that a node has not heard of, where it was dead while others told a lost store."""
        heard_s = max(agent.heard_s for agent in self.agents[node])
        if heard_s < self.lost_s and self.now_s - heard_s > NODE_S:
            self.cleaned |= {slot: token for slot, token in self.used.items() if OF[slot] == node}

    async def beat(self, agent: Agent, box: Box) -> None:
        if agent.left or agent.superseded:
            return
        if not agent.registered:
            await self.register(agent, box)
            return
        body = agent.state.beat()
        if body.keys() & {"held", "attributes", "warm"}:
            body |= agent.named()

        def took(call: Call, box: Box) -> None:
            if call.status != 200:
                return
            if call.answer.get("superseded"):
                agent.superseded = True
            elif call.answer.get("known"):
                agent.state.heard(body, call.answer)
                agent.note_uses()
                self.note_ill(agent)
                agent.heard_ms, agent.heard_s = self.clock_ms(), self.now_s
                self.make_fresh(agent)
                agent.state.acknowledge()
            else:
                agent.registered = False
                if self.drained.get(agent.node, -1.0) > agent.heard_s and not self.fresh(agent):
                    del self.drained[agent.node]  # it was expired, and knows nothing of what was said of it meanwhile
                    self.outlived.add(agent.node)

        call = await self.send(Errand("beat", "POST", "/node/heartbeat", body, took, repeatable=False), box)
        if call.heard and call.status == 200 and not agent.registered:
            await self.register(agent, box)
        if agent.registered and not agent.superseded and call.heard and agent.to_compare():
            await self.compare(agent, box)
        if agent.registered and not agent.superseded and agent.state.unpublished:
            for batch in list(agent.state.batches(sorted(agent.state.unpublished))):
                await self.publish(agent, batch, box)

    async def compare(self, agent: Agent, box: Box) -> None:
        """Return what the hub has of it, slot by slot."""

        def took(call: Call, box: Box) -> None:
            if call.status == 200:
                agent.state.compare(str(slot["browserId"]) for slot in call.answer["slotList"])
                agent.state.unwithdrawn.clear()

        await self.send(Errand("compare", "GET", f"/nodes/{agent.node}", None, took, repeatable=False), box)

    async def publish(self, agent: Agent, batch: dict[str, Any], box: Box) -> None:
        def took(call: Call, box: Box) -> None:
            if call.status == 200:
                agent.state.published(call.answer.get("slots", ()))

        batch = {**batch, **agent.named()}
        await self.send(Errand("publish", "POST", f"/node/{agent.node}/slots", batch, took, repeatable=False), box)

    # -- making a slot fresh

    def make_fresh(self, agent: Agent) -> None:
        """Make fresh what the hub holds back for that; the next beat says so."""
        for slot, end in list(agent.state.ends.items()):
            if agent.state.made_fresh(slot, None, end):
                self.cleaned[slot] = max(int(end), self.cleaned.get(slot, 0))

    async def take_off(self, agent: Agent, which: int, box: Box) -> None:
        """A slot that is to be made fresh goes off offer, unless it is lent."""
        if agent.left or not agent.registered:
            return
        slot = sorted(agent.state.slots)[which % len(agent.state.slots)]
        if agent.off.get(slot) == "off":
            return
        asked_before = slot in agent.state.rebuilding
        agent.state.reserving(slot)
        agent.off[slot] = "asked"
        self.ill.pop(slot, None)  # what is withdrawn forgets its holds
        self.barred.pop(slot, None)

        def took(call: Call, box: Box) -> None:
            if agent.off.get(slot) != "asked":
                return
            if call.status == 200:
                agent.state.reserved(slot)
                agent.off[slot] = "off"
                self.cleaned[slot] = max(self.cleaned.get(slot, 0), self.used.get(slot, 0))
            elif call.status == 409:
                agent.state.still_lent(slot, asked_before=asked_before)
                del agent.off[slot]

        path, named = f"/node/{agent.node}/slots/{slot}", agent.named()
        query = f"onlyFree=1&incarnation={named['incarnation']}&number={named['number']}"
        await self.send(Errand("take off", "DELETE", path, None, took, query=query, repeatable=False), box)

    async def put_back(self, agent: Agent, box: Box) -> None:
        for slot in [slot for slot, state in agent.off.items() if state == "off"]:
            del agent.off[slot]
            agent.state.rebuilt(slot, None)
            for batch in list(agent.state.batches([slot])):
                await self.publish(agent, batch, box)

    def offered(self) -> set[str]:
        """Return the slots that the store knows."""
        return {slot for slot in OF if self.redis.exists(KEYS.slot(slot))}

    def look_at_late_offers(self, before: set[str]) -> None:
        """Check that no late call took off a slot that its node offers, or offered one that it has taken off."""
        now = self.offered()
        for node, agents in self.agents.items():
            agent = agents[-1]
            if agent.left or agent.silent or agent.superseded or not agent.registered:
                continue
            for slot in SLOTS[node]:
                if slot in before - now and slot not in agent.off:
                    self.complain("offer", f"{slot} of {node} was taken off offer by a call that is late")
                if slot in now - before and agent.off.get(slot) == "off":
                    self.complain("offer", f"{slot} of {node} was offered by a call that is late")

    # -- slots that are unwell

    async def ail(self, agent: Agent, which: int, box: Box, *, well: bool) -> None:
        """A node holds a slot, or releases it, and says so at once."""
        slot = sorted(agent.state.slots)[which % len(agent.state.slots)]
        if well:
            self.ill.pop(slot, None)
            agent.state.holds.drop(slot)
        else:
            agent.state.hold(slot, f"ill {next(self.numbers)}")
        await self.beat(agent, box)

    def note_ill(self, agent: Agent) -> None:
        """Note what the newest process of a node holds, if the hub has heard all of that."""
        if agent is self.agents[agent.node][-1] and agent.state.holds.to_tell() is None and self.stage.up:
            for slot in agent.state.holds.own:
                if slot not in agent.off:
                    self.ill.setdefault(slot, self.last_token())

    def last_token(self) -> int:
        return int(self.redis.hget(KEYS.store, "token") or 0)

    async def bar(self, slot: str, box: Box, *, well: bool) -> None:
        """An operator holds a slot, or releases it."""
        path = f"/admin/slots/{slot}/hold"
        self.barred.pop(slot, None)

        def took(call: Call, box: Box) -> None:
            late = any(e is not errand and e.path == path and e.calls for e in self.errands)  # and may come after it
            if call.status == 200 and not well and not late and self.stage.up and OF[slot] not in self.off_offer():
                self.barred[slot] = self.last_token(), box

        body = None if well else {"reason": "by hand"}
        what, method = ("unbar", "DELETE") if well else ("bar", "POST")
        errand = Errand(what, method, path, body, took, repeatable=False)
        await self.send(errand, box)

    def off_offer(self) -> set[str]:
        """Return the nodes with a slot that is being taken off."""
        return {agent.node for agents in self.agents.values() for agent in agents if agent.off}

    # -- coming and going

    async def succeed(self, agent: Agent, box: Box) -> None:
        """A rolling restart: the next process comes before this one leaves."""
        if len(self.agents[agent.node]) < 3 and not agent.off:
            self.ill = {slot: token for slot, token in self.ill.items() if OF[slot] != agent.node}
            self.agents[agent.node].append(Agent(agent.node))
            await self.beat(self.agents[agent.node][-1], box)

    async def old_leaves(self, which: int, box: Box) -> None:
        """The one before goes, as it would have gone without a successor."""
        olds = [agent for agents in self.agents.values() for agent in agents[:-1] if not agent.left]
        if olds:
            await self.leave(olds[which % len(olds)], box)

    async def leave(self, agent: Agent, box: Box) -> None:
        agent.left = True
        agents = self.agents[agent.node]
        newer = agents[agents.index(agent) + 1 :]
        if not any(other.registered for other in newer if other in self.speakers(agent.node)):
            self.excuse(agent.node, "its node left")

        def took(call: Call, box: Box) -> None:
            pass

        query = f"incarnation={agent.state.incarnation}"
        await self.send(
            Errand("leave", "DELETE", f"/node/{agent.node}", None, took, query=query, repeatable=False), box
        )

    def excuse(self, node: str, why: str) -> None:
        """Note that the leases of a node may end now."""
        raise NotImplementedError

    # -- operators

    async def drain(self, node: str, box: Box, *, on: bool, deadline_s: int | None = None, reason: str = "") -> None:
        """Or, with a reason, cordon it."""
        if on and deadline_s is not None:
            self.excuse(node, "a drain")
        self.draining.add(node)

        def took(call: Call, box: Box) -> None:
            self.draining.discard(node)
            if call.status == 200:
                self.drained.pop(node, None)
                if on:
                    self.drained[node], self.drained_at[node] = self.now_s, box

        body: dict[str, Any] | None = {"deadlineSeconds": deadline_s} if deadline_s is not None else None
        what = "cordon" if reason else "drain" if on else "undrain"
        path = f"/admin/nodes/{node}/{what}"
        body = {"reason": reason} if reason else body
        self.drained.pop(node, None)
        await self.send(Errand(what, "POST", path, body, took, repeatable=False), box)

    def fresh(self, agent: Agent) -> bool:
        """Return whether it was heard so recently that no hub may expire it."""
        return agent.heard_ms >= 0 and self.clock_ms() - agent.heard_ms < NODE_S * 1000
