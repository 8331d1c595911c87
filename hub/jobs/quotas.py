"""Quotas: how much each user and room holds, and the error for a refusal by `lua/quotas.lua`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from hub.errors import QuotaExceeded
from hub.settings import Settings
from hub.store.lenient import read_each
from hub.store.store import Store

ROOM_TIMES: Final = 4  # a room may hold this many times the limit of a user; the same number is in `lua/quotas.lua`
EACH_BYTES: Final = 512  # bytes that a task counts besides its payload; the same number is in `lua/quotas.lua`
# Kind of holding -> what is counted, how to get room again, and the setting of its limit.
_KINDS: Final = {
    "tasks": ("bytes of open tasks and schedules", "work tasks off, or cancel some", "HUB_USER_TASKS_MAX_BYTES"),
    "schemas": (
        "bytes of schemas", "providers count until they are deleted, jobs until they are forgotten",
        "HUB_USER_SCHEMAS_MAX_BYTES",
    ),
    "schedules": ("schedules", "remove some", "HUB_USER_SCHEDULES_MAX"),
    "providers": ("providers", "delete some", "HUB_USER_PROVIDERS_MAX"),
    "rooms": ("rooms", "one counts until it holds no job, provider, schedule and open task", "HUB_USER_ROOMS_MAX"),
    "keys": ("Idempotency-Keys of submits", "each counts for a day", "HUB_USER_KEYS_MAX"),
    "reads": ("questions to providers", "each counts for an hour", "HUB_USER_READS_MAX"),
}  # fmt: skip


def exceeded(refusal: Sequence[str]) -> QuotaExceeded:
    """Return the error for a refusal of `lua/quotas.lua`: (kind, owner, how much the owner holds, limit)."""
    kind, owner, held, most = refusal
    counted, way_out, setting = _KINDS[kind]
    whose, _, name = owner.partition(":")
    who = f"Room {name}" if whose == "room" else "You"
    hold = "holds" if whose == "room" else "hold"
    return QuotaExceeded(
        f"{who} {hold} {int(held):,} of {int(most):,} {counted}, and this would be too many: {way_out} ({setting})"
    )


class Holding(NamedTuple):
    """The amount of one kind that a user or a room holds. owner: `user` or `room`; id: that of the user or the room."""

    kind: str
    owner: str
    id: str
    held: int
    limit: int


class Quotas:
    """The holdings of users and rooms of a store."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._limits = {
            "tasks": settings.user_tasks_max_bytes, "schemas": settings.user_schemas_max_bytes,
            "schedules": settings.user_schedules_max, "providers": settings.user_providers_max,
            "rooms": settings.user_rooms_max,
        }  # fmt: skip

    async def holders(self, most: int) -> list[Holding]:
        """Return the `most` largest holdings of tasks, of schemas, and so on for each kind, the largest first."""
        asked = (("ZRANGE", self._store.keys.used(kind), 0, most - 1, "REV", "WITHSCORES") for kind in self._limits)
        found = await read_each(self._store, asked, [])
        return [
            self._holding(kind, owner, int(held))
            for kind, rows in zip(self._limits, found, strict=True)
            for owner, held in rows
        ]

    def _holding(self, kind: str, owner: str, held: int) -> Holding:
        whose, _, name = owner.partition(":")
        return Holding(kind, whose, name, held, self._limits[kind] * (ROOM_TIMES if whose == "room" else 1))
