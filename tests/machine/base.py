"""The ground of the machine: one store, one model, and the comparison after every step."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from functools import wraps
from itertools import islice, permutations
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hub.capacity.models import read_item, slot_item
from tests.machine.direct import Direct
from tests.machine.holds import UNSAID, Said
from tests.machine.look import Look
from tests.machine.matching import UNDESCRIBED, Described
from tests.machine.model import Model
from tests.machine.oracle import Oracle
from tests.machine.records import TEAMS, TIMEOUT_MS, USERS, BorrowRequest, BundleRequest, holder_of
from tests.machine.suiting import ATTRIBUTES, WHERES, alternatives_of, digest_of
from tests.machine.teaming import Row

NODES = ("n1", "n2", "n3")
SLOTS = (*(f"s{n}" for n in range(6)), "n1-a.b-1")  # the last one belongs to n1, by its id
POOLS = ("a:b", "a:b:c", "a:b:d", "a:c:c", "x:y")
LABELS = (*POOLS, "a:*:c", "a:b:c:e")
WANTED = (*LABELS, "a", "a:b")  # what is asked for together with attributes
HUBS = ("h1", "h2")
PLACES = ("a:b", "a:b", "a:b:c", "a:b:d", *POOLS)  # where slots are published: most of them can serve several labels
nodes, slots, pools, hubs = map(st.sampled_from, (NODES, SLOTS, PLACES, HUBS))
labels, any_one = st.sampled_from(LABELS), st.integers(0, 11)
users, callers = st.sampled_from(list(USERS)), st.sampled_from([*USERS.values(), "node", "operator"])
patterns = st.sampled_from(["a:*", "a:*", "a:b:c", "*", "a:b"])
teams = st.sampled_from(list(TEAMS.values()))
rows = st.builds(
    Row, guarantee=st.sampled_from([0, 1, 1, 2, 3]), ceiling=st.sampled_from([None, None, 3, 4]),
    weight=st.sampled_from([1, 1, 2, 0.5, 0.01]),
) | st.builds(Row, guarantee=st.just(0), ceiling=st.sampled_from([0, 1, 2]), weight=st.just(1))  # fmt: skip
ORDERS_MAX = 720  # of things that Redis picks at random
LONG_MS = 600_000  # of the server's time, longer than any example
SHORT_MS = 10_000  # of the server's time, longer than some steps


def step(**how: Any) -> Callable[[Callable[..., None]], Any]:
    """A rule that counts when it has called the store."""

    def wrap(method: Callable[..., None]) -> Any:
        @wraps(method)
        def counted(self: Base, **arguments: Any) -> None:
            before, self.sound = self.direct.calls, False
            self.keep_alive()
            method(self, **arguments)
            type(self).steps += self.direct.calls > before

        return rule(**how)(counted)

    return wrap


def pick(some: Iterable[str], which: int) -> str:
    """Choose one of some names."""
    names = sorted(some)
    return names[which % len(names)]


class Base(RuleBasedStateMachine):
    """Begins with five slots on two nodes, and a crowd that asks for them."""

    direct: ClassVar[Direct]
    look: ClassVar[Look]
    steps: ClassVar[int] = 0
    sound = False  # after a step, until what it did has been looked at

    @initialize(
        options=st.sampled_from(["110", "111", "110", "111", "110", "100", "010", "000"]),
        default_cap=st.sampled_from([0, 0, 1]),
        grace_ms=st.sampled_from([0, 5_000, 20_000]),
        crowd=st.lists(labels, min_size=2, max_size=9),
        fresh=st.booleans(),
        described=st.sampled_from([False, True, True]),
        quiet=st.sampled_from([False, False, True]),
        rows=st.one_of(st.just(()), st.lists(st.tuples(patterns, teams, rows), min_size=1, max_size=4)),
    )
    def start(
        self, options: str, default_cap: int, grace_ms: int, crowd: list[str], fresh: bool, described: bool,
        quiet: bool, rows: Sequence[tuple[str, str, Row]],
    ) -> None:  # fmt: skip
        caps = {"a:b:c": 1, "x:y": 2}
        self.direct.clear(options, default_cap, grace_ms, caps)
        self.teams = bool(rows)  # whether users of teams borrow
        self.direct.teams = set(TEAMS.values()) if rows else set()
        self.redis, self.keys = self.direct.redis, self.direct.keys
        token, clock_ms = self.redis.hmget(self.keys.store, "token", "clock_ms")
        known = {f"env:{name}": cap for name, cap in caps.items()} | ({"env": default_cap} if default_cap else {})
        self.model = Model(options, int(clock_ms), int(token), grace_ms=grace_ms, caps=known)
        self.model.oracle = Oracle(self.direct)
        self.twice = False  # whether the next call is sent twice, as a client does that lost the answer
        self.unreviewed = False  # whether waiters wait until a hub looks at their queues again, within a second
        self.asked, self.tokens, self.told = [], [], {}
        self.bundle_ids: list[str] = []
        self.number, self.calls = 0, [("s0", 1, "ill")]  # of words of nodes; calls of operators: slot, number, reason
        self.describes = described  # whether slots have attributes, and borrows want something of them
        self.described: dict[str, Described] = {}  # what nodes say of their slots when they publish them
        for number, slot in enumerate(SLOTS if described else ()):
            self.described[slot] = Described(ATTRIBUTES[number % len(ATTRIBUTES)], ("k1", "k2")[number % 3 :])
        self.ends: list[tuple[str, int]] = []  # slots to be made fresh, and the number of the end
        for pattern, team, row in rows:
            self.do_set_team(team, pattern, row)
        for number, slot in enumerate(SLOTS[:5]):
            self.do_register(NODES[number % 2])
            self.do_publish(NODES[number % 2], slot, PLACES[number], "fresh" if fresh else "recycle")
        for number, label in enumerate(crowd[: 1 if quiet else None]):  # bundles are left something to borrow
            self.ask(label=label, run="r1", keyed=number % 2 == 0, hub=HUBS[number % len(HUBS)], wait_ms=30_000)

    def ask(self, *, label: str, keyed: bool, **more: Any) -> None:
        count = len(self.asked)
        if self.teams:
            more.setdefault("user", list(USERS)[count * 3 // 2 % len(USERS)])
        if self.describes and "any_of" not in more and count % 3:  # most borrows want some attributes
            more["any_of"] = ((label, WHERES[count // 2 % len(WHERES)]),)
        attempt = f"try-{count}"
        request = f"key-{count}" if keyed else attempt
        asked = f"{label} {more.get('user', '')} {digest_of(alternatives_of(more.get('any_of', ())))}".strip()
        self.send(BorrowRequest(request, label, attempt=attempt, asked=asked, keyed=keyed, **more))

    def send(self, wanted: BorrowRequest) -> None:
        """A borrow, or the repeat of one. Most hubs try the short script first, unless the last one was in vain."""
        self.asked.append(wanted)
        if isinstance(wanted, BundleRequest):
            self.send_bundle(wanted)
            return
        if len(self.asked) % 3 and not wanted.repeated and not wanted.any_of:
            named = {"label": wanted.label, "ttl_ms": wanted.ttl_ms, "idle_ms": wanted.idle_ms, "run": wanted.run}
            named["holder"] = holder_of(wanted.user)
            named |= {"request": wanted.id, "attempt": wanted.attempt, "fingerprint": wanted.asked, "keep_s": 600}
            answer = self.call("capacity/lend_now", lambda: self.model.lend_now(wanted), **named)
            if answer[0] == "ok":
                self.tokens.append((answer[1], int(answer[2])))
                return

        def call() -> list[Any]:
            answer: list[Any] = self.direct.call(
                "capacity/borrow", label=wanted.label, alternatives=alternatives_of(wanted.any_of),
                prefer=" ".join(wanted.prefer), ttl_ms=wanted.ttl_ms, idle_ms=wanted.idle_ms, run=wanted.run,
                request=wanted.id, attempt=wanted.attempt, fingerprint=wanted.asked, keep_s=600,
                keyed=int(wanted.keyed), repeated=int(wanted.repeated), hub=wanted.hub, wait_ms=wanted.wait_ms,
                limit_ms=-1, priority=wanted.priority, holder=holder_of(wanted.user),
                max_label=wanted.max_label, max_run=wanted.max_run,
            )  # fmt: skip
            if answer[0] == "waiting":
                answer[2] = answer[2] >= 0  # whether there is an estimate; how long is a matter of wall time
            return answer

        answer = self.compare("capacity/borrow", call, lambda: self.model.borrow(wanted), wanted)
        if answer[0] == "ok":
            self.tokens.append((answer[1], int(answer[2])))

    def send_bundle(self, wanted: BundleRequest) -> None:
        """A borrow of several slots at once, or the repeat of one."""
        raise NotImplementedError

    def call(self, name: str, expected: Callable[[], Any], **named: Any) -> Any:
        """Run a script and its counterpart in the model."""
        return self.compare(name, lambda: self.direct.call(name, **named), expected, named)

    def compare(self, name: str, call: Callable[[], Any], expected: Callable[[], Any], asked: object) -> Any:
        """Both say the same; now and then both are done twice."""
        for _ in range(2 if self.twice else 1):
            answer, wanted = call(), expected()
            if answer[:1] == ["not-holder"]:  # since when is a matter of wall time
                answer = [*answer[:2], *answer[3:]]
            self.model.finish()
            assert answer == wanted, f"{name} {asked} answered {answer}, not {wanted}"
        self.twice = False
        return answer

    def in_some_order(
        self, things: Iterable[str], apply: Callable[[Model, tuple[str, ...]], Any], answer: Any = None
    ) -> None:
        """Redis took these things in an order of its own."""
        self.one_of(list(islice(permutations(sorted(things)), ORDERS_MAX)), apply, answer)

    def one_of(self, choices: Sequence[Any], apply: Callable[[Model, Any], Any], answer: Any = None) -> None:
        """Redis had a choice: the model does what it did, and says the same."""
        if len(choices) > 1:
            seen = self.look.seen()
            for choice in choices:
                model = deepcopy(self.model)
                try:
                    wanted = apply(model, choice)
                    model.finish()
                except AssertionError:  # the store cannot have done it so; if no choice fits, the first says why
                    continue
                if wanted == answer and self.look.said(model, seen) == seen:
                    self.model = model
                    return
        wanted = apply(self.model, choices[0])
        self.model.finish()
        assert answer == wanted, f"the answer was {answer}, not {wanted}"

    def do_register(self, node: str) -> None:
        answer = self.direct.call(
            "nodes/register", id=node, part=node, apps="", capacity=1, labels="{}", base_url="",
            timeout_ms=TIMEOUT_MS, audit_new="{}", audit_old="{}", audit_max=10,
            incarnation="", said_term="", first=0, host="", token_ms=TIMEOUT_MS,
        )  # fmt: skip
        word = self.model.register(node)
        if word == "registered":  # it knows nothing of the life before
            self.told.pop(node, None)
        assert answer[0] == word, f"{node} was {answer[0]}, not {word}"

    def do_publish(
        self, node: str, slot: str, pool: str, policy: str, token: int = 0, version: str = "1", made: int = 0,
        said: Said = UNSAID, described: Described | None = None,
    ) -> None:  # fmt: skip
        described = described or self.described.get(slot, UNDESCRIBED)
        item = slot_item(node, slot, "kind", {"browserVersion": version})
        self.call(
            "capacity/publish",
            lambda: self.model.publish(node, slot, pool, item, policy, made, token, said, described),
            id=node, part=node, policy=policy, ttl_ms=900_000, incarnation="", said_number="",
            says=int(said.unwell is not None), classes_max=described.most,
            rest=(
                slot, pool, item, "", token or "", "", "", "", made or "", "", said.unwell or "", said.called or "",
                said.barred, described.attributes, " ".join(described.warm),
            ),
        )  # fmt: skip

    def publish_all(self, node: str) -> None:
        """Note a fact that changes nothing else."""
        for slot in sorted(self.model.of_node(node)):
            record = self.model.slots[slot]
            version = read_item(record.item)["browserVersion"]
            self.do_publish(node, slot, record.pool, record.policy, version=version)

    def hand_in(
        self, slot: str, token: str, run: str, request: str = "", revokes: str = "", by: str = "operator"
    ) -> None:
        """End a grant; a caller that is not its holder is told so."""
        keyed, request = "1" if request else "", request or f"return-{self.direct.calls + 10}"
        self.call(
            "capacity/give_back", lambda: self.model.give_back(slot, token, run, request, revokes, by),
            slot=slot, hint="a:b", token=token, run=run, only_run="", request=request, keyed=keyed, keep_s=600,
            arrived_ms="", revokes=revokes, reason="", by=by,
        )  # fmt: skip

    def do_set_team(self, team: str, pattern: str, row: Row | None) -> None:
        """Set the row of a team, or remove it."""
        text = json.dumps({**row._asdict(), "by": "ann"}) if row else ""

        def call() -> list[Any]:
            word, said = self.direct.call("teams/set", team=team, pattern=pattern, row=text, most=99)
            found = json.loads(said) if said else None
            return [word, found and Row(found["guarantee"], found["ceiling"], found["weight"])]

        self.compare("teams/set", call, lambda: self.model.set_team(team, pattern, row), (team, pattern, row))
        self.unreviewed = True  # of teams for which other rows count now

    def do_set_cap(self, label: str, cap: str) -> None:
        self.call("queue/set_cap", lambda: self.model.set_cap(label, cap), label=label, cap=cap, served=0)

    def do_lapse(self, nominated: list[str]) -> None:
        self.call("capacity/lapse", lambda: self.model.lapse(nominated), rest=nominated)
        self.keep_footprints()

    def do_relend(self, limit: int) -> None:
        self.call("capacity/relend", lambda: self.model.relend(limit), limit=limit)

    def do_wait(self, ms: int) -> None:
        self.unreviewed |= self.model.settling
        self.direct.wait(ms)
        self.model.clock_ms += ms
        self.keep_alive()

    def keep_footprints(self) -> None:
        """A new rule leaves a footprint for a second of the server's time; here an example may take longer."""
        pipe = self.redis.pipeline(transaction=False)
        for slot, grant in self.model.grants.items():
            if grant.idle_ms and grant.idle_footprint and grant.active_ms:
                pipe.pexpire(self.keys.borrow_idle(slot), LONG_MS)
                pipe.hset(self.keys.slot(slot), "idle_visible_ms", int(time.time() * 1000) + LONG_MS)
        pipe.execute()

    def keep_alive(self) -> None:
        """Alive keys and restarts of pools know no other clock than that of the server, which runs on; here they follow
        ours."""
        pipe = self.redis.pipeline(transaction=False)
        for pool, restart in self.model.maintenance.items():
            pipe.expire(self.keys.maintenance(pool), 1800 - restart.on_s)
        for node, found in self.model.nodes.items():
            left_ms = max(0, found.alive_until_ms - self.model.clock_ms)
            if 0 < left_ms < SHORT_MS:  # the server's time runs on while steps are played
                left_ms, found.alive_until_ms = SHORT_MS, self.model.clock_ms + SHORT_MS
            pipe.pexpire(self.keys.node_alive(node), left_ms)
        pipe.execute()

    @invariant()
    def the_store_says_what_the_model_says(self) -> None:
        if not hasattr(self, "model"):
            return
        seen = self.look.seen()
        said = self.look.said(self.model, seen)
        for pool in [pool for pool in self.model.maintenance if self.keys.maintenance(pool) not in said["names"]]:
            del self.model.maintenance[pool]
        if seen != said:
            seen["names"], said["names"] = seen["names"] - said["names"], said["names"] - seen["names"]
            found = [name for name in sorted(seen | said) if seen.get(name) != said.get(name)]
            told = (f"{name}: the store {seen.get(name)}, the model {said.get(name)}" for name in found)
            raise AssertionError("\n".join(told))
        if self.model.reserver:  # in which order its labels are served when it ends
            order = [name.removeprefix("units:") for name in seen["reserver"] if name.startswith("units:")]
            self.model.reserver.units = {label: self.model.reserver.units[label] for label in order}
        parked = {name: teams for name, teams in seen.items() if name.startswith("of teams hub:team_parked:")}
        self.model.stand_back = {name.split(":", 2)[2]: set(teams) for name, teams in parked.items()}
        self.learn_who_stands_back(seen["parked"])
        overlooked = [] if self.unreviewed else self.model.overlooked()
        assert overlooked == [], f"free beside a waiter who may have it: {overlooked}"
        self.sound = True

    def learn_who_stands_back(self, parked: dict[str, set[str]]) -> None:
        """Which labels are met at their caps, the store alone knows; once there is room none stands back."""
        known = {digest_of(record.attributes): record.attributes for record in self.model.slots.values()}
        self.model.parked = {label: {known[each] for each in classes} for label, classes in parked.items()}
        roomy = [label for label in {*parked, *self.model.stand_back} if not self.model.capped(label)]
        assert self.unreviewed or not roomy, f"{roomy} stand back although their caps leave room"

    def teardown(self) -> None:
        if self.sound:
            self.come_to_rest()
            self.the_store_says_what_the_model_says()
            done, found = self.direct.sweep(), self.direct.examine()
            found = [each for each in found if "guarantees teams more" not in each.problem]
            assert not any(done.values()), f"a sweep found something to do: {done}"
            assert found == [], f"the doctor says: {found}"
            self.the_store_says_what_the_model_says()

    def come_to_rest(self) -> None:
        """Finish what was begun: then no sweeper has anything to do, and the doctor finds nothing."""
        raise NotImplementedError
