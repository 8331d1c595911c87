"""A borrowed slot as its holder sees it, and the steps that renew its lease."""

from __future__ import annotations

import inspect
import logging
import os
import random
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from hub.client import forks
from hub.client.exchange import HubAnswer, Pause, RetryPolicy, Send, Steps, exchange, readable
from hub.client.using import OnEnding, SlotUse
from hub.errors import HubError, LeaseLost, LeaseOver
from hub.retries import now_s, pause_s

log = logging.getLogger("hub.client")

# A slot counts as lost some time before the hub may lend it again, so that its holder can stop: this share of the
# lease, and at most this many seconds.
MARGIN_MAX_S = 1.0
MARGIN_SHARE = 0.05
NOT_RENEWED = "not renewed in time"
_HELD_LONG = "it was held for as long as the rule of its pool allows"
_BY_RULE = {
    "max-hold": _HELD_LONG, "rule-change": _HELD_LONG, "recall": "it was recalled for a team below its guarantee",
}  # fmt: skip
# The steps that renew look at the clock this often, so that after a suspension of the machine a late renewal is seen.
LOOK_S = 1.0
# The members of an item that a `Slot` has as attributes of its own.
_NAMED_HERE = frozenset(("nodeId", "browserId", "slotId", "labelKey", "label", "webSocketEndpoint", "browserType"))


class LentSlot:
    """A slot that is lent, as the hub says it.

    `id` names the slot, `address` is where it is reached (may be empty), `label` is the label that was asked for, and
    `pool` the label of the pool that served it. `token` is the fencing token to show to the resource. `node_id` is the
    node, `kind` the kind of slot as its node says, and `attributes` are the other facts that the node published.
    `endpoint` and `matched_label` are older names of `address` and `pool`; `item` has all that the node published, in
    the names of the wire. `holder` is who holds the lease, as the hub tells others: `user` and `team` of the token,
    `name` and `client`. `bundle` names the bundle that the lease is of, None for a lease alone.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.id: str = data["browserId"]
        self.token: str = data["leaseToken"]
        self.label: str = data["labelKey"]
        self.address: str = data.get("webSocketEndpoint") or ""
        self.kind: str | None = data.get("browserType")
        self.pool: str = data.get("matchedLabel") or self.label
        self.node_id: str | None = data.get("nodeId")
        self.holder: dict[str, str | None] = dict(data.get("holder") or {})
        self.bundle: str | None = data.get("bundle")
        self.item: dict[str, Any] = dict(data.get("item") or {})

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} of {self.pool}>"

    @property
    def attributes(self) -> dict[str, Any]:
        """Return what the node published of the slot and no other attribute of this class has."""
        facts = {
            name: value for name, value in self.item.items() if name not in _NAMED_HERE and value not in (None, {})
        }
        if isinstance(facts.get("attributes"), dict):  # of a slot that was published in the names of browsers
            facts = {**facts.pop("attributes"), **facts}
        return facts

    @property
    def endpoint(self) -> str:
        """Return `address`; this is its older name."""
        return self.address

    @property
    def matched_label(self) -> str:
        """Return `pool`; this is its older name."""
        return self.pool


class Slot(LentSlot):
    """A slot that is lent to this program until its lease ends. All times are in seconds on this machine's clock.

    It has what a `LentSlot` has. `run` is the id of the run of the lease, and `realm` the realm that lends the slot, or
    None when the borrow waited in the same one. `ttl_s` is the length of the lease as granted, or at first, when the
    borrow had to be repeated, the rest of it. `lost` is a `threading.Event`, set once the slot is no longer held here;
    `returned` is True once it was given back. `unwell` is the reason why its node or an operator holds the slot back at
    present, as far as the hub has said so, or None. `ending` is a `threading.Event`, set while the lease is about to
    end by a rule of its pool; `use.end` says by which.
    """

    def __init__(self, answer: HubAnswer, asked_s: float | None = None) -> None:
        data: Mapping[str, Any] = answer.data
        with readable():
            super().__init__(data)
            self.ttl_s = float(data["ttlSeconds"])
            self.run: str | None = answer.headers.get("correlation-id")
            self.run_name: str | None = data.get("runName")
            self.realm: str | None = data.get("realm")
        self._pid = os.getpid()
        self.lost = threading.Event()
        self.returned = False
        self.revoked = False  # the hub ended the lease, and waits for the holder to give the slot back
        self.owed = False  # its return is not delivered to the hub yet
        self.unsure = False  # a renewal without an answer may have been carried out
        self._granted_less = False  # the last renewal that was answered got less than the usual length
        self._why = ""
        self.unwell: str | None = None
        self._on_unwell: list[Callable[[str | None], object]] = []
        self.use = SlotUse()
        self.ending = self.use.ending
        self.asks_default = False  # renewals ask for a default, which the rule of the pool replaces
        self.begin_anew()
        forks.note(self)
        # The seconds that renewals ask for; None is the hub's default. `ttl_s` does not do: the answer to a repeated
        # borrow has the rest of the lease. A hub with a shortest lease grants more than was asked for.
        self.asks_s = None if asked_s is None else max(asked_s, self.ttl_s)
        self._deadline_s = answer.since_s + self.ttl_s
        self.ends_by_s = now_s() + self.ttl_s  # the hub ends the lease by itself at this time or before
        # When the answer took more than half of the lease to arrive, the renewal is due at once.
        self._due_s = 0.0 if self.seconds_left() < self.ttl_s / 2 else _next_renewal_s(self.ttl_s, self.ttl_s)

    def begin_anew(self) -> None:
        """Make a lock of its own; it lets a callback that is added meanwhile hear each reason once."""
        self._news = threading.RLock()
        self.use.begin_anew()

    def __repr__(self) -> str:
        state = f"lost: {self._why}" if self.lost.is_set() else f"{self.seconds_left():.1f} s left"
        return f"<Slot {self.id} of {self.matched_label}, {state}>"

    def seconds_left(self) -> float:
        """Return the seconds until this slot counts as lost unless its lease is renewed; 0 after that moment.

        The slot counts as lost 5 % of the lease, at most 1 s, before the hub may lend it again.
        """
        if self.lost.is_set():
            return 0.0
        margin_s = min(MARGIN_MAX_S, MARGIN_SHARE * self.ttl_s)
        return max(0.0, self._deadline_s - margin_s - now_s())

    def check(self) -> None:
        """Raise `LeaseLost` when the slot is no longer held here; else return. Sends no request."""
        if self.seconds_left() <= 0:
            raise self.loss(NOT_RENEWED)

    def loss(self, why: str) -> LeaseLost:
        """Mark the slot as lost, unless it is already, and return the error to raise, with the first reason given."""
        if not self.lost.is_set():
            # A renewal without an answer is not the reason where the hub had granted all that the rule left.
            by_rule = why == NOT_RENEWED or (why.startswith(NOT_RENEWED) and self._granted_less)
            end = self.use.end if by_rule else None
            self._why = _BY_RULE.get(end.reason, why) if end else why
            self.lost.set()
        return LeaseLost(f"slot {self.id} of {self.matched_label} is lost: {self._why}", slotId=self.id)

    def on_unwell(self, callback: Callable[[str | None], object]) -> None:
        """Call `callback(reason)` when the hub says that the slot is unwell, `callback(None)` when it is well again.

        A slot that is unwell already is told at once. The lease goes on; giving the slot back is up to the program.
        Heard inside `borrow` only. The callback runs on the event loop, or in a thread of the client, and must return
        soon; it is called again for another reason.
        """
        if inspect.iscoroutinefunction(callback):
            raise TypeError("on_unwell takes a plain function; asyncio.Event().set or create_task leads on from there")
        with self._news:
            self._on_unwell.append(callback)
            if self.unwell is not None:
                self._tell(callback)

    def heard_unwell(self, reason: str | None) -> None:
        """Note the reason why the slot is unwell, or None: it is well; call the callbacks if that is news."""
        with self._news:
            if reason != self.unwell:
                self.unwell = reason
                for callback in list(self._on_unwell):
                    self._tell(callback)

    def _tell(self, callback: Callable[[str | None], object]) -> None:
        try:
            callback(self.unwell)
        except Exception as error:  # the watch of the leases must go on
            log.error("slot %s: on_unwell raised", self.id, exc_info=error)

    def active(self) -> None:
        """Note that the slot is in use. Call it as often as you like: inside `borrow` the hub hears of it in the
        background, in good time for the idle rule of the pool. Beside `acquire`, use the client's `active`."""
        self.use.note()

    def pause(self, seconds: float) -> None:
        """Let the slot count as used for `seconds`, for a human at the keyboard; 0 ends that. The hub hears of it
        within a second, and bounds it by the longest hold. Inside `borrow` only; else use the client's `pause`."""
        self.use.note(max(0.0, seconds))

    def on_ending(self, callback: OnEnding) -> None:
        """Call `callback(ending)` before the lease ends by a rule of its pool, as early as the rule says; with None
        when it does not end so soon any more. Heard inside `borrow` only. It runs where `on_unwell` does."""
        self.use.on_ending(self.id, callback)

    @property
    def is_ours(self) -> bool:
        """Return whether this process borrowed the slot and so may end its lease; a forked child may not."""
        return self._pid == os.getpid()

    def given_back(self) -> None:
        """Mark the slot as returned and lost, before the call that gives it back is sent."""
        self.returned = True
        self.loss("it was given back")

    def renewed(self, ttl_s: float, since_s: float) -> None:
        """Record a renewal that the hub answered: the lease lasts `ttl_s` seconds from `since_s`."""
        self._deadline_s = since_s + ttl_s
        self.ends_by_s, self.unsure, self._granted_less = now_s() + ttl_s, False, ttl_s < self.ttl_s
        self._due_s = _next_renewal_s(ttl_s, self.ttl_s)

    def maybe_shortened(self, ttl_s: float, since_s: float) -> None:
        """Record a renewal without an answer, which may have had effect: the earlier of both ends counts."""
        self._deadline_s = min(self._deadline_s, since_s + ttl_s)
        self.ends_by_s, self.unsure = max(self.ends_by_s, now_s() + ttl_s), True
        self._due_s = 0.0

    def renewal_in_s(self) -> float:
        """Return the seconds until the next renewal is due; negative when it is overdue."""
        return self._due_s - now_s()


def _next_renewal_s(granted_s: float, usual_s: float) -> float:
    # After a third of the granted time, but at least a thirtieth of the usual length: near the longest session the hub
    # grants less and less, and renewals would come ever faster.
    return now_s() + max(granted_s / 3, usual_s / 30) * random.uniform(0.85, 1.0)


def whole(seconds: float) -> float | int:
    """Return seconds as an integer if they are a whole number, else unchanged."""
    return int(seconds) if float(seconds).is_integer() else seconds


def renew(slot: Slot, ttl_s: float | None, policy: RetryPolicy) -> Steps[None]:
    """Make the lease last `ttl_s` seconds from now (None: as asked before); raises `LeaseLost` when it has ended."""
    asked_s = slot.asks_s if ttl_s is None else ttl_s
    body: dict[str, Any] = {"browserId": slot.id, "leaseToken": slot.token}
    if asked_s is not None:
        body["ttlSeconds"] = whole(asked_s)
    if ttl_s is None and slot.asks_default:
        body["ttlIsDefault"] = True
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
        slot.asks_s, slot.asks_default, slot.ttl_s = granted_s, False, granted_s
    # Near the longest session the hub grants less and less; the usual length stays what it was.
    slot.ttl_s = max(slot.ttl_s, granted_s)
    slot.renewed(granted_s, answer.since_s)


def tell_use(slot: Slot, pause_s: float, policy: RetryPolicy) -> Steps[None]:
    """Tell the hub that the slot is in use, or with `pause_s` 0 or more that it counts as used for so long. Raises
    `LeaseLost` when the lease has ended."""
    slot.use.telling()
    body: dict[str, Any] = {"leaseToken": slot.token}
    if pause_s >= 0:
        body["seconds"] = whole(pause_s)
    call = f"/leases/{quote(slot.id, safe='')}/{'pause' if pause_s >= 0 else 'activity'}"
    try:
        answer = yield from exchange(Send("POST", call, body), policy)
        with readable():
            idle_s = answer.data["idleSeconds"]
            slot.use.told(None if idle_s is None else float(idle_s))
    except LeaseOver as over:
        slot.revoked = True
        raise slot.loss(over.detail or "the hub ended the lease") from over


def keep(slot: Slot) -> Steps[LeaseLost | None]:
    """Renew the lease until that fails for good, and return the `LeaseLost`; None once the slot was given back.

    Also tell the hub what was noted of the use of the slot; that is dropped while no hub answers.
    """
    failures, again_s, trouble = 0, 0.0, ""
    while (left_s := slot.seconds_left()) > 0:
        wait_s = max(slot.renewal_in_s(), again_s - now_s())
        if (told_s := slot.use.to_tell()) is not None:
            with suppress(HubError):  # a lost lease ends the loop
                yield from tell_use(slot, told_s, RetryPolicy(trouble_s=0.0, attempt_s=min(left_s, 5.0)))
            continue
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
    return None if slot.returned else slot.loss(f"{NOT_RENEWED}{trouble}")
