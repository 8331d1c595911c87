"""Steps of nodes and their operators, and accidents of nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.machine.base import NODES, PLACES, POOLS, SLOTS, Base, any_one, labels, nodes, pick, pools, slots, step
from tests.machine.model import Model
from tests.machine.records import TIMEOUT_MS

GRAIN_MS = 500  # all times are multiples of it: what passes while the machine runs is less, and decides nothing
limits = st.sampled_from([1, 2, 64])
ends = st.sampled_from(["leave", "die", "die", "kept", "nominated", "look", "refresh"])
works = st.sampled_from(["restart", "mark", "last", "last", "look"])
policies = st.sampled_from(["recycle", "reuse", "fresh", "fresh"])
rarely = st.sampled_from([True, False, False, False])


class Fleet(Base):
    """Rules of nodes, slots and pools."""

    @step(node=nodes, which=any_one, publishes=st.sampled_from([True, True, False]))
    def come(self, node: str, which: int, publishes: bool) -> None:
        """A node comes, or says again what it has."""
        self.do_register(node)
        if publishes and node in self.model.nodes:
            self.publish_all(node)
            for number, slot in enumerate(SLOTS):
                if NODES[number % len(NODES)] == node and slot not in self.model.slots:
                    self.do_publish(node, slot, PLACES[(which + number) % len(PLACES)], "recycle")
            self.do_beat(node, known=False)

    @step(node=nodes, known=st.booleans())
    def beat(self, node: str, known: bool) -> None:
        self.do_beat(node, known)

    def do_beat(self, node: str, known: bool) -> None:
        """A node that names the version it was told last hears of everything that changed since."""
        version, *told = self.told.get(node, (0,)) if known else (0,)
        (answer,) = self.direct.call("nodes/beat", timeout_ms=TIMEOUT_MS, rest=(node, node, version, ""))
        held = {slot for slot in self.model.aside.get(node, ()) if node in self.model.nodes}
        before = self.model.orders_for(node)  # what is lent as soon as it comes back may be told of next time
        self.in_some_order(held, lambda model, order: model.beat(node, order))
        wanted = self.model.orders_for(node)
        if wanted is None:
            assert answer == 0, f"{node} was told {answer}, not to publish again"
            if not self.model.to_report(node):
                self.model.republish.discard(node)
            return
        drain, lent, recycle = wanted
        own = {slot: self.model.slots[slot].owed for slot in self.model.of_node(node)}
        ends = {slot: str(number) for slot, number in own.items() if number}
        if isinstance(answer, int):
            assert answer == (2 if drain else 1), f"{node} was told {answer}, not {wanted}"
            knows = told if version else ({}, set())
            same = (lent, recycle - knows[1]) == (knows[0], set())
            assert same or before != wanted, f"{node} was told {knows}, not {lent}, {recycle}"
            assert not version or ends.items() <= told[2].items(), f"{node} was told {told[2]}, not {ends}"
            return
        assert dict(zip(answer[7][::2], answer[7][1::2], strict=True)) == ends, f"{node} was told {answer}, not {ends}"
        barred = {slot: f"{each.called}|{each.barred}" for slot, each in self.model.slots.items() if each.barred}
        barred = {slot: call for slot, call in barred.items() if self.model.slots[slot].node == node}
        assert dict(zip(answer[8][::2], answer[8][1::2], strict=True)) == barred, f"{node} was told {answer}"
        said = dict(zip(answer[2][::2], answer[2][1::2], strict=True))
        assert (bool(answer[1]), said, set(answer[3])) == wanted, f"{node} was told {answer}, not {wanted}"
        self.told[node] = (int(answer[0]), said, set(answer[3]), ends)

    @step(node=nodes, how=st.sampled_from(["silent", "silent", "by key", "resume", "undrain"]))
    def doubt(self, node: str, how: str) -> None:
        """A node is silent for half of its timeout, or writes its alive key itself; a hub looks at the suspects."""
        if node in self.model.nodes and how == "silent":
            self.silence(node)
            self.age(node, TIMEOUT_MS // 2 + GRAIN_MS)
            self.expire(node, "look", 64)
        elif node in self.model.nodes and how == "by key":
            self.redis.set(self.keys.node_alive(node), "1", px=90_000)
            self.model.nodes[node].alive_until_ms = self.model.clock_ms + 90_000
            self.do_resume()
        elif how == "resume":
            self.do_resume()
        elif how == "undrain":  # by a caller that believes that it drains
            for other in sorted(self.model.aside):
                self.do_drain(other, False, 64)

    def do_resume(self) -> None:
        answer = self.direct.call("nodes/resume")
        self.in_some_order(self.model.resumable(), Model.resume, answer)

    @step(node=nodes, slot=slots)
    def acknowledge(self, node: str, slot: str) -> None:
        """A node has replaced a slot, or says so of another's."""
        self.do_acknowledge(node, slot, 0)

    def do_acknowledge(self, node: str, slot: str, number: int) -> None:
        self.call(
            "nodes/recycled", lambda: self.model.acknowledge(node, slot, number),
            node=node, part=node, incarnation="", rest=(slot, number or ""),
        )  # fmt: skip

    @step(which=any_one, late=rarely, again=rarely)
    def make_fresh(self, which: int, late: bool, again: bool) -> None:
        """A node has made a slot fresh, and says so at once, late, or in another way."""
        ends = [(slot, record.owed) for slot, record in sorted(self.model.slots.items()) if record.owed]
        self.ends += [end for end in ends if end not in self.ends]
        if not self.ends:
            return
        slot, number = self.ends[which % len(self.ends)] if late or not ends else ends[which % len(ends)]
        record = self.model.slots.get(slot)
        if record and again:
            self.do_publish(record.node, slot, record.pool, "fresh", version=str(which % 2 + 1), made=number)
        elif record:
            self.do_acknowledge(record.node, slot, number + (which == 11) * 10**9)

    # -- leaving the books

    @step(node=nodes, limit=limits, how=ends)
    def end(self, node: str, limit: int, how: str) -> None:
        """A node leaves, or a sweeper finds it dead: the first batch; the hub may die before the others."""
        if how == "leave":
            before = self.members(node)
            word, *answer = self.direct.call("nodes/leave", id=node, part=node, limit=limit, incarnation="")
            assert word == ("left" if node in self.model.nodes else "unknown"), f"{node} {word}"
            self.check_removal(node, before, answer, Model.remove)
            return
        if node in self.model.nodes and how != "nominated":  # for any reason; only a stale one is expired
            self.silence(node)
            self.age(node, TIMEOUT_MS + 1)
        action = how if how in ("look", "refresh") else "expire"
        self.expire(node, action, 64 if how == "kept" else limit, keep=how == "kept")

    @step(node=nodes)
    def fall_silent(self, node: str) -> None:
        """Its traces in wall time run out; on the hub clock it may have been heard a moment ago."""
        if node in self.model.nodes:
            self.silence(node)
            self.expire(node, "expire", 64)

    @step(which=any_one, limit=limits, again=st.booleans())
    def prune(self, which: int, limit: int, again: bool) -> None:
        """Remove the next batch of the slots of a leaving node, as any hub, or as a sweeper with an old view of it."""
        if self.model.leaving and again:
            self.expire(pick(self.model.leaving, which), "expire", limit)
        elif self.model.leaving:
            self.do_prune(pick(self.model.leaving, which), limit)

    def do_prune(self, node: str, limit: int) -> None:
        """The next batch of a node that is off the books; Redis picks the slots."""
        before = self.members(node)
        answer = self.direct.call("nodes/prune", part=node, limit=limit)
        self.check_removal(node, before, answer[1:], Model.prune)

    def members(self, node: str) -> set[str]:
        return set(self.redis.smembers(self.keys.node_slots(node)))

    def check_removal(self, node: str, before: set[str], answer: list[Any], remove: Callable[..., None]) -> None:
        dropped, ended, left = answer
        after = self.members(node)
        lent = [slot for slot in before - after if slot in self.model.grants]
        assert [dropped, left] == [len(before - after), len(after)], f"{answer} of {before}, {after} are left"
        assert sorted(ended) == sorted(lent), f"grants of {ended} ended, not of {lent}"
        remove(self.model, node, [*ended, *sorted(before - after - set(ended))])
        self.model.finish()

    def silence(self, node: str) -> None:
        self.redis.delete(self.keys.node_alive(node))
        self.redis.hset(self.keys.node(node), "LastSeen", "2020-01-01T00:00:00Z")
        self.model.nodes[node].alive_until_ms, self.model.nodes[node].seen = 0, False

    def age(self, node: str, ms: int) -> None:
        """Age the last heartbeat of a node by so much on the hub clock."""
        self.redis.zadd(self.keys.beats, {node: self.model.clock_ms - ms})
        self.model.nodes[node].beat_ms = self.model.clock_ms - ms

    def expire(self, node: str, action: str, limit: int, *, keep: bool = False) -> None:
        before = self.members(node)
        word, *answer = self.direct.call(
            "nodes/expire", id=node, part=node, timeout_ms=TIMEOUT_MS, action=action, keep=int(keep), limit=limit
        )
        wanted = self.model.liveness(node, action, keep)
        assert word == wanted, f"{node} is {word}, not {wanted}"
        if word == "expired":
            self.check_removal(node, before, answer[1:], Model.remove)
        elif word == "gone" and action != "look":
            gone = before - self.members(node)
            ended = {slot for slot in gone if slot in self.model.grants}
            rest = sorted(gone - ended)
            self.in_some_order(ended, lambda model, order: model.remove(node, [*order, *rest]))
        elif word == "refreshed":
            self.model.nodes[node].alive_until_ms = self.model.clock_ms + 30_000
        elif word == "alive":  # its reading moves to where the alive key would lapse, which is a matter of wall time
            reading = self.redis.zscore(self.keys.beats, node)
            was, most = self.model.nodes[node].beat_ms, self.model.nodes[node].alive_until_ms - TIMEOUT_MS
            assert was <= reading <= max(was, most), f"the reading of {node} went from {was} to {reading}"
            self.age(node, self.model.clock_ms - max(was, int(reading) // GRAIN_MS * GRAIN_MS))

    # -- draining

    @step(node=nodes, on=rarely, limit=limits, deadline_ms=st.sampled_from([None, None, 0, 5_000]))
    def drain(self, node: str, on: bool, limit: int, deadline_ms: int | None) -> None:
        self.do_drain(node, on, limit, deadline_ms)
        self.do_end_drained(node, limit)

    def do_drain(self, node: str, on: bool, limit: int, deadline_ms: int | None = None) -> None:
        cursor: str | None = "0"
        while cursor is not None:
            cursor = self.drain_batch(node, on, cursor, limit, deadline_ms)

    @step(node=nodes, on=rarely, other=st.booleans())
    def drain_a_little(self, node: str, on: bool, other: bool) -> None:
        """Let the operator's hub die after the first batch, or an operator switch it back between two batches."""
        cursor = self.drain_batch(node, on, "0", 1, None)
        if other and cursor is not None:
            self.drain_batch(node, not on, "0", 64, None)
            self.drain_batch(node, on, cursor, 1, None)

    def drain_batch(self, node: str, on: bool, cursor: str, limit: int, deadline_ms: int | None) -> str | None:
        """One batch; returns where the next begins. Redis says beforehand which slots it will look at."""
        named = {"id": node, "part": node, "on": int(on), "cursor": cursor, "limit": limit, "number": "", "reason": ""}
        named["deadline_ms"] = "" if deadline_ms is None else deadline_ms
        if node not in self.model.nodes:
            answer = self.direct.call("nodes/drain", **named)
            assert answer == ["unknown"], f"{node} is not on the books: {answer}"
            return None
        after, page = self.redis.sscan(self.keys.node_slots(node), int(cursor), count=limit)

        said: list[Any] = []

        def call() -> list[Any]:
            said[:] = self.direct.call("nodes/drain", **named)
            return said

        def expected() -> list[Any]:
            number = str(self.model.next_number()) if cursor == "0" else ""
            doubtful = any(self.model.suspect(slot) for slot in page)  # a bundle may have looked at what was free
            answer = self.model.drain(node, on, deadline_ms, cursor == "0", page)
            answer[1:2] = [said[2] if doubtful and len(answer) == 4 else answer[1]]
            return [*([answer[0], str(after), *answer[1:]] if len(answer) == 4 else answer), number]

        answer = self.compare("nodes/drain", call, expected, named)
        return None if answer[1] == "0" else str(answer[1])

    def do_end_drained(self, node: str, limit: int) -> None:
        """A sweeper carries out the deadline of a drain, if there is one and it has passed."""
        word, cursor = "more", "0"
        while word == "more":
            after, page = self.redis.sscan(self.keys.node_slots(node), int(cursor), count=limit)
            named = {"id": node, "part": node, "cursor": cursor, "limit": limit}
            answer = self.direct.call("sweeping/end_drained", **named)
            wanted = self.model.end_drained(node, page, limit, last=int(after) == 0)
            self.model.finish()
            if wanted[0] != "nothing":
                wanted[1] = {"again": cursor, "next": str(after)}[wanted[1]]
            assert answer == wanted, f"sweeping/end_drained {named} answered {answer}, not {wanted}"
            word, cursor = answer[0], answer[1] if len(answer) > 1 else "0"

    # -- slots and pools

    @step(node=nodes, slot=slots, pool=pools, policy=policies, version=st.sampled_from("12"))
    def publish(self, node: str, slot: str, pool: str, policy: str, version: str) -> None:
        self.do_publish(node, slot, pool, policy, version=version)

    @step(node=nodes, slot=slots, which=any_one, policy=policies)
    def report(self, node: str, slot: str, which: int, policy: str) -> None:
        """Let a node that was removed, or believes so, report its leases."""
        tokens = [token for other, token in self.tokens if other == slot]
        if tokens:
            self.do_publish(node, slot, "a:b", policy, token=tokens[-1 - which % len(tokens)])

    @step(which=any_one, slot=slots, only_free=st.booleans(), own=st.booleans())
    def withdraw(self, which: int, slot: str, only_free: bool, own: bool) -> None:
        node = f"n{which % 3 + 1}"
        if own and slot in self.model.slots:
            node = self.model.slots[slot].node
        self.call(
            "capacity/withdraw", lambda: self.model.withdraw(node, slot, only_free),
            slot=slot, node=node, part=node, only_free=int(only_free), incarnation="", said_number="", reason="",
        )  # fmt: skip

    @step(pool=pools, waiting=st.lists(labels, max_size=3), on_s=st.sampled_from([5, 121, 121]), look=st.booleans())
    def replace(self, pool: str, waiting: list[str], on_s: int, look: bool) -> None:
        """Restart a pool whose free slots are replaced at once; some come in turn, and no caller looks at the pool."""
        self.restart_pool(pool)
        for slot in list(self.model.free.get(pool, [])):
            record = self.model.slots[slot]
            version = "2" if '"browserVersion":"1"' in record.item else "1"
            self.do_publish(record.node, slot, pool, record.policy, version=version)
        for label in waiting:
            self.ask(label=label, run="r2", keyed=True, hub="h1", wait_ms=30_000)
        if pool in self.model.maintenance:
            self.let_it_last(pool, on_s)
        self.do_describe([pool] if look else [])

    @step(which=any_one, on_s=st.sampled_from([5, 11, 121, 121]), how=works)
    def maintain(self, which: int, on_s: int, how: str) -> None:
        """Take its steps one by one: a hub may die between them, and any caller that looks at the pool may end it."""
        if how == "restart":
            self.restart_pool(POOLS[which % len(POOLS)])
        elif self.model.maintenance:
            pool = pick(self.model.maintenance, which)
            if how == "mark":
                replacing = sorted(self.model.maintenance[pool].replacing)
                self.call("capacity/mark_slots", lambda: self.model.mark_known(replacing), rest=replacing)
            if how == "last":
                self.let_it_last(pool, on_s)
            self.do_describe([pool] if how != "last" else [])

    def restart_pool(self, pool: str) -> None:
        self.call("capacity/restart_pool", lambda: self.model.restart(pool), pool=pool)

    def let_it_last(self, pool: str, on_s: int) -> None:
        """Let the maintenance of a pool have lasted for so many seconds."""
        self.redis.expire(self.keys.maintenance(pool), 1800 - on_s)
        self.model.maintenance[pool].on_s = on_s

    def do_describe(self, some: list[str]) -> None:
        if some:
            self.call("capacity/describe_pools", lambda: self.model.describe(some), rest=some)
