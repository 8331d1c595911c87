"""The endpoints for operators: drain, cordon, remove and upgrade nodes, switch and run the sweepers, read the audit
log."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, cast

from fastapi import APIRouter, Depends, Request

from hub.api.capacity.nodes import OwnNode, remove
from hub.api.handling.context import in_seconds
from hub.api.inputs import Audit, Hub, Sent
from hub.api.operations import TOKEN, operation, takes
from hub.api.shapes import parameters as p
from hub.api.shapes import reading as bodies
from hub.api.shapes.answer import Answer
from hub.api.shapes.nodes import LeftShape
from hub.api.shapes.operator_bodies import CordonBody, DrainBody, ReleaseBody, SweepBody, SwitchBody
from hub.api.shapes.operators import (
    AuditEntryShape,
    BrakeShape,
    LeasesSweptShape,
    NodesSweptShape,
    SweeperShape,
    SweptShape,
    SwitchedShape,
    UpgradingShape,
)
from hub.api.shapes.readers import whole_number
from hub.capacity.nodes.models import DrainCall
from hub.errors import Forbidden, InvalidValue, UnknownNode
from hub.sweeping.brake import Brake, BrakeOff
from hub.sweeping.leases import LeaseSweeperService
from hub.sweeping.nodes import NodeSweeperService
from hub.sweeping.reconciler import Reconciler
from hub.tokens.secrets import ADMIN

router = APIRouter(tags=["admin"])


@router.post(
    "/admin/nodes/{node_id:path}/drain", **operation("drainNode", (ADMIN, TOKEN), refusals=(Forbidden, UnknownNode))
)
async def drain(hub: Hub, node: OwnNode, body: Sent[DrainBody], audit: Audit) -> Answer[SwitchedShape]:
    """Stop lending a node's slots. Slots that are lent stay with their borrowers, until the deadline if one is given.
    For operators, and for the node itself.

    The deadline counts from this call, on the hub clock. A repeated call replaces the deadline, and a call without one
    removes it.
    """
    left_ms = None if body.deadline_seconds is None else int(body.deadline_seconds * 1000)
    more = {} if left_ms is None else {"deadlineSeconds": left_ms / 1000}
    return await _switch(hub, audit, node, DrainCall(True, left_ms=left_ms), "node.drain", more)


@router.post(
    "/admin/nodes/{node_id:path}/cordon", **operation("cordonNode", (ADMIN, TOKEN), refusals=(Forbidden, UnknownNode))
)
async def cordon(hub: Hub, node: OwnNode, body: Sent[CordonBody], audit: Audit) -> Answer[SwitchedShape]:
    """Lend no more slots of a node, and note the reason. What is lent stays, and the node goes on. Undrain ends the
    cordon.

    A cordon replaces a drain, and a drain replaces a cordon: the last call decides. A cordon survives the loss of a
    store.
    """
    call, facts = DrainCall(True, reason=body.reason), {"reason": body.reason}
    return await _switch(hub, audit, node, call, "node.cordon", facts)


@router.post(
    "/admin/nodes/{node_id:path}/undrain",
    **operation("undrainNode", (ADMIN, TOKEN), refusals=(InvalidValue, Forbidden, UnknownNode)),
)
async def undrain(hub: Hub, node: OwnNode, audit: Audit) -> Answer[SwitchedShape]:
    """Lend a node's slots again: its drain or its cordon is over."""
    return await _switch(hub, audit, node, DrainCall(False), "node.undrain", {})


async def _switch(
    hub: Hub, audit: Audit, node: str, call: DrainCall, action: str, more: dict[str, Any]
) -> Answer[SwitchedShape]:
    now = await hub.nodes.drain(node, call)
    await audit.write("admin", action, nodeId=node, heldBack=now.held, lent=now.lent, **more)
    answer = SwitchedShape(
        nodeId=node,
        draining=now.draining and not call.reason,
        heldBack=now.held,
        lent=now.lent,
        deadlineSecondsLeft=in_seconds(now.deadline_left_ms),
    )
    if call.reason:
        answer["cordoned"], answer["reason"] = True, call.reason
    return Answer(answer)


@router.post(
    "/admin/nodes/{node_id:path}/sidecar/upgrade", **operation("upgradeNode", (ADMIN,), refusals=(InvalidValue,))
)
async def upgrade(hub: Hub, node: OwnNode, audit: Audit) -> Answer[UpgradingShape]:
    """Ask a node, or `all`, to withdraw, drain and rebuild its slots."""
    targets = await hub.nodes.request_upgrade(node)
    facts = {"scheduled": len(targets), "targets": ",".join(targets[:100])}
    await audit.write("admin", "node.sidecar.upgrade", actor="dashboard", requested=node, **facts)
    return Answer(UpgradingShape(scheduled=len(targets), targets=targets))


@router.delete("/admin/nodes/{node_id:path}", **operation("removeNode", (ADMIN,), refusals=(InvalidValue,)))
async def remove_node(hub: Hub, node_id: str, audit: Audit) -> Answer[LeftShape]:
    """Remove a node: its slots are withdrawn, and their leases end, at once."""
    answer = await remove(hub, node_id)
    await audit.write("admin", "node.remove", nodeId=node_id)
    return answer


@router.get("/admin/sweeper", **operation("getSweeper", (ADMIN,)))
async def sweeper(hub: Hub) -> Answer[SweeperShape]:
    """Return whether stale nodes are removed, who has set that, and the state of the brake."""
    return Answer(await _switch_state(hub))


@router.put("/admin/sweeper", **operation("switchSweeper", (ADMIN,)))
async def switch(hub: Hub, body: Sent[SwitchBody], audit: Audit) -> Answer[SweeperShape]:
    """Turn expiry on or off for all hubs, or back to each hub's setting with null."""
    by = audit.name(body.by)
    await hub.clock.switch_expire(body.expire, by)
    shown = "default" if body.expire is None else str(body.expire).lower()
    await audit.write("admin", "sweeper.expire", actor=by, expire=shown)
    return Answer(await _switch_state(hub))


async def _switch_state(hub: Hub) -> SweeperShape:
    override, by, at = await hub.clock.read_switch()
    return SweeperShape(
        expire=hub.settings.sweeper_expire if override is None else override,
        source="setting" if override is None else "run-time",
        setBy=by,
        setAtUtc=at,
        setting=hub.settings.sweeper_expire,
        brake=await brake_shape(Brake(hub.store, hub.settings)),
    )


@takes(p.OF_BRAKE)
def _braked(request: Request) -> Literal["nodes", "workers"]:
    """Return which brake the query is about, by default that on nodes; raises `InvalidValue`."""
    match request.query_params.get("of"):
        case None | "nodes":
            return "nodes"
        case "workers":
            return "workers"
    raise InvalidValue("of must be nodes or workers", member="of")


@router.get("/admin/brake", **operation("getBrake", (ADMIN,)))
async def brake(hub: Hub, of: Annotated[Literal["nodes", "workers"], Depends(_braked)]) -> Answer[BrakeShape]:
    """Return the state of the brake: it is engaged while so many nodes (with `of=workers`: workers) are silent at once
    that the sweeper holds most of them back."""
    return Answer(await brake_shape(Brake(hub.store, hub.settings, of)))


@router.post("/admin/brake/release", **operation("releaseBrake", (ADMIN,), refusals=(BrakeOff,)))
async def release_brake(hub: Hub, body: Sent[ReleaseBody], audit: Audit) -> Answer[BrakeShape]:
    """Release the brake: all nodes, or all workers, that are silent now are removed, by any hub.

    Afterwards the brake is ready to engage again.
    """
    by, brake = audit.name(body.by), Brake(hub.store, hub.settings, body.of)
    await brake.release(by)
    await audit.write("admin", "brake.release", severity="Warning", actor=by, of=body.of)
    return Answer(await brake_shape(brake))


async def brake_shape(brake: Brake) -> BrakeShape:
    """Return the state of a brake as an answer has it."""
    found = await brake.status()
    return BrakeShape(
        state=found.state,
        percent=found.percent,
        minimum=found.minimum,
        stale=found.stale,
        registered=found.registered,
        perInterval=found.per_interval,
        heldBack=found.held,
        graceSecondsLeft=found.grace_s,
        why=found.why,
        sinceUtc=found.since,
        seenUtc=found.seen,
        releasedBy=found.released_by,
        releasedAtUtc=found.released_at,
    )


@router.post("/admin/sweep", **operation("runSweep", (ADMIN,)))
async def sweep(hub: Hub, body: Sent[SweepBody], log: Audit) -> Answer[SweptShape]:
    """Run one pass of both sweepers now, and return what it did; with `dryRun` what it would do."""
    dry_run = body.dry_run
    hub.clock.expire_override, _, _ = await hub.clock.read_switch()
    audit = Reconciler(hub.store, hub.settings, hub.pools, hub.holds)
    leases = await LeaseSweeperService(hub.store, hub.settings, hub.leases, audit, hub.audit).sweep(dry_run=dry_run)
    service = NodeSweeperService(hub.store, hub.settings, hub.nodes, hub.clock, audit, hub.audit)
    nodes = await service.sweep(dry_run=dry_run)
    if not dry_run:
        await log.write("admin", "sweep", expired=nodes.expired, returned=leases.expired)
    return Answer(
        SweptShape(
            dryRun=dry_run,
            expire=service.expires,
            brake=nodes.brake,
            nodes=NodesSweptShape(
                scanned=nodes.scanned,
                stale=nodes.stale,
                expired=nodes.expired,
                refreshed=nodes.refreshed,
                heldBack=nodes.held,
                errors=nodes.errors,
                elapsedMs=nodes.elapsed_ms,
                names=nodes.names,
            ),
            leases=LeasesSweptShape(
                processed=leases.scanned,
                returned=leases.expired,
                drained=leases.drained,
                errors=leases.errors,
                elapsedMs=leases.elapsed_ms,
            ),
        )
    )


AuditQuery = tuple[int, int, str | None, str | None, datetime | None, str]


@takes(p.SKIP, p.TAKE, p.CATEGORY, p.ACTION, p.SINCE, p.SEARCH)
def _entries(request: Request) -> AuditQuery:
    """Return which entries of the audit log the query asks for; raises `InvalidValue`."""
    query = request.query_params
    skip = whole_number(query.get("skip", "0"), "skip", 0, 10**9)
    take = whole_number(query.get("take", "100"), "take", 1, 10**9)
    since = _instant(query.get("sinceUtc", ""))
    return skip, take, query.get("category"), query.get("action"), since, bodies.search(request)


@router.get("/audit", **operation("listAudit", (ADMIN,)))
async def audit_log(hub: Hub, asked: Annotated[AuditQuery, Depends(_entries)]) -> Answer[list[AuditEntryShape]]:
    """Return the audit log, newest first; with `q` only the entries that contain this text."""
    entries = await hub.audit.read(*asked)
    return Answer(cast(list[AuditEntryShape], entries))  # entries may have been written by another version of the hub


def _instant(given: str) -> datetime | None:
    """Return the time in a text, None for an empty text; raises `InvalidValue`."""
    if not given:
        return None
    try:
        moment = datetime.fromisoformat(given)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        said = "sinceUtc must be a time such as 2026-01-02T03:04:05Z; a + in a query is written %2B"
        raise InvalidValue(said, member="sinceUtc") from None
