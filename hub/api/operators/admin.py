"""The endpoints for operators: drain, cordon, remove and upgrade nodes, switch and run the sweepers, read the audit
log."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal, cast

from fastapi import APIRouter, Request

from hub.api.callers.credentials import origin
from hub.api.capacity.nodes import remove
from hub.api.handling.context import in_seconds, remote_ip
from hub.api.inputs import caller_of, hub_of
from hub.api.operations import TOKEN, operation
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
from hub.capacity.nodes.models import DrainCall, check_node_id
from hub.core import Hub
from hub.errors import BrakeOff, Forbidden, InvalidValue, UnknownNode
from hub.sweeping.brake import Brake
from hub.sweeping.leases import LeaseSweeperService
from hub.sweeping.nodes import NodeSweeperService
from hub.sweeping.reconciler import Reconciler
from hub.tokens.secrets import ADMIN

router = APIRouter(tags=["admin"])


@router.post(
    "/admin/nodes/{node_id:path}/drain",
    **operation(
        "drainNode",
        (ADMIN, TOKEN),
        body=DrainBody,
        optional=True,
        refusals=(Forbidden, UnknownNode),
    ),
)
async def drain(request: Request, node_id: str) -> Answer[SwitchedShape]:
    """Stop lending a node's slots. Slots that are lent stay with their borrowers, until the deadline if one is given.
    For operators, and for the node itself.

    The deadline counts from this call, on the hub clock. A repeated call replaces the deadline, and a call without one
    removes it.
    """
    node = _operated(request, node_id)
    deadline_s = DrainBody.read(await bodies.read_body(request, optional=True)).deadline_seconds
    left_ms = None if deadline_s is None else int(deadline_s * 1000)
    more = {} if left_ms is None else {"deadlineSeconds": left_ms / 1000}
    return await _switch(request, node, DrainCall(True, left_ms=left_ms), "node.drain", more)


@router.post(
    "/admin/nodes/{node_id:path}/cordon",
    **operation("cordonNode", (ADMIN, TOKEN), body=CordonBody, refusals=(Forbidden, UnknownNode)),
)
async def cordon(request: Request, node_id: str) -> Answer[SwitchedShape]:
    """Lend no more slots of a node, and note the reason. What is lent stays, and the node goes on. Undrain ends the
    cordon.

    A cordon replaces a drain, and a drain replaces a cordon: the last call decides. A cordon survives the loss of a
    store.
    """
    node = _operated(request, node_id)
    body = CordonBody.read(await bodies.read_body(request))
    return await _switch(request, node, DrainCall(True, reason=body.reason), "node.cordon", {"reason": body.reason})


@router.post(
    "/admin/nodes/{node_id:path}/undrain",
    **operation("undrainNode", (ADMIN, TOKEN), refusals=(InvalidValue, Forbidden, UnknownNode)),
)
async def undrain(request: Request, node_id: str) -> Answer[SwitchedShape]:
    """Lend a node's slots again: its drain or its cordon is over."""
    return await _switch(request, _operated(request, node_id), DrainCall(False), "node.undrain", {})


def _operated(request: Request, node_id: str) -> str:
    """Return the id of the node that a call is about; raises `Forbidden` unless the caller is an operator or the node
    itself."""
    who, node = caller_of(request), check_node_id(node_id)
    who.check_node(node)
    return node


async def _switch(
    request: Request, node: str, call: DrainCall, action: str, more: dict[str, Any]
) -> Answer[SwitchedShape]:
    hub = hub_of(request)
    now = await hub.nodes.drain(node, call)
    facts: dict[str, Any] = {"nodeId": node, "heldBack": now.held, "lent": now.lent, **more}
    await hub.audit.write("admin", action, **await origin(request), **facts)
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
    "/admin/nodes/{node_id:path}/sidecar/upgrade",
    **operation("upgradeNode", (ADMIN,), refusals=(InvalidValue,)),
)
async def upgrade(request: Request, node_id: str) -> Answer[UpgradingShape]:
    """Ask a node, or `all`, to withdraw, drain and rebuild its slots."""
    hub = hub_of(request)
    node = check_node_id(node_id)
    targets = await hub.nodes.request_upgrade(node)
    await hub.audit.write(
        "admin", "node.sidecar.upgrade", actor="dashboard", **await origin(request),
        requested=node, scheduled=len(targets), targets=",".join(targets[:100]),
    )  # fmt: skip
    return Answer(UpgradingShape(scheduled=len(targets), targets=targets))


@router.delete("/admin/nodes/{node_id:path}", **operation("removeNode", (ADMIN,), refusals=(InvalidValue,)))
async def remove_node(request: Request, node_id: str) -> Answer[LeftShape]:
    """Remove a node: its slots are withdrawn, and their leases end, at once."""
    hub = hub_of(request)
    answer = await remove(hub, node_id)
    await hub.audit.write("admin", "node.remove", **await origin(request), nodeId=node_id)
    return answer


@router.get("/admin/sweeper", **operation("getSweeper", (ADMIN,)))
async def sweeper(request: Request) -> Answer[SweeperShape]:
    """Return whether stale nodes are removed, who has set that, and the state of the brake."""
    return Answer(await _switch_state(hub_of(request)))


@router.put("/admin/sweeper", **operation("switchSweeper", (ADMIN,), body=SwitchBody))
async def switch(request: Request) -> Answer[SweeperShape]:
    """Turn expiry on or off for all hubs, or back to each hub's setting with null."""
    hub = hub_of(request)
    said = SwitchBody.read(await bodies.read_body(request))
    wanted = said.expire
    by = said.by or remote_ip(request) or "unknown"
    await hub.clock.switch_expire(wanted, by[:100])
    shown = "default" if wanted is None else str(wanted).lower()
    await hub.audit.write(
        "admin",
        "sweeper.expire",
        actor=by[:100],
        **await origin(request),
        expire=shown,
    )
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


@router.get("/admin/brake", **operation("getBrake", (ADMIN,), p.OF_BRAKE))
async def brake(request: Request) -> Answer[BrakeShape]:
    """Return the state of the brake: it is engaged while so many nodes (with `of=workers`: workers) are silent at once
    that the sweeper holds most of them back."""
    hub = hub_of(request)
    return Answer(await brake_shape(Brake(hub.store, hub.settings, _braked(request.query_params.get("of")))))


@router.post(
    "/admin/brake/release",
    **operation("releaseBrake", (ADMIN,), body=ReleaseBody, optional=True, refusals=(BrakeOff,)),
)
async def release_brake(request: Request) -> Answer[BrakeShape]:
    """Release the brake: all nodes, or all workers, that are silent now are removed, by any hub.

    Afterwards the brake is ready to engage again.
    """
    hub = hub_of(request)
    said = ReleaseBody.read(await bodies.read_body(request, optional=True))
    of = said.of
    by = (said.by or remote_ip(request) or "unknown")[:100]
    brake = Brake(hub.store, hub.settings, of)
    await brake.release(by)
    await hub.audit.write(
        "admin",
        "brake.release",
        severity="Warning",
        actor=by,
        **await origin(request),
        of=of,
    )
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


def _braked(of: Any) -> Literal["nodes", "workers"]:
    """Return the kind of brake in a query, by default that of nodes; raises `InvalidValue`."""
    match of:
        case None | "nodes":
            return "nodes"
        case "workers":
            return "workers"
    raise InvalidValue("of must be nodes or workers", member="of")


@router.post("/admin/sweep", **operation("runSweep", (ADMIN,), body=SweepBody, optional=True))
async def sweep(request: Request) -> Answer[SweptShape]:
    """Run one pass of both sweepers now, and return what it did; with `dryRun` what it would do."""
    hub = hub_of(request)
    dry_run = SweepBody.read(await bodies.read_body(request, optional=True)).dry_run
    hub.clock.expire_override, _, _ = await hub.clock.read_switch()
    audit = Reconciler(hub.store, hub.settings, hub.pools)
    leases = await LeaseSweeperService(hub.store, hub.settings, hub.leases, audit, hub.audit).sweep(dry_run=dry_run)
    service = NodeSweeperService(hub.store, hub.settings, hub.nodes, hub.clock, audit, hub.audit)
    nodes = await service.sweep(dry_run=dry_run)
    if not dry_run:
        await hub.audit.write(
            "admin", "sweep", **await origin(request), expired=nodes.expired,
            returned=leases.expired,
        )  # fmt: skip
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


@router.get(
    "/audit",
    **operation("listAudit", (ADMIN,), p.SKIP, p.TAKE, p.CATEGORY, p.ACTION, p.SINCE, p.SEARCH),
)
async def audit_log(request: Request) -> Answer[list[AuditEntryShape]]:
    """Return the audit log, newest first; with `q` only the entries that contain this text."""
    hub = hub_of(request)
    query = request.query_params
    skip = whole_number(query.get("skip", "0"), "skip", 0, 10**9)
    take = whole_number(query.get("take", "100"), "take", 1, 10**9)
    since = _instant(query.get("sinceUtc", ""))
    text = bodies.search(request)
    entries = await hub.audit.read(skip, take, query.get("category"), query.get("action"), since, text)
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
