"""The explanation of a slot: why it is free, lent or held, and what happens to it next."""

from __future__ import annotations

from typing import Any

from hub.capacity.models import LeaseRecord
from hub.core import Hub
from hub.history.explained import NextStep, Now
from hub.store.keys import key_part


async def slot_now(hub: Hub, slot: str) -> Now | None:
    """Return the present state of a slot and its next steps; None for a slot that the store does not know."""
    keys = hub.store.keys
    record: dict[str, str] = await hub.store.read("HGETALL", keys.slot(key_part(slot)))
    session = await hub.leases.find(slot)
    if not record and session is None:
        return None
    facts: dict[str, Any] = {
        "pool": record.get("pool"),
        "node": record.get("node"),
        "policy": record.get("policy"),
        "recycle": await hub.store.read("EXISTS", keys.recycle(key_part(slot))) == 1,
    }
    if record.get("place") == "lent" or session is not None:
        return await _lent(hub, slot, record, session, facts)
    if record.get("place") == "held":
        return await _held(hub, record, facts)
    return await _free(hub, record, facts)


async def _lent(hub: Hub, slot: str, record: dict[str, str], session: LeaseRecord | None, facts: dict[str, Any]) -> Now:
    if session is None:
        because = "It is in the list of lent slots and nobody holds a session of it; another program put it there."
        rule = "A sweep sends back what is lent without a session."
        return Now("lent", because, facts, (NextStep("grant.lapsed", rule),))
    facts |= {
        "label": session.label,
        "run": session.run,
        "borrowedAtUtc": session.borrowed_at,
        "secondsLeft": session.left_ms / 1000,
    }
    after = "then it goes to the first in the queue whom it may serve, else to the tail of its pool"
    if record.get("policy") == "fresh":
        after = "then it is held back until its node has made it fresh"
    if record.get("policy", "recycle") == "recycle":
        after += ", and its node is asked to replace it"
    rule = f"Unless it is returned or renewed: the lease is over on the hub clock; {after}."
    steps = [NextStep("grant.lapsed", rule, session.left_ms)]
    clock_ms, idle_ms = await hub.store.read_all(
        [("HGET", hub.store.keys.store, "clock_ms"), ("PTTL", hub.store.keys.borrow_idle(key_part(slot)))]
    )
    if int(record.get("watch_idle", "0")) > 0 and idle_ms > 0:
        steps.append(NextStep("grant.lapsed", "Unless it is used: its idle rule ends the lease.", idle_ms))
    if "granted_ms" in record:
        longest_ms = int(hub.settings.max_session_ttl_s * 1000)
        left_ms = max(0, int(float(record["granted_ms"])) + longest_ms - int(clock_ms or 0))
        rule = "No renewal goes beyond HUB_MAX_SESSION_TTL_SECONDS from when it was lent."
        steps.append(NextStep("grant.lapsed", rule, max(left_ms, session.left_ms)))
    because = f"Run {session.run or '(none)'} holds it, asked for as {session.label}, since {session.borrowed_at}."
    return Now("lent", because, facts, tuple(steps))


async def _held(hub: Hub, record: dict[str, str], facts: dict[str, Any]) -> Now:
    node, part = record.get("node", ""), record.get("part", "")
    for found in await hub.nodes.describe([node]):
        if found.held_back:
            step = NextStep("node.undrained", "It is lent again once its node lends again, or goes with its node.")
            return Now("held", f"Its node {node} {found.held_back}, so it is not lent.", facts, (step,))
    if "owed" in record:
        step = NextStep("slot.fresh", "It is lent again once its node says that it has made the slot fresh.")
        because = f"It was lent, and its node {node} has not made it fresh since, so it is not lent."
        return Now("held", because, facts, (step,))
    if await hub.store.read("HEXISTS", hub.store.keys.orders(part), "suspect"):
        step = NextStep(
            "node.back", "It is lent again with the next beat of its node, or goes with the node if none comes."
        )
        because = f"Its node {node} has been silent for half of HUB_NODE_TIMEOUT, so it is not lent."
        return Now("held", because, facts, (step,))
    return Now("held", f"Its node {node} was not to be lent from.", facts, ())


async def _free(hub: Hub, record: dict[str, str], facts: dict[str, Any]) -> Now:
    pool = record.get("pool", "")
    (state,) = await hub.pools.describe([pool])
    if state.maintenance:
        rule = "Maintenance ends when the slots of the pool are replaced, after two minutes at the latest."
        because = f"It is free, and its pool {pool} is under maintenance, so it is not lent."
        return Now("free", because, facts, (NextStep("pool.maintenance", rule),))
    because = f"It is free in {pool}: no ticket waits for it, or the labels of those that wait are at their caps."
    rule = "The next borrow it may serve gets the slot of the pool that has been free longest."
    if facts["recycle"]:
        rule += " Its node is asked to replace it; until then others are lent before it."
    return Now("free", because, facts, (NextStep("grant.lent", rule),))
