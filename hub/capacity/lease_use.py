"""The use of leases: what holders tell of it, and when their leases end by the rules of their pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from hub.capacity.models import reason_of
from hub.capacity.refusals import not_holder, not_reported
from hub.errors import LeaseOver, UnknownReply
from hub.settings import Settings
from hub.store.keys import key_part
from hub.store.lenient import read_each
from hub.store.store import Store

Why = Literal["max-hold", "idle", "recall"]
_FIELDS = (
    *("granted_ms", "watch_idle", "hold_ms", "active_ms", "paused_ms", "spared_ms", "warned_ms", "recall_ms"),
    *("ending", "idle_ms", "place"),
)


class Used(NamedTuple):
    """What the hub knows of a lease after its holder told of its use. `ends_ms`: in how many ms it ends by a rule, None
    for never; `idle_ms` 0: no idle rule."""

    token: str
    left_ms: int
    idle_ms: int
    ends_ms: int | None
    why: Why | None
    paused_ms: int


class Limits(NamedTuple):
    """When a lease ends by the rules of its pool, or as it is recalled, unlike its deadline: `ends_ms` from now, and
    why; None for never.

    `told`: the end that its holder was told, on the hub clock, '' for none; why, and in how many ms it comes.
    `idle_ms` 0: no idle rule.
    `counts_as_busy`: it has an idle rule, and its holder has never told of use.
    """

    ends_ms: int | None = None
    why: Why = "max-hold"
    told: str = ""
    told_why: str = ""
    told_left_ms: int = 0
    idle_ms: int = 0
    counts_as_busy: bool = False
    hold_ms: int | None = None
    paused_ms: int = 0

    @classmethod
    def read(cls, record: Mapping[str, str | None], clock_ms: int) -> Limits:
        """Return the limits of the lease in the record of a slot, by the same rules as `lua/lease_limits.lua`."""
        number = {name: int(float(text)) for name in _FIELDS[:8] if (text := record.get(name))}
        own_ms = record.get("idle_ms")
        idle_ms = 0 if own_ms and float(own_ms) == 0 else number.get("watch_idle", 0)
        ends: list[tuple[int, Why]] = []
        if "hold_ms" in number and "granted_ms" in number:
            ends.append((number["granted_ms"] + number["hold_ms"], "max-hold"))
        if idle_ms and "active_ms" in number:
            ends.append((max(number["active_ms"] + idle_ms, number.get("paused_ms", 0)), "idle"))
        busy = bool(idle_ms) and "active_ms" not in number
        at_ms, why = min(ends, default=(0, "idle"), key=lambda end: end[0])
        at_ms = max(at_ms, number.get("spared_ms", 0))
        if "recall_ms" in number and not (ends and at_ms < number["recall_ms"]):
            at_ms, why = number["recall_ms"], "recall"
            ends.append((at_ms, why))
        return cls(
            max(0, at_ms - clock_ms) if ends else None, why, record.get("warned_ms") or "", record.get("ending") or "",
            max(0, number.get("warned_ms", 0) - clock_ms), idle_ms, busy, number.get("hold_ms"),
            max(0, number.get("paused_ms", 0) - clock_ms),
        )  # fmt: skip


class LeaseUse:
    """The use of the leases of a store. A call is safe to repeat."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._max_ms = int(settings.max_session_ttl_s * 1000)
        self._use = store.script("capacity/use")

    async def tell(self, slot: str, token: str, pause_ms: int | None = None, by: str = "") -> Used:
        """Note that a slot is in use now, or with `pause_ms` that it counts as used for so long (0 ends that), at most
        up to the longest hold. The lease is not extended. `by` says who calls, as `lua/holders.lua` does.

        Raises `LeaseOver` when the lease with this token has ended, `NotHolder`, and `Settling`.
        """
        pause = "" if pause_ms is None else pause_ms
        reply = await self._use(slot=slot, token=token, pause_ms=pause, max_ms=self._max_ms, by=by)
        match reply:
            case ["ok", held, left_ms, idle_ms, ends_ms, why, paused_ms]:
                return Used(held, left_ms, idle_ms, ends_ms if ends_ms >= 0 else None, why or None, paused_ms)
            case ["settling"]:
                raise not_reported(slot)
            case ["not-holder", holder, since, _]:
                raise not_holder(f"The lease of {slot}", holder, since)
            case ["over"]:
                why = reason_of(await self._store.read("GET", self._store.keys.end_reason(slot)), token)
                raise LeaseOver(f"The lease of {slot} is over{why and ': '}{why}")
        raise UnknownReply(self._use.name, reply)

    async def limits(self, slots: Sequence[str]) -> list[Limits]:
        """Return the limits of the lease of each slot; those of a slot that is not lent are empty."""
        keys = self._store.keys
        clock_ms = int(await self._store.read("HGET", keys.store, "clock_ms") or 0) if slots else 0
        asked = [("HMGET", keys.slot(key_part(slot)), *_FIELDS) for slot in slots]
        rows = await read_each(self._store, asked, (None,) * len(_FIELDS))
        records = (dict(zip(_FIELDS, row, strict=True)) for row in rows)
        return [Limits.read(each, clock_ms) if each["place"] == "lent" else Limits() for each in records]
