"""The health of a hub in a sentence, and its troubles by name. The functions only compute."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

NEARLY = 0.98  # of the memory of the store without its reserve: a trouble when more is in use
LONG_S = 60  # a wait this long is critical, even if slots are free


class HealthTrouble(NamedTuple):
    """A trouble: `name` is one word, `level` `critical` or `warning`, `view` the page that shows more."""

    name: str
    level: str
    title: str
    text: str
    view: str


def some(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: `1 node`, `3 nodes`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def troubles(seen: dict[str, Any]) -> list[HealthTrouble]:
    """Return the troubles in what `overview` gathers, critical ones first."""
    found = [
        *_of_nodes(seen),
        *_of_slots(seen),
        *_of_the_queue(seen),
        *_of_guarantees(seen["guarantees"]),
        *_of_the_sweep(seen),
        *_of_hubs(seen),
        *_of_hooks(seen["hooks"]),
        *_of_the_store(seen["store"]),
        *_of_work(seen),
    ]
    return sorted(found, key=lambda each: each.level != "critical")


def sentence(seen: dict[str, Any], found: list[HealthTrouble]) -> str:
    """Return the health in one sentence."""
    nodes, slots = seen["nodes"], seen["slots"]
    if not nodes["registered"]:
        return "No node is registered yet, so there is nothing to lend."
    begin = f"{some(nodes['alive'], 'node is', 'nodes are')} alive, {slots['lent']:,} of {slots['total']:,} slots lent"
    waiting = seen["queue"]["waiting"]
    queue = f", {some(waiting, 'borrower waits', 'borrowers wait')}" if waiting else ", nobody waits"
    if not found:
        return f"All is well: {begin}{queue}."
    worst = found[0].title
    more = f", and {some(len(found) - 1, 'more trouble')}" if len(found) > 1 else ""
    return f"{worst}{more}: {begin}{queue}."


def _of_nodes(seen: dict[str, Any]) -> Iterator[HealthTrouble]:
    nodes = seen["nodes"]
    silent = nodes["silent"] + nodes["suspect"]
    if nodes["registered"] and not nodes["alive"]:
        yield HealthTrouble(
            "nobody-alive", "critical", "Nobody is alive",
            f"All {nodes['registered']:,} registered nodes are silent: nothing can be lent, whatever the queue "
            "says. Look at the network between nodes and hubs, and at the nodes themselves.", "nodes?state=stale",
        )  # fmt: skip
    elif nodes["silent"]:
        yield HealthTrouble(
            "silent-nodes", "warning", f"{some(nodes['silent'], 'node is', 'nodes are')} silent",
            f"{silent:,} of {nodes['registered']:,} nodes have not been heard for half of HUB_NODE_TIMEOUT or "
            "longer; nothing of them is lent.", "nodes?state=stale",
        )  # fmt: skip


def _of_slots(seen: dict[str, Any]) -> Iterator[HealthTrouble]:
    unfresh, unwell, conflicts, stale = seen["unfresh"], seen["unwell"], seen["conflicts"], seen["staleLeases"]
    if stale["leases"]:
        said = [f"{each['slot']} of run {each['run']} for {each['seconds']:.0f} s more" for each in stale["first"]]
        more = f"; and {stale['leases'] - len(said):,} more" if stale["leases"] > len(said) else ""
        yield HealthTrouble(
            "stale-leases", "warning", f"{some(stale['leases'], 'lease is', 'leases are')} renewed no longer",
            f"Lent to nobody who uses it: {'; '.join(said)}{more}. The holder renewed it and has stopped, or cannot "
            "reach a hub to give it back. It ends by itself; an operator can end it now.", "leases",
        )  # fmt: skip
    if unwell["slots"]:
        said = [f"{each['slot']} of {each['node']}: {each['reason']}" for each in unwell["first"]]
        more = f"; and {unwell['slots'] - len(said):,} more" if unwell["slots"] > len(said) else ""
        yield HealthTrouble(
            "unwell", "warning", f"{some(unwell['slots'], 'slot is', 'slots are')} held back as unwell",
            f"{'; '.join(said)}{more}. Not lent until their nodes find them well, or the operators who hold them "
            "release them.", "nodes",
        )  # fmt: skip
    if unfresh["slots"]:
        said = [f"{each['slot']} of {each['node']}" for each in unfresh["first"][:3]]
        more = f" and {unfresh['slots'] - 3:,} more" if unfresh["slots"] > 3 else ""
        yield HealthTrouble(
            "not-fresh", "warning", f"{some(unfresh['slots'], 'slot is', 'slots are')} not made fresh",
            f"{', '.join(said)}{more}: held back since their last lease, for longer than HUB_RECYCLE_TIMEOUT_SECONDS. "
            "Look at the callback on_recycle of these nodes.", "nodes",
        )  # fmt: skip
    if not conflicts:
        return
    said = [f"{each['slot']} is of {each['node']}, and {each['other']} offered it" for each in conflicts[:3]]
    more = f"; {len(conflicts) - 3:,} more" if len(conflicts) > 3 else ""
    yield HealthTrouble(
        "slot-conflict", "warning", "Two nodes offer the same slot",
        f"{'; '.join(said)}{more}. Give each slot an id of its own, or let the hub name it after its node.",
        "nodes",
    )  # fmt: skip


def _of_the_sweep(seen: dict[str, Any]) -> Iterator[HealthTrouble]:
    for of, brake in seen["brakes"].items():
        if brake["state"] == "engaged":
            held = brake["heldBack"] or brake["stale"] or 0
            yield HealthTrouble(
                f"brake-{of}", "critical", f"The brake on {of} is engaged",
                f"{brake['stale'] or held:,} of {brake['registered'] or 0:,} {of} are silent at once: the hub "
                f"suspects itself and holds most of them back. {brake['why'] or ''}".strip(), "switches",
            )  # fmt: skip
    sweeper = seen["sweeper"]
    if not sweeper["expire"]:
        by = f", switched by {sweeper['setBy']}" if sweeper["source"] == "run-time" else ", by HUB_SWEEPER_EXPIRE"
        silent = seen["nodes"]["silent"]
        yield HealthTrouble(
            "expiry-off", "warning", "Expiry is off",
            f"Dead nodes are kept on the books{by}. "
            + (f"{some(silent, 'node is', 'nodes are')} kept although silent." if silent else "None is silent."),
            "switches",
        )  # fmt: skip


def _of_hubs(seen: dict[str, Any]) -> Iterator[HealthTrouble]:
    if lost := seen["lostHub"]:
        heard = some(seen["hubs"], "hub is", "hubs are")
        yield HealthTrouble(
            "hub-lost", "warning", "A hub has vanished",
            f"Hub {lost['hub']} was heard last at {lost['at']}, and did not say that it stops: it was killed, hangs "
            f"or is cut off from Redis. {heard} heard now. Read its log.", "settings",
        )  # fmt: skip
    differ = [each for each in seen["shared"] if each["otherwise"]]
    if not differ:
        return
    hubs = {hub for each in differ for hub in each["otherwise"]}
    said = (
        f"{each['name']}={value or 'nothing'} where {each['agreed'] or 'nothing'} holds"
        for each in differ for value in sorted(set(each["otherwise"].values()))
    )  # fmt: skip
    yield HealthTrouble(
        "settings-differ", "warning",
        f"{some(len(hubs), 'hub was', 'hubs were')} given other settings than those that hold for all",
        f"{', '.join(said)}. Give every hub the same, or hub config set NAME VALUE for all.", "settings",
    )  # fmt: skip


def _of_hooks(hooks: list[dict[str, Any]]) -> Iterator[HealthTrouble]:
    if hooks:
        said = "; ".join(f"{each['id']}: {each['why']}" for each in hooks[:3])
        yield HealthTrouble(
            "hook-paused", "warning", f"{some(len(hooks), 'hook takes', 'hooks take')} no messages",
            f"{said}. The hub has paused it, and its messages wait. Repair the receiver and say hub hook resume, or "
            "hub hook rm.", "switches",
        )  # fmt: skip


def _of_the_queue(seen: dict[str, Any]) -> Iterator[HealthTrouble]:
    queue, slots, nodes = seen["queue"], seen["slots"], seen["nodes"]
    if queue["unserved"]:
        names = ", ".join(queue["unserved"][:3])
        yield HealthTrouble(
            "unserved", "warning", "A label is waited for that no pool serves",
            f"{names}: no node offers such slots. A spelling mistake, or a pool whose nodes are gone?",
            f"queue?label={queue['unserved'][0]}",
        )  # fmt: skip
    if queue["held"] and nodes["alive"]:
        names = ", ".join(queue["held"][:3])
        yield HealthTrouble(
            "held-back", "critical", "Slots are held back while borrowers wait",
            f"{names}: nothing of these pools is lent, and nothing is on offer. Their nodes drain, are cordoned or "
            "silent, or the pool is under maintenance.", f"pools/{queue['held'][0]}",
        )  # fmt: skip
    if queue["full"] and nodes["alive"]:
        names, worst = ", ".join(queue["full"][:3]), not slots["free"] or (queue["oldestSeconds"] or 0) >= LONG_S
        yield HealthTrouble(
            "overloaded", "critical" if worst else "warning",
            f"No slot for {names} is free" if slots["free"] else "Overloaded",
            f"{some(queue['waiting'], 'borrower waits', 'borrowers wait')}, and no slot for {names} is free: "
            f"nodes are alive, and {slots['lent']:,} of {slots['total']:,} slots are lent.",
            f"queue?label={queue['full'][0]}",
        )  # fmt: skip
    if queue["capped"]:
        yield HealthTrouble(
            "capped", "warning", "A label is at its cap",
            f"{', '.join(queue['capped'][:3])}: borrowers wait although slots may be free, because as many leases "
            "are live as an operator allows.", "switches",
        )  # fmt: skip
    if queue["ceilings"]:
        yield HealthTrouble(
            "ceilings", "warning", "Teams wait at their ceilings",
            f"{', '.join(queue['ceilings'][:3])}: borrowers wait although slots may be free, because their teams have "
            "as many as their rows allow.", "teams",
        )  # fmt: skip
    if slots["maintenance"]:
        yield HealthTrouble(
            "maintenance", "warning", "A pool is under maintenance",
            f"{', '.join(slots['maintenance'][:3])}: nothing of it is lent until its slots are replaced.", "pools",
        )  # fmt: skip


def _of_guarantees(said: list[str]) -> Iterator[HealthTrouble]:
    if said:
        text = "; ".join(said[:3]) + (f"; {len(said) - 3:,} more" if len(said) > 3 else "")
        yield HealthTrouble(
            "guarantees", "warning", "More is guaranteed to teams than is published",
            f"{text[0].upper()}{text[1:]}. Below its guarantee each team gets the same part of it.", "teams",
        )  # fmt: skip


def _of_the_store(store: dict[str, int]) -> Iterator[HealthTrouble]:
    used, most, reserve = store["usedBytes"], store["limitBytes"], store["reserveBytes"]
    if reserve and used >= NEARLY * (most - reserve):
        yield HealthTrouble(
            "store-full", "critical", "Redis is full but for its reserve",
            f"{used:,} of {most:,} bytes are in use, and {reserve:,} are kept for nodes, leases and ends: submits and "
            "registrations are refused, or soon will be. hub memory --store says who holds how much.", "tasks",
        )  # fmt: skip


def _of_work(seen: dict[str, Any]) -> Iterator[HealthTrouble]:
    tasks = seen["tasks"]
    if tasks["pending"] and not tasks["workers"]:
        yield HealthTrouble(
            "no-workers", "critical", "Tasks wait and no worker is there",
            f"{some(tasks['pending'], 'task is', 'tasks are')} pending and nobody can claim them.", "jobs",
        )  # fmt: skip
    if tasks["dead"]:
        yield HealthTrouble(
            "dead-letters", "warning", some(tasks["dead"], "dead letter"),
            "Tasks that failed for the last time they might: look at their errors, try them again or drop them.",
            "tasks?status=dead",
        )  # fmt: skip
    for source in seen["stuck"]:
        if source["level"] in ("warning", "critical"):
            title = f"Records are stuck in {source['name']}"
            yield HealthTrouble("stuck", source["level"], title, _stuck(source), f"stuck/{source['name']}")


def _stuck(source: dict[str, Any]) -> str:
    """Return how many records are stuck in a source, now or at the last pass."""
    if source["stuck"] is not None:
        return f"{some(source['stuck'], 'record')} of {source['name']} began and never ended."
    seen = some(source["found"] or 0, "record")
    return (
        f"{seen} of {source['name']} had begun and never ended at the last pass; how many there are now is not known."
    )
