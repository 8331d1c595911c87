"""What borrowers do, what their hubs do for them, and accidents."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.machine.base import RUNS, Base, any_one, labels, slots, step
from tests.machine.fleet import pick

ttls = st.sampled_from([20_000, 900_000])


class Borrowers(Base):
    """Rules of grants."""

    @step(label=labels, run=st.sampled_from(RUNS), ttl_ms=ttls, idle_ms=st.sampled_from([0, 600_000]), keyed=st.booleans())
    def borrow(self, **wish: Any) -> None:
        self.ask(**wish)

    @step(label=labels, run=st.sampled_from(RUNS), keyed=st.booleans())
    def borrow_as_well(self, **wish: Any) -> None:
        """The same again: what is lent is what most other rules need."""
        self.ask(ttl_ms=900_000, idle_ms=0, **wish)

    def ask(self, *, keyed: bool, **wish: Any) -> None:
        attempt = f"try-{len(self.asked)}"
        self.send(wish, f"key-{len(self.asked)}" if keyed else attempt, attempt)

    def send(self, wish: dict[str, Any], request: str, attempt: str) -> None:
        trailing, prefix, wildcards = self.model.options
        answer = self.call(
            "capacity/borrow", lambda: self.model.borrow(request=request, attempt=attempt, asked=wish["label"], **wish),
            trailing=trailing, prefix=prefix, wildcards=wildcards, cap=self.model.caps.get(wish["label"], 0),
            request=request, attempt=attempt, fingerprint=wish["label"], keep_s=600, **wish,
        )  # fmt: skip
        self.asked.append((wish, request, attempt))
        if answer[0] == "ok":
            self.tokens.append((answer[1], int(answer[2])))

    @step(which=any_one, label=labels, same=st.booleans())
    def repeat(self, which: int, label: str, same: bool) -> None:
        """A caller who has heard nothing asks again under his key, or uses it for something else."""
        if not self.asked:
            return
        wish, request, attempt = self.asked[-1 - which % len(self.asked)]
        again = attempt if request == attempt else f"try-{len(self.asked)}"
        self.send(wish if same else {**wish, "label": label}, request, again)

    @step(which=any_one)
    def undo(self, which: int) -> None:
        """A hub could not deliver an answer, or never got it, and takes back what was granted to that attempt."""
        if not self.asked:
            return
        _, request, attempt = self.asked[-1 - which % len(self.asked)]
        self.call("capacity/undo", lambda: self.model.undo(request, attempt), request=request, attempt=attempt)

    @step(which=any_one)
    def lose_the_caller(self, which: int) -> None:
        """An attempt is withdrawn before it arrives."""
        attempt = f"try-{len(self.asked)}"
        self.call("capacity/undo", lambda: self.model.undo(attempt, attempt), request=attempt, attempt=attempt)
        self.ask(label="a:b", run="r1", ttl_ms=900_000, idle_ms=0, keyed=False)

    @step(which=any_one, token=st.sampled_from(["own", "none"]), keyed=st.booleans())
    def give_back(self, which: int, token: str, keyed: bool) -> None:
        if not self.model.grants:
            return
        slot = pick(self.model.grants, which)
        held = str(self.model.grants[slot].token) if token == "own" else ""
        self.hand_in(slot, held, f"return-{self.direct.calls}" if keyed else "")

    @step(slot=slots, which=any_one, request=st.sampled_from(["", "return-1", "return-2"]))
    def give_back_something(self, slot: str, which: int, request: str) -> None:
        """Whatever slot, with the token of whatever grant of it."""
        tokens = [0, 1, *(token for other, token in self.tokens if other == slot)]
        token = tokens[-1 - which % len(tokens)]
        self.hand_in(slot, str(token or ""), request)

    def hand_in(self, slot: str, token: str, request: str) -> None:
        self.call(
            "capacity/give_back", lambda: self.model.give_back(slot, token, request),
            slot=slot, hint="a:b", token=token, request=request,
        )  # fmt: skip

    @step(slot=slots, which=any_one, ttl_ms=ttls, max_ms=st.sampled_from([60_000, 86_400_000]))
    def renew(self, slot: str, which: int, ttl_ms: int, max_ms: int) -> None:
        tokens = ["", *(str(token) for other, token in self.tokens if other == slot)]
        token = tokens[-1 - which % len(tokens)]
        self.call(
            "capacity/renew", lambda: self.model.renew(slot, token, ttl_ms, max_ms),
            slot=slot, token=token, ttl_ms=ttl_ms, max_ms=max_ms,
        )  # fmt: skip

    @step(slot=slots, which=any_one)
    def verify(self, slot: str, which: int) -> None:
        tokens = ["1", *(str(token) for other, token in self.tokens if other == slot)]
        token = tokens[-1 - which % len(tokens)]
        self.call("capacity/verify", lambda: self.model.verify(slot, token), slot=slot, token=token)

    @step(nominated=st.lists(slots, max_size=4, unique=True))
    def lapse(self, nominated: list[str]) -> None:
        """A sweeper nominates some grants, for whatever reason; only those that are over are ended."""
        self.do_lapse(nominated)

    @step(ms=st.sampled_from([900, 4_300, 13_100, 21_700]))
    def wait(self, ms: int) -> None:
        """Time passes, and a sweeper looks at all leases."""
        self.direct.wait(ms)
        self.model.clock_ms += ms
        self.do_lapse(sorted(self.model.grants, key=lambda slot: (self.model.grants[slot].deadline_ms, slot)))

    @step(which=any_one, idle=st.booleans())
    def delete_the_footprint(self, which: int, idle: bool) -> None:
        if not self.model.grants:
            return
        slot = pick(self.model.grants, which)
        grant = self.model.grants[slot]
        self.redis.delete(self.keys.borrow_idle(slot) if idle else self.keys.borrow_ttl(slot))
        grant.footprint, grant.idle_footprint = grant.footprint and idle, grant.idle_footprint and not idle
        self.do_lapse([slot])


class Accidents(Base):
    """Rules of what happens to Redis and to answers."""

    @step()
    def send_the_next_call_twice(self) -> None:
        """As a client does that did not get its answer."""
        self.twice = True

    @step()
    def forget_the_scripts(self) -> None:
        self.redis.script_flush()

    @step()
    def restart_the_server(self) -> None:
        """As a hub sees it: no scripts, another run id; then nothing is lent for a while."""
        self.redis.hset(self.keys.store, "run_id", "before")
        self.redis.script_flush()
        self.direct.open()
        token = int(self.redis.hget(self.keys.store, "token"))
        assert token > self.model.token
        self.model.token = token
        self.model.settled_ms = self.model.clock_ms + 2000
