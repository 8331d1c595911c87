"""The shapes of answers to borrowers, with a slot or while they wait for one."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from typing_extensions import TypedDict

from hub.api.shapes import fields as w
from hub.api.shapes.fields import doc


class HolderShape(TypedDict):
    """The holder of a lease or of a place in the queue: the caller that borrowed."""

    user: Annotated[str | None, doc("The user of the token that borrowed; null for a shared secret.", "ann")]
    team: Annotated[str | None, doc("The team of that token.", "ml")]
    name: Annotated[str, doc("What the borrower calls itself.", "ann@laptop:pytest")]
    client: Annotated[str, doc("The address that it borrowed from.", "10.0.0.7")]


Holder = Annotated[HolderShape | None, doc("Its holder; null where the hub does not know it.", None)]
RunName = Annotated[str, doc("What the borrower called its run.", "nightly")]
Priority = Annotated[int, doc("From -100 to 100; the higher one is served first.", 0)]
Since = Annotated[str, doc("Since when it waits.", w.TIME, json_schema_extra=w.DATE_TIME)]
WaitLeft = Annotated[float, doc("Seconds until it is given up unless it is attended.", 60.0)]
OfBundle = Annotated[str, doc("The bundle that the lease is of; left out for a lease alone.", w.BUNDLE)]


class GrantShape(TypedDict):
    """A lease of a slot to the caller."""

    browserId: w.SlotId
    webSocketEndpoint: Annotated[
        str, doc("Where the slot is reached; empty where it has no address.", "ws://10.0.0.7:9222/")
    ]
    labelKey: w.AskedLabel
    browserType: Annotated[
        Any, doc("What kind of slot its node says it is; usually the second segment of the label.", "a100")
    ]
    nodeId: Annotated[str | None, doc("The node that offers it.", w.NODE)]
    runName: Annotated[str | None, doc("What the borrower called its run.", "nightly")]
    holder: Holder
    bundle: NotRequired[OfBundle]
    expiresAtUtc: Annotated[
        str, doc("When the lease lapses unless it is renewed.", w.TIME, json_schema_extra=w.DATE_TIME)
    ]
    matchedLabel: w.PoolLabel
    leaseToken: w.LeaseToken
    ttlSeconds: Annotated[float, doc("In how many seconds that is.", 60)]
    runId: w.RunId
    item: Annotated[
        dict[str, Any], doc("All that the node published of the slot.", {"nodeId": w.NODE, "browserId": w.SLOT})
    ]
    realm: NotRequired[
        Annotated[str, doc("The realm that lends it, where that is not the one in which the borrow waited.", "us")]
    ]


class ReturnedShape(TypedDict):
    """The confirmation that a slot was given back."""

    returned: w.SlotId
    note: NotRequired[w.Note]
    runId: NotRequired[w.MaybeRunId]


class RenewedShape(TypedDict):
    """A lease that was extended."""

    browserId: w.SlotId
    leaseToken: w.LeaseToken
    ttlSeconds: Annotated[float, doc("In how many seconds it lapses.", 60.0)]
    expiresAtUtc: Annotated[str, doc("When that is.", w.TIME, json_schema_extra=w.DATE_TIME)]


class VerifiedShape(TypedDict):
    """The result of comparing a token with that of the current lease of a slot."""

    slotId: w.SlotId
    valid: Annotated[bool, doc("Whether it is.", True)]
    ttlSeconds: NotRequired[Annotated[float, doc("For how many seconds still, where it is.", 17.25)]]
    reason: NotRequired[
        Annotated[
            Literal["not lent", "stale token", "lapsed", "settling"],
            doc(
                "Why not. `settling`: the store was lost, and hubs or the node have yet to say what is lent.",
                "stale token",
            ),
        ]
    ]


class SessionShape(TypedDict):
    """A live lease."""

    browserId: w.SlotId
    labelKey: w.AskedLabel
    poolLabel: w.PoolLabel
    runId: w.RunId
    nodeId: w.NodeId
    borrowedAtUtc: Annotated[str, doc("Since when it is lent.", w.TIME, json_schema_extra=w.DATE_TIME)]
    ttlSeconds: Annotated[float, doc("For how many seconds it was lent, or renewed.", 60.0)]
    secondsLeft: w.SecondsLeft
    holder: Holder
    bundle: NotRequired[OfBundle]
    runName: NotRequired[RunName]
    held: NotRequired[w.HeldWhy]
    heldBy: NotRequired[w.HeldBy]
    endsBy: NotRequired[
        Annotated[
            Literal["max-hold", "idle", "recall"], doc("By which rule of its pool it ends, or `recall`.", "max-hold")
        ]
    ]
    endsInSeconds: NotRequired[Annotated[float, doc("In how many seconds that is, renewed or not.", 3600.0)]]


class SessionPageShape(TypedDict):
    """A page of live leases."""

    total: w.Total
    sessions: Annotated[list[SessionShape], doc("The leases, those that end first at the top.", [])]


class MappedShape(TypedDict):
    """The confirmation that a slot was mapped to the test that runs on it."""

    mapped: w.SlotId
    testId: Annotated[str, doc("The test.", "login.spec.ts")]


class EndedLeaseShape(TypedDict):
    """A lease that is over."""

    browserId: w.SlotId
    leaseToken: w.LeaseToken
    reason: Annotated[
        Literal["not lent", "stale token", "lapsed"],
        doc("How the store knows: the slot is not lent, has another holder, or the time is over.", "not lent"),
    ]
    because: NotRequired[
        Annotated[
            str,
            doc(
                "Why it ended early, for ten minutes; in the words of the node or the operator if they gave some.",
                "its node withdrew the slot: profile could not be wiped",
            ),
        ]
    ]


class UnwellLeaseShape(TypedDict):
    """A lease whose slot is held because it is unwell, or is well again."""

    browserId: w.SlotId
    leaseToken: w.LeaseToken
    reason: Annotated[str, doc("Why it is unwell, in the words of its node or an operator; empty: well.", "no answer")]
    heldBy: NotRequired[w.HeldBy]


class EndingLeaseShape(TypedDict):
    """A lease that is about to end by a rule of its pool, or no longer is."""

    browserId: w.SlotId
    leaseToken: w.LeaseToken
    reason: Annotated[
        Literal["max-hold", "idle", "rule-change", "recall", ""],
        doc("By which rule, since a rule has changed, or for another team; empty: it goes on.", "idle"),
    ]
    end: Annotated[str, doc("Names the end, to be sent with the next call; empty where there is none.", "1750000")]
    secondsLeft: Annotated[float, doc("In how many seconds it ends.", 60.0)]


class WatchedShape(TypedDict):
    """The watched leases that are over, and those whose slot is unwell or that are about to end."""

    over: Annotated[list[EndedLeaseShape], doc("Empty when the time was over before any of them was.", [])]
    unwell: NotRequired[
        Annotated[list[UnwellLeaseShape], doc("Those of another reason than was heard; only where asked for.", [])]
    ]
    ending: NotRequired[
        Annotated[list[EndingLeaseShape], doc("Those of another end than was heard; only where asked for.", [])]
    ]


class AlternativeShape(TypedDict):
    """One of the things that a borrow takes."""

    label: w.AskedLabel
    where: Annotated[str, doc("What the slot must be like; empty where any will do.", "vram >= 40")]


class PartShape(TypedDict):
    """One part of a bundle: so many slots."""

    label: w.AskedLabel
    where: Annotated[str, doc("What each slot must be like; empty where any will do.", "vram >= 40")]
    count: Annotated[int, doc("How many such slots it wants.", 2)]


Parts = Annotated[list[PartShape], doc("What the bundle takes, all of it or nothing.", [])]
SameNode = Annotated[bool, doc("Whether all its slots are to be on one node.", False)]
Reserving = Annotated[bool, doc("Whether free slots are set aside for it, as it has waited for long.", False)]
SetAside = Annotated[int, doc("How many are set aside for it.", 0, ge=0)]


class BundlePlaceShape(TypedDict):
    """A bundle that waits, with its place in the line of bundles."""

    parts: Parts
    sameNode: SameNode
    reserving: Reserving
    setAside: SetAside
    ticket: w.TicketId
    position: Annotated[int, doc("The place in the line of bundles, from 1.", 1, ge=0)]
    runId: w.RunId
    priority: Priority
    sinceUtc: Since
    secondsLeft: WaitLeft
    holder: Holder


class PlaceShape(TypedDict):
    """A borrow that waits, with its place among those of its label that want the same."""

    ticket: w.TicketId
    position: w.Position
    runId: w.RunId
    priority: Priority
    sinceUtc: Since
    estimatedWaitSeconds: w.Estimate
    secondsLeft: WaitLeft
    holder: Holder
    runName: NotRequired[RunName]
    anyOf: NotRequired[
        Annotated[
            list[AlternativeShape],
            doc("What it takes, the best first; left out where any slot of the label will do.", []),
        ]
    ]
    parts: NotRequired[Parts]
    sameNode: NotRequired[SameNode]
    reserving: NotRequired[Reserving]
    setAside: NotRequired[SetAside]
    hint: NotRequired[
        Annotated[
            str,
            doc(
                "That no slot could serve it as things are, and why; told of a single ticket.",
                "vram >= 80: the 12 slots of gpu have 24 or 40",
            ),
        ]
    ]


class WaitingTicketShape(PlaceShape):
    """A borrow that waits for a slot."""

    state: Annotated[
        Literal["waiting", "away"], doc("`away`: no call attends it; it keeps its place for a minute.", "waiting")
    ]
    labelKey: w.AskedLabel


class GrantedTicketShape(GrantShape):
    """A borrow that has got its slot."""

    ticket: w.TicketId
    state: Annotated[Literal["granted"], doc("It has a slot.", "granted")]


class LabelQueueShape(TypedDict):
    """The queue of one label."""

    labelKey: w.AskedLabel
    waiting: Annotated[int, doc("How many wait for the label.", 3, ge=0)]
    turn: Annotated[int, doc("Its place among the labels that are waited for.", 1)]
    cap: Annotated[int, doc("Most leases in flight under it; 0 for no limit.", 0, ge=0)]
    inFlight: Annotated[int, doc("How many leases under it are live.", 2, ge=0)]
    estimatedWaitSeconds: w.Estimate
    tickets: Annotated[list[PlaceShape], doc("The first of them.", [])]


class QueueShape(TypedDict):
    """The borrows that wait, by label."""

    total: Annotated[int, doc("How many labels are waited for.", 1, ge=0)]
    waiting: Annotated[int, doc("How many borrows wait, for any label.", 3, ge=0)]
    away: Annotated[int, doc("How many of them no call attends now.", 0, ge=0)]
    labels: Annotated[list[LabelQueueShape], doc("The queues, those whose turn is next at the top.", [])]
    bundles: Annotated[list[BundlePlaceShape], doc("The first of those that wait for several slots at once.", [])]


class CancelledShape(TypedDict):
    """The confirmation that a borrow was given up."""

    cancelled: Annotated[bool, doc("It is.", True)]
