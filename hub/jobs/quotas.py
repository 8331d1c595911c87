"""What a refusal of `lua/quotas.lua` says to people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hub.errors import QuotaExceeded

EACH_BYTES: Final = 512  # that a task counts beside its payload, as `lua/quotas.lua` has it
# Of each kind: what is counted, what makes room, and the setting of its limit.
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
    """Return the problem for a refusal: its kind, who holds how much, and the limit."""
    kind, owner, held, most = refusal
    counted, way_out, setting = _KINDS[kind]
    whose, _, name = owner.partition(":")
    who = f"Room {name}" if whose == "room" else "You"
    hold = "holds" if whose == "room" else "hold"
    return QuotaExceeded(
        f"{who} {hold} {int(held):,} of {int(most):,} {counted}, and this would be too many: {way_out} ({setting})"
    )
