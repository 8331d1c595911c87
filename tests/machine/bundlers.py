"""Steps of borrowers of bundles, and of hubs for bundles that wait."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.machine.base import HUBS, LABELS, NODES, WANTED, Base, any_one, callers, hubs, pick, step, users
from tests.machine.borrowers import ttls, urgencies, waits
from tests.machine.fleet import rarely
from tests.machine.records import USERS, BundleRequest, Part, holder_of
from tests.machine.suiting import WHERES

PATIENCE_MS, RESERVE_MS = 4_000, 20_000
plain = st.builds(Part, st.sampled_from(LABELS), st.just(""), st.sampled_from([1, 2, 2, 3]))
wanting = st.builds(Part, st.sampled_from(WANTED), st.sampled_from(("", *WHERES)), st.sampled_from([1, 1, 2]))
few = st.lists(plain, min_size=1, max_size=2).map(tuple)
some = st.lists(wanting, min_size=1, max_size=3).map(tuple)


class Bundlers(Base):
    """Rules of bundles."""

    @step(parts=few, same_node=rarely, together=st.booleans(), hopes=rarely, keyed=st.booleans(), hub=hubs,
          wait_ms=waits, user=users)  # fmt: skip
    def borrow_bundle(self, **wanted: Any) -> None:
        self.ask_for_all(**wanted)

    @step(parts=some, same_node=rarely, together=rarely, keyed=st.booleans(), hub=hubs, wait_ms=waits)
    def borrow_bundle_where(self, parts: tuple[Part, ...], **wanted: Any) -> None:
        if self.describes:
            self.ask_for_all(parts, hopes=len(parts) == 1, **wanted)

    @step(parts=st.one_of(few, some), same_node=rarely, together=rarely, keyed=st.booleans(), hub=hubs,
          priority=urgencies, ttl_ms=ttls)  # fmt: skip
    def wait_for_bundle(self, parts: tuple[Part, ...], **wanted: Any) -> None:
        if self.describes or not any(part.where for part in parts):
            self.ask_for_all(parts, hopes=True, wait_ms=30_000, **wanted)

    @step(parts=few, hub=hubs, max_label=st.sampled_from([1, 100]), max_run=st.sampled_from([0, 1]))
    def wait_for_bundle_where_the_line_is_short(self, parts: tuple[Part, ...], **wanted: Any) -> None:
        self.ask_for_all(parts, keyed=False, wait_ms=30_000, **wanted)

    @step(which=any_one, spare=rarely, same_node=st.booleans(), together=st.booleans(), keyed=st.booleans(), hub=hubs,
          user=users)  # fmt: skip
    def borrow_what_is_free(self, which: int, spare: bool, **wanted: Any) -> None:
        """Borrow all free slots of a pool or two, or wait for one more."""
        lists = {pool: len(listed) for pool, listed in self.model.free.items() if listed}
        if lists:
            first, second = pick(lists, which), pick(lists, which + 1 + which // 4)
            counts = {first: lists[first] + spare} | ({second: lists[second]} if second != first else {})
            parts = tuple(Part(pool, "", count) for pool, count in counts.items())
            self.ask_for_all(parts, wait_ms=30_000, hopes=spare, **wanted)

    @step(node=st.sampled_from(NODES), which=any_one, keyed=st.booleans(), hub=hubs, together=rarely)
    def borrow_on_one_node(self, node: str, which: int, **wanted: Any) -> None:
        """Ask for slots that one node has, free or not, and that are to be on one node."""
        have = sorted(self.model.slots[slot].pool for slot in self.model.of_node(node))
        if have:
            some = have[which % len(have) :][:2]
            parts = tuple(Part(pool, "", some.count(pool)) for pool in dict.fromkeys(some))
            self.ask_for_all(parts, same_node=True, wait_ms=30_000, **wanted)

    def ask_for_all(self, parts: tuple[Part, ...], *, keyed: bool, **more: Any) -> None:
        count = len(self.asked)
        if self.teams:
            more.setdefault("user", list(USERS)[count * 3 // 2 % len(USERS)])
        attempt = f"try-{count}"
        request = f"key-{count}" if keyed else attempt
        asked = f"{parts} {more.get('user', '')}"
        self.send(
            BundleRequest(
                request, parts[0].label, run=f"run-{request}", attempt=attempt, asked=asked, keyed=keyed, parts=parts,
                **more,
            )
        )  # fmt: skip

    def send_bundle(self, wanted: BundleRequest) -> None:
        said: list[Any] = []

        def call() -> list[Any]:
            said[:] = self.direct.call(
                "capacity/borrow_all", bundle=wanted.text, ttl_ms=wanted.ttl_ms, idle_ms=wanted.idle_ms,
                run=wanted.run, holder=holder_of(wanted.user), request=wanted.id, attempt=wanted.attempt,
                fingerprint=wanted.asked, keep_s=600, keyed=int(wanted.keyed), repeated=int(wanted.repeated),
                hub=wanted.hub, wait_ms=wanted.wait_ms, limit_ms=-1, priority=wanted.priority,
                max_label=wanted.max_label, max_run=wanted.max_run, hopes=int(wanted.hopes),
            )  # fmt: skip
            return said

        answer = self.compare("capacity/borrow_all", call, lambda: self.model.borrow_all(wanted, said), wanted)
        if answer[0] == "ok":
            self.tokens += [(row[0], int(row[1])) for row in answer[2]]
            self.bundle_ids.append(answer[1])

    def some_bundle(self, which: int) -> str:
        """Choose a bundle that is lent, or was."""
        live = sorted({grant.bundle for grant in self.model.grants.values() if grant.bundle})
        known = [*live, *live, *self.bundle_ids[-3:], "b1"]
        return known[which % len(known)]

    @step(which=any_one, by=callers)
    def return_bundle(self, which: int, by: str) -> None:
        bundle = self.some_bundle(which)
        self.call(
            "capacity/return_bundle", lambda: self.model.return_all(bundle, by), bundle=bundle, by=by
        )  # fmt: skip

    @step(which=any_one)
    def return_bundle_as_well(self, which: int) -> None:
        """Add another rule of this kind: else most bundles last."""
        bundle = self.some_bundle(which)
        self.call(
            "capacity/return_bundle", lambda: self.model.return_all(bundle, "operator"), bundle=bundle, by="operator"
        )  # fmt: skip

    @step(which=any_one, ttl_ms=ttls, by=callers)
    def renew_bundle(self, which: int, ttl_ms: int, by: str) -> None:
        bundle = self.some_bundle(which)
        self.call(
            "capacity/renew_bundle", lambda: self.model.renew_all(bundle, ttl_ms, 86_400_000, by),
            bundle=bundle, ttl_ms=ttl_ms, max_ms=86_400_000, by=by,
        )  # fmt: skip

    @step(ms=st.sampled_from([0, 500, 1_000, 4_000, 20_000]), dead=st.sampled_from(["", "", "", "h1", "h2"]))
    def look_after_bundles(self, ms: int, dead: str) -> None:
        """Time passes, and a hub takes its round of bundles."""
        if ms:
            self.do_wait(ms)
            for hub in HUBS:
                if hub != dead:
                    self.direct.tick(hub)
                    self.model.hubs[hub] = self.model.clock_ms
        self.do_round()

    @step(which=any_one, singles=st.integers(0, 2), hub=hubs)
    def wait_patiently(self, which: int, singles: int, hub: str) -> None:
        """A bundle waits beside others until it reserves, and slots that it may use come back one by one."""
        if not self.model.grants:
            return
        label = self.model.slots[pick(self.model.grants, which)].pool
        count = min(3, len(self.model.of_pool(label)))
        self.ask_for_all((Part(label, "", count),), keyed=False, hub=hub, wait_ms=30_000, hopes=True)
        for _ in range(singles):
            self.ask(label=label, run="r1", keyed=False, hub=hub, wait_ms=30_000)
        self.look_after_bundles_once(PATIENCE_MS)
        for slot in sorted(self.model.grants)[: 1 + which % 3]:
            if slot in self.model.grants:
                self.hand_in(slot, str(self.model.grants[slot].token), "")
                self.look_now()
        self.look_after_bundles_once(500)

    def look_after_bundles_once(self, ms: int) -> None:
        self.do_wait(ms)
        for hub in HUBS:
            self.direct.tick(hub)
            self.model.hubs[hub] = self.model.clock_ms
        self.do_round()

    def look_now(self) -> None:
        """Compare within a step, which is not over yet."""
        self.the_store_says_what_the_model_says()
        self.sound = False

    def do_round(self) -> None:
        self.call(
            "capacity/serve_bundles", lambda: self.model.round(PATIENCE_MS, RESERVE_MS),
            patience_ms=PATIENCE_MS, reserve_ms=RESERVE_MS,
        )  # fmt: skip
        self.look_now()
        model, reserver = self.model, self.model.reserver
        assert not model.reserved or reserver, f"{model.reserved} are set aside for nobody"
        if reserver:
            wanted = model.tickets[reserver.ticket].wanted
            assert isinstance(wanted, BundleRequest)
            held = {slot: model.slots[slot].place for slot in model.reserved}
            assert set(held.values()) <= {"held"}, f"{held} are set aside"
            assert model.matched(wanted, model.reserved) == len(model.reserved), f"of {held} some are of no use"
        free = [slot for slot in model.slots if model.may_be_lent(slot)]
        for ticket in [] if model.settling else model.line_of_bundles()[:8]:
            wanted = ticket.wanted
            assert isinstance(wanted, BundleRequest)
            of = "live" if model.reserves(wanted) else "taken"
            passed_over = not model.over_cap(wanted, of=of) and model.may_have_all(wanted, free)
            doubt = any(model.suspect(slot) and record.place == "free" for slot, record in model.slots.items())
            assert doubt or not passed_over, f"{wanted} waits beside {free}"
