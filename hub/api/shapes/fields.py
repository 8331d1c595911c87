"""The types of members that several answers share, each with the sentence and the example that the contract shows."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field


def doc(text: str, example: Any, **more: Any) -> Any:
    """Return pydantic's description of a member: a sentence and an example for the contract."""
    return Field(description=text, examples=[example], **more)


TIME = "2026-01-02T03:04:05.0000000Z"
DATE_TIME = {"format": "date-time"}
SLOT, NODE, LABEL = "rack-7-gpu.a100.eu-1", "rack-7", "gpu:a100:eu"
TOKEN, RUN = "1875000000000000001", "nightly-42"
BUNDLE = f"b{TOKEN}"
TASK, WORKER, JOB = (
    "0b9f4a3e-6a5e-4a2b-9d52-3a1f5d1f6a10",
    "5d2c8a8e-2f0e-4a53-8f6d-6a0c0a4f7b21",
    "lab:modifiers:Rotate",
)

SlotId = Annotated[str, doc("The id of the slot.", SLOT)]
NodeId = Annotated[str, doc("The id of the node.", NODE)]
Label = Annotated[str, doc("A label: two to eight segments.", LABEL)]
AskedLabel = Annotated[str, doc("The label that was asked for.", "gpu:a100")]
PoolLabel = Annotated[str, doc("The label of the pool that the slot is of.", LABEL)]
LeaseToken = Annotated[str, doc("The fencing token of the lease: digits, greater than any before.", TOKEN)]
RunId = Annotated[str, doc("The run, which groups the leases of one caller.", RUN)]
MaybeRunId = Annotated[str, doc("The run of the lease that was meant; empty where there is none.", RUN)]
TicketId = Annotated[str, doc("The ticket: a borrow that waits, or was asked for under a key.", "key-5f0c0ffee")]
Position = Annotated[int, doc("The place in the queue of the label, from 1.", 3, ge=0)]
Estimate = Annotated[
    float | None, doc("How long the wait may be, from the pace of the queue; null while it is unknown.", 12.5)
]
SecondsLeft = Annotated[float, doc("How many seconds are left, on the hub clock.", 17.25)]
DeadlineLeft = Annotated[float | None, doc("Seconds until what is lent of it ends; null without a deadline.", 600.0)]
Note = Annotated[str, doc("Why nothing was changed; not there when something was.", "already returned")]
Now = Annotated[str, doc("The time of the store.", TIME, json_schema_extra=DATE_TIME)]
Utc = Annotated[str, doc("When, by the clock of the store.", TIME, json_schema_extra=DATE_TIME)]
SetBy = Annotated[str | None, doc("The name given by the caller that did it; null when it was not done.", "ann")]
Slots = Annotated[int, doc("How many slots it has on offer or lent.", 8, ge=0)]
Lent = Annotated[int, doc("How many of its slots are lent.", 3, ge=0)]
Free = Annotated[int, doc("How many of its slots are free.", 4, ge=0)]
HeldBack = Annotated[int, doc("How many of its slots are published and not on offer.", 1, ge=0)]
HeldBackBy = Annotated[
    dict[str, int],
    doc(
        "How many of these for each cause: `unwell`, `draining` (also of a cordon), `not fresh`, `in grace` (a lease "
        "ended early), `suspect`, `bundle` (set aside for one that waits); counted up to a thousand.",
        {"unwell": 1},
    ),
]
HeldWhy = Annotated[str, doc("Why it is held back: it is unwell; left out when it is not.", "no answer")]
HeldBy = Annotated[Literal["node", "operator"], doc("Who holds it back.", "node")]
Ended = Annotated[int, doc("How many leases ended by this.", 1, ge=0)]
Total = Annotated[int, doc("How many there are in all, on this page or not.", 42, ge=0)]
Version = Annotated[int, doc("The version of what the hub told the node; the node names it with its next beat.", 7)]
NextBeat = Annotated[int, doc("In how many milliseconds the next heartbeat is due.", 5000, ge=0)]
Maintenance = Annotated[bool, doc("Whether all slots of the pool are being replaced, so that none is lent.", False)]
Source = Annotated[
    Literal["setting", "run-time"], doc("Whether a setting or an operator at run time says so.", "setting")
]
Complete = Annotated[bool, doc("Whether there is nothing older, neither beyond the limit nor trimmed.", True)]
ElapsedMs = Annotated[float, doc("How long the pass took, in milliseconds.", 1.5)]
Errors = Annotated[int, doc("How many could not be looked at.", 0, ge=0)]
Playwright = Annotated[
    str | None, doc("The runtime version that the node reports; null when it reports none.", "1.48.0")
]

Uuid = Annotated[str, doc("A UUID.", TASK, json_schema_extra={"format": "uuid"})]
TaskId = Annotated[str, doc("The id of the task.", TASK, json_schema_extra={"format": "uuid"})]
WorkerId = Annotated[str, doc("The id of the worker.", WORKER, json_schema_extra={"format": "uuid"})]
Moment = Annotated[
    str, doc("When, by the clock of the store.", "2026-01-02T03:04:05.678901Z", json_schema_extra=DATE_TIME)
]
Room = Annotated[str, doc("The room: a namespace of jobs, tasks and providers.", "lab")]
Category = Annotated[str, doc("The category, the middle part of the full name.", "modifiers")]
Name = Annotated[str, doc("The name, the last part of the full name.", "Rotate")]
FullName = Annotated[str, doc("The full name: room:category:name.", JOB)]
Object = Annotated[Any, Field(json_schema_extra={"additionalProperties": True, "type": "object"})]  # as it was sent
Schema = Annotated[Object, doc("The JSON Schema of the payload, as the worker registered it.", {"type": "object"})]
Payload = Annotated[Object, doc("What the task was submitted with.", {"angle": 90})]
