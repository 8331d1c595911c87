"""What the rules say: the store as plain Python. Every method is one script and returns what that script must answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

TIMEOUT_MS = 50_000  # of nodes


@dataclass
class Node:
    """A node on the books. `alive` and `seen` are its two traces in wall time: the alive key, and a recent LastSeen."""

    beat_ms: float
    alive: bool = True
    seen: bool = True


@dataclass
class Slot:
    """A published slot; `place` is free, lent or held."""

    pool: str
    node: str
    item: str
    policy: str
    place: str = ""


@dataclass
class Grant:
    """A slot in somebody's hands. `footprints` are there until somebody deletes them."""

    token: int
    label: str
    run: str
    ttl_ms: int
    granted_ms: int
    deadline_ms: int
    watch_idle: bool
    footprint: bool = True
    idle_footprint: bool = True


@dataclass
class Maintenance:
    """A pool restart: which slots it wants replaced, and by how many; `on_s` is how long it has been on."""

    target: int
    replacing: set[str]
    counts: tuple[int, int]
    on_s: int = 0


@dataclass
class Request:
    """What a request was answered with, to which attempt."""

    asked: str
    slot: str
    token: int
    attempt: str


def segments(label: str) -> list[str]:
    return label.split(":")


def fits(label: str, wanted: list[str], wild: bool) -> bool:
    """Whether the first segments of a label are the wanted ones; `*` stands for any when wildcards are on."""
    have = segments(label)
    return len(have) >= len(wanted) and all(w == h or (wild and w == "*") for w, h in zip(wanted, have, strict=False))


@dataclass
class Model:
    """One store. `options` is how labels are matched: trailing, prefix, wildcards, `1` or `0` each."""

    options: str
    clock_ms: int
    token: int
    caps: dict[str, int]
    settled_ms: int = 0
    nodes: dict[str, Node] = field(default_factory=dict)
    draining: set[str] = field(default_factory=set)
    stopped: set[str] = field(default_factory=set)  # nodes whose slots are held back, until the last of them is gone
    leaving: set[str] = field(default_factory=set)
    slots: dict[str, Slot] = field(default_factory=dict)
    free: dict[str, list[str]] = field(default_factory=dict)
    lent: dict[str, list[str]] = field(default_factory=dict)
    grants: dict[str, Grant] = field(default_factory=dict)
    marked: set[str] = field(default_factory=set)
    orders: dict[str, set[str]] = field(default_factory=dict)  # node -> slots it is to be told to replace
    requests: dict[str, Request] = field(default_factory=dict)
    withdrawn: set[str] = field(default_factory=set)  # attempts that never will be carried out
    returns: dict[str, tuple[str, str]] = field(default_factory=dict)  # request -> slot, word
    maintenance: dict[str, Maintenance] = field(default_factory=dict)

    # -- places

    def take(self, pool: str) -> str | None:
        """The slot that is lent next from a pool; one about to be replaced goes last."""
        if self.under_maintenance(pool) or not self.free.get(pool):
            return None
        listed = self.free[pool]
        slot = next((s for s in listed if s not in self.marked), listed[0])
        listed.remove(slot)
        return slot

    def candidates(self, wanted: str) -> list[str]:
        """The pools that may serve a label, best first: itself, shorter ones, longer ones."""
        trailing, prefix, wildcards = (option == "1" for option in self.options)
        want = segments(wanted)
        pools = sorted(set(self.free) | {slot.pool for slot in self.slots.values()})
        found = []
        for n in range(len(want), 1 if trailing else len(want) - 1, -1):
            found += [p for p in pools if len(segments(p)) == n and fits(p, want[:n], wildcards)]
        if prefix:
            longer = [p for p in pools if len(segments(p)) > len(want) and fits(p, want, wildcards)]
            found += sorted(longer, key=lambda p: (len(segments(p)), p))
        return found

    def match(self, wanted: str) -> str | None:
        return next((slot for pool in self.candidates(wanted) if (slot := self.take(pool))), None)

    def place_free(self, slot: str) -> None:
        """Send on a slot that is in no list."""
        record = self.slots[slot]
        if record.node in self.stopped:
            record.place = "held"
            return
        record.place = "free"
        self.free.setdefault(record.pool, []).append(slot)

    def unlist(self, slot: str) -> None:
        record = self.slots[slot]
        if record.place == "free":
            self.free[record.pool].remove(slot)
        elif record.place == "lent":
            self.lent[record.pool].remove(slot)

    def drop(self, slot: str) -> None:
        """Forget a slot that is in no list."""
        record = self.slots.pop(slot)
        self.orders.get(record.node, set()).discard(slot)

    def mark(self, slot: str) -> None:
        """Ask for a slot to be replaced; its node hears of it when there is a record that names one."""
        self.marked.add(slot)
        if slot in self.slots:
            self.orders.setdefault(self.slots[slot].node, set()).add(slot)

    def mark_known(self, slots: list[str]) -> list[Any]:
        known = [slot for slot in slots if slot in self.slots]
        for slot in known:
            self.mark(slot)
        return ["ok", len(known)]

    def lend(self, slot: str, token: int, label: str, run: str, ttl_ms: int, idle_ms: int) -> None:
        self.slots[slot].place = "lent"
        self.lent.setdefault(self.slots[slot].pool, []).append(slot)
        self.grants[slot] = Grant(token, label, run, ttl_ms, self.clock_ms, self.clock_ms + ttl_ms, idle_ms > 0)

    def end(self, slot: str) -> Grant:
        return self.grants.pop(slot)

    def release(self, slot: str, *, mark: bool) -> None:
        """End a grant and send its slot on."""
        self.unlist(slot)
        self.end(slot)
        if mark and self.slots[slot].policy != "reuse":
            self.mark(slot)
        self.place_free(slot)

    # -- nodes

    def register(self, node: str) -> str:
        if node in self.leaving:
            return "leaving"
        word = "updated" if node in self.nodes else "registered"
        self.nodes[node] = Node(self.clock_ms)
        return word

    def beat(self, node: str) -> tuple[bool, dict[str, str], set[str]] | None:
        """Whether it drains, its lent slots and those to replace; None for a node that is not on the books."""
        if node not in self.nodes:
            return None
        self.nodes[node] = Node(self.clock_ms)
        self.orders[node] = self.orders.get(node, set()) & self.marked
        lent = {slot: str(self.grants[slot].token) for slot in self.of_node(node) if slot in self.grants}
        return node in self.draining, lent, set(self.orders[node])

    def liveness(self, node: str, action: str) -> str:
        """What a sweeper is told that nominates a node."""
        found = self.nodes.get(node)
        if not found:
            return "gone"
        if found.alive or found.seen or self.clock_ms - found.beat_ms <= TIMEOUT_MS:
            return "alive" if found.alive else "fresh"
        return {"expire": "expired", "refresh": "refreshed", "look": "stale"}[action]

    def remove(self, node: str, popped: list[str]) -> None:
        """Take a node off the books with the first slots of it, in this order."""
        self.nodes.pop(node, None)
        self.draining.discard(node)
        self.prune(node, popped)

    def prune(self, node: str, popped: list[str]) -> None:
        for slot in popped:
            self.unlist(slot)
            if slot in self.grants:
                self.end(slot)
            self.drop(slot)
            self.marked.add(slot)  # for a node that was expired by mistake and speaks to Redis itself
        self.leaving.discard(node)
        if self.of_node(node):
            self.leaving.add(node)
        else:
            self.stopped.discard(node)
            self.orders.pop(node, None)

    def of_node(self, node: str) -> set[str]:
        return {slot for slot, record in self.slots.items() if record.node == node}

    def drain(self, node: str, on: bool, page: list[str]) -> list[Any]:
        """The page of slots that the bite looks at; returns how many of them are held and lent."""
        for some in (self.draining, self.stopped):
            (some.add if on else some.discard)(node)
        for slot in page:
            record = self.slots[slot]
            if on and record.place == "free":
                self.unlist(slot)
                record.place = "held"
            elif not on and record.place == "held":
                self.place_free(slot)
        places = [self.slots[slot].place for slot in page]
        return [places.count("held"), places.count("lent")]

    def acknowledge(self, node: str, slot: str) -> list[str]:
        record = self.slots.get(slot)
        if record and record.node == node:
            self.marked.discard(slot)
            if record.pool in self.maintenance:
                self.maintenance[record.pool].replacing.discard(slot)
        self.orders.get(node, set()).discard(slot)
        return ["ok"]

    # -- slots

    def publish(self, node: str, slot: str, pool: str, item: str, policy: str, token: int, ttl_ms: int) -> list[Any]:
        if node not in self.nodes:
            return ["unknown"]
        record = self.slots.get(slot)
        if record and record.node != node:
            return ["ok", ["taken"]]
        if record and record.place == "lent":
            return ["ok", ["lent"]]
        if record and (record.pool, record.item) == (pool, item):
            record.policy = policy
            return ["ok", ["unchanged"]]
        adopt = token and not record
        if record:
            self.unlist(slot)
            self.drop(slot)
        self.marked.discard(slot)
        self.slots[slot] = Slot(pool, node, item, policy)
        if adopt:
            self.lend(slot, token, pool, "", ttl_ms, 0)
            return ["ok", ["lent"]]
        self.place_free(slot)
        if pool in self.maintenance:
            self.maintenance[pool].replacing.discard(slot)
        return ["ok", ["published"]]

    def withdraw(self, node: str, slot: str, only_free: bool) -> list[Any]:
        record = self.slots.get(slot)
        if not record:
            self.marked.discard(slot)
            return ["unknown"]
        if record.node != node:
            return ["foreign"]
        if only_free and record.place == "lent":
            return ["lent"]
        self.marked.discard(slot)
        self.unlist(slot)
        lent = slot in self.grants
        if lent:
            self.end(slot)
        self.drop(slot)
        return ["withdrawn", int(lent)]

    # -- pools

    def restart(self, pool: str) -> list[Any]:
        free, lent = len(self.free.get(pool, [])), len(self.lent.get(pool, []))
        replacing = {slot for slot, record in self.slots.items() if record.pool == pool}
        self.maintenance[pool] = Maintenance(free + lent, replacing, (free, lent))
        return ["ok", free, lent]

    def under_maintenance(self, pool: str) -> bool:
        """Whether a pool lends nothing; looking is what ends it."""
        found = self.maintenance.get(pool)
        if not found:
            return False
        if self.lent.get(pool) or found.on_s < 10:
            return True
        members = {slot for slot, record in self.slots.items() if record.pool == pool}
        replaced = len(self.free.get(pool, [])) >= found.target and not members & found.replacing
        if found.on_s < 120 and not replaced:
            return True
        del self.maintenance[pool]
        return False

    def describe(self, pool: str) -> list[int]:
        active = self.under_maintenance(pool)
        published = sum(record.pool == pool for record in self.slots.values())
        start = self.maintenance[pool].counts if active else (0, 0)
        return [published, len(self.free.get(pool, [])), len(self.lent.get(pool, [])), int(active), *start]

    def look_at_pools(self) -> None:
        """What an audit does: look at every pool that has slots."""
        for pool in sorted({record.pool for record in self.slots.values()}):
            self.under_maintenance(pool)

    # -- borrowers

    def borrow(
        self, label: str, ttl_ms: int, idle_ms: int, run: str, request: str, attempt: str, asked: str
    ) -> list[Any]:
        if attempt in self.withdrawn:
            return ["undone"]
        before = self.requests.get(request)
        if before:
            return self.repeat(before, attempt, asked)
        if self.settled_ms > self.clock_ms:
            return ["settling", self.settled_ms - self.clock_ms]
        live = sum(grant.label == label for grant in self.grants.values())
        if live >= self.caps.get(label, 10**6):
            return ["capped", live]
        slot = self.match(label)
        if not slot:
            return ["empty", []]
        self.token += 1
        self.lend(slot, self.token, label, run, ttl_ms, idle_ms)
        self.requests[request] = Request(asked, slot, self.token, attempt)
        record = self.slots[slot]
        return ["ok", slot, str(self.token), record.item, record.pool, ttl_ms, ttl_ms, run, []]

    def repeat(self, before: Request, attempt: str, asked: str) -> list[Any]:
        if before.asked != asked:
            return ["reused"]
        grant = self.grants.get(before.slot)
        if not grant or grant.token != before.token:
            return ["over", before.slot]
        before.attempt = attempt
        record = self.slots[before.slot]
        left_ms = max(0, grant.deadline_ms - self.clock_ms)
        return ["ok", before.slot, str(grant.token), record.item, record.pool, left_ms, grant.ttl_ms, grant.run, []]

    def give_back(self, slot: str, token: str, request: str) -> list[Any]:
        if request in self.returns:
            same, word = self.returns[request]
            return [word if same == slot else "reused", "", ""]
        answer = self.end_by_caller(slot, token)
        if request:
            self.returns[request] = (slot, answer[0])
        return answer

    def end_by_caller(self, slot: str, token: str) -> list[Any]:
        grant, record = self.grants.get(slot), self.slots.get(slot)
        if token and (not grant or str(grant.token) != token):
            return ["stale token", "", ""]
        if not grant:
            if not record or record.policy != "reuse":
                self.mark(slot)
            return ["not lent", record.pool if record else "", ""]
        assert record
        self.release(slot, mark=True)
        return ["returned", record.pool, grant.run]

    def renew(self, slot: str, token: str, ttl_ms: int, max_ms: int) -> list[Any]:
        grant = self.grants.get(slot)
        if not grant or (token and str(grant.token) != token) or grant.deadline_ms <= self.clock_ms:
            return ["over"]
        latest = min(self.clock_ms + ttl_ms, grant.granted_ms + max_ms)
        grant.deadline_ms = max(grant.deadline_ms, latest)
        grant.footprint = grant.idle_footprint = True
        return ["ok", str(grant.token), grant.deadline_ms - self.clock_ms]

    def undo(self, request: str, attempt: str) -> list[Any]:
        before = self.requests.get(request)
        if request != attempt or not before:
            self.withdrawn.add(attempt)
        if not before or before.attempt != attempt:
            return ["nothing"]
        grant = self.grants.get(before.slot)
        if not grant or grant.token != before.token:
            return ["nothing"]
        del self.requests[request]
        self.release(before.slot, mark=False)
        return ["undone", before.slot]

    def lapse(self, slots: list[str]) -> list[str]:
        words = []
        for slot in slots:
            grant = self.grants.get(slot)
            if not grant:
                word = "stray"
            elif grant.deadline_ms <= self.clock_ms:
                word = "lapsed"
            elif not grant.footprint:
                word = "deleted"
            else:
                word = "idle" if grant.watch_idle and not grant.idle_footprint else "live"
            if grant and word != "live":
                self.release(slot, mark=True)
            words.append(word)
        return words

    def verify(self, slot: str, token: str) -> list[Any]:
        grant = self.grants.get(slot)
        if not grant:
            return ["not lent"]
        if str(grant.token) != token:
            return ["stale token"]
        left_ms = grant.deadline_ms - self.clock_ms
        return ["ok", left_ms] if left_ms > 0 else ["lapsed"]
