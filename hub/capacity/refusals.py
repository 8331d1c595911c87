"""Errors for the answers to a borrow that bring neither a slot nor a place in the queue."""

from __future__ import annotations

from typing import Any

from hub.capacity.models import BorrowRequest, LeaseHolder, Waiting
from hub.capacity.wishes import BundleWish, slots
from hub.errors import (
    Capped,
    DeadlineMissed,
    HubError,
    KeyReused,
    LabelQueueFull,
    LeaseOver,
    NoSuchPool,
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
    none_free = wanted.in_vain
    match reply:
        case ["capped", live, by]:
            under = "" if by in wanted.labels else f" by {by} and pools below it"
            return Capped(f"{none_free}: {live} of {live} allowed are lent{under}")
        case ["per-label-cap", waiting]:
            return LabelQueueFull(
                f"{none_free}: {waiting} {'bundles wait' if wanted.bundle else 'wait for it'} already"
            )
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


def unpublished(wanted: BorrowRequest, number: int, there: int) -> NoSuchPool:
    """Return the refusal of a bundle that wants more slots of a part (`number`, from 1) than are published; 0: no node
    has all of it, of so many nodes that have such slots."""
    wish = BundleWish.read(wanted.bundle)
    if not wish or not number:
        some = f"; {there} node{' has' if there == 1 else 's have'} some of it" if there else ""
        return NoSuchPool(f"No node has {wanted.what.removesuffix(' on one node')}{some}")
    part = wish.parts[number - 1]
    alike = sum(each.number for each in wish.parts if (each.label, each.want) == (part.label, part.want))
    said = f"{slots(there)} of {part.each} {'is' if there == 1 else 'are'} published, "
    if alike > part.number:
        said += f"and the bundle wants {alike} of them in all"
    else:
        said += f"{alike} {'is' if alike == 1 else 'are'} wanted"
    said += ", and other parts want some of them" if there >= alike else ""
    return NoSuchPool(said, part=number - 1, published=there)
