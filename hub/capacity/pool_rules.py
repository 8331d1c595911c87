"""Pool rules: how long slots may be held and left unused, by patterns of pool labels, for all hubs at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import orjson

from hub.capacity.memory import Memory
from hub.errors import BadInput, InvalidValue, NotFound, UnknownReply
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.store.rounds import rounds
from hub.store.store import Store

ROUND_S: Final = 1.0  # how often a hub looks for leases that are about to end by a rule
BATCH: Final = 32  # leases per script, which takes under 4 ms if all end and their slots go to waiters
RULES_MAX: Final = 200
PATTERN_MAX: Final = 200  # characters
WARN_MS: Final = 60_000  # how long before an end its holder is told, unless the rule says otherwise or is shorter
MEMBERS: Final = {"hold": "max_hold_ms", "idle": "idle_ms", "ttl": "ttl_ms", "warn": "warn_ms"}
_log = get_logger("hub.capacity")


class NoSuchRule(NotFound):
    """No rule has this pattern."""

    code = "no-such-rule"


class PoolRule(NamedTuple):
    """A rule for the pools whose labels fit `pattern`; None: it says nothing of that. `warn_ms` is how long before an
    end by this rule the holder of a lease is told.
    """

    pattern: str
    max_hold_ms: int | None
    idle_ms: int | None
    ttl_ms: int | None
    warn_ms: int
    by: str
    at: str

    @classmethod
    def read(cls, pattern: str, text: str) -> PoolRule:
        """Return a rule from the JSON that the store has of it."""
        said = orjson.loads(text)
        hold, idle, ttl, warn = (said.get(name) for name in MEMBERS)
        warn = warn or min([WARN_MS, *(int(ms / 2) for ms in (hold, idle) if ms)])
        return cls(pattern, hold, idle, ttl, warn, str(said.get("by", "")), str(said.get("at", "")))


def check_pattern(text: str) -> str:
    """Return a pattern of pool labels without blanks around it; raises `InvalidValue` for one that fits no label."""
    pattern = text.strip()
    if not 1 <= len(pattern) <= PATTERN_MAX or not pattern.isprintable() or " " in pattern:
        raise InvalidValue(f"a pattern has 1 to {PATTERN_MAX} printable characters without blanks, such as gpu:*")
    return pattern


class PoolRules:
    """The rules of the pools of a store, and the ends of leases that follow from them. Each hub remembers the rules as
    it read them last, and tells them a store that has lost them.
    """

    def __init__(self, store: Store, memory: Memory) -> None:
        self._store = store
        self._memory = memory
        self._number = ""  # of the last change that this hub knows
        self._known: Mapping[str, str] = {}
        self._set_rule = store.script("capacity/set_rule")
        self._recall_rules = store.script("capacity/recall_rules")
        self._enforce = store.script("capacity/enforce")
        store.when_replaced(self.recall)

    async def all(self) -> list[PoolRule]:
        """Return all rules, the longest pattern first: of several that fit a pool the first holds."""
        found = await self._store.read("HGETALL", self._store.keys.rules)
        return sorted((PoolRule.read(*each) for each in found.items()), key=lambda rule: (-len(rule.pattern), rule))

    async def find(self, pattern: str) -> PoolRule:
        """Return the rule with this pattern; raises `NoSuchRule`."""
        text = await self._store.read("HGET", self._store.keys.rules, pattern)
        if text is None:
            raise NoSuchRule(f"no rule has the pattern {pattern}")
        return PoolRule.read(pattern, text)

    async def change(self, pattern: str, changes: Mapping[str, int | None], by: str) -> PoolRule | None:
        """Change members of a rule (`MEMBERS`, in ms; None removes one); return the rule, None when nothing is left.

        It holds for leases from then on. The next sweep gives it to live ones, which end no earlier than their holders
        are told. Raises `InvalidValue` for a warning that is no shorter than the rule, and `BadInput` for a rule beyond
        `RULES_MAX`.
        """
        reply = await self._set_rule(pattern=pattern, changes=orjson.dumps(changes).decode(), by=by, most=RULES_MAX)
        match reply:
            case ["ok", text]:
                await self._read()
                return PoolRule.read(pattern, text) if text else None
            case ["full"]:
                raise BadInput(f"there are {RULES_MAX} rules already; remove one, or use a pattern with *")
            case ["short", shortest_ms]:
                bound = f"the shorter of maxHoldSeconds and idleSeconds, {shortest_ms / 1000:g}"
                raise InvalidValue(f"warnSeconds must be less than {bound}", member="warnSeconds")
        raise UnknownReply(self._set_rule.name, reply)

    async def go_round(self) -> None:
        """Call `enforce` once a second, for ever."""
        await rounds(ROUND_S, self.enforce, self._failed)

    def _failed(self, error: Exception) -> None:
        metrics.sweep_errors.labels("rules").inc()
        _log.error("round of pool rules failed", why=repr(error))

    async def enforce(self) -> None:
        """Tell the holders of leases that are about to end by a rule, and end those whose time is over. Any hub may do
        it, and each is told and ended once."""
        looked_at = BATCH
        while looked_at >= BATCH:
            _, number, done = await self._enforce(limit=BATCH)
            looked_at = len(done) // 6
            for slot, word, pool, token, grace_ms, bundle in zip(*(done[n::6] for n in range(6)), strict=True):
                if word in ("idle", "max-hold", "recall"):
                    self._memory.over(slot, token, grace_ms=grace_ms, bundle=bundle)
                    metrics.leases_ended_by_rule.labels(metrics.bounded(pool), word).inc()
                    _log.info("lease ended by a rule", slot=slot, pool=pool, why=word)
        if number != self._number:
            await self._read()

    async def _read(self) -> None:
        keys = self._store.keys
        number, found = await self._store.read_all([("HGET", keys.store, "rules"), ("HGETALL", keys.rules)])
        self._number, self._known = number or "", found

    async def recall(self) -> None:
        """Tell a store that lost data the rules, unless it has later ones."""
        if not self._number:
            return
        rest = [text for each in self._known.items() for text in each]
        (word,) = await self._recall_rules(number=self._number, rest=rest)
        if word == "taken":
            _log.warning("pool rules re-reported after Redis lost data", rules=len(self._known))
