"""Errors for the answers to a borrow that bring neither a slot nor a place in the queue."""

from __future__ import annotations

from typing import Any

from hub.capacity.models import BorrowRequest, LeaseHolder, Waiting
from hub.errors import (
    Capped,
    DeadlineMissed,
    HubError,
    KeyReused,
    LabelQueueFull,
    LeaseOver,
    NotHolder,
    RunQueueFull,
    Settling,
    TooManyExpressions,
    Withdrawn,
)


def not_reported(slot: str) -> Settling:
    """Return the refusal for a slot of which, after a loss of the store, it is not known yet whether it is lent."""
    return Settling(
        f"The store was lost, and hubs or the node of {slot} have yet to say what is lent; ask again", retry_after_s=1
    )


def not_holder(what: str, holder: str, since: str) -> NotHolder:
    """Return the refusal of a caller for what has another holder, a JSON text, since this time; '' for unknown."""
    found = LeaseHolder.read(holder)
    if found is None:
        return NotHolder(f"{what} has a holder that the hub does not know, and this call does not name its token")
    whose = f"{found.user} ({found.name})" if found.user else f"{found.name}, with a shared secret"
    when = f", since {since[:19]}Z" if since else ""
    facts = {"sinceUtc": since} if since else {}
    return NotHolder(f"{what} belongs to {whose}{when}", None, holder=found.shown(), **facts)


def refusal(wanted: BorrowRequest, reply: list[Any]) -> HubError | None:
    """Return the error that this reply of the store stands for; None for a reply that is not known."""
    none_free = f"No browser available for {wanted.what}"
    match reply:
        case ["capped", live, by]:
            under = "" if by in wanted.labels else f" by {by} and pools below it"
            return Capped(f"{none_free}: {live} of {live} allowed are lent{under}")
        case ["per-label-cap", waiting]:
            return LabelQueueFull(f"{none_free}: {waiting} wait for it already")
        case ["per-run-cap", waiting]:
            return RunQueueFull(f"{none_free}: {waiting} borrows of this run wait already")
        case ["deadline", position, takes_ms]:
            place = Waiting(position, takes_ms)
            why = f"at position {position} the wait is about {takes_ms / 1000:.1f} s, longer than maxWaitSeconds"
            return DeadlineMissed(f"{none_free}: {why}", retry_after_s=max(1, takes_ms / 1000), **place.facts())
        case ["too-many-expressions", most]:
            why = f"{most} different expressions are waited for, as many as there may be"
            return TooManyExpressions(f"{none_free}: {why}; ask without where, or later")
        case ["settling", left_ms]:
            return Settling("The store was lost and is being put together again", retry_after_s=left_ms / 1000)
        case ["over", slot]:
            return LeaseOver(f"The lease of {slot} that this Idempotency-Key made has ended; use a new key")
        case ["reused"]:
            return KeyReused("This Idempotency-Key was used with another request; use a new key")
        case ["undone"]:
            return Withdrawn("This borrow was given up; use a new Idempotency-Key to ask again")
    return None
