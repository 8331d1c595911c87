"""The explanation of a slot: why it is free, lent or held, and what happens to it next."""

from __future__ import annotations

from typing import Any

from hub.capacity.lease_use import Limits
from hub.capacity.models import LeaseRecord
from hub.core import Hub
from hub.history.explained import NextStep, Now
from hub.history.holders import held_by, holder_facts
from hub.history.wants import attributes_of, unsuited
from hub.store.keys import key_part


async def slot_now(hub: Hub, slot: str) -> Now | None:
    """Return the present state of a slot and its next steps; None for a slot that the store does not know."""
    keys = hub.store.keys
    record: dict[str, str] = await hub.store.read("HGETALL", keys.slot(key_part(slot)))
    session = await hub.leases.live.find(slot)
    if not record and session is None:
        return None
    facts: dict[str, Any] = {
        "pool": record.get("pool"),
        "node": record.get("node"),
        "policy": record.get("policy"),
        "recycle": await hub.store.read("EXISTS", keys.recycle(key_part(slot))) == 1,
    }
    facts |= await attributes_of(hub, record)
    if "barred" in record or "unwell" in record:
        facts["held"] = record.get("barred") or record["unwell"]
        facts["heldBy"] = "operator" if "barred" in record else "node"
    if record.get("place") == "lent" or session is not None:
        return await _lent(hub, slot, record, session, facts)
    if record.get("place") == "held":
        return await _held(hub, key_part(slot), record, facts)
    return await _free(hub, record, facts)


async def _lent(hub: Hub, slot: str, record: dict[str, str], session: LeaseRecord | None, facts: dict[str, Any]) -> Now:
    if session is None:
        because = "It is in the list of lent slots and nobody holds a session of it; another program put it there."
        rule = "A sweep sends back what is lent without a session."
        return Now("lent", because, facts, (NextStep("grant.lapsed", rule),))
    if session.holder and session.holder.bundle:
        facts["bundle"] = session.holder.bundle
    facts |= {
        "label": session.label,
        "run": session.run,
        **holder_facts(session.holder),
        "borrowedAtUtc": session.borrowed_at,
        "secondsLeft": session.left_ms / 1000,
    }
    after = "then it goes to the first in the queue whom it may serve, else to the tail of its pool"
    if record.get("policy") == "fresh":
        after = "then it is held back until its node has made it fresh"
    if facts.get("held"):
        after = "then it is held back, because it is unwell"
    if record.get("policy", "recycle") == "recycle":
        after += ", and its node is asked to replace it"
    rule = f"Unless it is returned or renewed: the lease is over on the hub clock; {after}."
    steps = [NextStep("grant.lapsed", rule, session.left_ms)]
    clock_ms = await hub.store.read("HGET", hub.store.keys.store, "clock_ms")
    limits = Limits.read(record, int(clock_ms or 0))
    steps += _by_rule(limits, facts)
    if "granted_ms" in record:
        longest_ms = int(hub.settings.max_session_ttl_s * 1000)
        left_ms = max(0, int(float(record["granted_ms"])) + longest_ms - int(clock_ms or 0))
        rule = "No renewal goes beyond HUB_MAX_SESSION_TTL_SECONDS from when it was lent."
        steps.append(NextStep("grant.lapsed", rule, max(left_ms, session.left_ms)))
    because = f"{held_by(session)} holds it, asked for as {session.label}, since {session.borrowed_at}."
    if limits.counts_as_busy:
        because += (
            f" It has an idle rule ({limits.idle_ms / 1000:g} s), and counts as busy: its holder never told of use."
        )
    return Now("lent", because, facts, tuple(steps))


def _by_rule(limits: Limits, facts: dict[str, Any]) -> list[NextStep]:
    """Return the ends of a lease by the rules of its pool; note in `facts` what they say."""
    if limits.idle_ms:
        facts["idleSeconds"] = limits.idle_ms / 1000
    if limits.hold_ms:
        facts["maxHoldSeconds"] = limits.hold_ms / 1000
    if limits.paused_ms:
        facts["pausedSeconds"] = limits.paused_ms / 1000
    if limits.ends_ms is None:
        return []
    if limits.why == "idle":
        return [NextStep("grant.lapsed", "Unless it is used: its idle rule ends the lease.", limits.ends_ms)]
    if limits.why == "recall":
        rule = "It is recalled for a team below its guarantee, and ends, renewed or not, unless that is taken back."
        return [NextStep("grant.ended", rule, limits.ends_ms)]
    return [NextStep("grant.ended", "The longest hold of its pool ends the lease, renewed or not.", limits.ends_ms)]


async def _held(hub: Hub, slot: str, record: dict[str, str], facts: dict[str, Any]) -> Now:
    node, part = record.get("node", ""), record.get("part", "")
    if facts.get("held"):
        holder = f"its node {node}" if facts["heldBy"] == "node" else "an operator"
        step = NextStep("slot.well", f"It is lent again once {holder} releases it.")
        because = f"It is unwell, so it is not lent; {holder} holds it: {facts['held']}."
        return Now("held", because, facts, (step,))
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
    if await hub.store.read("SISMEMBER", hub.store.keys.reserved, slot):
        ticket = facts["reservedFor"] = (await hub.bundles.reserver()).ticket or None
        because = f"It is set aside for the bundle {ticket}, which has waited for long and lacks other slots."
        step = NextStep("grant.handed", "It is lent once that has all its slots, or to others once it waits no more.")
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
    if passed := await unsuited(hub, pool, facts.get("attributes")):
        facts["doesNotSuit"] = passed
        because = f"It is free in {pool}, and does not suit tickets that wait: {passed[0]}."
    rule = "The next borrow it may serve gets the slot of the pool that has been free longest."
    if facts["recycle"]:
        rule += " Its node is asked to replace it; until then others are lent before it."
    return Now("free", because, facts, (NextStep("grant.lent", rule),))
