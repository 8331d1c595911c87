"""What nodes and operators do, and what happens to them."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.machine.base import TIMEOUT_MS, Base, any_one, nodes, pools, slots, step

limits = st.sampled_from([1, 2, 64])


class Fleet(Base):
    """Rules of nodes, slots and pools."""

    @step(node=nodes)
    def register(self, node: str) -> None:
        self.do_register(node)

    @step(node=nodes, known=st.booleans())
    def beat(self, node: str, known: bool) -> None:
        """A node that names the version it was told last hears of everything that changed since."""
        version, *told = self.told.get(node, (0,)) if known else (0,)
        (answer,) = self.direct.call("nodes/beat", timeout_ms=TIMEOUT_MS, rest=(node, node, version))
        wanted = self.model.beat(node)
        if wanted is None:
            assert answer == 0
            return
        drain, lent, recycle = wanted
        if isinstance(answer, int):
            assert answer == (2 if drain else 1)
            if version:
                assert (lent, told[1] >= recycle) == (told[0], True)
            else:
                assert (lent, recycle) == ({}, set())
            return
        said = dict(zip(answer[2][::2], answer[2][1::2], strict=True))
        assert (bool(answer[1]), said, set(answer[3])) == (drain, lent, recycle)
        self.told[node] = (int(answer[0]), said, set(answer[3]))

    @step(node=nodes, slot=slots)
    def acknowledge(self, node: str, slot: str) -> None:
        """A node has replaced a slot, or says so of another's."""
        self.call("nodes/recycled", lambda: self.model.acknowledge(node, slot), part=node, rest=(slot,))

    @step(node=nodes, limit=limits)
    def leave(self, node: str, limit: int) -> None:
        """Its first bite; the hub may die before the others."""
        before = self.members(node)
        word, *answer = self.direct.call("nodes/leave", id=node, part=node, limit=limit)
        assert word == ("left" if node in self.model.nodes else "unknown")
        self.check_removal(node, before, answer, self.model.remove)

    @step(which=any_one, limit=limits)
    def prune(self, which: int, limit: int) -> None:
        if not self.model.leaving:
            return
        self.do_prune(pick(self.model.leaving, which), limit)

    @step(node=nodes, on=st.booleans(), limit=limits)
    def drain(self, node: str, on: bool, limit: int) -> None:
        self.do_drain(node, on, limit)

    @step(node=nodes, on=st.booleans())
    def drain_a_little(self, node: str, on: bool) -> None:
        """The operator's hub dies after the first bite."""
        self.drain_bite(node, on, "0", 1)

    @step(node=nodes)
    def fall_silent(self, node: str) -> None:
        """Its traces in wall time run out; on the hub clock it was heard a moment ago."""
        if node in self.model.nodes:
            self.silence(node)
            self.expire(node, "expire", 64)

    def silence(self, node: str) -> None:
        self.redis.delete(self.keys.node_alive(node))
        self.redis.hset(self.keys.node(node), "LastSeen", "2020-01-01T00:00:00Z")
        self.model.nodes[node].alive = self.model.nodes[node].seen = False

    @step(node=nodes, limit=limits, action=st.sampled_from(["expire", "expire", "refresh", "look"]))
    def die(self, node: str, limit: int, action: str) -> None:
        if node in self.model.nodes:
            self.silence(node)
            self.redis.zadd(self.keys.beats, {node: self.model.clock_ms - TIMEOUT_MS - 1})
            self.model.nodes[node].beat_ms = self.model.clock_ms - TIMEOUT_MS - 1
        self.expire(node, action, limit)

    @step(node=nodes, limit=limits)
    def nominate(self, node: str, limit: int) -> None:
        """A sweeper nominates a node, for whatever reason; only a stale one is expired."""
        self.expire(node, "expire", limit)

    def expire(self, node: str, action: str, limit: int) -> None:
        before = self.members(node)
        word, *answer = self.direct.call(
            "nodes/expire", id=node, part=node, timeout_ms=TIMEOUT_MS, action=action, keep=0, limit=limit
        )
        assert word == self.model.liveness(node, action)
        if word == "expired":
            self.check_removal(node, before, answer[1:], self.model.remove)
        elif word == "gone" and action != "look":
            after = self.members(node)
            ended = [slot for slot in before - after if slot in self.model.grants]
            self.model.remove(node, [*ended, *(before - after - set(ended))])
        elif word == "refreshed":
            self.model.nodes[node].alive = True
        elif word == "alive":  # its reading moves to where the alive key would lapse, which is a matter of wall time
            reading = self.redis.zscore(self.keys.beats, node)
            assert self.model.nodes[node].beat_ms <= reading <= self.model.clock_ms
            self.model.nodes[node].beat_ms = reading

    @step(node=nodes, slot=slots, pool=pools, reuse=st.booleans(), version=st.sampled_from("12"))
    def publish(self, node: str, slot: str, pool: str, reuse: bool, version: str) -> None:
        self.do_publish(node, slot, pool, "reuse" if reuse else "recycle", version=version)

    @step(node=nodes, slot=slots, which=any_one)
    def report(self, node: str, slot: str, which: int) -> None:
        """A node that was off the books, or believes so, names what it knows to be lent."""
        tokens = [token for other, token in self.tokens if other == slot]
        if tokens:
            self.do_publish(node, slot, "a:b", "recycle", token=tokens[-1 - which % len(tokens)])

    @step(node=nodes, slot=slots, only_free=st.booleans())
    def withdraw(self, node: str, slot: str, only_free: bool) -> None:
        self.call(
            "capacity/withdraw", lambda: self.model.withdraw(node, slot, only_free),
            slot=slot, node=node, only_free=int(only_free),
        )  # fmt: skip

    @step(pool=pools)
    def restart(self, pool: str) -> None:
        """The first of its calls; the hub may die before it has marked the slots."""
        self.call("capacity/restart_pool", lambda: self.model.restart(pool), pool=pool)

    @step(which=any_one)
    def mark(self, which: int) -> None:
        if not self.model.maintenance:
            return
        replacing = sorted(self.model.maintenance[pick(self.model.maintenance, which)].replacing)
        self.call("capacity/mark_slots", lambda: self.model.mark_known(replacing), rest=replacing)

    @step(which=any_one, on_s=st.sampled_from([5, 11, 121]))
    def maintain(self, which: int, on_s: int) -> None:
        """So long a maintenance has been on; looking at the pool may end it."""
        if not self.model.maintenance:
            return
        pool = pick(self.model.maintenance, which)
        self.redis.expire(self.keys.maintenance(pool), 1800 - on_s)
        self.model.maintenance[pool].on_s = on_s
        self.call("capacity/describe_pools", lambda: [self.model.describe(pool)], rest=(pool,))

    @step(pool=pools)
    def describe(self, pool: str) -> None:
        self.call("capacity/describe_pools", lambda: [self.model.describe(pool)], rest=(pool,))


def pick(some: object, which: int) -> str:
    """One of some names, whichever."""
    names = sorted(some)  # type: ignore[call-overload]
    return str(names[which % len(names)])
