"""The ground of the machine: one store, one model, and the comparison after every step."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hub.capacity.models import slot_item
from tests.machine.direct import Direct
from tests.machine.look import Look
from tests.machine.model import TIMEOUT_MS, Model

NODES = ("n1", "n2", "n3")
SLOTS = tuple(f"s{n}" for n in range(7))
POOLS = ("a:b", "a:b:c", "a:b:d", "a:c:c", "x:y")
LABELS = (*POOLS, "a:*:c")
CAPPED = "a:b:c"
RUNS = ("r1", "r2", "")
nodes, slots, pools = st.sampled_from(NODES), st.sampled_from(SLOTS), st.sampled_from(POOLS)
labels, any_one = st.sampled_from(LABELS), st.integers(0, 11)


def step(**how: Any) -> Callable[[Callable[..., None]], Any]:
    """A rule that counts when it has called the store."""

    def wrap(method: Callable[..., None]) -> Any:
        @wraps(method)
        def counted(self: Base, **arguments: Any) -> None:
            before, self.sound = self.direct.calls, False
            method(self, **arguments)
            type(self).steps += self.direct.calls > before

        return rule(**how)(counted)

    return wrap


class Base(RuleBasedStateMachine):
    """Begins with five slots on two nodes."""

    direct: ClassVar[Direct]
    look: ClassVar[Look]
    steps: ClassVar[int] = 0
    sound = False  # after a step, until what it did has been looked at

    @initialize(options=st.sampled_from(["110", "111", "110", "100", "010", "000"]))
    def start(self, options: str) -> None:
        self.direct.clear()
        self.redis, self.keys = self.direct.redis, self.direct.keys
        token, clock_ms = self.redis.hmget(self.keys.store, "token", "clock_ms")
        self.model = Model(options, int(clock_ms), int(token), {CAPPED: 1})
        self.twice = False
        self.asked, self.tokens, self.told = [], [], {}
        for number, slot in enumerate(SLOTS[:5]):
            self.do_register(NODES[number % 2])
            self.do_publish(NODES[number % 2], slot, POOLS[number % len(POOLS)], "recycle")

    def call(self, name: str, expected: Callable[[], Any], **named: Any) -> Any:
        """Run a script and its counterpart in the model; now and then both twice, as a client does that lost the answer."""
        for _ in range(2 if self.twice else 1):
            answer = self.direct.call(name, **named)
            wanted = expected()
            assert answer == wanted, f"{name} {named} answered {answer}, not {wanted}"
        self.twice = False
        return answer

    def do_register(self, node: str) -> None:
        answer = self.direct.call(
            "nodes/register", id=node, part=node, apps="", capacity=1, labels="{}", base_url="",
            timeout_ms=TIMEOUT_MS, audit_new="{}", audit_old="{}", audit_max=10,
        )  # fmt: skip
        assert answer[0] == self.model.register(node)

    def do_publish(self, node: str, slot: str, pool: str, policy: str, token: int = 0, version: str = "1") -> None:
        item = slot_item(node, slot, "kind", {"browserVersion": version})
        self.call(
            "capacity/publish", lambda: self.model.publish(node, slot, pool, item, policy, token, 900_000),
            id=node, part=node, policy=policy, ttl_ms=900_000, rest=(slot, pool, item, "", token or ""),
        )  # fmt: skip

    def do_prune(self, node: str, limit: int) -> None:
        """The next bite of a node that is off the books; Redis picks the slots."""
        before = self.members(node)
        answer = self.direct.call("nodes/prune", part=node, limit=limit)
        self.check_removal(node, before, answer[1:], self.model.prune)

    def members(self, node: str) -> set[str]:
        return set(self.redis.smembers(self.keys.node_slots(node)))

    def check_removal(self, node: str, before: set[str], answer: list[Any], remove: Callable[..., None]) -> None:
        dropped, ended, left = answer
        after = self.members(node)
        assert (dropped, left) == (len(before - after), len(after))
        assert set(ended) == {slot for slot in before - after if slot in self.model.grants}
        assert len(ended) == len(set(ended))
        remove(node, [*ended, *sorted(before - after - set(ended))])

    def do_drain(self, node: str, on: bool, limit: int) -> None:
        """All bites of a drain, or of its end."""
        cursor = "0"
        while cursor is not None:
            cursor = self.drain_bite(node, on, cursor, limit)

    def drain_bite(self, node: str, on: bool, cursor: str, limit: int) -> str | None:
        """One bite; returns where the next begins. Redis says beforehand which slots it will look at."""
        if node not in self.model.nodes:
            assert self.direct.call("nodes/drain", id=node, part=node, on=int(on), cursor=cursor, limit=limit) == ["unknown"]
            return None
        after, page = self.redis.sscan(self.keys.node_slots(node), int(cursor), count=limit)
        self.call(
            "nodes/drain", lambda: ["ok", str(after), *self.model.drain(node, on, page)],
            id=node, part=node, on=int(on), cursor=cursor, limit=limit,
        )  # fmt: skip
        return str(after) if after else None

    def do_lapse(self, nominated: list[str]) -> None:
        self.call("capacity/lapse", lambda: self.model.lapse(nominated), rest=nominated)

    @invariant()
    def the_store_says_what_the_model_says(self) -> None:
        if not hasattr(self, "model"):
            return
        seen, said = self.look.seen(), self.look.said(self.model)
        if seen != said:
            seen["names"], said["names"] = seen["names"] - said["names"], said["names"] - seen["names"]
            found = [name for name in said if seen[name] != said[name]]
            raise AssertionError("\n".join(f"{name}: the store says {seen[name]}, the model {said[name]}" for name in found))
        self.sound = True

    def teardown(self) -> None:
        if self.sound:
            self.come_to_rest()

    def come_to_rest(self) -> None:
        """Finish what was begun; then no sweeper has anything to do, and the doctor finds nothing."""
        for node in sorted(self.model.leaving):
            self.do_prune(node, 64)
        for node in sorted(self.model.nodes):
            self.do_drain(node, node in self.model.draining, 64)
        self.do_lapse(sorted(self.model.grants))
        self.model.look_at_pools()
        for node in sorted(self.model.nodes):
            self.do_register(node)
        done = self.direct.sweep()
        assert done == {"nodes": 0, "leases": 0, "errors": 0, "adopted": 0}
        self.the_store_says_what_the_model_says()
        assert self.direct.examine() == []
