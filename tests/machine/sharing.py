"""Steps about teams: their rows change, rounds recall leases, hubs bring rows back."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from tests.machine.base import HUBS, LABELS, any_one, patterns, rows, step, teams
from tests.machine.bundlers import Bundlers
from tests.machine.fleet import Fleet, rarely
from tests.machine.records import TEAMS, USERS, Part
from tests.machine.teaming import Row


class Sharing(Fleet, Bundlers):
    """Rules of teams. In half of the examples there are none."""

    @step(team=teams, pattern=patterns, row=rows, which=any_one)
    def set_team(self, team: str, pattern: str, row: Row, which: int) -> None:
        if not self.teams:
            return
        known = sorted(self.model.rows)
        if which < 4 and known:  # change or remove one that is there
            pattern, team = known[which % len(known)]
        self.do_set_team(team, pattern, None if which in (0, 1, 4) else row)

    @step(team=teams, pattern=patterns, row=rows, late=rarely, all_gone=rarely)
    def bring_rows_back(self, team: str, pattern: str, row: Row, late: bool, all_gone: bool) -> None:
        """A hub tells the store the rows that it read last."""
        if not self.teams:
            return
        some = {} if all_gone else self.model.rows | {(pattern, team): row}
        number = self.model.rows_number if late else self.model.token  # which other scripts have raised, most times
        told = [t for (p, who), each in some.items() for t in (f"{p}\t{who}", json.dumps(each._asdict()))]
        self.call("teams/recall", lambda: self.model.recall_rows(some, number), number=number, rest=told)
        self.unreviewed = True

    @step(ms=st.sampled_from([0, 1_000, 1_000, 20_000]), ends=st.booleans())
    def balance(self, ms: int, ends: bool) -> None:
        """A hub takes its round, and perhaps ends what is due."""
        if self.teams:
            self.do_balance(ms)
            if ends:
                self.do_enforce()

    def do_balance(self, ms: int) -> None:
        if ms:
            self.do_wait(ms)
            for hub in HUBS:
                self.direct.tick(hub)
                self.model.hubs[hub] = self.model.clock_ms
        self.call("teams/balance", self.model.balance)

    def do_enforce(self) -> None:
        """End what is due: the end of a lease that is recalled takes no team below its guarantee."""
        self.look_now()
        before = self.model.shortfall()
        answer = self.call("capacity/enforce", lambda: self.model.enforce(32), limit=32)
        words = set(answer[2][1::6])
        if words <= {"recall", "warned", "later", "none"}:
            after = self.model.shortfall()
            assert after <= before, f"teams lack {after} in all, and lacked {before}: {answer}"

    @step(
        which=any_one, other=any_one, guarantee=st.sampled_from([1, 1, 2, 3]), together=rarely,
        ms=st.sampled_from([0, 1_000, 20_000]), hub=st.sampled_from(HUBS),
    )  # fmt: skip
    def contend(self, which: int, other: int, guarantee: int, together: bool, ms: int, hub: str) -> None:
        """A team has what is free of a pool, another one is below its guarantee and waits until leases are recalled."""
        pools = sorted({record.pool for record in self.model.slots.values()})
        if not self.teams or not pools:
            return
        self.wake()
        self.look_now()
        pool, users = pools[which % len(pools)], list(USERS)
        rich, poor = users[which % len(users)], users[(which + 1 + other % 3) % len(users)]
        self.do_set_team(TEAMS[poor], self.model.pattern_of(pool) or "a:*", Row(guarantee))
        self.look_now()
        wanted = {"keyed": False, "hub": hub, "ttl_ms": 20_000}
        if together and (free := len(self.model.free.get(pool, ()))):
            self.ask_for_all((Part(pool, "", free),), user=rich, together=True, wait_ms=0, **wanted)
        for _ in range(len(self.model.of_pool(pool)) + 1):
            self.ask(label=pool, run="r1", any_of=(), user=rich, wait_ms=0, **wanted)
        for _ in range(1 + other % 4):
            self.ask(
                label=LABELS[other % len(LABELS)] if other > 8 else pool, run="r3", user=poor, wait_ms=30_000, **wanted
            )
        for pause_ms in (0, ms):
            self.look_now()
            self.do_balance(pause_ms)
            self.look_now()
        self.do_enforce()

    def wake(self) -> None:
        """All nodes are heard, no holder of a lease that is over believes in it, and hubs look after their waiters."""
        self.do_wait(self.model.grace_ms)
        for hub in HUBS:
            self.direct.tick(hub)
            self.model.hubs[hub] = self.model.clock_ms
        for node in sorted(self.model.nodes):
            self.do_register(node)
            self.do_beat(node, known=False)
        self.do_relend(64)
