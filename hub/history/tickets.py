"""The explanations of a ticket and of a run: why a borrow still waits, and what a run holds and waits for."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from hub.capacity.models import LeaseHolder
from hub.capacity.wishes import BundleWish, alternatives_in
from hub.core import Hub
from hub.history.bundles import bundle_now
from hub.history.caps import cap_of, capped_by
from hub.history.explained import NextStep, Now
from hub.history.holders import held_by, holder_facts
from hub.history.reading import FoundEvents
from hub.history.teams import with_team
from hub.history.wants import shown, verdicts

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
        case ["waiting" | "away" as word, *_]:
            return await _in_line(hub, ticket, word, row)
        case ["granted", slot, label, run, *_]:
            session = await hub.leases.live.find(slot)
            left_ms = session.left_ms if session else 0
            rule = "Unless it is returned or renewed: the lease is over on the hub clock."
            facts = {"slot": slot, "label": label, "run": run, "secondsLeft": left_ms / 1000}
            step = NextStep("grant.lapsed", rule, left_ms)
            whose = held_by(session) if session else f"Run {run or '(none)'}"
            return Now("granted", f"It was given {slot}; {whose} holds it.", facts, (step,))
        case ["elsewhere", realm, _, slot, token, _]:
            because = f"It was served in realm {realm}, which lent it {slot}; hub why {slot} --realm {realm} says more."
            return Now("elsewhere", because, {"realm": realm, "slot": slot, "token": token})
        case ["over", slot]:
            because = f"It was given {slot}, and that lease has ended; the same Idempotency-Key gets no other."
            return Now("over", because, {"slot": slot})
    return None


async def _in_line(hub: Hub, ticket: str, word: str, row: list[Any]) -> Now:
    """Return how a ticket is that has a place in the queue."""
    label, run, position, takes_ms, priority, _, left_ms, _, _, _, holder, asked, _, bundle = row[1:]
    facts: dict[str, Any] = {
        "label": label,
        "run": run,
        "position": position,
        "estimatedWaitSeconds": None if takes_ms < 0 else takes_ms / 1000,
        "priority": priority,
        "secondsLeft": left_ms / 1000,
        **holder_facts(LeaseHolder.read(holder)),
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
    if wish := BundleWish.read(bundle):
        now, labels = await bundle_now(hub, ticket, wish, facts, NextStep(over[0], rule, left_ms)), wish.labels
    else:
        now = await _waiting(hub, asked, label, position, takes_ms, facts, NextStep(over[0], rule, left_ms))
        labels = tuple(each.label for each in alternatives_in(asked)) or (label,)
    return await with_team(hub, now, LeaseHolder.read(holder), labels, wish)


async def _waiting(
    hub: Hub, asked: str, label: str, position: int, takes_ms: int, facts: dict[str, Any], over: NextStep
) -> Now:
    wanted = alternatives_in(asked)
    before = f"{position - 1} wait before it" if position > 1 else "It is the first in the queue"
    cap, live = await cap_of(hub, label)
    facts |= {"cap": cap or None, "live": live}
    capped = await capped_by(hub, label, cap, live)
    rule = "When a slot it may use becomes free: labels take turns, and in each the first in the queue is served."
    if len(wanted) > 1 or any(each.where for each in wanted):
        waiting = await hub.store.read("ZCARD", hub.store.keys.queue(label))
        found = [await verdicts(hub, each) for each in wanted]
        facts |= {"wants": list(map(shown, wanted)), "waitingUnderLabel": waiting}
        facts["verdicts"] = [line for _, lines in found for line in lines]
        why = "; ".join(capped[0] if capped and not at else text for at, (text, _) in enumerate(found))
        because = f"{before} of those that want the same, of {waiting} that wait under {label}; {why}."
        rule = "When a slot that suits it becomes free" + rule.partition("free")[2]
    elif capped:
        because, rule = f"{before} of {label}, and {capped[0]}.", capped[1]
    else:
        because = f"{before} of {label}, and {await _lack(hub, label)}."
    handed = NextStep("grant.handed", rule, None if takes_ms < 0 else takes_ms)
    return Now("waiting", because, facts, (handed, over))


async def _lack(hub: Hub, label: str) -> str:
    """Return why no slot serves a label below its cap."""
    if hint := await hub.hints.of(label):
        return hint
    ill = sum(
        causes.get("unwell", 0)
        for pool, causes in (await hub.holds.causes()).items()
        if f"{pool}:".startswith(f"{label}:") or f"{label}:".startswith(f"{pool}:")
    )
    more = f"; {ill} of them {'is' if ill == 1 else 'are'} unwell and held back" if ill else ""
    return f"no slot it may use is free{more}"


async def run_now(hub: Hub, run: str, past: FoundEvents) -> Now | None:
    """Return what a run holds and waits for; None when it does neither. `past` names its tickets."""
    keys = hub.store.keys
    total, slots = await hub.leases.live.page(keys.run(run), 0, SHOWN)
    held = [session for session in await hub.leases.live.find_all(slots) if session is not None]
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
        "holds": [
            {"slot": each.slot, "label": each.label, "secondsLeft": each.left_ms / 1000, **holder_facts(each.holder)}
            for each in held
        ],
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
