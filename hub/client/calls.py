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
# Asks for answers in neutral names: `slotId` and not `browserId`.
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

    def on_end(delivered: bool) -> None:
        slot.owed = not delivered

    slot.owed = True
    action, steps = f"return slot {slot.id}", partial(give_back, slot, ONCE)
    backlog.add(Message(action, steps, slot.ends_by_s, _stays_lent(slot), on_end), error)


def _stays_lent(slot: Slot) -> str:
    return f"it stays lent until {clock(slot.ends_by_s)}"


def read(
    policy: RetryPolicy, *parts: str, headers: Mapping[str, str] | None = None, **query: object
) -> Steps[dict[str, Any]]:
    """Return the JSON object at the path of these parts; members of the query that are None are left out."""
    asked = {name: str(value) for name, value in query.items() if value is not None}
    answer = yield from exchange(Send("GET", path(*parts), query=asked, headers=headers or {}), policy)
    data: dict[str, Any] = answer.data
    return data
