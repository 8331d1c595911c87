"""The shapes of answers to nodes, and to those who look at nodes and pools."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from typing_extensions import TypedDict

from hub.api.shapes import fields as w
from hub.api.shapes.fields import doc
from hub.api.shapes.problems import ProblemShape


class PublishedSlotShape(TypedDict):
    """The outcome for one slot of a publication."""

    browserId: w.SlotId
    labelKey: w.PoolLabel
    status: Annotated[
        Literal["published", "unchanged", "lent", "refused"],
        doc("`published`: it is on offer now; `unchanged`: it was; `lent`: it stays lent; `refused`.", "published"),
    ]
    reason: NotRequired[Annotated[str, doc("Why it was refused.", "another node has published a slot with this id")]]
    note: NotRequired[
        Annotated[
            str,
            doc(
                "Why its attributes do not count: slots have as many sets as HUB_CLASSES_MAX allows.",
                "too-many-classes",
            ),
        ]
    ]


class AskedForShape(TypedDict):
    """The label and the run that a lent slot was asked for with, and its holder."""

    labelKey: w.AskedLabel
    runId: w.MaybeRunId
    holder: NotRequired[
        Annotated[str, doc("The holder as text: a node reports it as it is, after a loss.", '{"user":"ada"}')]
    ]


class RegisteredShape(TypedDict):
    """The confirmation that a node is registered."""

    registered: w.NodeId
    nextBeatMs: w.NextBeat
    version: w.Version
    term: NotRequired[
        Annotated[str, doc("Which registration of an incarnation this is; its next ones repeat it.", "1875000000000")]
    ]
    lent: NotRequired[
        Annotated[dict[str, str], doc("Slot to token of what a process takes over from the one before it.", {})]
    ]
    lentFor: NotRequired[Annotated[dict[str, AskedForShape], doc("As what those were asked for, by slot.", {})]]
    slots: NotRequired[Annotated[list[PublishedSlotShape], doc("One for each slot that came along.", [])]]


class PublishedShape(TypedDict):
    """The outcome of a publication of slots, slot by slot."""

    nodeId: w.NodeId
    published: Annotated[int, doc("How many of them are new on offer.", 1, ge=0)]
    slots: Annotated[list[PublishedSlotShape], doc("One for each slot of the call.", [])]


class WithdrawnShape(TypedDict):
    """The confirmation that a slot is off offer."""

    withdrawn: w.SlotId
    ended: Annotated[bool, doc("Whether a lease of it ended by that.", False)]
    note: NotRequired[Annotated[str, doc("Why nothing was withdrawn.", "not published")]]


class HoldShape(TypedDict):
    """How a slot stands after a call to hold or to release it."""

    browserId: w.SlotId
    nodeId: w.NodeId
    lent: Annotated[bool, doc("Whether it is lent; a lease goes on.", False)]
    held: NotRequired[w.HeldWhy]
    heldBy: NotRequired[w.HeldBy]
    note: NotRequired[Annotated[str, doc("Why nothing was changed.", "a later call said otherwise")]]


class LeftShape(TypedDict):
    """The confirmation that a node is removed."""

    left: w.NodeId
    slots: Annotated[int, doc("How many of its slots were withdrawn.", 8, ge=0)]
    ended: w.Ended
    note: NotRequired[Annotated[str, doc("Why nothing was removed.", "not registered")]]


class CalledDrainShape(TypedDict):
    """The last call to drain, cordon or undrain a node; the node repeats it to the hub after the store was lost."""

    on: Annotated[bool, doc("Whether it drains, or is cordoned.", True)]
    number: Annotated[str, doc("Which call it was; the latest counts.", "3")]
    leftMs: Annotated[int | None, doc("Milliseconds until what is lent of it ends; null without a deadline.", 600000)]
    reason: NotRequired[Annotated[str, doc("Why it is cordoned.", "fan is broken")]]


class HeldByOperatorShape(TypedDict):
    """The last call of an operator to hold a slot; the node repeats it to the hub when it publishes the slot."""

    number: Annotated[str, doc("Which call it was; the latest counts.", "1875000000000000007")]
    reason: Annotated[str, doc("Why the slot is held.", "GPU 3 throttles")]


class OrdersShape(TypedDict):
    """The answer to a heartbeat: what the node must do."""

    nodeId: w.NodeId
    known: Annotated[bool, doc("False: the hub does not know the node, which registers and publishes again.", True)]
    drain: Annotated[bool, doc("Whether nothing more of the node is lent.", False)]
    recycle: Annotated[
        list[str], doc("Slots that the node replaces by fresh ones before they are lent again.", [w.SLOT])
    ]
    nextBeatMs: w.NextBeat
    version: w.Version
    lent: NotRequired[
        Annotated[
            dict[str, str],
            doc("The token of each lent slot; left out when nothing changed since `version`.", {w.SLOT: w.TOKEN}),
        ]
    ]
    lentFor: NotRequired[
        Annotated[
            dict[str, AskedForShape],
            doc("As what each was asked for; the node reports it after a loss, so that caps and runs hold.", {}),
        ]
    ]
    ends: NotRequired[
        Annotated[
            dict[str, str],
            doc(
                "Of slots with the policy `fresh` in `recycle` the number of the end of their lease. They are held "
                "back until the node names them as recycled with that number.",
                {w.SLOT: w.TOKEN},
            ),
        ]
    ]
    operatorHeld: NotRequired[
        Annotated[
            dict[str, HeldByOperatorShape],
            doc("The slots that an operator holds, all of them; left out when there are none.", {}),
        ]
    ]
    offers: NotRequired[Annotated[str, doc("In short which slots the hub has of the node.", "8-1f0c")]]
    drainCall: NotRequired[Annotated[CalledDrainShape, doc("The last call to drain it.", None)]]
    superseded: NotRequired[
        Annotated[bool, doc("Another process has registered as this node since, and is it now.", True)]
    ]
    notes: NotRequired[
        Annotated[
            dict[str, str],
            doc(
                "Slots whose attributes in the beat do not count, each with the reason: `too-many-classes`, `late` (a "
                "later call said otherwise), `unknown` or `foreign` (the slot of another node).",
                {w.SLOT: "too-many-classes"},
            ),
        ]
    ]


class OrdersVersionShape(TypedDict):
    """The version of the orders to a node."""

    nodeId: w.NodeId
    version: w.Version


class RefusedBeatShape(TypedDict):
    """A heartbeat that was refused, among several of one call."""

    nodeId: Annotated[str | None, doc("The node it named; null when it named none.", w.NODE)]
    error: Annotated[ProblemShape, doc("Why it was refused.", None)]


class BeatenShape(TypedDict):
    """The answers to several heartbeats, in their order."""

    beats: Annotated[list[OrdersShape | RefusedBeatShape], doc("One for each heartbeat.", [])]


class JoinedShape(TypedDict):
    """The confirmation that a node has a token of its own."""

    nodeId: w.NodeId
    id: Annotated[str, doc("The id of its token.", "3b0c44298fc1c149")]


class NodeShape(TypedDict):
    """A node as operators see it."""

    nodeId: w.NodeId
    state: Annotated[
        Literal["alive", "suspect", "stale"],
        doc("`suspect`: silent for half the timeout, nothing of it is lent; `stale`: for all of it.", "alive"),
    ]
    draining: Annotated[bool, doc("Whether nothing more of it is lent.", False)]
    deadlineSecondsLeft: w.DeadlineLeft
    lastSeenUtc: Annotated[str | None, doc("When it was heard last.", w.TIME, json_schema_extra=w.DATE_TIME)]
    sinceBeatMs: Annotated[
        int | None, doc("Milliseconds of the hub clock since then; null for nodes never heard.", 1200)
    ]
    service: NotRequired[
        Annotated[
            Literal["cordoned", "draining"], doc("Why nothing more of it is lent; left out while it is.", "draining")
        ]
    ]
    reason: NotRequired[Annotated[str, doc("Why it is cordoned.", "fan is broken")]]
    held: NotRequired[Annotated[int, doc("How many of its slots are held as unwell; left out for none.", 1, ge=1)]]
    kept: NotRequired[
        Annotated[bool, doc("It is silent for longer than the timeout, and kept as expiry is off.", True)]
    ]
    capacity: Annotated[int | None, doc("How many slots it says it has; null when it says nothing readable.", 8)]
    apps: Annotated[list[str], doc("What it says it offers.", [w.LABEL])]
    labels: Annotated[dict[str, Any], doc("What it says of itself.", {"zone": "eu-1"})]
    baseUrl: Annotated[str | None, doc("Where it can be asked itself.", "http://10.0.0.7:5000")]
    slots: w.Slots
    lent: w.Lent


class SlotOfNodeShape(TypedDict):
    """One slot of a node."""

    browserId: w.SlotId
    labelKey: w.PoolLabel
    state: Annotated[Literal["free", "lent", "held"], doc("Whether it is free, lent, or held back.", "free")]
    attributes: NotRequired[
        Annotated[dict[str, Any], doc("What `where` compares; left out where its node says none.", {"vram": 80})]
    ]
    warm: NotRequired[Annotated[list[str], doc("Keys of what is warm in it; left out for none.", ["repo-42"])]]
    held: NotRequired[w.HeldWhy]
    heldBy: NotRequired[w.HeldBy]


class OrderOfNodeShape(TypedDict):
    """An order that a node has not carried out yet."""

    order: Annotated[
        Literal["drain", "cordon", "rebuild", "recycle"],
        doc(
            "`drain`, `cordon`: nothing more of it is lent; `rebuild`: withdraw, drain and rebuild all slots; "
            "`recycle`: replace some slots when they have no connection.",
            "rebuild",
        ),
    ]
    secondsLeft: Annotated[
        float | None,
        doc("Seconds until what is lent ends, or a rebuild that was not begun is dropped; null: no limit.", 287.5),
    ]
    reason: NotRequired[Annotated[str, doc("Why it is cordoned.", "fan is broken")]]
    slots: NotRequired[Annotated[list[w.SlotId], doc("The slots to replace.", [w.SLOT])]]


class NodeInFullShape(NodeShape):
    """A node with its slots."""

    slotList: Annotated[list[SlotOfNodeShape], doc("Its slots, by id.", [])]
    orders: Annotated[list[OrderOfNodeShape], doc("What it was told to do and has not done yet.", [])]


class NodePageShape(TypedDict):
    """A page of nodes."""

    total: w.Total
    nodes: Annotated[list[NodeShape], doc("The nodes of the page.", [])]
    next: Annotated[str | None, doc("The `cursor` of the next page; null on the last one.", "100")]


class DepartureShape(TypedDict):
    """The answer to the question whether a node can be shut down without harm."""

    nodeId: w.NodeId
    safe: Annotated[bool, doc("It drains, and nothing of it is lent or can be.", True)]
    draining: Annotated[bool, doc("Whether nothing more of it is lent.", True)]
    lent: w.Lent
    reason: Annotated[str, doc("Why it is safe or not.", "It drains, and nothing of it is lent.")]
    deadlineSecondsLeft: w.DeadlineLeft


class PoolShape(TypedDict):
    """The counts of one pool."""

    label: w.PoolLabel
    total: w.Slots
    borrowed: w.Lent
    available: w.Free
    heldBack: w.HeldBack
    heldBackBy: NotRequired[w.HeldBackBy]
    browserVersion: Annotated[str | None, doc("The version that its first slot names.", "156.0")]
    maintenanceActive: w.Maintenance


class CountsOfPoolShape(TypedDict):
    """The number of slots that a node has in a pool."""

    total: w.Slots
    borrowed: w.Lent


class NodeOfPoolsShape(TypedDict):
    """A node, as the list of pools shows it."""

    id: w.NodeId
    labels: Annotated[list[str], doc("What it says of itself, as `name=value`.", ["zone=eu-1"])]
    lastSeen: Annotated[str, doc("When it was heard last; empty when it never was.", w.TIME)]
    pools: Annotated[dict[str, CountsOfPoolShape], doc("Its slots, by pool.", {w.LABEL: {"total": 8, "borrowed": 3}})]
    totalBrowsers: Annotated[int, doc("How many slots it says it has.", 8)]
    playwrightVersion: w.Playwright
    playwrightVersionExpected: w.Playwright
    playwrightVersionMismatch: Annotated[bool, doc("Whether it says that these differ.", False)]


class PoolsShape(TypedDict):
    """The state of the pools, a page of them, and of the first nodes."""

    total: w.Total
    pools: Annotated[list[PoolShape], doc("The pools, by label.", [])]
    workers: Annotated[list[NodeOfPoolsShape], doc("The first hundred nodes.", [])]
    now: w.Now


class DemandShape(TypedDict):
    """The number of slots that a pool should have, and how that is counted."""

    hint: NotRequired[
        Annotated[
            str,
            doc(
                "That no pool serves the label, and what may be meant.",
                "no pool serves gpu:a10O; did you mean gpu:a100?",
            ),
        ]
    ]
    label: w.PoolLabel
    held: w.Lent
    free: w.Free
    heldBack: w.HeldBack
    heldBackBy: NotRequired[w.HeldBackBy]
    total: w.Slots
    waiting: Annotated[int, doc("How many live waiters it may serve.", 2, ge=0)]
    waitingLabels: Annotated[int, doc("How many labels these wait for.", 1, ge=0)]
    desired: Annotated[int, doc("How many slots it should have.", 5, ge=0)]
    maintenanceActive: w.Maintenance
    truncated: Annotated[
        bool, doc("So many labels are waited for that `waiting` and `desired` are the least there may be.", False)
    ]


class RestartShape(TypedDict):
    """The counts of a pool whose slots are all being replaced."""

    active: Annotated[bool, doc("It has begun.", True)]
    target: Annotated[int, doc("How many slots are to be replaced.", 8, ge=0)]
    avail: Annotated[int, doc("How many of them were free.", 5, ge=0)]
    inuse: Annotated[int, doc("How many of them were lent.", 3, ge=0)]


class RestartedShape(TypedDict):
    """The confirmation that all slots of a pool are being replaced."""

    labelKey: w.PoolLabel
    scheduled: Annotated[int, doc("How many slots were marked.", 8, ge=0)]
    maintenance: Annotated[RestartShape, doc("How many there are to replace.", None)]
