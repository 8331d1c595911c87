"""What hubs do for those who wait, what operators do to the line, and accidents."""

from __future__ import annotations

from itertools import combinations, permutations, product

from hypothesis import strategies as st

from hub.capacity.models import read_item
from tests.machine.base import HUBS, Base, any_one, hubs, labels, pick, step

reasons = st.sampled_from(["gone", "timeout"])
times = st.sampled_from([500, 1_000, 4_000, 5_000, 20_000, 62_000])


class Waiters(Base):
    """Rules of tickets, hubs and caps."""

    @step(which=any_one, why=reasons)
    def give_up(self, which: int, why: str) -> None:
        """A waiter has waited long enough, or his caller hung up."""
        if self.model.tickets:
            ticket = self.model.tickets[pick(self.model.tickets, which)]
            self.undo(ticket.wish.id, ticket.attempt, why)

    @step(which=any_one, why=reasons)
    def undo_something(self, which: int, why: str) -> None:
        """A hub could not deliver an answer, or never got it, and takes back what that attempt was granted."""
        if self.asked:
            wish = self.asked[-1 - which % len(self.asked)]
            self.undo(wish.id, wish.attempt, why)

    @step(which=any_one)
    def fail_to_deliver(self, which: int) -> None:
        """A grant was handed on to somebody who is not there any more."""
        handed = {request for requests in self.model.handed.values() for request in requests}
        if handed:
            request = pick(handed, which)
            self.undo(request, self.model.answered[request].attempt, "gone")

    def undo(self, request: str, attempt: str, why: str) -> None:
        named = {"request": request, "attempt": attempt, "why": why}
        self.call("capacity/undo", lambda: self.model.undo(**named), **named)

    @step(which=any_one)
    def cancel(self, which: int) -> None:
        known = [*self.model.tickets, *(wish.id for wish in self.asked[-3:])]
        if known:
            request = pick(known, which)
            self.call("line/cancel", lambda: self.model.cancel(request), ticket=request)

    @step(which=any_one)
    def look(self, which: int) -> None:
        known = [*self.model.tickets, *(wish.id for wish in self.asked[-3:])]
        if known:
            request = pick(known, which)
            (answer,) = self.direct.call("line/look", rest=[request])
            if answer[0] in ("waiting", "away"):  # the estimate and the arrival are matters of wall time
                answer[4:7] = [answer[4] >= 0, answer[5]]
            assert answer == self.model.look(request)

    @step(hub=hubs, every=st.booleans(), some=st.lists(labels, max_size=2))
    def check(self, hub: str, every: bool, some: list[str]) -> None:
        """A hub looks after its waiters, and at their lines again."""
        looked = list(self.model.turns) if every else some
        attended = sorted({wish.id for wish in self.asked if wish.hub == hub})
        self.call(
            "line/check", lambda: self.model.check(hub, looked, attended),
            hub=hub, labels=len(looked), rest=[*looked, *attended],
        )  # fmt: skip
        self.unreviewed &= not every

    @step(limit=st.sampled_from([1, 50]))
    def retire(self, limit: int) -> None:
        self.do_retire(limit)

    def do_retire(self, limit: int) -> bool:
        """Drop what nobody attends, and whether there is more; of a silent hub Redis picks whom."""
        silent = self.model.silent_hub() or ""
        attended, handed = sorted(self.model.attended(silent)), sorted(self.model.handed.get(silent, ()))
        answer = self.direct.call("line/retire", limit=limit)
        choices = list(product(combinations(attended, min(limit, len(attended))), permutations(handed, min(limit, len(handed)))))
        wanted = self.one_of(choices, lambda model, choice: model.retire(limit, *choice))
        assert answer == wanted, f"line/retire answered {answer}, not {wanted}"
        return bool(answer[3])

    @step(label=labels, cap=st.sampled_from(["", "0", "1", "2"]))
    def set_cap(self, label: str, cap: str) -> None:
        self.call("line/set_cap", lambda: self.model.set_cap(label, cap), label=label, cap=cap)

    @step(cap=st.sampled_from(["", "0", "1", "3"]), review=st.booleans())
    def set_default_cap(self, cap: str, review: bool) -> None:
        """The hub may die before it has looked at every line again; others look within a second."""
        self.call("line/set_cap", lambda: self.model.set_cap("", cap), label="", cap=cap)
        self.unreviewed = True
        if review:
            waiting = list(self.model.turns)
            self.call("line/review", lambda: self.model.review(waiting), rest=waiting)
            self.unreviewed = False

    @step(hub=hubs)
    def tick(self, hub: str) -> None:
        self.direct.tick(hub)
        self.model.hubs[hub] = self.model.clock_ms

    @step(ms=times, dead=st.sampled_from(["", "", "h1", "h2"]), lapse=st.booleans())
    def wait(self, ms: int, dead: str, lapse: bool) -> None:
        """Time passes, perhaps without some hub; a sweeper may look at all leases after it."""
        self.do_wait(ms)
        for hub in HUBS:
            if hub != dead:
                self.direct.tick(hub)
                self.model.hubs[hub] = self.model.clock_ms
        if lapse:
            self.do_lapse(sorted(self.model.grants, key=lambda slot: (self.model.grants[slot].deadline_ms, slot)))

    # -- accidents

    @step()
    def send_the_next_call_twice(self) -> None:
        self.twice = True

    @step()
    def forget_the_scripts(self) -> None:
        self.redis.script_flush()

    @step()
    def restart_the_server(self) -> None:
        self.do_restart()

    @step(label=labels, hub=hubs, report=st.booleans(), ms=st.sampled_from([1_000, 2_000]))
    def restart_with_a_waiter(self, label: str, hub: str, report: bool, ms: int) -> None:
        """Somebody comes in line while nothing is lent; nodes report, and lending begins again."""
        self.do_restart()
        self.ask(label=label, run="r1", keyed=False, hub=hub, wait_ms=30_000)
        for slot, record in sorted(self.model.slots.items()):
            if report and record.node in self.model.nodes:
                self.do_publish(record.node, slot, record.pool, record.policy, version=read_item(record.item)["browserVersion"])
        self.do_wait(ms)

    def do_restart(self) -> None:
        """As a hub sees it: no scripts, another run id; then nothing is lent for a while."""
        self.redis.hset(self.keys.store, "run_id", "before")
        self.redis.script_flush()
        self.direct.open()
        token = int(self.redis.hget(self.keys.store, "token"))
        assert token > self.model.token
        self.model.token = token
        self.model.settled_ms, self.model.reopened_ms = self.model.clock_ms + 2000, self.model.clock_ms
        self.model.opening += 1
