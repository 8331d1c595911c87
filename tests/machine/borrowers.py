"""Steps of borrowers, and steps that end their grants."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from tests.machine.base import SLOTS, Base, any_one, callers, hubs, labels, pick, slots, step, users
from tests.machine.records import is_foreign

ttls = st.sampled_from([20_000, 20_000, 900_000])
runs = st.sampled_from(["r1", "r2"])
waits = st.sampled_from([0, 5_000, 30_000])
urgencies = st.sampled_from([0, 0, 0, 50_000, -50_000])  # seconds in the queue: more than an example takes


class Borrowers(Base):
    """Rules of borrows and grants."""

    @step(label=labels, run=runs, keyed=st.booleans(), hub=hubs, wait_ms=waits, user=users)
    def borrow(self, **wanted: Any) -> None:
        self.ask(**wanted)

    @step(label=labels, run=runs, keyed=st.booleans(), hub=hubs, user=users)
    def wait_in_line(self, **wanted: Any) -> None:
        self.ask(wait_ms=30_000, **wanted)

    @step(label=labels, run=runs, hub=hubs, keyed=st.booleans(), priority=urgencies)
    def wait_with_priority(self, **wanted: Any) -> None:
        self.ask(wait_ms=5_000, **wanted)

    @step(label=labels, run=runs, hub=hubs, ttl_ms=ttls, idle_ms=st.sampled_from([0, 600_000]))
    def borrow_for_a_while(self, **wanted: Any) -> None:
        self.ask(keyed=False, wait_ms=30_000, **wanted)

    @step(label=labels, run=runs, hub=hubs, max_label=st.sampled_from([1, 100]), max_run=st.sampled_from([1, 2]))
    def wait_where_the_line_is_short(self, **wanted: Any) -> None:
        self.ask(keyed=False, wait_ms=30_000, **wanted)

    @step(which=any_one, hub=hubs, label=labels, same=st.booleans(), wait_ms=waits)
    def repeat(self, which: int, hub: str, label: str, same: bool, wait_ms: int) -> None:
        """Have a caller without an answer ask again, perhaps another hub, or use its key for another call."""
        if self.asked:
            wanted = self.asked[-1 - which % len(self.asked)]
            wanted = replace(wanted, wait_ms=wait_ms, repeated=False)
            if wanted.keyed:
                wanted = replace(wanted, hub=hub, attempt=f"try-{len(self.asked)}")
            self.send(wanted if same or not wanted.keyed else replace(wanted, label=label, asked=label, any_of=()))

    @step(which=any_one, user=users)
    def use_the_key_of_another(self, which: int, user: str) -> None:
        """Have a user borrow with a key that another caller made."""
        keyed = {wanted.id: wanted for wanted in self.asked if wanted.keyed and wanted.user != user}
        if keyed:
            wanted = keyed[pick(keyed, which)]
            asked = f"{wanted.label} {user}".strip()
            self.send(replace(wanted, user=user, asked=asked, attempt=f"try-{len(self.asked)}", repeated=False))

    @step(which=any_one, hub=hubs)
    def come_back(self, which: int, hub: str) -> None:
        """Have a caller with a key, who was away, be attended again, or fetch what was handed to it."""
        keys = [request for request in self.model.tickets if self.model.tickets[request].wanted.keyed]
        if keys:
            ticket = self.model.tickets[pick(keys, which)]
            attempt = f"try-{len(self.asked)}"
            self.send(replace(ticket.wanted, hub=hub, attempt=attempt, wait_ms=30_000, repeated=False))

    @step(which=any_one)
    def wait_on(self, which: int) -> None:
        """A call that was woken asks what has become of its ticket; there may be a later call for the same one."""
        waiting = [
            wanted for wanted in self.asked if wanted.id in self.model.tickets or wanted.id in self.model.answered
        ]
        waiting += self.asked[-2:]  # or it was cancelled meanwhile
        if waiting:
            self.send(replace(waiting[-1 - which % len(waiting)], wait_ms=5_000, repeated=True))

    # -- giving back

    @step(which=any_one, token=st.booleans(), run=st.sampled_from(["own", "", "r1", "r2"]))
    def give_back(self, which: int, token: bool, run: str) -> None:
        if self.model.grants:
            slot = pick(self.model.grants, which)
            grant = self.model.grants[slot]
            self.hand_in(slot, str(grant.token) if token else "", grant.run if run == "own" else run)

    @step(which=any_one)
    def give_back_as_well(self, which: int) -> None:
        """Add another rule of this kind: most waiters are served by it."""
        if self.model.grants:
            slot = pick(self.model.grants, which)
            self.hand_in(slot, str(self.model.grants[slot].token), "")

    @step(which=any_one, label=labels, hub=hubs)
    def give_back_and_wait(self, which: int, label: str, hub: str) -> None:
        """Return a slot and borrow another one in the same step."""
        self.ask(label=label, run="r2", keyed=which % 2 == 0, hub=hub, wait_ms=30_000)
        if self.model.grants:
            slot = pick(self.model.grants, which)
            self.hand_in(slot, str(self.model.grants[slot].token), "")

    @step(
        slot=slots, which=any_one, run=st.sampled_from(["", "r1", "r2"]), request=st.sampled_from(["", "return-1"]),
        by=callers,
    )  # fmt: skip
    def give_back_something(self, slot: str, which: int, run: str, request: str, by: str) -> None:
        """Choose any slot, with the token of any grant of it."""
        self.hand_in(slot, self.some_token(slot, which), run, request, by=by)

    @step(which=any_one, by=callers, token=st.booleans(), renews=st.booleans(), revokes=st.sampled_from(["", "1", "2"]))
    def meddle(self, which: int, by: str, token: bool, renews: bool, revokes: str) -> None:
        """Have any caller end or renew a grant; one that is not its holder changes nothing."""
        if not self.model.grants:
            return
        slot = pick(self.model.grants, which)
        grant = self.model.grants[slot]
        foreign, before = is_foreign(by, grant.user, token), self.look.seen()
        if renews:
            self.do_renew(slot, str(grant.token) if token else "", 900_000, 86_400_000, by)
        else:
            self.hand_in(slot, str(grant.token) if token else "", "", revokes=revokes, by=by)
        if foreign:
            assert self.look.seen() == before, f"a call of {by!r} changed what {grant.user!r} holds"

    @step(which=any_one)
    def take_away(self, which: int) -> None:
        """An operator ends a grant, at once or with a grace for its holder."""
        if self.model.grants:
            self.hand_in(pick(self.model.grants, which), "", "", revokes="12"[which % 2])

    @step(which=any_one, own=st.booleans(), by=callers)
    def stop_in_time(self, which: int, own: bool, by: str) -> None:
        """Have a holder who was told that its grant is over, or another caller, say that it has stopped."""
        if self.model.revoked:
            slot = pick(self.model.revoked, which)
            self.hand_in(slot, self.model.revoked[slot][1] if own else "1", "", by=by)

    @step(limit=st.sampled_from([1, 20]))
    def relend(self, limit: int) -> None:
        """Have a hub look for slots whose last holder had its time."""
        self.do_relend(limit)

    def some_token(self, slot: str, which: int) -> str:
        tokens = ["", "1", *(str(token) for other, token in self.tokens if other == slot)]
        return tokens[-1 - which % len(tokens)]

    # -- leases

    @step(
        slot=slots, which=any_one, own=st.booleans(), ttl_ms=ttls, max_ms=st.sampled_from([60_000, 86_400_000]),
        by=callers,
    )  # fmt: skip
    def renew(self, slot: str, which: int, own: bool, ttl_ms: int, max_ms: int, by: str) -> None:
        token = self.some_token(slot, which)
        if own and self.model.grants:
            slot = pick(self.model.grants, which)
            token = str(self.model.grants[slot].token)
        self.do_renew(slot, token, ttl_ms, max_ms, by)
        self.call("capacity/verify", lambda: self.model.verify(slot, token), slot=slot, token=token)

    def do_renew(self, slot: str, token: str, ttl_ms: int, max_ms: int, by: str) -> None:
        self.call(
            "capacity/renew", lambda: self.model.renew(slot, token, ttl_ms, max_ms, by),
            slot=slot, token=token, ttl_ms=ttl_ms, max_ms=max_ms, by=by,
        )  # fmt: skip

    @step(which=any_one, how=st.sampled_from(["lease", "idle", "look", "look"]))
    def lapse(self, which: int, how: str) -> None:
        """Have a sweeper look at some grants; the footprint of one was deleted."""
        if self.model.grants and how != "look":
            slot = pick(self.model.grants, which)
            grant, lease = self.model.grants[slot], how == "lease"
            self.redis.delete(self.keys.borrow_ttl(slot) if lease else self.keys.borrow_idle(slot))
            grant.footprint, grant.idle_footprint = grant.footprint and not lease, grant.idle_footprint and lease
        self.do_lapse(list(dict.fromkeys([*sorted(self.model.grants), SLOTS[which % len(SLOTS)]])))
