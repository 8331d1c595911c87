"""Borrowing as steps: all attempts of one borrow have the same key, and so one place in the queue and one slot.

The hub keeps a place in the queue for a minute without a call that waits, and lends it nothing meanwhile. So the next
attempt follows soon after the end of one, be it by the hub's time limit, a proxy, a cut connection, or the hub's death.
"""

from __future__ import annotations

import logging
import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Generic, TypedDict

import httpx

from hub.client.backlog import KEEP_S, ONCE, Backlog, Message, clock
from hub.client.bundle import B, H, slots_in_words, slots_of
from hub.client.calls import give_back, path, returning
from hub.client.exchange import (
    HubAnswer,
    Outcome,
    Pause,
    RetryPolicy,
    Send,
    Steps,
    Unreachable,
    accepted,
    exchange,
    passing,
    refusal,
)
from hub.client.naming import own_name
from hub.client.slot import Slot, whole
from hub.errors import (
    DeadlineMissed,
    HubError,
    LeaseOver,
    NoCapacity,
    NotFound,
    Settling,
    Stopping,
    TicketGranted,
    WaitedInVain,
    Withdrawn,
)
from hub.retries import FIRST_PAUSE_S, now_s, pause_s

log = logging.getLogger("hub.client")

# Seconds that a hub by default lets a call wait in the queue. Each attempt ends after them, even where the hub allows
# more, so that a hub that died without closing the connection is noticed while the place in the queue is kept.
HUB_WAIT_S = 30.0
LONGEST_WAIT_S = 86_400.0  # the longest wait a hub takes; for a longer one it is told no limit
LONGEST_PAUSE_S = 2.0
DEFAULT_TTL_S = 60.0  # of a lease that is renewed in the background
# After an attempt that reached the hub and lasted this long, the count of failures starts again.
WELL_S = 1.0
# Seconds by which the hub's wait may end before ours.
SLACK_S = 0.05
# Cancelling a borrow should not take long; the hub also notices by itself, but later, that the call has ended.
GIVE_UP_POLICY = RetryPolicy(trouble_s=0.5, attempt_s=2.0)


class BundleOptions(TypedDict, total=False):
    """The options of every borrow; each is a keyword of `HubClient.borrow_all`, `borrow` and `acquire`."""

    ttl: float | None
    """Seconds of the lease; None, the default: 60 in a block that renews it, else as many as the hub chooses, unless a
    rule of the pool says otherwise."""
    run: str | None
    """The id of the run that the lease belongs to; None, the default: the hub makes one."""
    run_name: str | None
    """A name of that run, for people."""
    name: str | None
    """How the hub names the holder of the lease to others; None, the default: `user@host:program`."""
    wait: float | None
    """Seconds to wait in the queue while no slot is free; None: for ever; 0, the default: not at all."""
    priority: int
    """From -100 to 100; a point counts as a second in the queue."""
    wait_for_pool: bool
    """False: refuse at once a label that no pool serves, or more slots than are published, instead of waiting."""
    ticket: str | None
    """The id of the place in the queue, for `GET /queue/{ticket}`, new for each borrow; made here unless given."""


class BorrowOptions(BundleOptions, total=False):
    """The options of a borrow of one slot; each is a keyword of `HubClient.borrow` and `HubClient.acquire`."""

    realms: Sequence[str]
    """Up to 8 realms that may serve the borrow. It waits in the first, unless the URL of the client names another."""
    where: str
    """What the attributes of the slot must satisfy, such as `vram >= 40 && "nvlink" in features`."""
    prefer: Sequence[str]
    """Up to 8 keys, such as the name of a repository: of the free slots that suit, one in which the first of them is
    warm is lent, else one with the second ... A preference delays nothing."""
    any_of: Sequence[str | tuple[str, str]]
    """Up to 4 further labels, or pairs of label and `where`, that will do as well, the best one first."""


BUNDLE_DEFAULTS: BundleOptions = {"wait": 0.0, "priority": 0, "wait_for_pool": False}  # of others: None
BORROW_DEFAULTS: BorrowOptions = {
    "wait": 0.0, "priority": 0, "wait_for_pool": True, "realms": (), "where": "", "prefer": (), "any_of": (),
}  # fmt: skip


class Borrow(Generic[H]):
    """What borrows of one slot and of a bundle have in common."""

    path: ClassVar[str]
    noun: ClassVar[str]
    options: BundleOptions
    renews: bool

    @property
    def count(self) -> int:
        """Return how many slots are borrowed."""
        return 1

    @property
    def named(self) -> str:
        """Return what is borrowed, for sentences."""
        raise NotImplementedError

    def what(self) -> dict[str, Any]:
        """Return the members of the request that say what is borrowed."""
        raise NotImplementedError

    def lent(self, answer: HubAnswer, asked_s: float | None) -> H:
        """Return what an answer has lent."""
        raise NotImplementedError

    @property
    def is_default(self) -> bool:
        """Return whether the length of the lease is the default of a block that renews it."""
        return self.renews and self.options.get("ttl") is None

    @property
    def wait_s(self) -> float:
        """Return the seconds to wait in the queue; `inf` to wait for ever."""
        wait_s = self.options["wait"]
        return math.inf if wait_s is None else wait_s

    @property
    def ttl_s(self) -> float | None:
        """Return the seconds that the lease is asked for; None: the hub chooses."""
        return DEFAULT_TTL_S if self.is_default else self.options.get("ttl")

    def body(self, left_s: float) -> dict[str, Any]:
        """Return the body of the request, with `left_s` as the seconds that are left to wait."""
        options, ttl_s = self.options, self.ttl_s
        members = self.what() | {
            "ttlSeconds": None if ttl_s is None else whole(ttl_s),
            "ttlIsDefault": self.is_default or None,
            "runId": options.get("run"),
            "runName": options.get("run_name"),
            "name": options.get("name"),
            "priority": options["priority"] or None,
            "maxWaitSeconds": whole(math.ceil(left_s * 1000) / 1000) if left_s <= LONGEST_WAIT_S else None,
        }
        return {name: value for name, value in members.items() if value not in (None, [])}


@dataclass(frozen=True, slots=True)
class BorrowCall(Borrow[Slot]):
    """A borrow of a slot of `label`."""

    path, noun = "/session/borrow", "slot"
    label: str
    options: BorrowOptions = field(default_factory=BorrowOptions)
    renews: bool = False  # the lease is renewed in the background: a short one strands no slot when its holder dies

    def __post_init__(self) -> None:
        """Add the defaults. Keep the lists as they are now: every attempt must send the same, as all have one key."""
        options: BorrowOptions = {**BORROW_DEFAULTS, **self.options}
        options["realms"] = tuple(options["realms"])
        options["prefer"], options["any_of"] = _members(options["prefer"]), _members(options["any_of"])
        options["name"] = options.get("name") or own_name()
        object.__setattr__(self, "options", options)

    @property
    def named(self) -> str:
        """Return the label, or those of `any_of` where it is empty."""
        return self.label or " or ".join(label for label, _ in self.others)

    @property
    def others(self) -> list[tuple[str, str]]:
        """Return the label and the `where`, '' for none, of each further choice."""
        return [(each, "") if isinstance(each, str) else each for each in self.options["any_of"]]

    def what(self) -> dict[str, Any]:
        """Return the members of the request that say which slots will do, and where."""
        options = self.options
        return {
            "labelKey": self.label or None,
            "where": options["where"] or None,
            "anyOf": [{"label": label} | ({"where": where} if where else {}) for label, where in self.others],
            "prefer": list(options["prefer"]),
            "waitForPool": None if options["wait_for_pool"] else False,
            "realms": list(options["realms"]),
        }

    def lent(self, answer: HubAnswer, asked_s: float | None) -> Slot:
        """Return the slot."""
        return Slot(answer, asked_s)


@dataclass(frozen=True, slots=True)
class BundleCall(Borrow[B]):
    """A borrow of a bundle, which is renewed in the background; `made` makes it of the answer."""

    path, noun, renews = "/bundles", "bundle", True
    parts: Sequence[Mapping[str, Any]]  # as `read_parts` returns them
    made: Callable[[HubAnswer, float | None], B]
    same_node: bool = False
    together: bool = False
    options: BundleOptions = field(default_factory=BundleOptions)

    def __post_init__(self) -> None:
        """Add the defaults."""
        options: BundleOptions = {**BUNDLE_DEFAULTS, **self.options}
        options["name"] = options.get("name") or own_name()
        object.__setattr__(self, "options", options)

    @property
    def count(self) -> int:
        """Return how many slots the bundle has."""
        return sum(part.get("count", 1) for part in self.parts)

    @property
    def named(self) -> str:
        """Return how many of which label."""
        return " and ".join(slots_in_words(part.get("count", 1), part["label"]) for part in self.parts)

    def what(self) -> dict[str, Any]:
        """Return the members of the request that say which slots the bundle has."""
        said = {"sameNode": self.same_node, "together": self.together, "waitForPool": self.options["wait_for_pool"]}
        return {"parts": list(self.parts), **{name: True for name, value in said.items() if value}}

    def lent(self, answer: HubAnswer, asked_s: float | None) -> B:
        """Return the bundle."""
        return self.made(answer, asked_s)


def _members(given: Sequence[Any]) -> tuple[Any, ...]:
    """Return the members of a list; a text, which is a list of letters as well, is one member."""
    return (given,) if isinstance(given, str) else tuple(given)


@dataclass(slots=True)
class _Place:
    """A place in the queue: its key, the id of the ticket, and whether the hub may already know it."""

    key: str = field(default_factory=lambda: uuid.uuid4().hex)
    known: bool = False  # whether the hub may have a ticket or a lease for the key


def borrow(wanted: Borrow[H], policy: RetryPolicy, backlog: Backlog) -> Steps[H]:
    """Borrow a slot or a bundle, waiting as long as `wanted` says; when interrupted or refused, give the place up."""
    started_s = now_s()
    ticket = wanted.options.get("ticket")
    place = _Place() if ticket is None else _Place(ticket)
    while True:
        try:
            return (yield from _ask(wanted, policy, started_s, place))
        except (GeneratorExit, Withdrawn):  # no step can be played; another call gave the place up
            raise
        except LeaseOver:
            # An attempt whose answer was lost had taken a slot, and its lease ended before the next got through.
            if now_s() >= started_s + max(policy.trouble_s, wanted.wait_s):
                raise
            place = _Place()
        except BaseException:
            if place.known:
                yield from _give_up(wanted, place, backlog)
            raise


def _ask(wanted: Borrow[H], policy: RetryPolicy, started_s: float, place: _Place) -> Steps[H]:
    failures, again = 0, False
    while True:
        sent_s = now_s()
        left_s = max(0.0, started_s + wanted.wait_s - sent_s)
        known, place.known = place.known, True  # in case we are interrupted now
        outcome = yield _request(wanted, place, left_s, policy)
        if isinstance(outcome, httpx.Response) and outcome.is_success:
            held = wanted.lent(accepted(outcome, sent_s), wanted.ttl_s)
            slots = slots_of(held)
            if len(slots) < wanted.count:  # others have ended before a repeat got through
                yield from give_back(held, policy)
                raise LeaseOver(f"{wanted.count - len(slots)} of {wanted.named} have ended again")
            for slot in slots:
                slot.asks_default = wanted.is_default
            if again or all(slot.seconds_left() >= slot.ttl_s / 2 for slot in slots):
                return held
            again = True  # the lease may be old; asked again, the hub answers with the rest of it
            continue
        error, worth_it = refusal(outcome)
        place.known = known or _may_know(outcome, error)
        limit_s = wanted.wait_s if isinstance(error, NoCapacity) else max(policy.trouble_s, wanted.wait_s)
        left_s = started_s + limit_s - now_s()
        slack_s = SLACK_S if isinstance(error, WaitedInVain) else 0.0
        if not worth_it or isinstance(error, DeadlineMissed) or left_s <= slack_s:
            raise error if not isinstance(error, WaitedInVain) else _after_all(wanted, error)
        took_s = now_s() - sent_s
        reached = not isinstance(outcome, Unreachable) or outcome.sent
        failures = 0 if reached and took_s >= WELL_S else failures
        if failures == 2 and not isinstance(error, NoCapacity):
            log.warning("a %s of %s is still being asked for: %s", wanted.noun, wanted.named, error)
        yield Pause(min(_pause_s(error, failures, took_s), left_s))
        failures += 1


def _after_all(wanted: Borrow[H], error: WaitedInVain) -> WaitedInVain:
    """Return the refusal of the last attempt with the whole wait of the borrow in place of that of the attempt."""
    error.detail = f"Borrow timed out after {wanted.wait_s:g}s for {wanted.named}"
    if isinstance(hint := error.facts.get("hint"), str):
        error.detail += f": {hint}"
    error.args = (error.detail,)
    return error


def _request(wanted: Borrow[H], place: _Place, left_s: float, policy: RetryPolicy) -> Send:
    return Send(
        "POST",
        wanted.path,
        wanted.body(left_s),
        headers={"Idempotency-Key": place.key},
        timeout_s=policy.attempt_s,
        wait_s=min(left_s, HUB_WAIT_S),
    )


def _may_know(outcome: Outcome, error: HubError) -> bool:
    """Return whether the hub may have a ticket or a lease for the key after an attempt with this outcome."""
    if isinstance(outcome, Unreachable):
        return outcome.sent
    return isinstance(error, WaitedInVain) or (passing(error) and not isinstance(error, NoCapacity | Settling))


def _pause_s(error: HubError, failures: int, took_s: float) -> float:
    """Return the seconds to pause after failed attempt number `failures`, counted from 0, in a row."""
    if isinstance(error, WaitedInVain):
        return max(0.0, FIRST_PAUSE_S - took_s)
    if isinstance(error, Stopping):  # its Retry-After is ignored: other hubs serve the queue
        return pause_s(failures, longest_s=LONGEST_PAUSE_S)
    if failures == 0 and error.retry_after_s is None:
        return 0.0
    return pause_s(failures, error.retry_after_s, LONGEST_PAUSE_S)


def _give_up(wanted: Borrow[H], place: _Place, backlog: Backlog) -> Steps[None]:
    """Give up the place in the queue and a slot lent to it; if that fails at first, go on in the background."""
    try:
        yield from _given_up(place, GIVE_UP_POLICY)
    except GeneratorExit:  # no step can be played any more
        raise
    except BaseException as error:
        action = f"give up the place in the queue for {wanted.named}"
        if isinstance(error, HubError) and not passing(error):
            log.warning("could not %s (%s); it lapses in a minute", action, error)
            return
        # An attempt without an answer may have taken a slot.
        ttl_s = wanted.options.get("ttl")
        until_s = now_s() + min(KEEP_S if ttl_s is None else ttl_s, LONGEST_WAIT_S)
        consequence = f"it lapses in a minute, and what was lent to it stays lent until {clock(until_s)}"
        backlog.add(Message(action, partial(_given_up, place, ONCE), until_s, consequence), error)
        if not isinstance(error, HubError):
            raise


def _given_up(place: _Place, policy: RetryPolicy) -> Steps[None]:
    ticket = path("queue", place.key)
    try:
        for _ in range(3):  # between two of these calls a lease may come, or be undone by the hub
            try:
                yield from exchange(Send("DELETE", ticket), policy)
                return
            except TicketGranted:
                answer = yield from exchange(Send("GET", ticket), policy)
            if bundle := answer.data.get("bundle"):
                yield from exchange(returning(bundle), policy)
                return
            if "leaseToken" in answer.data:
                yield from give_back(Slot(answer), policy)
                return
    except (NotFound, LeaseOver):
        pass  # there is neither a place nor a lease
