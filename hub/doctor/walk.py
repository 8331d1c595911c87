"""The walk of the doctor through all keys of a store, a bounded number at a time; it checks each subject once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from hub.capacity.labels import parse_label
from hub.capacity.models import listed_id
from hub.doctor.checks import Checks, Subject, Suspicion, Words, place_subject
from hub.doctor.job_walk import JobWalk
from hub.doctor.stocks import KINDS as STOCKS
from hub.errors import InvalidLabel
from hub.store.keys import TABLE, Keys, key_part, name_of
from hub.store.lenient import read_each
from hub.store.scan import LIST_PAGE, items_of, keys_of, members_of
from hub.store.store import Store

# Indexes each of whose members is checked: it must belong there. Of `orders` only the fields that name a slot.
INDEXES = (
    *("beats", "draining", "drain_deadlines", "suspects", "unfresh", "unwell"),
    *("deadlines", "lease_limits", "in_flight", "served", "run", "lent", "node_slots", "node_holds", "pool_slots"),
    *("bundle", "reserved", "team_leases", "team_shares", "team_turns", "recalled"),
    "orders",
)
# The same of classes of slots and of lines, which follow from tickets.
LISTINGS = (
    *("free_in", "free_classes", "open_class", "unclassed", "order", "warm", "classes"),
    *("want_line", "lines", "all_lines", "fitting", "fit", "parked", "bundles"),
    *("team_line", "team_wants", "team_under", "team_parked", "line_teams", "team_labels"),
)
_RECYCLE = Keys.recycle.head
_OWN = Keys.store.pattern.partition(":")[0] + ":"


class Walk:
    """A walk through the store; `suspicions` holds the suspicions found so far."""

    def __init__(self, store: Store, checks: Checks) -> None:
        self._store = store
        self._keys = store.keys
        self._checks = checks
        self.suspicions: dict[Suspicion, Words] = {}
        self._odd: dict[str, str] = {}  # key part of a node -> its id, where they differ
        self._pools: set[str] = set()
        self._listed: dict[str, tuple[str, str, str]] = {}  # slot -> place, label and item where it was first seen
        self._doubtful: dict[str, set[tuple[str, str, str]]] = defaultdict(set)  # slot to check -> all places
        self._tokens: dict[str, str] = {}  # token -> slot
        self._jobs = JobWalk(store, self._check)

    async def everything(self, seen: Callable[[int], None]) -> dict[Suspicion, Words]:
        """Check the whole store and return the suspicions, some of which may come from changes under way."""
        await self._check("store", [("",)])
        await self._check("libraries", [(library,) for library in await self._store.libraries()])
        async for batch in members_of(self._store, self._keys.nodes, "set"):
            self._odd |= {part: raw for raw in batch if (part := key_part(raw)) != raw}
            await self._check("nodes", [(raw, key_part(raw)) for raw in batch])
        keys = 0
        async for names in keys_of(self._store, self._keys.prefix):
            await self._page(names)
            seen(keys := keys + len(names))
        await self._jobs.finish()
        await self._check("stocks", [(kind,) for kind in STOCKS])
        await self._check("places", [place_subject(slot, seen) for slot, seen in self._doubtful.items()])
        return self.suspicions

    async def _page(self, names: Iterable[str]) -> None:
        kinds: dict[str, str] = {name: kind for name in names if (kind := self._kind(name)) is not None}
        wrong = await self._check(
            "keys", [(name, TABLE[kind].type if kind in TABLE else "") for name, kind in kinds.items()]
        )
        ids: dict[str, list[str]] = defaultdict(list)
        for name in kinds.keys() - {suspicion.subject[0] for suspicion in wrong}:
            ids[kinds[name]].append(self._id(name, kinds[name]))
        slots = [each for kind in ("session", "slot", "borrow_ttl", "borrow_idle") for each in ids[kind]]
        await self._check("slots", [(slot,) for slot in slots])
        await self._check_tokens(ids["session"])
        mortal = [(name,) for name, kind in kinds.items() if kind in TABLE and TABLE[kind].seconds is not None]
        await self._check("lifetimes", mortal)
        await self._check("parts", [(part, self._odd.get(part, "")) for part in (*ids["node"], *ids["orders"])])
        await self._check_pools([*ids["available"], *ids["inuse"], *ids["pool_slots"]])
        for kind in INDEXES:
            await self._check_index(kind, ids[kind])
        await self._check_queues(ids)
        await self._check_classes(ids, slots)
        await self._check_teams(ids)
        await self._jobs.page(ids)
        if ids["pools"]:
            await self._check_labels("pools", "")
        for segments in ids["open_pools"]:
            await self._check_labels("open_pools", segments)
        if ids["leaving"]:
            async for parts in members_of(self._store, self._keys.leaving, "hash"):
                await self._check("parts", [(part, "") for part in parts])

    async def _check_queues(self, ids: dict[str, list[str]]) -> None:
        """Check the tickets, the hubs that answer them, and the indexes by which a freed slot finds its next waiter."""
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
        await self._check("reserver", [("",) for _ in ids["reserver"]])
        if ids["pending"]:
            async for runs in members_of(self._store, self._keys.pending, "hash"):
                await self._check("runs", [(run,) for run in runs])

    async def _check_classes(self, ids: dict[str, list[str]], slots: Sequence[str]) -> None:
        """Check the classes of slots, and the lines of tickets that want something."""
        await self._check("classed", [(slot,) for slot in slots])
        await self._check("offers", [(name,) for name in ids["free_in"]])
        await self._check("wants", [(want,) for want in ids["want"]])
        for kind in LISTINGS:
            await self._check_index(kind, ids[kind], "listings")
        if ids["all_lines"]:
            async for lines in members_of(self._store, self._keys.all_lines, "set"):
                parted = (line.partition("\t") for line in lines)
                await self._check("lines", [(label, want) for label, _, want in parted])

    async def _check_teams(self, ids: dict[str, list[str]]) -> None:
        """Check what teams are to have, their shares, which say who is next, and the lines of their tickets."""
        if ids["teams"]:
            async for rows in members_of(self._store, self._keys.teams, "hash"):
                patterns = dict.fromkeys(row.rpartition("\t")[0] for row in rows)
                await self._check("policies", [(pattern,) for pattern in patterns])
        shares = [(pattern, team) for pattern, _, team in (name.rpartition("\t") for name in ids["team_leases"])]
        for pattern in ids["team_shares"]:
            async for teams in members_of(self._store, self._keys.team_shares(pattern), "zset"):
                shares += [(pattern, team) for team in teams]
        await self._check("shares", shares)
        await self._check("team_lines", [(name,) for name in ids["team_line"]])

    def _kind(self, name: str) -> str | None:
        """Return the kind of a key by its name: None for another program's key, `?` for an unknown private key."""
        if not name.startswith(self._keys.prefix):
            return None
        bare = name[len(self._keys.prefix) :]
        return name_of(bare) or ("?" if bare.startswith(_OWN) else None)

    def _id(self, name: str, kind: str) -> str:
        bare = name[len(self._keys.prefix) :]
        return bare[len(TABLE[kind].head) : len(bare) - len(TABLE[kind].tail)] if kind in TABLE else bare

    async def _check(self, name: str, subjects: Iterable[Subject]) -> dict[Suspicion, Words]:
        found = await self._checks.at(name, subjects)
        self.suspicions |= found
        return found

    async def _check_tokens(self, slots: Sequence[str]) -> None:
        tokens = await read_each(self._store, [("HGET", self._keys.session(slot), "leaseToken") for slot in slots])
        twice = []
        for slot, token in zip(slots, tokens, strict=True):
            other = self._tokens.setdefault(token, slot) if token else slot
            if other != slot:
                twice.append((token, *sorted((other, slot))))
        await self._check("tokens", twice)

    async def _check_index(self, kind: str, owners: Sequence[str], check: str = "members") -> None:
        for owner in owners:
            key = getattr(self._keys, kind)
            async for batch in members_of(self._store, key(owner) if callable(key) else key, TABLE[kind].type):
                members = batch
                if kind == "orders":
                    members = [each[len(_RECYCLE) :] for each in batch if each.startswith(_RECYCLE)]
                await self._check(check, [(kind, owner, member) for member in members])

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
        """Compare the two lists of a pool with the records of its slots; note the slots that differ in `_doubtful`."""
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
            asked = (("HMGET", self._keys.slot(slot), "item", "pool", "place") for slot in batch)
            records = await read_each(self._store, asked, (None, None, None))
            for slot, record in zip(batch, records, strict=True):
                if not _agrees(slot, record, seen[slot], label):
                    self._doubtful[slot].update(seen[slot])


def _agrees(slot: str, record: Sequence[str | None], seen: Sequence[tuple[str, str, str]], label: str) -> bool:
    item, pool, place = record
    if item is None:  # no record: another program's item that no sweep has taken in yet, or no slot
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
