"""The endpoints that show the live leases."""

from __future__ import annotations

from fastapi import APIRouter

from hub.api.capacity.borrowers import holder_shape
from hub.api.inputs import Hub, Page, Query
from hub.api.operations import operation
from hub.api.shapes import parameters as p
from hub.api.shapes.answer import Answer
from hub.api.shapes.leases import SessionPageShape, SessionShape
from hub.capacity.holds import Hold
from hub.capacity.lease_use import Limits
from hub.capacity.models import LeaseRecord
from hub.errors import InvalidValue, NotFound
from hub.store.keys import key_part
from hub.tokens.secrets import ADMIN, RUNNER

router = APIRouter(tags=["sessions"])


@router.get(
    "/sessions",
    **operation(
        "listLeases",
        (RUNNER, ADMIN),
        p.OF_LABEL,
        p.OF_POOL,
        p.OF_NODE,
        p.OF_RUN,
        shared=True,
        borrows=True,
        below_v2="/leases",
    ),
)
async def sessions(hub: Hub, page: Page, query: Query) -> Answer[SessionPageShape]:
    """Return a page of the live leases, those that end first at the top: all, or those of one label, pool, node or
    run."""
    total, slots = await _page(hub, page, query)
    found = [each for each in await hub.leases.live.find_all(slots) if each]
    held = await hub.holds.of([key_part(each.slot) for each in found])
    limits = await hub.use.limits([each.slot for each in found])
    return Answer(SessionPageShape(total=total, sessions=list(map(_session, found, held, limits))))


async def _page(hub: Hub, page: Page, query: Query) -> tuple[int, list[str]]:
    keys = hub.store.keys
    match [(name, query[name]) for name in ("label", "pool", "node", "run") if name in query]:
        case []:
            return await hub.leases.live.page(keys.deadlines, *page)
        case [("label", label)]:
            return await hub.leases.live.page(keys.in_flight(label), *page)
        case [("run", run)]:
            return await hub.leases.live.page(keys.run(run), *page)
        case [("node", node)]:
            return await hub.nodes.lent(node, *page)
        case [("pool", pool)]:
            return await hub.pools.lent(pool, *page)
    raise InvalidValue("filter by one of label, pool, node or run at a time")


@router.get(
    "/sessions/{slot}",
    **operation("getLease", (RUNNER, ADMIN), refusals=(NotFound,), borrows=True, below_v2="/leases/{slot}"),
)
async def session(hub: Hub, slot: str) -> Answer[SessionShape]:
    """Return the live lease of a slot; 404 when it is not lent."""
    found = await hub.leases.live.find(key_part(slot))
    if found is None:
        raise NotFound(f"slot {slot} is not lent")
    (hold,), (limits,) = await hub.holds.of([key_part(slot)]), await hub.use.limits([slot])
    return Answer(_session(found, hold, limits))


def _session(found: LeaseRecord, hold: Hold, limits: Limits) -> SessionShape:
    shown = SessionShape(
        browserId=found.slot,
        labelKey=found.label,
        poolLabel=found.pool,
        runId=found.run,
        nodeId=found.node,
        borrowedAtUtc=found.borrowed_at,
        ttlSeconds=found.ttl_s,
        secondsLeft=found.left_ms / 1000,
        holder=holder_shape(found.holder),
    )
    if found.holder and found.holder.bundle:
        shown["bundle"] = found.holder.bundle
    if found.holder and found.holder.run_name:
        shown["runName"] = found.holder.run_name
    if hold.reason:
        shown["held"], shown["heldBy"] = hold.reason, hold.by
    if limits.ends_ms is not None:
        shown["endsBy"], shown["endsInSeconds"] = limits.why, limits.ends_ms / 1000
    return shown
