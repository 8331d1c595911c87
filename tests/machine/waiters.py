"""Steps of hubs for waiters, of operators with the queue, and accidents."""

from __future__ import annotations

from itertools import combinations, permutations, product
from math import comb, perm

from hypothesis import strategies as st

from tests.machine.base import HUBS, ORDERS_MAX, Base, any_one, callers, hubs, labels, pick, step
from tests.machine.records import SILENT_MS, TIMEOUT_MS

times = st.sampled_from([500, 1_000, 1_000, 1_000, 4_000, 5_000, 20_000, 62_000])
losses = st.sampled_from(["handed", "waiting", "any", "granted"])
ways = st.sampled_from(["label", "all", "review", "return", "served", "served"])
accidents = st.sampled_from(["twice", "twice", "forget", "restart", "waiter", "dead waiter"])


class Waiters(Base):
    """Rules of tickets, hubs and caps."""

    @step(which=any_one, how=losses, why=st.sampled_from(["gone", "timeout"]))
    def give_up(self, which: int, how: str, why: str) -> None:
        """End a wait: its time is over, its caller hangs up, or its hub got no answer and takes back what it was."""
        wanted = self.asked[-1 - which % len(self.asked)] if self.asked else None
        handed = {request: hub for hub, requests in self.model.handed.items() for request in requests}
        if how == "handed" and handed:
            request = pick(handed, which)
            self.undo(request, self.model.answered[request].attempt, handed[request], "gone")
        elif how == "granted" and self.model.answered:
            shared = [request for request, answered in self.model.answered.items() if answered.also]
            request = pick((which % 2 and shared) or self.model.answered, which)
            self.undo(request, self.model.answered[request].attempt, HUBS[which % 2], "gone")
        elif how == "waiting" and self.model.tickets:
            ticket = self.model.tickets[pick(self.model.tickets, which)]
            self.undo(ticket.wanted.id, ticket.attempt, ticket.hub, why)
        elif wanted:
            self.undo(wanted.id, wanted.attempt, wanted.hub, why)

    def undo(self, request: str, attempt: str, hub: str, why: str) -> None:
        named = {"request": request, "attempt": attempt, "hub": hub, "why": why}
        self.call("capacity/undo", lambda: self.model.undo(**named), **named)

    @step(which=any_one, look=st.booleans(), again=st.sampled_from([True, False, False, False]), by=callers)
    def cancel(self, which: int, look: bool, again: bool, by: str) -> None:
        """Let a caller that knows a ticket look at it, or cancel it; a hub says again after a loss that it was."""
        known = [*self.model.tickets, *(wanted.id for wanted in self.asked[-3:])]
        request = pick(known, which) if known else "unknown"
        if not look:
            named = {"ticket": request, "recalled": int(again), "by": by}
            self.call("queue/cancel", lambda: self.model.cancel(request, again, by), **named)
        (answer,) = self.direct.call("queue/find", rest=[request])
        wanted = self.model.look(request)
        if answer[0] in ("waiting", "away"):  # the estimate and the arrival are matters of wall time
            answer[4:7] = [None if wanted[4] is None else answer[4] >= 0, answer[5]]
        assert answer == wanted, f"queue/look answered {answer}, not {wanted}"

    @step(hub=hubs, some=st.lists(labels, max_size=2), how=st.sampled_from(["all", "some", "retire", "retire one"]))
    def look_after(self, hub: str, some: list[str], how: str) -> None:
        """Take a round of a hub, or a part of one: its waiters, their queues, and unattended tickets."""
        if how.startswith("retire"):
            self.do_retire(1 if how == "retire one" else 50)
            return
        looked = list(self.model.turns) if how == "all" else some
        attended = sorted({wanted.id for wanted in self.asked if wanted.hub == hub})
        self.call("queue/check", lambda: self.model.check(hub, attended), hub=hub, rest=attended)
        self.do_review(looked)
        self.unreviewed &= how != "all"

    def do_review(self, some: list[str]) -> None:
        self.call("queue/review", lambda: self.model.review(some), rest=some)

    def do_retire(self, limit: int) -> bool:
        """Drop what no hub attends; return whether there is more. Of a silent hub Redis picks which."""
        silent = self.model.silent_hub() or ""
        attended, handed = sorted(self.model.attended(silent)), sorted(self.model.handed.get(silent, ()))
        while comb(len(attended), min(limit, len(attended))) * perm(len(handed), min(limit, len(handed))) > ORDERS_MAX:
            limit -= 1  # in fewer ways than can be tried
        answer = self.direct.call("queue/retire", limit=limit)
        asides = combinations(attended, min(limit, len(attended)))
        undelivered = permutations(handed, min(limit, len(handed)))
        choices = list(product(asides, undelivered))
        self.one_of(choices, lambda model, choice: model.retire(limit, *choice), answer)
        return bool(answer[3])

    @step(label=labels, cap=st.sampled_from(["", "0", "1", "1", "2"]), of=ways)
    def set_cap(self, label: str, cap: str, of: str) -> None:
        """For all labels, the hub may die before it has looked at every queue again; others look within a second."""
        if of == "label":
            self.do_set_cap(label, cap)
            return
        if of == "served":
            label = label.replace("*", "b")
            self.call("queue/set_cap", lambda: self.model.set_cap(label, cap, True), label=label, cap=cap, served=1)
            return
        self.call("queue/set_cap", lambda: self.model.set_cap("", cap), label="", cap=cap, served=0)
        self.unreviewed = True
        if of == "return" and self.model.grants:
            slot = pick(self.model.grants, len(label))
            self.hand_in(slot, str(self.model.grants[slot].token), "")
        if of == "review":
            self.do_review(list(self.model.turns))
            self.unreviewed = False

    @step(ms=times, dead=st.sampled_from(["", "", "", "", "h1", "h2"]), lapse=st.booleans())
    def wait(self, ms: int, dead: str, lapse: bool) -> None:
        """Time passes, perhaps without some hub; a sweeper may look at all leases after it."""
        self.do_wait(ms)
        for hub in HUBS:
            if hub != dead:
                self.do_tick(hub)
        if lapse:
            self.do_lapse(sorted(self.model.grants, key=lambda slot: (self.model.grants[slot].deadline_ms, slot)))

    @step(which=any_one, of=st.sampled_from(["lease", "lease", "ticket_deadlines", "drain", "hub", "suspicion"]))
    def wait_for_it(self, which: int, of: str) -> None:
        """Time passes until the very moment at which something may happen; hubs that wait for others tick."""
        model = self.model
        moments = {
            "lease": [grant.deadline_ms for grant in model.grants.values()],
            "ticket_deadlines": [ticket.patience_ms for ticket in model.tickets.values()],
            "drain": list(model.drain_deadlines.values()),
            "hub": [heard + SILENT_MS for heard in model.hubs.values()],
            "suspicion": [node.beat_ms + TIMEOUT_MS // 2 for node in model.nodes.values()],
        }
        left_ms = min((moment - model.clock_ms for moment in moments[of] if moment > model.clock_ms), default=0)
        if 0 < left_ms < TIMEOUT_MS:
            self.do_wait(left_ms)
            if of != "hub":
                self.do_tick(HUBS[which % 2])
            if of == "lease" and which % 3:
                self.do_lapse(sorted(model.grants))

    def do_tick(self, hub: str) -> None:
        self.direct.tick(hub)
        self.model.hubs[hub] = self.model.clock_ms

    # -- accidents

    @step(which=any_one, label=labels, how=accidents)
    def accident(self, which: int, label: str, how: str) -> None:
        """The next call is sent twice, as by a client that lost the answer; or something happens to the server."""
        if how == "twice":
            self.twice = True
        elif how == "forget":
            self.redis.function_flush()
        elif which % 2:  # rarely: nodes have to report for a whole timeout
            self.do_restart()
            if how != "restart":
                self.begin_again(label, 4_000 if how == "dead waiter" else 1_000 * (1 + which % 3 % 2))
            if how == "dead waiter":
                self.do_review(list(self.model.turns))

    def begin_again(self, label: str, ms: int) -> None:
        """Let a borrow come into the queue while nothing is lent; nodes report, and lending begins again."""
        self.ask(label=label, run="r1", keyed=False, hub="h1", wait_ms=30_000)
        for node in sorted(self.model.nodes):
            self.publish_all(node)
        self.do_wait(ms)

    def do_restart(self) -> None:
        """Restart the server as a hub sees it: no scripts, another run id; then nothing is lent for a while."""
        self.redis.hset(self.keys.store, "run_id", "before")
        self.redis.function_flush()
        self.direct.open()
        token = int(self.redis.hget(self.keys.store, "token"))
        assert token > self.model.token
        above = self.model.lost[0] if self.model.reporting else self.model.token  # of both if need be
        self.model.lost, self.model.token = (above, token), token
        self.model.settled_ms, self.model.reopened_ms = self.model.clock_ms + 2000, self.model.clock_ms
        self.model.opening += 1
