"""The caps: how many leases under a label may be live at once. They can be listed, and changed for all hubs at run
time."""

from __future__ import annotations

from fastapi import APIRouter, Request

from hub.api.callers.credentials import origin
from hub.api.handling.context import remote_ip
from hub.api.inputs import hub_of
from hub.api.operations import operation
from hub.api.shapes import reading as bodies
from hub.api.shapes.answer import Answer
from hub.api.shapes.operator_bodies import CapBody
from hub.api.shapes.operators import CapShape, CapsShape
from hub.capacity.labels import parse_kinds, parse_label
from hub.core import Hub
from hub.errors import InvalidLabel
from hub.store.lenient import read_each
from hub.tokens.secrets import ADMIN

router = APIRouter(tags=["admin"])
CAP_MAX = 999_999_999
ALL = "*"  # stands for every label that has no cap of its own


@router.get("/admin/caps", **operation("listCaps", (ADMIN,)))
async def caps(request: Request) -> Answer[CapsShape]:
    """Return the caps by label, with the live leases and the borrows that wait; `default` is for labels without a cap
    of their own.

    0 is no limit. A cap that was set at run time wins over one of the environment.
    """
    hub = hub_of(request)
    found = await _in_force(hub)
    default, source = found.pop(ALL)
    rows = await _rows(hub, found)
    return Answer(CapsShape(default=default, defaultSource=source, caps=rows))


@router.put("/admin/caps/{label:path}", **operation("setCap", (ADMIN,), body=CapBody, refusals=(InvalidLabel,)))
async def set_cap(request: Request, label: str) -> Answer[CapShape]:
    """Set the cap of a label, or of all labels without one of their own (`*`), for all hubs; null clears a cap that was
    set.

    Waiters that a higher cap lets in are served before this call is answered. With a lower cap the live leases stay.
    """
    hub = hub_of(request)
    if label != ALL:
        label = parse_label(label, parse_kinds(hub.settings.label_kinds), wildcards=hub.agreed.holds.wildcards).text
    said = CapBody.read(await bodies.read_body(request))
    cap = said.cap
    by = (said.by or remote_ip(request) or "unknown")[:100]
    await hub.queue.set_cap(label, cap)
    shown = "cleared" if cap is None else cap
    await hub.audit.write(
        "admin",
        "cap.set",
        actor=by,
        **await origin(request),
        labelKey=label,
        cap=shown,
    )
    found = await _in_force(hub)
    (row,) = await _rows(hub, {label: found.get(label, (found[ALL][0], "default"))})
    return Answer(row)


async def _in_force(hub: Hub) -> dict[str, tuple[int, str]]:
    """Return the cap and its source by label, with `ALL` for all labels without a cap of their own."""
    found = {ALL: (0, "default")}
    for label, source, cap in await hub.queue.caps():  # sorted: a cap of run time comes last, and wins
        found[label] = (cap, source)
    return found


async def _rows(hub: Hub, caps: dict[str, tuple[int, str]]) -> list[CapShape]:
    keys = hub.store.keys
    counted = [label for label in caps if label != ALL]
    asked = (("ZCARD", key) for label in counted for key in (keys.in_flight(label), keys.queue(label)))
    counts = await read_each(hub.store, asked, 0)
    live = dict(zip(counted, zip(counts[::2], counts[1::2], strict=True), strict=True))
    rows = []
    for label, (cap, source) in caps.items():
        in_flight, waiting = live.get(label, (None, None))
        rows.append(CapShape(labelKey=label, cap=cap, source=source, inFlight=in_flight, waiting=waiting))
    return rows
