"""The sentences of `hub why` about attributes: what a ticket wants, what of that no slot has, and what a slot lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from hub.capacity.attributes import PoolClass
from hub.capacity.shared import Shared
from hub.capacity.where import Where, failing, parse, suits
from hub.capacity.wishes import Alternative, alternatives_in
from hub.core import Hub
from hub.store.lenient import read_each

SHOWN = 20  # verdicts, and wants that a slot does not suit, that an explanation names


def shown(wanted: Alternative) -> str:
    """Return what is wanted as people read it: the label, and what the slot must have."""
    return f"{wanted.label} where {wanted.where}" if wanted.where else wanted.label


async def verdicts(hub: Hub, wanted: Alternative) -> tuple[str, list[str]]:
    """Return why one alternative of a ticket is not served, as the end of a sentence, and a sentence for each class of
    slots: whether it suits, or the clause that fails."""
    lacking = await hub.hints.of(wanted.label, wanted)
    if not wanted.where:
        return lacking or f"no slot that {wanted.label} may use is free", []
    where = parse(wanted.where)
    found = await hub.pools.classes(wanted.label)
    lines = _by_class(where, found)
    if lacking:
        return lacking, lines
    fitting = [each for each in found if suits(orjson.loads(where.tree), each.attributes)]
    slots, free = sum(each.slots for each in fitting), sum(each.free for each in fitting)
    return (
        f"{slots} of {sum(each.slots for each in found)} slots suit {shown(wanted)}, {free or 'none'} of them free",
        lines,
    )


def _by_class(where: Where, found: Sequence[PoolClass]) -> list[str]:
    """Return the verdicts on classes, with classes that differ only in other attributes as one; those of most slots
    first."""
    slots: Counter[tuple[str, str, str]] = Counter()
    for each in found:
        slots[(each.pool, *_verdict(where, each.attributes))] += each.slots
    lines = []
    for (pool, clause, has), number in slots.most_common():
        one = number == 1
        does = ("has " if one else "have ") + has if has else "suits" if one else "suit"
        lines.append(f"{clause}: {number} {'slot' if one else 'slots'} of {pool} {does}")
    return lines[:SHOWN] + ([f"and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else [])


def _verdict(where: Where, attributes: Mapping[str, Any]) -> tuple[str, str]:
    """Return the clause that attributes do not satisfy and what they are, or the whole expression and an empty text."""
    clause = failing(where, attributes)
    if not clause:
        return where.text, ""
    names = sorted(parse(clause).names)
    has = [
        f"no {name}" if name not in attributes
        else f"{name} " * (len(names) > 1) + orjson.dumps(attributes[name]).decode()
        for name in names
    ]  # fmt: skip
    return clause, " and ".join(has)


async def attributes_of(hub: Hub, record: Mapping[str, str]) -> dict[str, Any]:
    """Return what a slot has, as facts: its attributes where it has a class, and what is warm in it."""
    facts: dict[str, Any] = {}
    if kind := record.get("class"):
        said = await hub.store.read("HGET", hub.store.keys.slot_class(kind), "attributes")
        facts["attributes"] = orjson.loads(said or "{}")
    if warm := record.get("warm"):
        facts["warm"] = warm.split(" ")
    return facts


async def unsuited(hub: Hub, pool: str, attributes: Mapping[str, Any] | None) -> list[str]:
    """Return what tickets wait for that a free slot of a pool does not suit though it is of their label, most tickets
    first, each with the clause that fails. `attributes` is None for a slot without any."""
    keys = hub.store.keys
    lines = [line.partition("\t") for line in await hub.store.read("SMEMBERS", keys.all_lines)]
    near = [f"{label} {want}" for label, _, want in lines if is_of(pool, label, hub.agreed.holds)]
    heads = await read_each(hub.store, [("ZRANGE", keys.want_line(name), 0, 0) for name in near], [])
    tickets = [head[0] if head else "" for head in heads]
    said = await read_each(hub.store, [("HGET", keys.ticket(ticket), "alternatives") for ticket in tickets])
    many = await read_each(hub.store, [("ZCARD", keys.want_line(name)) for name in near], 0)
    found = []
    for name, text, waiting in zip(near, said, many, strict=True):
        for wanted in alternatives_in(text):
            if wanted.want and f"{wanted.label} {wanted.want}" == name:
                clause = wanted.where if attributes is None else failing(parse(wanted.where), attributes)
                if clause:
                    has = "it has no attributes" if attributes is None else f"{clause} fails"
                    found.append(
                        (waiting, f"{waiting} {'waits' if waiting == 1 else 'wait'} for {shown(wanted)}: {has}")
                    )
    return [text for _, text in sorted(found, reverse=True)[:SHOWN]]


def is_of(pool: str, label: str, holds: Shared) -> bool:
    """Return whether a pool may serve a label."""
    segments, asked = pool.split(":"), label.split(":")
    if len(segments) != len(asked) and not (holds.prefix if len(segments) > len(asked) else holds.trailing):
        return False
    return all(one == other or (other == "*" and holds.wildcards) for one, other in zip(segments, asked, strict=False))
