"""The caps: how many leases under a label may be live at once. They can be listed, and changed for all hubs at run
time."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request

from hub.api.capacity.asking import asked_label
from hub.api.inputs import Audit, Hub, Sent, hub_of
from hub.api.operations import operation
from hub.api.shapes.answer import Answer
from hub.api.shapes.operator_bodies import CapBody
from hub.api.shapes.operators import CapShape, CapsShape
from hub.capacity.labels import parse_label
from hub.errors import InvalidLabel, InvalidValue
from hub.store.lenient import read_each
from hub.tokens.secrets import ADMIN

router = APIRouter(tags=["admin"])
CAP_MAX = 999_999_999
ALL = "*"  # stands for every label that has no cap of its own
SERVED = "served"  # the source of a cap that counts what a pool serves


def _capped(request: Request) -> str:
    """Return the label in the path, or `ALL`; raises `InvalidLabel`."""
    label: str = request.path_params["label"]
    return label if label == ALL else asked_label(hub_of(request), label, 2 if "*" in label else 1).text


Capped = Annotated[str, Depends(_capped)]


@router.get("/admin/caps", **operation("listCaps", (ADMIN,)))
async def caps(hub: Hub) -> Answer[CapsShape]:
    """Return the caps by label, with the live leases and the borrows that wait; `default` is for labels without a cap
    of their own.

    0 is no limit. A cap that was set at run time wins over one of the environment.
    """
    found = await _in_force(hub)
    default, source = found.pop((ALL, ""))
    rows = await _rows(hub, found)
    return Answer(CapsShape(default=default, defaultSource=source, caps=rows))


@router.put("/admin/caps/{label:path}", **operation("setCap", (ADMIN,), refusals=(InvalidLabel, InvalidValue)))
async def set_cap(hub: Hub, label: Capped, said: Sent[CapBody], audit: Audit) -> Answer[CapShape]:
    """Set the cap of a label, or of all labels without one of their own (`*`), for all hubs; null clears a cap that was
    set.

    With `served` the cap counts every lease that the pool of this label, or one below it, serves, whatever was asked
    for; a label may have both. Waiters that a higher cap lets in are served before this call is answered. With a lower
    cap the live leases stay. A `hint` says that the label has no pool and nobody waits for it.
    """
    if said.served and "*" in label.split(":"):
        raise InvalidValue("a cap on what is served names one pool, without *", member="served")
    if said.served and label != ALL:
        parse_label(label)  # no pool has one segment
    await hub.queue.set_cap(label, said.cap, served=said.served)
    shown = "cleared" if said.cap is None else said.cap
    kind = {"served": True} if said.served else {}
    await audit.write("admin", "cap.set", actor=audit.name(said.by), labelKey=label, cap=shown, **kind)
    found = await _in_force(hub)
    default = (0, SERVED) if said.served else (found[ALL, ""][0], "default")
    which = label, SERVED if said.served else ""
    (row,) = await _rows(hub, {which: found.get(which, default)})
    if said.cap and label != ALL and not row["waiting"] and (hint := await hub.hints.of(label)):
        row["hint"] = f"{hint}, and nothing waits for it" if "?" not in hint else hint
    return Answer(row)


async def _in_force(hub: Hub) -> dict[tuple[str, str], tuple[int, str]]:
    """Return the cap and its source by label and kind (`SERVED` or ""). `ALL` stands for all labels without a cap of
    their own."""
    found = {(ALL, ""): (0, "default")}
    for label, source, cap in await hub.queue.caps():  # sorted: a cap of run time comes last, and wins
        found[label, SERVED if source == SERVED else ""] = (cap, source)
    return found


async def _rows(hub: Hub, caps: dict[tuple[str, str], tuple[int, str]]) -> list[CapShape]:
    keys = hub.store.keys
    counted = [which for which in caps if which[0] != ALL]
    asked = [
        command
        for label, kind in counted
        for command in (
            ("SCARD", keys.served(label)) if kind else ("ZCARD", keys.in_flight(label)),
            ("ZCARD", keys.queue(label)),
        )
    ]
    counts = await read_each(hub.store, asked, 0)
    live = dict(zip(counted, zip(counts[::2], counts[1::2], strict=True), strict=True))
    rows = []
    for which, (cap, source) in caps.items():
        in_flight, waiting = live.get(which, (None, None))
        rows.append(CapShape(labelKey=which[0], cap=cap, source=source, inFlight=in_flight, waiting=waiting))
    return rows
