"""The caps: how many leases under a label may be live at once. They can be listed, and changed for all hubs at run
time."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request

from hub.api.capacity.leases import asked_label
from hub.api.inputs import Audit, Hub, Sent, hub_of
from hub.api.operations import operation
from hub.api.shapes.answer import Answer
from hub.api.shapes.operator_bodies import CapBody
from hub.api.shapes.operators import CapShape, CapsShape
from hub.errors import InvalidLabel
from hub.store.lenient import read_each
from hub.tokens.secrets import ADMIN

router = APIRouter(tags=["admin"])
CAP_MAX = 999_999_999
ALL = "*"  # stands for every label that has no cap of its own


def _capped(request: Request) -> str:
    """Return the label in the path, or `ALL`; raises `InvalidLabel`."""
    label: str = request.path_params["label"]
    return label if label == ALL else asked_label(hub_of(request), label).text


Capped = Annotated[str, Depends(_capped)]


@router.get("/admin/caps", **operation("listCaps", (ADMIN,)))
async def caps(hub: Hub) -> Answer[CapsShape]:
    """Return the caps by label, with the live leases and the borrows that wait; `default` is for labels without a cap
    of their own.

    0 is no limit. A cap that was set at run time wins over one of the environment.
    """
    found = await _in_force(hub)
    default, source = found.pop(ALL)
    rows = await _rows(hub, found)
    return Answer(CapsShape(default=default, defaultSource=source, caps=rows))


@router.put("/admin/caps/{label:path}", **operation("setCap", (ADMIN,), refusals=(InvalidLabel,)))
async def set_cap(hub: Hub, label: Capped, said: Sent[CapBody], audit: Audit) -> Answer[CapShape]:
    """Set the cap of a label, or of all labels without one of their own (`*`), for all hubs; null clears a cap that was
    set.

    Waiters that a higher cap lets in are served before this call is answered. With a lower cap the live leases stay.
    """
    await hub.queue.set_cap(label, said.cap)
    shown = "cleared" if said.cap is None else said.cap
    await audit.write("admin", "cap.set", actor=audit.name(said.by), labelKey=label, cap=shown)
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
