"""What the store has chosen where the rules leave it the choice: the model asks, and judges whether it may be so."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hub.store.keys import Keys
from tests.machine.direct import Direct


class Oracle:
    """A look at the store after the last script; each is read at most once."""

    def __init__(self, direct: Direct | None = None) -> None:
        self._direct, self._keys, self._known = direct, Keys(""), set[str]()
        self._calls, self._granted, self._reserved = -1, dict[str, list[str]](), set[str]()

    def __deepcopy__(self, _: Any) -> Oracle:
        return self

    def _read(self, model: Any) -> None:
        direct = self._direct
        if not direct or direct.calls == self._calls:
            return
        self._calls, self._granted = direct.calls, {}
        lent = {grant.bundle for grant in model.grants.values()}
        names = {name.rpartition(":")[2]: name for name in direct.redis.scan_iter(self._keys.bundle("*"), 1000)}
        for bundle in sorted(set(names) - lent - self._known):
            units = direct.redis.hgetall(names[bundle])
            slots = sorted(units, key=lambda slot: int(units[slot].partition("|")[0]))
            run = direct.redis.hget(self._keys.session(slots[0]), "runId")
            self._granted[str(run).removeprefix("run-")] = slots
        self._known |= set(names)
        self._reserved = set(direct.redis.smembers(self._keys.reserved))

    def granted(self, model: Any) -> dict[str, list[str]]:
        """Return the slots of the bundles that the last script has lent, in order, by their tickets."""
        self._read(model)
        return self._granted

    def reserved(self, model: Any) -> set[str]:
        """Return what is set aside after the last script."""
        self._read(model)
        return self._reserved

    def node(self, model: Any, ticket: str) -> str | None:
        """Return the node on which a bundle reserves, None if it does not."""
        found = self._direct and self._direct.redis.hmget(self._keys.reserver, "ticket", "node")
        return found[1] if found and found[0] == ticket else None

    def in_order(self, slots: Iterable[str]) -> list[str]:
        """Return slots that are set aside in the order in which the last script found them."""
        before = self._direct.reserved if self._direct else []
        return sorted(slots, key=lambda slot: (before.index(slot) if slot in before else 99, slot))

    def has_ended(self, pool: str) -> bool:
        return bool(self._direct) and not self._direct.redis.exists(self._keys.maintenance(pool))

    def waits(self, ticket: str) -> bool:
        """Return whether a ticket is in the line of bundles."""
        return bool(self._direct) and self._direct.redis.zscore(self._keys.bundles, ticket) is not None

    def is_held(self, slot: str) -> bool:
        return bool(self._direct) and self._direct.redis.hget(self._keys.slot(slot), "place") == "held"

    def labels_of(self, team: str) -> list[str]:
        """Return the labels for which a team waited before the last script, in their order."""
        return self._direct.labels.get(team, []) if self._direct else []

    def recalled(self, slots: Iterable[str]) -> dict[str, int]:
        """Return until when the leases of some slots may be renewed that are recalled."""
        if not self._direct:
            return {}
        found = {slot: self._direct.redis.hget(self._keys.slot(slot), "recall_ms") for slot in slots}
        return {slot: int(at) for slot, at in found.items() if at}

    def coming(self, patterns: Iterable[str]) -> dict[str, list[str]]:
        """Return the slots that count as recalled, by pattern."""
        redis = self._direct.redis if self._direct else None
        return {pattern: redis.zrange(self._keys.recalled(pattern), 0, -1) if redis else [] for pattern in patterns}

    def adopt_order(self, model: Any) -> None:
        """Take over the order of free slots, after a script that has put some back."""
        if not self._direct:
            return
        redis, slot_of = self._direct.redis, {record.item: slot for slot, record in model.slots.items()}
        for pool, listed in model.free.items():
            found = [slot_of.get(item, item) for item in redis.lrange(self._keys.available(pool), 0, -1)]
            if sorted(found) == sorted(listed):
                listed[:] = found
            for slot in listed:
                if redis.zscore(self._keys.order(pool), slot) == 0:
                    model.slots[slot].since = 0
