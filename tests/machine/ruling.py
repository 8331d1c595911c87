"""Steps about the rules of pools: they change, holders tell of use, hubs look at what is due."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from tests.machine.base import Base, any_one, callers, pick, step
from tests.machine.limits import PoolRule

holds = st.sampled_from([None, 30_000, 90_000])
idles = st.sampled_from([None, 40_000, 600_000])


class Ruling(Base):
    """Rules of pools, use, pauses and warnings."""

    @step(pattern=st.sampled_from(["a:*", "a:b", "*:c"]), hold=holds, idle=idles, ttl=st.sampled_from([None, 25_000]),
          warn=st.sampled_from([None, 5_000, 60_000]))  # fmt: skip
    def set_rule(self, pattern: str, **changes: int | None) -> None:
        def call() -> list[Any]:
            said = json.dumps(changes)
            word, text = self.direct.call("capacity/set_rule", pattern=pattern, changes=said, by="ann", most=9)
            if word != "ok":
                return [word, text]
            rule = json.loads(text) if text else None
            return [word, rule and PoolRule(*(rule.get(name) for name in PoolRule._fields))]

        self.compare("capacity/set_rule", call, lambda: self.model.set_rule(pattern, changes), (pattern, changes))

    @step(
        which=any_one,
        stale=st.sampled_from([False, False, False, True]),
        pause_ms=st.sampled_from([None, None, 0, 70_000]),
        by=callers,
    )
    def use(self, which: int, stale: bool, pause_ms: int | None, by: str) -> None:
        if self.model.grants:
            slot = pick(self.model.grants, which)
            token = "1" if stale else str(self.model.grants[slot].token)
            self.call(
                "capacity/use", lambda: self.model.use(slot, token, pause_ms, 86_400_000, by),
                slot=slot, token=token, pause_ms="" if pause_ms is None else pause_ms, max_ms=86_400_000, by=by,
            )  # fmt: skip

    @step(which=any_one)
    def footprint_runs_out(self, which: int) -> None:
        """The footprint of the idle rule of a grant runs out by itself."""
        idle = [slot for slot, grant in self.model.grants.items() if grant.idle_ms and grant.idle_footprint]
        if idle:
            slot = pick(idle, which)
            self.redis.delete(self.keys.borrow_idle(slot))
            self.redis.hset(self.keys.slot(slot), "idle_visible_ms", 1)
            self.model.grants[slot].idle_footprint, self.model.grants[slot].ran_out = False, True
            self.do_lapse([slot])

    @step(limit=st.sampled_from([1, 32]), rest=st.booleans())
    def enforce(self, limit: int, rest: bool) -> None:
        for _ in range(2 if rest else 1):
            self.call("capacity/enforce", lambda: self.model.enforce(limit), limit=limit)
