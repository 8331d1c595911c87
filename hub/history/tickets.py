"""The explanations of a ticket and of a run: why a borrow still waits, and what a run holds and waits for."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from hub.core import Hub
from hub.history.explained import NextStep, Now
from hub.history.reading import FoundEvents

SHOWN = 100  # slots and tickets of a run that an explanation names
KEYED = "key-"  # the beginning of the id of a ticket whose caller sent an Idempotency-Key


def ticket_ids(given: str) -> tuple[str, ...]:
    """Return the ids that a ticket may have in the store, if a caller names it by its id or its `Idempotency-Key`."""
    sent = given.encode("utf-8", "surrogateescape")
    # A hub decodes a header as Latin-1 and hashes that text in UTF-8, so a key beyond ASCII is tried in both forms.
    texts = dict.fromkeys((sent, sent.decode("latin-1").encode()))
    return given, *(f"{KEYED}{hashlib.sha256(text).hexdigest()[:40]}" for text in texts)


async def look(hub: Hub, tickets: Sequence[str]) -> list[list[Any]]:
    """Return the row of `lua/commands/queue/find.lua` for each ticket: its state, followed by details."""
    return list(await hub.store.script("queue/find")(rest=tickets)) if tickets else []


async def ticket_now(hub: Hub, ticket: str) -> Now | None:
    """Return the present state of a ticket and its next steps; None for a ticket that the store does not know."""
    (row,) = await look(hub, [ticket])
    match row:
        case ["waiting" | "away" as word, label, run, position, takes_ms, priority, _, left_ms, *_]:
            facts = {
                "label": label,
                "run": run,
                "position": position,
                "estimatedWaitSeconds": None if takes_ms < 0 else takes_ms / 1000,
                "priority": priority,
                "secondsLeft": left_ms / 1000,
            }
            if word == "away":
                because = "Nobody attends it: it keeps its place, and slots go past it to those behind."
                rule = "Unless the borrow is repeated with its Idempotency-Key: a place is kept for 60 s."
                return Now("away", because, facts, (NextStep("ticket.left", rule, left_ms),))
            if ticket.startswith(KEYED):
                over = "ticket.away", "its Idempotency-Key keeps its place for 60 s"
            else:
                over = "ticket.left", "without an Idempotency-Key its place is lost"
            rule = f"Unless it is served before: the time this call may wait is over, and {over[1]}."
            return await _waiting(hub, label, position, takes_ms, facts, NextStep(over[0], rule, left_ms))
        case ["granted", slot, label, run, *_]:
            session = await hub.leases.find(slot)
            left_ms = session.left_ms if session else 0
            rule = "Unless it is returned or renewed: the lease is over on the hub clock."
            facts = {"slot": slot, "label": label, "run": run, "secondsLeft": left_ms / 1000}
            step = NextStep("grant.lapsed", rule, left_ms)
            return Now("granted", f"It was given {slot}, which run {run or '(none)'} holds.", facts, (step,))
        case ["elsewhere", realm, _, slot, token, _]:
            because = f"It was served in realm {realm}, which lent it {slot}; hub why {slot} --realm {realm} says more."
            return Now("elsewhere", because, {"realm": realm, "slot": slot, "token": token})
        case ["over", slot]:
            because = f"It was given {slot}, and that lease has ended; the same Idempotency-Key gets no other."
            return Now("over", because, {"slot": slot})
    return None


async def _waiting(hub: Hub, label: str, position: int, takes_ms: int, facts: dict[str, Any], over: NextStep) -> Now:
    keys = hub.store.keys
    caps, live = await hub.store.read_all(
        [("HMGET", keys.caps, f"set:{label}", f"env:{label}", "set", "env"), ("ZCARD", keys.in_flight(label))]
    )
    cap = int(next((each for each in caps if each is not None), 0))
    before = f"{position - 1} wait before it" if position > 1 else "It is the first in the queue"
    if cap and live >= cap:
        because = f"{before} of {label}, and {live} of {cap} leases that the cap of {label} allows are live."
        rule = f"When a lease of {label} ends, or its cap is raised (hub caps): first come, first served."
    else:
        hint = await hub.hints.of(label)
        because = (
            f"{before} of {label}, and {hint}." if hint else f"{before} of {label}, and no slot it may use is free."
        )
        rule = "When a slot it may use becomes free: labels take turns, and in each the first in the queue is served."
    facts |= {"cap": cap or None, "live": live}
    handed = NextStep("grant.handed", rule, None if takes_ms < 0 else takes_ms)
    return Now("waiting", because, facts, (handed, over))


async def run_now(hub: Hub, run: str, past: FoundEvents) -> Now | None:
    """Return what a run holds and waits for; None when it does neither. `past` names its tickets."""
    keys = hub.store.keys
    total, slots = await hub.leases.page(keys.run(run), 0, SHOWN)
    held = [session for session in await hub.leases.find_all(slots) if session is not None]
    pending = int(await hub.store.read("HGET", keys.pending, run) or 0)
    known = list(dict.fromkeys(event.facts["ticket"] for event in past.events if "ticket" in event.facts))[:SHOWN]
    waiting = [
        {"ticket": ticket, "state": row[0], "label": row[1], "position": row[3]}
        for ticket, row in zip(known, await look(hub, known), strict=True)
        if row[0] in ("waiting", "away")
    ]
    if not (total or pending or waiting):
        return None
    facts = {
        "holds": [{"slot": each.slot, "label": each.label, "secondsLeft": each.left_ms / 1000} for each in held],
        "held": total,
        "waits": waiting,
        "waiting": pending,
    }
    steps = []
    if held:
        first = min(held, key=lambda each: each.left_ms)
        rule = f"Unless {first.slot} is returned or renewed: its lease is the first of the run's to be over."
        steps.append(NextStep("grant.lapsed", rule, first.left_ms))
    if pending:
        steps.append(NextStep("grant.handed", "When a slot it may use becomes free and it is first in the queue."))
    state = " and ".join(word for word, there in (("holding", total), ("waiting", pending or waiting)) if there)
    limit = hub.settings.borrow_queue_max_per_run
    because = f"It holds {total} and {pending} of its borrows wait; at most {limit} may (HUB_BORROW_QUEUE_MAX_PER_RUN)."
    return Now(state, because, facts, tuple(steps))
