"""The shapes of usage."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from hub.api.shapes.fields import doc
from hub.usage.models import Kind


class FiguresShape(TypedDict):
    """Figures of usage."""

    leases: Annotated[int, doc("Leases that began.", 12, ge=0)]
    heldSeconds: Annotated[float, doc("How long slots were held, in all.", 86400.5, ge=0)]
    waitedSeconds: Annotated[float, doc("How long these leases were waited for in the queue, in all.", 312.5, ge=0)]
    idleSeconds: Annotated[
        float,
        doc("Of that, from the last activity of a lease to its end, where its holder told of any.", 0.0, ge=0),
    ]
    refusals: Annotated[int, doc("Borrows that were answered without a slot.", 3, ge=0)]


class UsageRowShape(FiguresShape):
    """The figures of one name."""

    name: Annotated[
        str, doc("The user, team, label, slot or node; empty: none; `other`: all beyond 10,000 of a day.", "ann")
    ]


class DayShape(FiguresShape):
    """The figures of one day."""

    day: Annotated[str, doc("The day, in UTC.", "2026-01-02")]


class UsageShape(TypedDict):
    """Who used what, from one day to another."""

    by: Annotated[Kind, doc("What the names are.", "user")]
    since: Annotated[str, doc("The first day.", "2026-01-02")]
    until: Annotated[str, doc("The last day.", "2026-02-01")]
    total: Annotated[int, doc("How many names there are.", 1, ge=0)]
    usage: Annotated[list[UsageRowShape], doc("A page of the names, those first that held slots for longest.", [])]
    sum: Annotated[FiguresShape, doc("The figures of all names.", None)]
    days: Annotated[list[DayShape], doc("The figures of each day that has any, the earliest first.", [])]
