"""Nodes that say what their slots are like, borrows that want some of that, and the rules for both."""

from __future__ import annotations

import json
from typing import Any

from hub.capacity.attributes import class_of, read_attributes
from hub.capacity.where import parse, suits
from tests.machine.flight.box import Box, Call
from tests.machine.flight.fleet import KEYS, OF, Agent
from tests.machine.flight.lend import Lend

LIKE: tuple[dict[str, Any], ...] = ({"vram": 80}, {"vram": 24, "zone": "eu"}, {"vram": 80, "zone": "eu"})
WHERES = ("vram >= 40", 'zone == "eu"', 'vram < 40 || zone == "eu"')


class Wants(Lend):
    """Describe slots, and borrow what suits."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.typed: dict[str, tuple[str, int]] = {}  # slot -> attributes as the hub has heard, highest token then

    # -- nodes

    async def describe(self, agent: Agent, which: int, like: int, box: Box) -> None:
        """A node says with a beat what a slot is like from now on."""
        slot = sorted(agent.state.slots)[which % len(agent.state.slots)]
        self.typed.pop(slot, None)
        agent.state.describe(slot, LIKE[like % len(LIKE)], [f"k{like}"])
        await self.beat(agent, box)

    def note_ill(self, agent: Agent) -> None:
        """Note as well what the newest process of a node says of its slots, if the hub has heard all of that."""
        super().note_ill(agent)
        told = not agent.state.described and not agent.state.unpublished and not agent.off and self.stage.up
        if told and agent is self.agents[agent.node][-1]:
            for slot, published in agent.state.slots.items():
                self.typed.setdefault(slot, (read_attributes(published["attributes"]), self.last_token()))

    def forget_typed(self, node: str) -> None:
        """Expect nothing of its slots: another process of the node begins to speak."""
        self.typed = {slot: known for slot, known in self.typed.items() if OF[slot] != node}

    async def succeed(self, agent: Agent, box: Box) -> None:
        self.forget_typed(agent.node)
        await super().succeed(agent, box)

    async def register(self, agent: Agent, box: Box) -> None:
        if agent is not self.agents[agent.node][-1]:
            self.forget_typed(agent.node)
        await super().register(agent, box)

    # -- borrowers

    def was_given(self, call: Call, box: Box, key: str) -> None:
        known = set(self.told)
        super().was_given(call, box, key)
        slot, token = call.answer["browserId"], int(call.answer["leaseToken"])
        attributes, since = self.typed.get(slot, ("", token))
        alone = all(agent.left or agent.superseded for agent in self.agents[OF[slot]][:-1])
        wanted = wheres_of(call) if token not in known and token > since and alone else []
        if wanted and not any(suits(json.loads(parse(where).tree), json.loads(attributes)) for where in wanted):
            self.complain("suits", f"{slot} with {attributes} for {' or '.join(wanted)} at {box.name}")

    def free_for(self, call: Call, pools: list[str]) -> list[str]:
        """Return the free slots of some pools that would suit a borrow, as the store knows them."""
        found = [
            json.loads(item)["browserId"] for pool in pools for item in self.redis.lrange(f"available:{pool}", 0, -1)
        ]
        if not (wanted := [json.loads(parse(where).tree) for where in wheres_of(call)]):
            return found
        attributes = {slot: json.loads(self.known_of(slot) or "null") for slot in found}
        return [slot for slot, has in attributes.items() if has and any(suits(tree, has) for tree in wanted)]

    # -- what the store says

    def known_of(self, slot: str) -> str:
        """Return the attributes of a slot in the store, "" for none."""
        found = self.redis.hget(KEYS.slot(slot), "class")
        return (found and self.redis.hget(KEYS.slot_class(found), "attributes")) or ""

    def observe(self) -> None:
        super().observe()
        if not (self.settled and self.typed):
            return
        pipe = self.redis.pipeline(transaction=False)
        for slot in self.typed:
            pipe.hmget(KEYS.slot(slot), "class", "reported")
        generation = self.redis.hget(KEYS.store, "generation")
        for (slot, (attributes, _)), (known, reported) in zip(self.typed.items(), pipe.execute(), strict=True):
            if reported == generation and known != class_of(attributes):
                self.complain("typed", f"{slot} is of class {known} to the hub, and its node said {attributes}")


def wheres_of(call: Call) -> list[str]:
    """Return what a borrow wants, of which one is enough; [] for one that wants nothing."""
    body = call.body or {}
    return [each["where"] for each in (body, *body.get("anyOf", ())) if each.get("where")]
