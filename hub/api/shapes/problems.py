"""The shapes of refusals."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from typing_extensions import TypedDict

from hub.api.shapes import fields as w
from hub.api.shapes.fields import doc
from hub.api.shapes.leases import HolderShape


class ProblemShape(TypedDict):
    """A refusal, by RFC 9457. `x-codes` beside each answer lists the codes it may have there."""

    type: Annotated[
        str,
        doc(
            "Where the kind of refusal is explained; in the jobs API its last part is the code.",
            "https://httpstatuses.com/503",
        ),
    ]
    title: Annotated[str, doc("The status in words.", "Service Unavailable")]
    status: Annotated[int, doc("The HTTP status.", 503)]
    code: NotRequired[
        Annotated[str, doc("The machine-readable reason; in the jobs API the last part of `type` is it.", "timeout")]
    ]
    detail: NotRequired[
        Annotated[
            str,
            doc(
                "A sentence for people: what is wrong, and what would be right.",
                "Nobody returned a slot of gpu:a100 in time.",
            ),
        ]
    ]
    instance: NotRequired[Annotated[str, doc("The path that was called.", "/session/borrow")]]
    traceId: NotRequired[
        Annotated[str, doc("Names this refusal, for who asks the operator about it.", "9f86d081884c7d65")]
    ]
    reason: NotRequired[Annotated[str, doc("What exactly is wrong, as a word.", "empty-segment")]]
    member: NotRequired[Annotated[str, doc("The member, parameter or header that is wrong.", "ttlSeconds")]]
    expected: NotRequired[Annotated[str, doc("What would be right in `where` at `position`.", "a comparison")]]
    ticket: NotRequired[w.TicketId]
    position: NotRequired[w.Position]
    estimatedWaitSeconds: NotRequired[w.Estimate]
    browserId: NotRequired[w.SlotId]
    part: NotRequired[Annotated[int, doc("The part of the bundle that the refusal is about, from 0.", 0, ge=0)]]
    published: NotRequired[Annotated[int, doc("How many slots are published that it could have.", 2, ge=0)]]
    holder: NotRequired[Annotated[HolderShape, doc("The holder of what the caller may not end.", None)]]
    sinceUtc: NotRequired[Annotated[str, doc("Since when it holds or waits.", w.TIME, json_schema_extra=w.DATE_TIME)]]
    host: NotRequired[Annotated[str, doc("Where the process runs that is the node.", "rack-7/4b1d")]]
    heardMs: NotRequired[Annotated[int, doc("Milliseconds since it was heard.", 1200)]]
    silentInMs: NotRequired[
        Annotated[int, doc("In how many milliseconds it counts as silent, if it is not heard before.", 43801)]
    ]
    hint: NotRequired[
        Annotated[
            str,
            doc(
                "That no pool serves the label, or that no slot is as `where` says, and what may be meant.",
                "no pool serves gpu:a10O; did you mean gpu:a100?",
            ),
        ]
    ]


class DetailShape(TypedDict):
    """A refusal of the jobs API that has no code."""

    detail: Annotated[str, doc("What is wrong.", "Unauthorized")]


class WrongShape(TypedDict):
    """A fault in a request."""

    type: Annotated[str, doc("What kind of fault it is.", "missing")]
    loc: Annotated[list[str | int], doc("Where it is.", ["body", "worker_id"])]
    msg: Annotated[str, doc("What would be right.", "Field required")]
    input: Annotated[Any, doc("What stood there.", "")]


class ValidationFaultShape(TypedDict):
    """The refusal of a request to the jobs API that does not validate."""

    detail: Annotated[list[WrongShape], doc("All that is wrong with it.", [])]
