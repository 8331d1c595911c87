"""A borrowed slot as its holder sees it, and the steps that keep it."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Mapping
from typing import Any

from hub.client.exchange import HubAnswer, Pause, RetryPolicy, Send, Steps, exchange, readable
from hub.errors import HubError, LeaseLost, LeaseOver
from hub.retries import now_s, pause_s

# How long before the hub may lend the slot again its holder is stopped: time for the block to notice.
MARGIN_MAX_S = 1.0
MARGIN_SHARE = 0.05
# The keeper looks at the clock at least this often, so that a machine which was suspended notices what it missed.
LOOK_S = 1.0
# What an item says that a slot says by itself.
_SAID = frozenset(("nodeId", "browserId", "slotId", "labelKey", "label", "webSocketEndpoint", "browserType"))


class Slot:
    """A slot, lent to you until its lease ends; all times are in seconds on this machine's own clock.

    `id` names the slot and `address` is where it is reached (may be empty); `label` is what was asked for and `pool`
    the label of the pool that served it; `token` is the fencing token to show to the resource; `node_id`, `run` (the
    run id the hub filed the lease under), `kind` (of slot, as its node says) and `attributes` (what else the node
    published of it) are facts. `endpoint` is the same as `address`, `matched_label` as `pool`, and `item` is
    everything that the node published, in the names of the wire: they are how these were called before;
    `realm` names the realm that lends it, where that is not the one in which the borrow waited, else it is None;
    `ttl_s` is the length of the lease as it was granted, of a borrow that had to be repeated at first what was left.
    `lost` is a `threading.Event`, set once the slot is no longer yours; `returned` tells that you gave it back.
    """

    def __init__(self, answer: HubAnswer, asked_s: float | None = None) -> None:
        data: Mapping[str, Any] = answer.data
        with readable():
            self.id: str = data["browserId"]
            self.token: str = data["leaseToken"]
            self.ttl_s = float(data["ttlSeconds"])
            self.label: str = data["labelKey"]
            self.address: str = data.get("webSocketEndpoint") or ""
            self.kind: str | None = data.get("browserType")
            self.pool: str = data.get("matchedLabel") or self.label
            self.node_id: str | None = data.get("nodeId")
            self.run: str | None = answer.headers.get("correlation-id")
            self.run_name: str | None = data.get("runName")
            self.realm: str | None = data.get("realm")
            self.item: dict[str, Any] = dict(data.get("item") or {})
        self._pid = os.getpid()
        self.lost = threading.Event()
        self.returned = False
        self.revoked = False  # the hub said so: it keeps the slot until its holder has said that it has stopped
        self.owed = False  # it is given back, and the hub could not be told that
        self.unsure = False  # a renewal without an answer may have been carried out
        self._why = ""
        # What renewals ask for; None is the hub's default. `ttl_s` does not tell: the answer to a repeated borrow names
        # what is left. A hub that grants more than it is asked for has a shortest lease.
        self.asks_s = None if asked_s is None else max(asked_s, self.ttl_s)
        self._deadline_s = answer.since_s + self.ttl_s
        self.ends_by_s = now_s() + self.ttl_s  # when the hub has ended the lease by itself, at the latest
        # An answer that took more than half the lease to reach us: renew before anything else.
        self._due_s = 0.0 if self.seconds_left() < self.ttl_s / 2 else _next_renewal_s(self.ttl_s, self.ttl_s)

    def __repr__(self) -> str:
        state = f"lost: {self._why}" if self.lost.is_set() else f"{self.seconds_left():.1f} s left"
        return f"<Slot {self.id} of {self.matched_label}, {state}>"

    @property
    def attributes(self) -> dict[str, Any]:
        """Return the other members that the node published of the slot."""
        return {name: value for name, value in self.item.items() if name not in _SAID and value not in (None, {})}

    @property
    def endpoint(self) -> str:
        """Return `address`."""
        return self.address

    @property
    def matched_label(self) -> str:
        """Return `pool`."""
        return self.pool

    def seconds_left(self) -> float:
        """Return the seconds until this slot has to be considered lost unless it is renewed; 0 after that moment.

        A safety margin (5 % of the lease, at most 1 s) before the hub may lend it again is already taken off.
        """
        if self.lost.is_set():
            return 0.0
        margin_s = min(MARGIN_MAX_S, MARGIN_SHARE * self.ttl_s)
        return max(0.0, self._deadline_s - margin_s - now_s())

    def check(self) -> None:
        """Return when the slot is still yours; raise `LeaseLost` when it is not. Costs no request."""
        if self.seconds_left() <= 0:
            raise self.loss("not renewed in time")

    def loss(self, why: str) -> LeaseLost:
        """Mark the slot as lost (the first reason given stays) and return the error to raise."""
        if not self.lost.is_set():
            self._why = why
            self.lost.set()
        return LeaseLost(f"slot {self.id} of {self.matched_label} is lost: {self._why}", slotId=self.id)

    @property
    def is_ours(self) -> bool:
        """Return whether this process borrowed it, and so may end its lease: a forked child holds only a copy."""
        return self._pid == os.getpid()

    def given_back(self) -> None:
        """Mark the slot as returned: from the moment that is sent, it is not ours any more."""
        self.returned = True
        self.loss("it was given back")

    def renewed(self, ttl_s: float, since_s: float) -> None:
        """Take over what the hub answered: the lease lasts `ttl_s` seconds from `since_s`."""
        self._deadline_s = since_s + ttl_s
        self.ends_by_s, self.unsure = now_s() + ttl_s, False
        self._due_s = _next_renewal_s(ttl_s, self.ttl_s)

    def maybe_shortened(self, ttl_s: float, since_s: float) -> None:
        """Believe the earlier of both ends: a renewal without an answer may have been carried out."""
        self._deadline_s = min(self._deadline_s, since_s + ttl_s)
        self.ends_by_s, self.unsure = max(self.ends_by_s, now_s() + ttl_s), True
        self._due_s = 0.0

    def renewal_in_s(self) -> float:
        """Return the seconds until the next renewal is due; negative when it is overdue."""
        return self._due_s - now_s()


def _next_renewal_s(granted_s: float, usual_s: float) -> float:
    # After a third of what was granted; a thirtieth of the usual length keeps the end of the longest session from
    # becoming a storm.
    return now_s() + max(granted_s / 3, usual_s / 30) * random.uniform(0.85, 1.0)


def whole(seconds: float) -> float | int:
    """Return seconds as an integer where nothing is lost by it."""
    return int(seconds) if float(seconds).is_integer() else seconds


def renew(slot: Slot, ttl_s: float | None, policy: RetryPolicy) -> Steps[None]:
    """Let the lease last `ttl_s` seconds from now (None: its length so far); raises `LeaseLost` when it is over."""
    asked_s = slot.asks_s if ttl_s is None else ttl_s
    body: dict[str, Any] = {"browserId": slot.id, "leaseToken": slot.token}
    if asked_s is not None:
        body["ttlSeconds"] = whole(asked_s)
    sent_s = now_s()
    try:
        answer = yield from exchange(Send("POST", "/session/renew", body), policy)
        with readable():
            granted_s = float(answer.data["ttlSeconds"])
    except LeaseOver as over:
        slot.revoked = True
        raise slot.loss(over.detail or "the hub ended the lease") from over
    except HubError:
        slot.maybe_shortened(slot.ttl_s if asked_s is None else asked_s, sent_s)
        raise
    if ttl_s is not None:
        slot.asks_s = slot.ttl_s = granted_s
    # Near the longest session the hub grants less and less; the usual length stays what it was.
    slot.ttl_s = max(slot.ttl_s, granted_s)
    slot.renewed(granted_s, answer.since_s)


def keep(slot: Slot) -> Steps[LeaseLost | None]:
    """Renew the slot for as long as it can be renewed; return the loss, or None when it was given back."""
    failures, again_s, trouble = 0, 0.0, ""
    while (left_s := slot.seconds_left()) > 0:
        wait_s = max(slot.renewal_in_s(), again_s - now_s())
        if wait_s > 0:
            yield Pause(min(wait_s, left_s, LOOK_S))
            continue
        try:
            attempt_s = min(left_s, max(slot.ttl_s / 6, 0.2), 15.0)
            yield from renew(slot, None, RetryPolicy(trouble_s=0.0, attempt_s=attempt_s))
        except LeaseLost as lost:
            return None if slot.returned else lost
        except HubError as error:
            again_s = now_s() + pause_s(failures, longest_s=slot.ttl_s / 10)
            failures, trouble = failures + 1, f" ({error})"
        else:
            failures, trouble = 0, ""
    return None if slot.returned else slot.loss(f"not renewed in time{trouble}")
