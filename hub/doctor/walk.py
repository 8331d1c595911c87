"""Going through the whole store, a bounded stretch at a time, and checking everything once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from hub.capacity.labels import parse_label
from hub.capacity.models import listed_id
from hub.doctor.checks import Checks, Subject, Suspicion, Words, seen_subject
from hub.doctor.job_walk import JobWalk
from hub.doctor.scan import LIST_PAGE, items_of, keys_of, members_of
from hub.errors import InvalidLabel
from hub.store.keys import PATTERNS, PRIVATE, WIRE, key_part
from hub.store.store import Store

# name of a key in `hub.store.keys` -> what Redis calls the type of its value
TYPES = {
    "hash": (
        *(
            "node",
            "session",
            "store",
            "orders",
            "lent",
            "leaving",
            "slot",
            "brake",
            "ticket",
            "pending",
            "caps",
            "pace",
        ),
        *("worker", "worker_rooms", "worker_brake", "job", "task", "provider", "token"),
        *(
            "zombies",
            "zombie_sources",
            "zombie_day",
            "outcomes",
            "ended",
            "renewed",
            "revoked_tokens",
            "drain_call",
            "room_sizes",
        ),
        "logins",
    ),
    "set": (
        "telling",
        *("nodes", "draining", "node_slots", "pool_slots", "replacing", "aside", "suspects", "waiters", "handed"),
        *("worker_jobs", "worker_tasks", "worker_providers", "dead_workers", "job_workers", "executors"),
        *("sockets", "bound", "connections", "socket_hubs", "node_tokens"),
    ),
    "zset": (
        *("beats", "drain_deadlines", "pools", "open_pools", "deadlines", "in_flight", "run"),
        *("queue", "turns", "under", "wild", "ticket_deadlines", "hubs", "revoked"),
        *("workers", "worker_beats", "room_workers", "room_jobs", "deleted_jobs", "room_providers"),
        *("tokens", "hung_up", "zombie_counts", "joined", "withdrawn", "room_results"),
        *(
            "job_queue",
            "heads",
            "later",
            "room_tasks",
            "job_tasks",
            "runtimes",
            "silences",
            "ownerless",
            "internal_tasks",
        ),
        *("finished", "dead", "logins_seen"),
    ),
    "list": ("available", "inuse", "audit", "refusals", "incarnations", "early_ends", "task_log"),
    "stream": ("history", "taskiq"),
}
TYPE_OF = dict.fromkeys(PATTERNS, "string") | {name: kind for kind, names in TYPES.items() for name in names}

# Keys that end by themselves, and after how many seconds at most; of a node's alive key its timeout decides.
LIFETIMES_S = {
    "node_alive": 0,
    "node_upgrade": 300,
    "browser_run": 21_600,
    "browser_test": 21_600,
    "recycle": 300,
    "request": 86_400,
    "replacing": 1800,
    "pace": 3600,
    "claim": 60,
    "early_ends": 60,
    "submitted": 86_400,
    "result": 300,
    "inflight": 30,
    "zombie_turn": 90,
    "zombie_leader": 604_800,
    "zombies": 604_800,
    "outcomes": 604_800,
    "trace": 86_400,
    "zombie_counts": 3600,
    "zombie_day": 92 * 86_400,
    **{name: 1800 for name in WIRE if name.startswith("maintenance")},
}
# Private indexes whose members must belong; of `duty` only the fields that name a slot.
INDEXES = (
    *("beats", "draining", "drain_deadlines", "suspects"),
    *("deadlines", "in_flight", "run", "lent", "node_slots", "pool_slots", "orders"),
)
_RECYCLE = WIRE["recycle"].partition("{")[0]
_OWN = PRIVATE["store"].partition(":")[0] + ":"


class Walk:
    """One walk; `suspicions` is what it did not like so far."""

    def __init__(self, store: Store, checks: Checks) -> None:
        self._store = store
        self._keys = store.keys
        self._checks = checks
        self.suspicions: dict[Suspicion, Words] = {}
        self._odd: dict[str, str] = {}  # key part -> raw id, where they differ
        self._pools: set[str] = set()
        self._listed: dict[str, tuple[str, str, str]] = {}  # slot -> place, label and item it was first seen as
        self._doubtful: dict[str, set[tuple[str, str, str]]] = defaultdict(set)  # the same, all of them
        self._tokens: dict[str, str] = {}  # token -> slot
        self._jobs = JobWalk(store, self._check)
        heads = {name: pattern.partition("{}")[0] for name, pattern in PATTERNS.items()}
        self._heads = sorted(heads.items(), key=lambda each: -len(each[1]))

    async def everything(self) -> dict[Suspicion, Words]:
        """Check at all there is; the answer may hold what was only changing at that moment."""
        await self._check("store", [("",)])
        await self._check("libraries", [(library,) for library in await self._store.libraries()])
        async for batch in members_of(self._store, self._keys.nodes, "set"):
            self._odd |= {part: raw for raw in batch if (part := key_part(raw)) != raw}
            await self._check("nodes", [(raw, key_part(raw)) for raw in batch])
        async for names in keys_of(self._store, self._keys.prefix):
            await self._page(names)
        await self._jobs.finish()
        await self._check("places", [seen_subject(slot, seen) for slot, seen in self._doubtful.items()])
        return self.suspicions

    async def _page(self, names: Iterable[str]) -> None:
        kinds: dict[str, str] = {name: kind for name in names if (kind := self._kind(name)) is not None}
        wrong = await self._check("keys", [(name, TYPE_OF.get(kind, "")) for name, kind in kinds.items()])
        ids: dict[str, list[str]] = defaultdict(list)
        for name in kinds.keys() - {suspicion.subject[0] for suspicion in wrong}:
            ids[kinds[name]].append(self._id(name, kinds[name]))
        slots = [each for kind in ("session", "slot", "borrow_ttl", "borrow_idle") for each in ids[kind]]
        await self._check("slots", [(slot,) for slot in slots])
        await self._check_tokens(ids["session"])
        mortal = [(name,) for name, kind in kinds.items() if kind in LIFETIMES_S]
        await self._check("lifetimes", mortal)
        await self._check("parts", [(part, self._odd.get(part, "")) for part in (*ids["node"], *ids["orders"])])
        await self._check_pools([*ids["available"], *ids["inuse"], *ids["pool_slots"]])
        for kind in INDEXES:
            await self._check_index(kind, ids[kind])
        await self._check_queues(ids)
        await self._jobs.page(ids)
        if ids["pools"]:
            await self._check_labels("pools", "")
        for segments in ids["open_pools"]:
            await self._check_labels("open_pools", segments)
        if ids["leaving"]:
            async for parts in members_of(self._store, self._keys.leaving, "hash"):
                await self._check("parts", [(part, "") for part in parts])

    async def _check_queues(self, ids: dict[str, list[str]]) -> None:
        """Who waits, where freed slots check for them, and what nobody attends."""
        await self._check("tickets", [(ticket,) for ticket in ids["ticket"]])
        await self._check("hubs", [(hub,) for hub in dict.fromkeys([*ids["waiters"], *ids["handed"]])])
        await self._check("waits", [(pool,) for pool in ids["available"] if _valid(pool)])
        for name in ids["queue"]:
            await self._check("queues", [(name,)])
            async for tickets in members_of(self._store, self._keys.queue(name), "zset"):
                await self._check("tickets", [(ticket,) for ticket in tickets])
        indexes = [self._keys.under(stem) for stem in ids["under"]]
        for index in (*indexes, *(getattr(self._keys, name) for name in ("turns", "wild") if ids[name])):
            async for labels in members_of(self._store, index, "zset"):
                await self._check("queues", [(label,) for label in labels])
        if ids["pending"]:
            async for runs in members_of(self._store, self._keys.pending, "hash"):
                await self._check("runs", [(run,) for run in runs])

    def _kind(self, name: str) -> str | None:
        """Which of the hub's keys this is; None for other programs' keys, `?` for a private one nobody knows."""
        if not name.startswith(self._keys.prefix):
            return None
        bare = name[len(self._keys.prefix) :]
        for kind, head in self._heads:
            if bare == PATTERNS[kind] or ("{}" in PATTERNS[kind] and bare.startswith(head)):
                return kind
        return "?" if bare.startswith(_OWN) else None

    def _id(self, name: str, kind: str) -> str:
        head, _, tail = PATTERNS.get(kind, "").partition("{}")
        return name[len(self._keys.prefix) + len(head) : len(name) - len(tail)]

    async def _check(self, name: str, subjects: Iterable[Subject]) -> dict[Suspicion, Words]:
        found = await self._checks.at(name, subjects)
        self.suspicions |= found
        return found

    async def _check_tokens(self, slots: Sequence[str]) -> None:
        tokens = await self._store.read_all(("HGET", self._keys.session(slot), "leaseToken") for slot in slots)
        twice = []
        for slot, token in zip(slots, tokens, strict=True):
            other = self._tokens.setdefault(token, slot) if token else slot
            if other != slot:
                twice.append((token, *sorted((other, slot))))
        await self._check("tokens", twice)

    async def _check_index(self, kind: str, owners: Sequence[str]) -> None:
        for owner in owners:
            key = getattr(self._keys, kind)
            async for batch in members_of(self._store, key(owner) if callable(key) else key, TYPE_OF[kind]):
                members = batch
                if kind == "orders":
                    members = [each[len(_RECYCLE) :] for each in batch if each.startswith(_RECYCLE)]
                await self._check("members", [(kind, owner, member) for member in members])

    async def _check_labels(self, kind: str, segments: str) -> None:
        key = self._keys.pools if kind == "pools" else self._keys.open_pools(segments)
        async for labels in members_of(self._store, key, "zset"):
            await self._check("pools", [(label, segments or _segments(label)) for label in labels])

    async def _check_pools(self, labels: Iterable[str]) -> None:
        fresh = [label for label in dict.fromkeys(labels) if label not in self._pools and _valid(label)]
        self._pools.update(fresh)
        await self._check("pools", [(label, _segments(label)) for label in fresh])
        for label in fresh:
            await self._check_places(label)

    async def _check_places(self, label: str) -> None:
        """Compare the two lists of a pool with the records of the slots in them, and of those that should be."""
        seen: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
        for place, key in (("free", self._keys.available(label)), ("lent", self._keys.inuse(label))):
            async for items in items_of(self._store, key):
                for item in items:
                    seen[listed_id(item)].append((place, label, item))
        for slot, where in seen.items():
            first = self._listed.setdefault(slot, where[0])
            if first[1] != label:
                where.append(first)
        async for slots in members_of(self._store, self._keys.pool_slots(label), "set"):
            for slot in slots:
                seen.setdefault(slot, [])
        slots = list(seen)
        for start in range(0, len(slots), LIST_PAGE):
            batch = slots[start : start + LIST_PAGE]
            records = await self._store.read_all(
                ("HMGET", self._keys.slot(slot), "item", "pool", "place") for slot in batch
            )
            for slot, record in zip(batch, records, strict=True):
                if not _agrees(slot, record, seen[slot], label):
                    self._doubtful[slot].update(seen[slot])


def _agrees(slot: str, record: Sequence[str | None], seen: Sequence[tuple[str, str, str]], label: str) -> bool:
    item, pool, place = record
    if item is None:  # another program's: no sweep has taken it in yet, or it is nobody's slot
        return len(seen) <= 1 or slot.startswith("nameless-")
    if not seen:
        return place == "held" or pool != label
    return list(seen) == [(place, pool, item)]


def _segments(label: str) -> str:
    return str(label.count(":") + 1)


def _valid(label: str) -> bool:
    try:
        return parse_label(label).text == label
    except InvalidLabel:
        return False
