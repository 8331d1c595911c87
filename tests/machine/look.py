"""The contents of the store, read in one go, and the contents that it must have according to the model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from redis import Redis

from hub.store.keys import Keys
from tests.machine.indexes import FAMILIES, Indexes
from tests.machine.model import Model
from tests.machine.records import TEAMS, USERS
from tests.machine.suiting import digest_of
from tests.machine.team_lists import OF_TEAMS, TeamLists

# Not predicted key by key: they have a lifetime, or the doctor looks at them at the end of every run.
LEFT_OUT = {
    *("audit", "hub:request", "hub:duty", "hub:open", "hub:aside", "hub:suspects", "hub:pace", "hub:history"),
    *("hub:ticket", "hub:ended", "hub:telling", "hub:last_end", "hub:holds", "hub:end_reason"),
    *("hub:usage_ended", "hub:incarnations"),
    *FAMILIES,
    *OF_TEAMS,
}
SESSION = ("leaseToken", "labelKey", "poolLabel", "nodeId", "runId", "holder")
RECORD = ("pool", "node", "place", "item", "owed", "unwell", "barred", "user_id", "team", "limited", "warned_ms",
          "recall_ms", "class", "warm")  # fmt: skip
SETS = ("nodes", "draining")
SCORES = ("deadlines", "lease_limits", "drain_deadlines", "ticket_deadlines", "hubs", "revoked")


class Look:
    """The reads for the names that a machine uses, packed once and sent together."""

    def __init__(
        self, url: str, labels: Sequence[str], slots: Sequence[str], nodes: Sequence[str], hubs: Sequence[str]
    ) -> None:
        self._labels, self._slots, self._nodes, self._hubs = labels, slots, nodes, hubs
        self._keys = keys = Keys("")
        commands: list[tuple[str, ...]] = [
            ("KEYS", "*"),
            ("HMGET", keys.store, "token", "clock_ms", "bundles"),
            ("HKEYS", keys.leaving),
            ("ZRANGE", keys.turns, "0", "-1"),
            ("HGETALL", keys.pending),
            ("HGETALL", keys.caps),
            ("ZRANGE", keys.bundles, "0", "-1"),
            ("HGETALL", keys.reserver),
            ("SMEMBERS", keys.reserved),
            *(("SMEMBERS", getattr(keys, name)) for name in SETS),
            *(("ZRANGE", getattr(keys, name), "0", "-1", "WITHSCORES") for name in SCORES),
        ]
        for label in labels:
            commands += [("LRANGE", keys.available(label), "0", "-1"), ("LRANGE", keys.inuse(label), "0", "-1")]
            commands += [("ZRANGE", keys.in_flight(label), "0", "-1"), ("ZSCORE", _open(keys, label), label)]
            commands += [("ZRANGE", keys.queue(label), "0", "-1"), ("SMEMBERS", keys.served(label))]
        for slot in slots:
            commands += [("HMGET", keys.session(slot), *SESSION), ("HMGET", keys.slot(slot), *RECORD)]
        commands += [
            (read, key(node)) for node in nodes for read, key in (("HGETALL", keys.lent), ("HKEYS", keys.node_holds))
        ]
        commands += [("SMEMBERS", key(hub)) for hub in hubs for key in (keys.waiters, keys.handed)]
        self._count = len(commands)
        self._redis = Redis.from_url(url, protocol=3, decode_responses=True)
        self._connection = self._redis.connection_pool.get_connection()
        self._packed = self._connection.pack_commands(commands)
        self._indexes, self._teams = Indexes(self._redis), TeamLists(self._redis)

    def close(self) -> None:
        self._redis.connection_pool.disconnect()
        self._redis.close()

    def seen(self) -> dict[str, Any]:
        """Return what the store holds."""
        self._connection.send_packed_command(self._packed)
        answers = iter([self._connection.read_response() for _ in range(self._count)])
        names, ticket = next(answers), self._keys.ticket("")
        found: dict[str, Any] = {"names": {name for name in names if _family(name) not in LEFT_OUT}}
        found["tickets"] = {name[len(ticket) :] for name in names if name.startswith(ticket)}
        token, clock, bundles = next(answers)
        found["token"], found["clock"], found["bundles wait"] = int(token), int(clock), bundles
        found["leaving"], found["turns"] = set(next(answers)), next(answers)
        found["pending"], found["caps"] = _numbers(next(answers)), _numbers(next(answers))
        found["bundles"], found["reserver"], found["reserved"] = next(answers), next(answers), set(next(answers))
        found |= {name: set(next(answers)) for name in SETS}
        found |= {name: {member: int(score) for member, score in next(answers)} for name in SCORES}
        for label in self._labels:
            found[f"free {label}"], found[f"lent {label}"] = next(answers), next(answers)
            found[f"asked {label}"], opened = set(next(answers)), next(answers)
            found[f"hidden {label}"] = bool(found[f"free {label}"]) and opened is None
            found[f"queue {label}"], found[f"served {label}"] = next(answers), set(next(answers))
        for slot in self._slots:
            found[f"session {slot}"], found[f"record {slot}"] = next(answers), next(answers)
        for node in self._nodes:
            found[f"told {node}"], found[f"holds {node}"] = next(answers), set(next(answers))
        for hub in self._hubs:
            found[f"attended {hub}"], found[f"handed {hub}"] = set(next(answers)), set(next(answers))
        found |= {f"bundle {name}": self._redis.hgetall(name) for name in names if _family(name) == "hub:bundle"}
        found |= self._indexes.seen(names)
        found |= {f"of teams {name}": what for name, what in self._teams.seen(names).items()}
        return found

    def said(self, model: Model, seen: dict[str, Any]) -> dict[str, Any]:
        """Return what it must hold. Two things are left to the store: whether it has noticed the end of a maintenance,
        and how long it keeps a ticket that was granted.
        """
        slots, grants = model.slots, model.grants
        waiting = [ticket for ticket in model.tickets.values() if ticket.state == "waiting"]
        runs = [ticket.wanted.run for ticket in waiting]
        said: dict[str, Any] = {"names": self.names(model), "token": model.token, "clock": model.clock_ms}
        for pool in [pool for pool in model.maintenance if model.is_over(pool)]:
            if self._keys.maintenance(pool) not in seen["names"]:
                said["names"] -= self._names_of_restart(model, pool)
        said |= self._bundles(model)
        said |= {"nodes": set(model.nodes), "draining": model.draining, "leaving": model.leaving}
        said |= {"turns": model.turns, "pending": {run: runs.count(run) for run in runs}, "caps": model.caps}
        said |= {"deadlines": {slot: grant.deadline_ms for slot, grant in grants.items()}, "lease_limits": model.limits}
        said |= {"drain_deadlines": model.drain_deadlines, "hubs": model.hubs, "revoked": _revoked(model)}
        said["tickets"] = {request for request, ticket in model.tickets.items() if ticket.state != "handed"}
        said["tickets"] |= seen["tickets"] & set(model.answered)
        said["ticket_deadlines"] = {t.wanted.id: t.patience_ms for t in model.tickets.values() if t.state != "handed"}
        for label in self._labels:
            said[f"free {label}"] = [slots[slot].item for slot in model.free.get(label, ())]
            said[f"lent {label}"] = [slots[slot].item for slot in model.lent.get(label, ())]
            said[f"asked {label}"] = {slot for slot, grant in grants.items() if grant.label == label}
            said[f"hidden {label}"] = False
            said[f"queue {label}"] = model.queue(label) if waiting else []
            said[f"served {label}"] = model.served(label) if f"served:{label}" in model.caps else set()
        for slot in self._slots:
            record, grant = slots.get(slot), grants.get(slot)
            said[f"record {slot}"] = [None] * len(RECORD)
            if record:
                owed = str(record.owed) if record.owed else None
                said[f"record {slot}"] = [
                    *(record.pool, record.node, record.place, record.item, owed),
                    *(record.unwell or None, record.barred or None),
                    *((USERS[grant.user], TEAMS[grant.user]) if grant and grant.user else (None, None)),
                    *_limits(grant),
                    *(digest_of(record.attributes) or None, " ".join(record.warm) or None),
                ]
            said[f"session {slot}"] = [None] * 6
            if record and grant:
                told = (str(grant.token), grant.label, record.pool, record.node, grant.run)
                said[f"session {slot}"] = [*told, grant.holder]
        for node in self._nodes:
            lent = {slot: str(grant.token) for slot, grant in grants.items() if slots[slot].node == node}
            said[f"told {node}"], said[f"holds {node}"] = lent, _holds(model, node)
        for hub in self._hubs:
            said[f"attended {hub}"] = {ticket.wanted.id for ticket in waiting if ticket.hub == hub}
            said[f"handed {hub}"] = model.handed.get(hub, set())
        said |= self._indexes.said(model, seen)
        return said | self._of_teams(model, seen)

    def _of_teams(self, model: Model, seen: dict[str, Any]) -> dict[str, Any]:
        of_teams = {name[9:]: what for name, what in seen.items() if name.startswith("of teams ")}
        return {f"of teams {name}": what for name, what in self._teams.said(model, of_teams).items()}

    def _bundles(self, model: Model) -> dict[str, Any]:
        line = [ticket.wanted.id for ticket in model.line_of_bundles()]
        found: dict[str, Any] = {
            "bundles": line,
            "bundles wait": "1" if line or model.reserver else None,
            "reserved": model.reserved,
        }
        found["reserver"] = _reserver(model)
        for slot, grant in model.grants.items():
            if grant.bundle:
                name = f"bundle {self._keys.bundle(grant.bundle)}"
                found.setdefault(name, {})[slot] = f"{grant.unit}|{grant.token}"
        return found

    def names(self, model: Model) -> set[str]:
        """Return every key there must be, but for the families left out."""
        keys = self._keys
        some = {
            keys.nodes: model.nodes,
            keys.beats: model.nodes,
            keys.draining: model.draining,
            keys.drain_deadlines: model.drain_deadlines,
            keys.leaving: model.leaving,
            keys.turns: model.turns,
            keys.caps: model.caps,
            keys.hubs: model.hubs,
            keys.revoked: model.revoked,
            keys.rules: model.rules,
            keys.lease_limits: model.limits,
            keys.revoked_tokens: model.revoked,
            keys.conflicts: {"n"} if model.conflicts else set(),
            keys.bundles: set(model.line_of_bundles() and "b"),
            keys.reserved: model.reserved,
            keys.reserver: {"r"} if model.reserver else set(),
            keys.unwell: {slot for slot, record in model.slots.items() if record.held},
            keys.unfresh: {slot for slot, record in model.slots.items() if record.owed},
        }
        names = {keys.store, *(name for name, members in some.items() if members)}
        for node in model.nodes:
            names |= {keys.node(node), keys.node_alive(node)} if model.alive(node) else {keys.node(node)}
        names |= {keys.available(pool) for pool, listed in model.free.items() if listed}
        names |= {keys.inuse(pool) for pool, listed in model.lent.items() if listed}
        for slot, record in model.slots.items():
            names |= {keys.pools, keys.slot(slot), keys.node_slots(record.node), keys.pool_slots(record.pool)}
            names |= {keys.node_holds(record.node)} if record.held else set()
        for slot, grant in model.grants.items():
            names |= {
                keys.deadlines,
                keys.session(slot),
                keys.in_flight(grant.label),
                keys.lent(model.slots[slot].node),
            }
            names |= {keys.run(grant.run), keys.browser_run(slot)} if grant.run else set()
            names |= {keys.bundle(grant.bundle)} if grant.bundle else set()
            names |= {keys.borrow_ttl(slot)} if grant.footprint else set()
            names |= {keys.borrow_idle(slot)} if grant.idle_ms and grant.idle_footprint else set()
        names |= {keys.recycle(slot) for slot in model.marked}
        names |= {keys.served(name[7:]) for name in model.caps if name.startswith("served:") and model.served(name[7:])}
        for pool in model.maintenance:
            names |= self._names_of_restart(model, pool)
        return names | self._names_of_the_line(model)

    def _names_of_restart(self, model: Model, pool: str) -> set[str]:
        keys = self._keys
        names = {keys.maintenance(pool), keys.maintenance_target(pool), keys.maintenance_since(pool)}
        names |= {keys.maintenance_free(pool), keys.maintenance_lent(pool)}
        return names | {keys.replacing(pool)} if model.maintenance[pool].replacing else names

    def _names_of_the_line(self, model: Model) -> set[str]:
        keys, names = self._keys, set()
        for ticket in model.tickets.values():
            names |= {keys.ticket_deadlines} if ticket.state != "handed" else set()
            if ticket.state == "waiting":
                names |= {keys.pending, *map(keys.queue, ticket.wanted.labels), keys.waiters(ticket.hub)}
        for label in model.offered:
            parts = label.split(":")
            wild = model.options[2] == "1" and "*" in parts
            names |= {keys.wild} if wild else {keys.under(":".join(parts[:n])) for n in range(2, len(parts) + 1)}
        return names | {keys.handed(hub) for hub, requests in model.handed.items() if requests}


def _open(keys: Keys, label: str) -> str:
    return str(keys.open_pools(str(label.count(":") + 1)))


def _reserver(model: Model) -> dict[str, str]:
    found = model.reserver
    if not found:
        return {}
    said = {"ticket": found.ticket, "node": found.node, "since_ms": str(found.since_ms)}
    said |= {"away_ms": str(found.away_ms)} if found.away_ms is not None else {}
    said |= {f"units:{label}": str(count) for label, count in found.units.items()}
    return said


def _revoked(model: Model) -> dict[str, int]:
    return {slot: until_ms for slot, (until_ms, _) in model.revoked.items()}


def _holds(model: Model, node: str) -> set[str]:
    by_node = {f"node:{slot}" for slot in model.held_by(node)}
    return by_node | {f"operator:{slot}" for slot in model.of_node(node) if model.slots[slot].barred}


def _limits(grant: Any) -> list[str | None]:
    if not grant:
        return [None] * 3
    numbers = [str(each) if each else None for each in (grant.warned_ms, grant.recall_ms)]
    return ["1" if grant.limited else None, *numbers]


def _numbers(answer: dict[str, str]) -> dict[str, int]:
    return {name: int(number) for name, number in answer.items()}


@cache
def _family(name: str) -> str:
    return ":".join(name.split(":")[: 2 if name.startswith("hub:") else 1])
