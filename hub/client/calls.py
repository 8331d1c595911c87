"""The calls of a borrower as steps (see `exchange`), except the borrow itself, which is in `waiting`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any, TypedDict
from urllib.parse import quote

from hub.client.backlog import ONCE, Backlog, Message, clock
from hub.client.bundle import Held, name_of
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


def give_back(held: Held, policy: RetryPolicy) -> Steps[bool]:
    """Give the slot back, or all of a bundle; return whether a lease of it had not ended before. Safe to repeat.

    Raises `LeaseLost` in a forked child of the process that borrowed it: the lease is the parent's.
    """
    if not held.is_ours:
        raise LeaseLost(f"{name_of(held)} is held by the process that borrowed it, which this one is forked from")
    held.given_back()
    if isinstance(held, Slot):
        body = {"labelKey": held.matched_label, "browserId": held.id, "leaseToken": held.token}
        send = Send("POST", "/session/return", body)
    else:
        send = returning(held.id)
    answer = yield from exchange(send, policy)
    return "note" not in answer.data


def returning(bundle: str) -> Send:
    """Return the request that gives all slots of a bundle back."""
    return Send("POST", path("bundles", bundle, "return"))


def hand_back(held: Held, policy: RetryPolicy, backlog: Backlog) -> Steps[bool]:
    """Give back as `give_back` does. Raises every failure; after a passing one, go on in the background."""
    try:
        return (yield from give_back(held, policy))
    except GeneratorExit:  # no step can be played any more
        raise
    except BaseException as error:
        if not isinstance(error, HubError) or passing(error):
            owe(held, backlog, error)
        raise


def leave(held: Held, backlog: Backlog) -> Steps[None]:
    """Give back at the end of a block. A forked child does nothing: what it inherited is its parent's.

    When that takes more than a few seconds, or is interrupted, it goes on in the background. A refusal is logged, not
    raised.
    """
    if not held.is_ours:
        return
    try:
        yield from hand_back(held, RETURN_POLICY, backlog)
    except HubError as error:
        if not passing(error):
            held.owed = True
            log.warning("could not return %s (%s); %s", name_of(held), error, _stays_lent(held))


def owe(held: Held, backlog: Backlog, error: BaseException) -> None:
    """Give back in the background, after an attempt that ended with `error`, until the lease has ended."""

    def on_end(delivered: bool) -> None:
        held.owed = not delivered

    held.owed = True
    action, steps = f"return {name_of(held)}", partial(give_back, held, ONCE)
    backlog.add(Message(action, steps, held.ends_by_s, _stays_lent(held), on_end), error)


def _stays_lent(held: Held) -> str:
    return f"it stays lent until {clock(held.ends_by_s)}"


def read(
    policy: RetryPolicy, *parts: str, headers: Mapping[str, str] | None = None, **query: object
) -> Steps[dict[str, Any]]:
    """Return the JSON object at the path of these parts; members of the query that are None are left out."""
    asked = {name: str(value) for name, value in query.items() if value is not None}
    answer = yield from exchange(Send("GET", path(*parts), query=asked, headers=headers or {}), policy)
    data: dict[str, Any] = answer.data
    return data
