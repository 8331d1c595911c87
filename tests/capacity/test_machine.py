"""Any sequence of what nodes, borrowers, operators, sweepers and accidents do, beside a small model of the rules.

Every step runs the real scripts on a real Redis; after every step the lists, sessions and indexes must say what the
model says. `HUB_MACHINE_EXAMPLES` makes it longer.
"""

import asyncio
import json
import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from hub.capacity.models import Slot, Wish, slot_item
from hub.core import Hub
from hub.doctor import examine
from hub.errors import Capped, GrantOver, KeyReused, NoCapacity, SlotLent, UnknownNode
from hub.nodes.models import Beat, Registration
from hub.store.connection import make_client
from hub.store.store import Store
from tests.world import age_lease, age_node, listed, settings_for, sweepers

LABELS = ("a:b", "a:b:c", "a:b:d", "x:y")
CAPPED = "a:b:c"
NODES = ("n1", "n2", "n3")
SLOTS = tuple(f"s{n}" for n in range(6))
nodes, slots, labels = st.sampled_from(NODES), st.sampled_from(SLOTS), st.sampled_from(LABELS)


def candidates(wanted, pools):
    """The pools that may serve a label, best first: itself, shorter ones, longer ones."""
    parts = wanted.split(":")
    shorter = [":".join(parts[:n]) for n in range(len(parts), 1, -1)]
    longer = sorted((p for p in pools if p.startswith(wanted + ":")), key=lambda p: (p.count(":"), p))
    return [*shorter, *longer]


class Fleet(RuleBasedStateMachine):
    redis_server = None
    keys = Bundle("keys")  # borrows that were made: (request id, label)

    @initialize()
    def start(self):
        self.runner = asyncio.Runner()
        self.redis = self.redis_server.client()
        self.redis.flushall()
        self.settings = settings_for(self.redis_server.url, borrow_concurrency_caps=f"{CAPPED}=1")
        self.client = make_client(self.redis_server.url, self.settings)
        self.store = Store(self.client)
        self.run(self.store.open())
        self.hub = Hub(self.store, self.settings)
        self.nodes, self.draining = set(), set()
        self.pool, self.owner, self.item = {}, {}, {}  # of published slots
        self.grants = {}  # slot -> (token, label asked for)
        self.marked = set()
        self.requests = {}  # request id -> (slot, token)
        self.policy = {}
        self.tokens = []
        for number, slot in enumerate(SLOTS[:5]):
            self.register(NODES[number % 2])
            self.publish(NODES[number % 2], slot, LABELS[number % len(LABELS)], False)

    def run(self, work):
        return self.runner.run(work)

    def teardown(self):
        if hasattr(self, "runner"):
            try:
                assert self.run(examine(self.store)) == []
            finally:
                self.run(self.client.aclose())
                self.redis.close()
                self.runner.close()

    def free(self, label):
        return {s for s, pool in self.pool.items() if pool == label and s not in self.grants and self.lendable(s)}

    def lendable(self, slot):
        return self.owner[slot] not in self.draining

    def forget(self, slot):
        for record in (self.pool, self.owner, self.item, self.grants):
            record.pop(slot, None)

    def forget_node(self, node):
        gone = [slot for slot, owner in self.owner.items() if owner == node]
        for slot in gone:
            self.marked.add(slot)  # for a node that was expired by mistake and speaks to Redis itself
            self.forget(slot)
        self.nodes.discard(node)
        self.draining.discard(node)
        return gone

    # -- nodes

    @rule(node=nodes)
    def register(self, node):
        new, _ = self.run(self.hub.nodes.register(Registration(node), [], "{}", "{}", 100))
        assert new == (node not in self.nodes)
        self.nodes.add(node)

    @rule(node=nodes)
    def beat(self, node):
        orders = self.run(self.await_beat(Beat(node)))
        assert orders.known == (node in self.nodes)
        if orders.known:
            assert orders.drain == (node in self.draining)
            lent = {slot: token for slot, (token, _) in self.grants.items() if self.owner[slot] == node}
            assert (orders.lent or {}) == lent
            told = {slot for slot in orders.recycle if self.owner.get(slot) == node}
            assert {s for s in self.marked if self.owner.get(s) == node} == told

    async def await_beat(self, beat):
        return await self.hub.nodes.beats.take(beat)

    @rule(node=nodes, slot=slots)
    def acknowledge(self, node, slot):
        self.run(self.await_beat(Beat(node, 0, (slot,))))
        if self.owner.get(slot) == node:
            self.marked.discard(slot)

    @rule(node=nodes)
    def leave(self, node):
        gone = self.run(self.hub.nodes.leave(node))
        assert gone.known == (node in self.nodes)
        assert set(gone.ended) == {s for s in self.grants if self.owner[s] == node}
        assert gone.slots == len(self.forget_node(node))

    @rule(node=nodes, on=st.booleans())
    def drain(self, node, on):
        if node not in self.nodes:
            with pytest.raises(UnknownNode):
                self.run(self.hub.nodes.drain(node, on))
            return
        (self.draining.add if on else self.draining.discard)(node)
        held, lent = self.run(self.hub.nodes.drain(node, on))
        own = [slot for slot, owner in self.owner.items() if owner == node]
        assert lent == sum(slot in self.grants for slot in own)
        assert held == (len(own) - lent if on else 0)

    @rule(node=nodes)
    def die(self, node):
        if node in self.nodes:
            age_node(self.redis, node, 600)
            service, _ = sweepers(self.hub)
            assert self.run(service.sweep()).expired == 1
            self.forget_node(node)

    # -- slots

    @rule(node=nodes, slot=slots, label=labels, reuse=st.booleans())
    def publish(self, node, slot, label, reuse):
        item = slot_item(node, slot, "kind", {})
        offer = [Slot(slot, label, item)]
        policy = "reuse" if reuse else "recycle"
        if node not in self.nodes:
            with pytest.raises(UnknownNode):
                self.run(self.hub.pools.publish(node, offer, "recycle"))
            return
        same = self.pool.get(slot) == label and self.owner.get(slot) == node
        (word,) = self.run(self.hub.pools.publish(node, offer, policy))
        if self.owner.get(slot, node) != node:
            assert word == "taken"
        elif slot in self.grants:
            assert word == "lent"
        elif same:
            assert word == "unchanged"
        else:
            assert word == "published"
            self.pool[slot], self.owner[slot], self.item[slot] = label, node, item
            self.marked.discard(slot)
        if word in ("published", "unchanged"):
            self.policy[slot] = policy

    @rule(node=nodes, slot=slots, only_free=st.booleans())
    def withdraw(self, node, slot, only_free):
        if slot in self.owner and self.owner[slot] != node:
            return
        if slot in self.grants and only_free:
            with pytest.raises(SlotLent):
                self.run(self.hub.pools.withdraw(node, slot, only_free=True))
            return
        word, ended = self.run(self.hub.pools.withdraw(node, slot, only_free=only_free))
        assert (word, ended) == ("withdrawn" if slot in self.owner else "unknown", slot in self.grants)
        self.forget(slot)
        self.marked.discard(slot)

    # -- borrowers

    def ask(self, request, label, run="r"):
        wish = Wish(label, 900_000, run, request, f"try-{len(self.tokens)}-{request}", label, 600)
        return wish, self.run(self.hub.leases.borrow(wish))

    @rule(target=keys, label=labels, number=st.integers(0, 10**6))
    def borrow(self, label, number):
        return self.borrow_one(label, number)

    @rule(target=keys, label=labels, number=st.integers(0, 10**6))
    def borrow_as_well(self, label, number):
        """The same rule again: what is lent is what most other rules need."""
        return self.borrow_one(label, number)

    def borrow_one(self, label, number):
        request = f"k{number}"
        if request in self.requests:
            return multiple()
        served = next((p for p in candidates(label, set(self.pool.values())) if self.free(p)), None)
        if label == CAPPED and any(asked == CAPPED for _, asked in self.grants.values()):
            with pytest.raises(Capped):
                self.ask(request, label)
        elif served is None:
            with pytest.raises(NoCapacity):
                self.ask(request, label)
        else:
            free = self.free(served)
            _, grant = self.ask(request, label)
            assert grant.pool == served
            assert grant.slot in (free - self.marked or free)
            assert all(int(grant.token) > token for token in self.tokens)
            self.tokens.append(int(grant.token))
            self.grants[grant.slot] = (grant.token, label)
            self.requests[request] = (grant.slot, grant.token)
            return (request, label)
        return multiple()

    @rule(key=keys, other=labels)
    def repeat(self, key, other):
        request, label = key
        slot, token = self.requests[request]
        alive = self.grants.get(slot, ("", ""))[0] == token
        if other != label:
            with pytest.raises(KeyReused):
                self.ask(request, other)
        elif not alive:
            with pytest.raises(GrantOver):
                self.ask(request, label)
        else:
            _, grant = self.ask(request, label)
            assert (grant.slot, grant.token) == (slot, token)

    @rule(slot=slots, label=labels, token=st.sampled_from(["own", "none", "stale"]))
    def give_back(self, slot, label, token):
        held = self.grants.get(slot)
        sent = {"own": held[0] if held else "1", "none": "", "stale": "1"}[token]
        word, _, _ = self.run(self.hub.leases.give_back(slot, label, sent))
        if held and token != "stale":
            assert word == "returned"
            self.end(slot)
        else:
            assert word == ("not lent" if token == "none" else "stale token")
            if token == "none" and self.policy_of(slot) != "reuse":
                self.marked.add(slot)

    def policy_of(self, slot):
        return self.policy[slot] if slot in self.owner else "recycle"

    def end(self, slot, mark=True):
        del self.grants[slot]
        if mark and self.policy_of(slot) != "reuse":
            self.marked.add(slot)

    @rule(slot=slots, own=st.booleans())
    def renew(self, slot, own):
        held = self.grants.get(slot)
        token = held[0] if held and own else "1"
        if held and own:
            assert self.run(self.hub.leases.renew(slot, token, 60_000))[0] == token
        else:
            with pytest.raises(GrantOver):
                self.run(self.hub.leases.renew(slot, token, 60_000))

    @rule(slot=slots)
    def lapse(self, slot):
        if slot in self.grants:
            self.run(age_lease(self.hub, slot))
            _, service = sweepers(self.hub)
            assert self.run(service.sweep()).expired == 1
            self.end(slot)

    @rule(slot=slots)
    def delete_the_footprint(self, slot):
        self.redis.delete(f"borrow_ttl:{slot}")
        _, service = sweepers(self.hub)
        assert self.run(service.sweep()).expired == (slot in self.grants)
        if slot in self.grants:
            self.end(slot)

    @rule(label=labels, number=st.integers(0, 10**6))
    def lose_the_caller(self, label, number):
        """The hub grants, cannot deliver, and takes back: the slot is as free as before."""
        request = f"k{number}"
        if request in self.requests:
            return
        try:
            wish, grant = self.ask(request, label)
        except (Capped, NoCapacity):
            return
        self.tokens.append(int(grant.token))
        for _ in range(2):
            self.run(self.hub.leases.undo(wish))

    # -- accidents

    @rule()
    def forget_the_scripts(self):
        self.redis.script_flush()

    @rule()
    def restart_the_server(self):
        """As the hub sees it: no scripts, another run id, and then the settling time."""
        self.redis.hset("hub:store", "run_id", "before")
        self.redis.script_flush()
        self.run(self.store.read("PING"))
        self.run(self.await_beat(Beat("n1")))
        self.redis.hdel("hub:store", "settle_ms")

    @rule()
    def sweep(self):
        for service in sweepers(self.hub):
            done = self.run(service.sweep())
            assert (done.expired, done.errors, done.adopted) == (0, 0, 0)

    # -- what must always hold

    @invariant()
    def the_lists_say_what_the_model_says(self):
        if not hasattr(self, "grants"):
            return
        for label in LABELS:
            assert set(listed(self.redis, f"available:{label}")) == self.free(label)
            lent = listed(self.redis, f"inuse:{label}")
            assert sorted(lent) == sorted(s for s in self.grants if self.pool[s] == label)
            asked = sorted(s for s, (_, wanted) in self.grants.items() if wanted == label)
            assert sorted(self.redis.zrange(f"hub:asked:{label}", 0, -1)) == asked
        assert set(self.redis.smembers("nodes")) == self.nodes
        assert {k.removeprefix("session:") for k in self.redis.keys("session:*")} == set(self.grants)
        assert set(self.redis.zrange("hub:deadlines", 0, -1)) == set(self.grants)
        for slot, (token, label) in self.grants.items():
            said = self.redis.hmget(f"session:{slot}", "leaseToken", "labelKey", "poolLabel", "nodeId")
            assert said == [token, label, self.pool[slot], self.owner[slot]]
            assert self.redis.exists(f"borrow_ttl:{slot}")
        for slot, item in self.item.items():
            assert json.loads(item)["browserId"] == slot

    @invariant()
    def the_markers_say_what_the_model_says(self):
        if hasattr(self, "grants"):
            assert {k.removeprefix("recycle:") for k in self.redis.keys("recycle:*")} == self.marked


def test_whatever_happens_the_store_says_what_the_rules_say(redis_server):
    Fleet.redis_server = redis_server
    examples = int(os.environ.get("HUB_MACHINE_EXAMPLES", "120"))
    shrink = [Phase.shrink] if "HUB_MACHINE_EXAMPLES" in os.environ else []  # it takes minutes
    run_state_machine_as_test(
        Fleet,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            phases=[Phase.explicit, Phase.reuse, Phase.generate, *shrink],
            deadline=None,
            suppress_health_check=list(HealthCheck),
            derandomize="HUB_MACHINE_EXAMPLES" not in os.environ,
            print_blob=True,
        ),
    )
