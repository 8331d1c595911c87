"""The rules: the store as plain Python. A method is one script and returns what that script must answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.machine.holds import Said
from tests.machine.matching import UNDESCRIBED, Described
from tests.machine.records import TIMEOUT_MS, Maintenance, Node, Slot, is_foreign
from tests.machine.teaming import Teaming


@dataclass
class Model(Teaming):
    """A store. A script must also serve the waiters that it made room for: `finish` comes after each."""

    described: Described = UNDESCRIBED  # the slot of a publication
    note: str = ""  # what its node is told of that
    last_word: tuple[int, int] = (0, 0)  # of a publication: the end made fresh, the token of a lease that is over
    returns: dict[str, tuple[str, ...]] = field(default_factory=dict)  # request -> slot, word, token, bundle that ended

    # -- nodes

    def register(self, node: str) -> str:
        if node in self.leaving:
            return "leaving"
        word = "updated" if node in self.nodes else "registered"
        self.hear(node)
        return word

    def hear(self, node: str) -> None:
        self.nodes[node] = Node(self.clock_ms, self.clock_ms + TIMEOUT_MS)

    def beat(self, node: str, resumed: Iterable[str]) -> None:
        """`resumed` are the slots that were held because it was suspect, in the order they come back."""
        if node not in self.nodes:
            return
        self.hear(node)
        if self.to_report(node):
            return
        for slot in resumed:
            if not self.suspect(slot):  # else it has not been reported yet
                self.place_free(slot)
        if node not in self.republish:
            self.orders[node] = self.orders.get(node, set()) & self.marked

    def to_report(self, node: str) -> bool:
        """Return whether a node is to publish again: what it has, and what of it is lent."""
        return self.reporting and bool(self.of_node(node)) and self.reported.get(node, 0) != self.opening

    def orders_for(self, node: str) -> tuple[bool, dict[str, str], set[str]] | None:
        """Return whether a node drains, its lent slots, those to replace; None when it is to publish again."""
        if node not in self.nodes or self.to_report(node) or node in self.republish:
            return None
        lent = {slot: str(self.grants[slot].token) for slot in self.of_node(node) if slot in self.grants}
        return node in self.stopped, lent, self.orders.get(node, set())

    def resume(self, resumed: Iterable[str]) -> list[str]:
        """Lend again from suspect nodes that were heard since, in this order."""
        for slot in resumed:
            self.place_free(slot)
        return ["ok"]

    def resumable(self) -> set[str]:
        back = {node for node in self.aside if node in self.nodes and not self.silent(node) and not self.reporting}
        return {slot for node in back for slot in self.aside[node]}

    def liveness(self, node: str, action: str, keep: bool) -> str:
        """Return the answer to a sweeper that nominates a node."""
        if node not in self.nodes:
            return "gone"
        if self.alive(node) or self.nodes[node].seen or self.clock_ms - self.nodes[node].beat_ms <= TIMEOUT_MS:
            return "alive" if self.alive(node) else "fresh"
        if self.reporting:  # the store was away, and no node could be heard
            return "fresh"
        offers = any(self.slots[s].place == "free" or s in self.aside.get(node, ()) for s in self.of_node(node))
        if action == "expire" and keep and offers:
            return "refreshed"
        return {"expire": "expired", "refresh": "refreshed", "look": "stale"}[action]

    def remove(self, node: str, popped: list[str]) -> None:
        """Take a node off the books with the first slots of it, in this order."""
        self.nodes.pop(node, None)
        self.draining.discard(node)
        self.drain_deadlines.pop(node, None)
        self.prune(node, popped)

    def prune(self, node: str, popped: list[str]) -> None:
        for slot in popped:
            self.unlist(slot)
            if slot in self.grants:
                self.revoke(slot)
                self.end(slot)
            self.drop(slot)
            self.marked.add(slot)  # for a node that was expired by mistake and speaks to Redis itself
        self.leaving.discard(node)
        if self.of_node(node):
            self.leaving.add(node)
        else:
            self.stopped.discard(node)
            self.aside.pop(node, None)
            self.orders.pop(node, None)
            self.republish.discard(node)
            self.reported.pop(node, None)
            self.told.pop(node, None)

    def drain(self, node: str, on: bool, deadline_ms: int | None, first: bool, page: list[str]) -> list[Any]:
        """A batch, which looks at a page of slots; the first one switches."""
        if not first and on != (node in self.stopped):
            return ["ok", "0", 0, 0, -1]
        if first:
            for some in (self.draining, self.stopped):
                (some.add if on else some.discard)(node)
            self.drain_deadlines.pop(node, None)
            if on and deadline_ms is not None:
                self.drain_deadlines[node] = self.clock_ms + deadline_ms
        for slot in page:
            record = self.slots[slot]
            if on and record.place == "free":
                self.unlist(slot)
                record.place = "held"
            elif not on and record.place == "held":
                self.place_free(slot)
        self.finish()
        places = [self.slots[slot].place for slot in page]
        left_ms = max(0, self.drain_deadlines[node] - self.clock_ms) if node in self.drain_deadlines else -1
        return ["ok", places.count("held"), places.count("lent"), left_ms]

    def end_drained(self, node: str, page: list[str], limit: int, last: bool) -> list[Any]:
        due = self.drain_deadlines.get(node)
        if due is None or due > self.clock_ms:
            return ["nothing"]
        ended: list[str] = []
        for slot in page:
            if slot in self.grants:
                if len(ended) == limit:
                    return ["more", "again", ended]
                self.revoke(slot)
                self.release(slot, mark=True)
                ended.append(slot)
        if last:
            del self.drain_deadlines[node]
        return ["done" if last else "more", "next", ended]

    def acknowledge(self, node: str, slot: str, number: int) -> list[str]:
        record = self.slots.get(slot)
        if record and record.node == node:
            self.marked.discard(slot)
            if record.pool in self.maintenance:
                self.maintenance[record.pool].replacing.discard(slot)
            if record.owed and record.owed <= number <= self.token:
                record.owed, record.made = 0, number
                self.freshen(slot, number)
                self.offer_again(slot)
        self.orders.get(node, set()).discard(slot)
        return ["ok"]

    # -- slots and pools

    def publish(
        self, node: str, slot: str, pool: str, item: str, policy: str, made: int, token: int, said: Said,
        described: Described,
    ) -> list[Any]:  # fmt: skip
        self.said, self.described, self.note = said, described, ""
        if node not in self.nodes:
            return ["unknown"]
        self.last_word = (made if made <= self.token else 0, token)
        word, other = self.publish_one(node, slot, pool, item, policy)
        if not other:
            self.slots[slot].reported = self.opening
        if self.reporting:
            self.reported[node] = self.opening
        return ["ok", [word], [other], [self.note]]

    def publish_one(self, node: str, slot: str, pool: str, item: str, policy: str) -> tuple[str, str]:
        """Return the word, and the other node for whose sake it is refused."""
        record = self.slots.get(slot)
        owner = slot.partition("-")[0]
        if not record and owner in self.nodes and owner != node:
            return self.conflicting("reserved", owner)
        if record and record.node != node:
            if not self.is_named_for(slot, node, pool):
                return self.conflicting("taken", record.node)
            self.conflicting("claimed", record.node)
            if record.place == "lent":
                record.claimed = True
                return "claimed", record.node
            self.unlist(slot)
            self.drop(slot)
        return self.publish_own(node, slot, pool, item, policy)

    def conflicting(self, word: str, other: str) -> tuple[str, str]:
        """Two nodes offer a slot, which is told."""
        self.conflicts = True
        return word, other

    def is_named_for(self, slot: str, node: str, pool: str) -> bool:
        return slot == f"{node}-{pool.replace(':', '.')}-1"

    def publish_own(self, node: str, slot: str, pool: str, item: str, policy: str) -> tuple[str, str]:
        record, (made, token) = self.slots.get(slot), self.last_word
        if record and record.place == "lent":
            record.policy = policy
            self.hear_publication(slot)
            self.hear_attributes(slot)
            return "lent", ""
        if policy == "fresh":
            self.freshen(slot, made)
        # The node may say that it is lent; this store has lost no grant, so that one has ended.
        if record and (record.pool, record.item) == (pool, item):
            before, record.policy, record.reported = record.policy, policy, self.opening
            held = record.place == "held" and slot in self.aside.get(node, ())
            again = self.hear_again(record, slot, before) or held
            again = self.hear_publication(slot) or again
            if self.hear_attributes(slot) or again:
                self.unlist(slot)
                self.place_free(slot)
            return "unchanged", ""
        unknown = record is not None and record.policy != "fresh"
        if record:
            made = max(made, record.made)
            self.unlist(slot)
            self.drop(slot)
        self.marked.discard(slot)
        self.slots[slot] = Slot(pool, node, item, policy, reported=self.opening)
        self.enter_held(slot)
        self.hear_attributes(slot)
        self.hear_publication(slot)
        if pool in self.maintenance:
            self.maintenance[pool].replacing.discard(slot)
        if policy == "fresh":
            self.slots[slot].made = made
            if max(self.last_ends.pop(slot, 0), token) > made or unknown:
                self.owe(slot)
        self.place_free(slot)
        return "published", ""

    def hear_attributes(self, slot: str) -> bool:
        """Take in what the publication says of a slot; return whether to place it anew."""
        self.note, anew = self.describe_slot(slot, self.described)
        return anew

    def describe_slots(self, node: str, slot: str, described: Described) -> list[Any]:
        """A node says with a beat what a slot is like."""
        if node not in self.nodes:
            return ["unknown"]
        record = self.slots.get(slot)
        if not record or record.node != node:
            return ["ok", ["foreign" if record else "unknown"], [""]]
        note, anew = self.describe_slot(slot, described)
        if anew and slot not in self.aside.get(node, ()):
            self.unlist(slot)
            self.place_free(slot)
        return ["ok", ["set"], [note]]

    def hear_again(self, record: Slot, slot: str, before: str) -> bool:
        """A slot is published again; return whether it was to be made fresh and is not any more, or the other way."""
        made, token = self.last_word
        if record.owed and (record.policy != "fresh" or record.owed <= made):
            record.made = made if record.policy == "fresh" else record.made
            record.owed = 0
            return True
        if record.policy != "fresh" or record.owed or (before == "fresh" and token <= max(made, record.made)):
            return False
        self.owe(slot)
        return True

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
            self.revoke(slot)
            self.end(slot)
        self.drop(slot)
        self.forget_holds(slot)
        self.last_ends.pop(slot, None)
        self.used.pop(slot, None)
        return ["withdrawn", int(lent)]

    def restart(self, pool: str) -> list[Any]:
        free, lent = len(self.free.get(pool, [])), len(self.lent.get(pool, []))
        self.maintenance[pool] = Maintenance(free + lent, self.of_pool(pool), (free, lent))
        return ["ok", free, lent]

    def describe(self, pools: list[str]) -> list[list[int]]:
        answers = []
        for pool in pools:
            active = self.under_maintenance(pool)
            start = self.maintenance[pool].counts if active else (0, 0)
            counts = len(self.of_pool(pool)), len(self.free.get(pool, [])), len(self.lent.get(pool, []))
            answers.append([*counts, int(active), *start])
        return answers

    # -- grants

    def give_back(
        self, slot: str, token: str, run: str, request: str, revokes: str = "", by: str = "operator"
    ) -> list[Any]:
        if request in self.returns:
            same, word, ended, *torn = self.returns[request]
            other = token and ended and token != ended  # the key of the end of another lease
            return [word, "", "", ended, *torn] if same == slot and not other else ["reused", "", "", ""]
        answer = self.end_by_caller(slot, token, run, revokes, by)
        if answer[0] == "not-holder":
            return answer
        self.returns[request] = (slot, answer[0], *answer[3:])
        return answer

    def end_by_caller(self, slot: str, token: str, run: str, revokes: str, by: str) -> list[Any]:
        grant, record = self.grants.get(slot), self.slots.get(slot)
        if token and (not grant or str(grant.token) != token):
            # The holder was told, and says that it has stopped.
            told = self.believed_in(slot) and self.revoked[slot][1] == token
            if told and not is_foreign(by, record.last_user if record else None, True):
                del self.revoked[slot]
                self.offer_again(slot)
            return ["stale token", "", "", ""]
        of_the_last = grant and (grant.unseen or (run and run == grant.before and run != grant.run))
        if record and not token and of_the_last:  # a late repeat: a caller that means this grant must name its token
            return ["not lent", record.pool, "", ""]
        if is_foreign(by, grant.user if grant else None, bool(token)):
            if not grant:
                return ["not lent", record.pool if record else "", "", ""]
            return ["not-holder", grant.holder if grant else "", ""]
        if not grant or not record:
            if not record or record.policy != "reuse":
                self.mark(slot)
            return ["not lent", record.pool if record else "", "", ""]
        if revokes:
            self.revoke(slot, grace=revokes == "1")
        torn = [bundle] if revokes and (bundle := self.torn_by(slot)) else []
        self.release(slot, mark=True, by_holder=not revokes)
        return ["returned", record.pool, grant.run, str(grant.token), *torn]

    def renew(self, slot: str, token: str, ttl_ms: int, max_ms: int, by: str = "operator") -> list[Any]:
        if refused := self.not_held(slot, token, by):
            return refused
        grant = self.grants[slot]
        latest = min(self.clock_ms + self.length(slot, ttl_ms), self.latest(grant, grant.granted_ms + max_ms))
        grant.deadline_ms = max(grant.deadline_ms, latest)
        grant.footprint = True
        if grant.idle_ms and grant.active_ms is None:
            grant.idle_footprint, grant.ran_out = True, False
        return ["settling"] if self.settling else ["ok", str(grant.token), grant.deadline_ms - self.clock_ms]

    def lapse(self, slots: list[str]) -> list[str]:
        words = []
        for slot in slots:
            grant = self.grants.get(slot)
            if not grant:
                word = "stray"
            elif grant.deadline_ms <= self.clock_ms:  # hubs have yet to say what they renewed while the store settles
                end = self.ending(grant)
                by_rule = end is not None and end[0] <= self.clock_ms
                why = "recall" if end and end[1] == "recall" else "max-hold"
                word = "live" if self.settling else why if by_rule else "lapsed"
            elif not grant.footprint:
                word = "deleted"
            else:
                word = "idle" if grant.idle_ms and not grant.idle_footprint and not grant.ran_out else "live"
            if grant and word != "live":
                self.release(slot, mark=True)
            elif grant and grant.deadline_ms > self.clock_ms:
                if grant.ran_out and grant.active_ms is None:
                    grant.idle_footprint, grant.ran_out = True, False
                self.refresh(slot)
            words.append(word)
        return words

    def verify(self, slot: str, token: str) -> list[Any]:
        grant = self.grants.get(slot)
        if not grant:
            return ["not lent"]
        if str(grant.token) != token:
            return ["stale token"]
        if self.settling:
            return ["settling"]
        left_ms = grant.deadline_ms - self.clock_ms
        return ["ok", left_ms] if left_ms > 0 else ["lapsed"]
