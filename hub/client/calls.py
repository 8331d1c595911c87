"""The calls of a borrower as steps (see `exchange`), except the borrow itself, which is in `waiting`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any, TypedDict
from urllib.parse import quote

from hub.client.backlog import ONCE, Backlog, Message, clock
from hub.client.exchange import RetryPolicy, Send, Steps, exchange, passing
from hub.client.slot import Slot
from hub.errors import HubError, LeaseLost

log = logging.getLogger("hub.client")

# The end of a block should not take long: after this time the slot is given back in the background.
RETURN_POLICY = RetryPolicy(trouble_s=3.0, attempt_s=2.0)


_PLAIN: Mapping[str, str] = {}
NEUTRAL: Mapping[str, str] = {"Accept": "application/vnd.capacity-hub+json"}


class LeaseFilters(TypedDict, total=False):
    """The filters of a list of leases; each is a keyword of `HubClient.leases`."""

    label: str | None
    pool: str | None
    node: str | None
    run: str | None


def path(*parts: str) -> str:
    """Return a request path of these parts, each escaped.

    Dots are escaped in a part that is only dots: clients and proxies take "." for this folder and ".." for its parent.
    """
    return "".join(f"/{quote(part, safe='') if part.strip('.') else '%2E' * len(part)}" for part in parts)


def give_back(slot: Slot, policy: RetryPolicy) -> Steps[bool]:
    """Give the slot back; return whether its lease had not ended before. Safe to repeat.

    Raises `LeaseLost` in a forked child of the process that borrowed the slot: the lease is the parent's.
    """
    if not slot.is_ours:
        raise LeaseLost(f"slot {slot.id} is held by the process that borrowed it, which this one is forked from")
    slot.given_back()
    body = {"labelKey": slot.matched_label, "browserId": slot.id, "leaseToken": slot.token}
    answer = yield from exchange(Send("POST", "/session/return", body), policy)
    return "note" not in answer.data


def hand_back(slot: Slot, policy: RetryPolicy, backlog: Backlog) -> Steps[bool]:
    """Give the slot back as `give_back` does. Raises every failure; after a passing one, go on in the background."""
    try:
        return (yield from give_back(slot, policy))
    except GeneratorExit:  # no step can be played any more
        raise
    except BaseException as error:
        if not isinstance(error, HubError) or passing(error):
            owe(slot, backlog, error)
        raise


def leave(slot: Slot, backlog: Backlog) -> Steps[None]:
    """Give the slot back at the end of a block. A forked child does nothing: the slot is its parent's.

    When that takes more than a few seconds, or is interrupted, it goes on in the background. A refusal is logged, not
    raised.
    """
    if not slot.is_ours:
        return
    try:
        yield from hand_back(slot, RETURN_POLICY, backlog)
    except HubError as error:
        if not passing(error):
            slot.owed = True
            log.warning("could not return slot %s (%s); %s", slot.id, error, _stays_lent(slot))


def owe(slot: Slot, backlog: Backlog, error: BaseException) -> None:
    """Give the slot back in the background, after an attempt that ended with `error`, until its lease has ended."""

    def ended(told: bool) -> None:
        slot.owed = not told

    slot.owed = True
    what, steps = f"return slot {slot.id}", partial(give_back, slot, ONCE)
    backlog.add(Message(what, steps, slot.ends_by_s, _stays_lent(slot), ended), error)


def _stays_lent(slot: Slot) -> str:
    return f"it stays lent until {clock(slot.ends_by_s)}"


def verify(slot_id: str, token: str, policy: RetryPolicy) -> Steps[dict[str, Any]]:
    """Return `{"slotId", "valid", "reason"?, "ttlSeconds"?}`: whether the slot is lent under this fencing token now."""
    return (yield from _read(("leases", slot_id, "verify"), {"token": token}, policy))


def nodes(limit: int, cursor: str, state: str | None, policy: RetryPolicy) -> Steps[dict[str, Any]]:
    """Return a page of the registered nodes."""
    query = {"detail": "1", "limit": str(limit), "cursor": cursor, **({"state": state} if state else {})}
    return (yield from _read(("nodes",), query, policy))


def pools(limit: int, offset: int, policy: RetryPolicy) -> Steps[dict[str, Any]]:
    """Return a page of the pools."""
    return (yield from _read(("pools",), {"limit": str(limit), "offset": str(offset)}, policy))


def sessions(limit: int, offset: int, where: LeaseFilters, policy: RetryPolicy) -> Steps[dict[str, Any]]:
    """Return a page of the leases, in the former names."""
    return (yield from _read(("sessions",), _page(limit, offset, where), policy))


def leases(limit: int, offset: int, where: LeaseFilters, policy: RetryPolicy) -> Steps[dict[str, Any]]:
    """Return a page of the leases, in neutral names."""
    return (yield from _read(("sessions",), _page(limit, offset, where), policy, NEUTRAL))


def lease(slot_id: str, policy: RetryPolicy) -> Steps[dict[str, Any]]:
    """Return the lease of a slot, in neutral names."""
    return (yield from _read(("sessions", slot_id), {}, policy, NEUTRAL))


def one(kind: str, name: str, policy: RetryPolicy) -> Steps[dict[str, Any]]:
    """Return one node, pool or lease by its name; `kind` is `nodes`, `pools` or `sessions`."""
    return (yield from _read((kind, name), {}, policy))


def _page(limit: int, offset: int, where: LeaseFilters) -> dict[str, str]:
    filters = {name: str(value) for name, value in where.items() if value is not None}
    return {"limit": str(limit), "offset": str(offset), **filters}


def _read(
    parts: tuple[str, ...], query: Mapping[str, str], policy: RetryPolicy, headers: Mapping[str, str] = _PLAIN
) -> Steps[dict[str, Any]]:
    answer = yield from exchange(Send("GET", path(*parts), query=query, headers=headers), policy)
    data: dict[str, Any] = answer.data
    return data
