"""The endpoints for nodes: register, heartbeat, publish slots, leave, and list nodes."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Depends, Request

from hub.api.callers.admission import check_reader
from hub.api.callers.credentials import origin
from hub.api.capacity import offering
from hub.api.capacity.orders import asked_shape, orders_shape
from hub.api.handling.context import in_seconds, remote_ip
from hub.api.handling.context import serving as serving_found
from hub.api.handling.problems import problem
from hub.api.inputs import Caller, Hub, Query, Sent, Serving, Unread, caller_of
from hub.api.operations import ANYBODY, TOKEN, Subject, operation, takes
from hub.api.shapes import parameters as p
from hub.api.shapes import reading as bodies
from hub.api.shapes.answer import Answer
from hub.api.shapes.fields import NodeId
from hub.api.shapes.hold_bodies import SLOTS_MAX, CallerBody
from hub.api.shapes.node_bodies import BeatBody, BeatsBody, RegisterBody
from hub.api.shapes.nodes import (
    BeatenShape,
    DepartureShape,
    LeftShape,
    NodeInFullShape,
    NodePageShape,
    NodeShape,
    OrderOfNodeShape,
    OrdersShape,
    PublishedShape,
    RefusedBeatShape,
    RegisteredShape,
    SlotOfNodeShape,
    WithdrawnShape,
)
from hub.api.shapes.readers import whole_number
from hub.api.shapes.slot_bodies import PublishBody
from hub.audit import entry
from hub.capacity.matching import likenesses
from hub.capacity.nodes.models import STATES, Node, Order, Registration, check_node_id, check_reason, next_beat_ms
from hub.errors import (
    Forbidden,
    HubError,
    InvalidJson,
    InvalidLabel,
    InvalidValue,
    NodeIdCollides,
    NodeIdInUse,
    Settling,
    SlotLent,
    Superseded,
    Unauthorized,
    UnknownNode,
)
from hub.tokens.secrets import ADMIN, NODE, RUNNER

router = APIRouter(tags=["nodes"])


async def _denied(request: Request, refusal: HubError) -> None:
    if isinstance(refusal, Unauthorized | InvalidJson):
        reason = "unauthorized" if isinstance(refusal, Unauthorized) else refusal.facts.get("reason", "invalid-json")
        await serving_found(request).hub.audit.refused("node", "register.denied", remote_ip(request), reason)


@takes(refusals=(InvalidValue, Forbidden))
def _own_node(request: Request) -> str:
    """Return the id of the node in the path; raises `InvalidValue`, and `Forbidden` unless the caller may speak for the
    node."""
    node = check_node_id(request.path_params["node_id"])
    caller_of(request).check_node(node)
    return node


@takes(p.ONLY_FREE)
def _only_free(request: Request) -> bool:
    """Return whether the withdrawal of a slot that is lent is to be refused; raises `InvalidValue`."""
    return bodies.switch(request, "onlyFree")


@takes(p.REASON)
def _reason(request: Request) -> str:
    """Return why a slot is withdrawn, '' for no words; raises `InvalidValue`."""
    given = request.query_params.get("reason")
    return check_reason(given) if given else ""


@takes(p.INCARNATION)
def _process(request: Request) -> CallerBody:
    """Return which process of a node calls, by the query; raises `InvalidValue`."""
    return CallerBody.read(request.query_params)


OwnNode = Annotated[str, Depends(_own_node)]
OnlyFree = Annotated[bool, Depends(_only_free)]
Reason = Annotated[str, Depends(_reason)]
Process = Annotated[CallerBody, Depends(_process)]


@router.post(
    "/node/register",
    **operation(
        "registerNode",
        (NODE, TOKEN),
        refusals=(InvalidLabel, NodeIdCollides, NodeIdInUse, Forbidden, Superseded, Settling),
        about=Subject("node", in_body=True),
        denied=_denied,
    ),
)
async def register(request: Request, hub: Hub, caller: Caller, sent: Unread[RegisterBody]) -> Answer[RegisteredShape]:
    """Register a node, or bring its registration up to date; the call counts as a heartbeat. The call may also publish
    the node's slots."""
    said = sent.read()
    node = _registration(said)
    caller.check_node(node.node_id)
    slots = offering.publication(hub, node.node_id, said, sent.document)
    facts: dict[str, Any] = {"apps": len(node.apps), "capacity": node.capacity, "labels": len(node.labels)}
    who = await origin(request)
    new, old = (
        entry("node", action, actor=node.node_id, **who, **facts) for action in ("register.success", "register.update")
    )
    registered = await hub.nodes.register(
        node, _pool_labels(hub, node), new, old, hub.audit.max_entries, said.drain_call
    )
    answer = RegisteredShape(
        registered=node.node_id, nextBeatMs=next_beat_ms(hub.nodes.timeout_ms), version=registered.version
    )
    if registered.term:
        answer["term"] = registered.term
    if registered.lent:
        answer["lent"] = dict(registered.lent)
        answer["lentFor"] = asked_shape(registered.lent_for)
    if "slots" in sent.document or "pools" in sent.document:
        answer["slots"] = await offering.publish(hub, node.node_id, slots, said)
    return Answer(answer)


def _registration(said: RegisterBody) -> Registration:
    return Registration(
        said.node_id,
        said.apps,
        said.capacity,
        said.labels,
        said.base_url.strip(),
        said.incarnation,
        said.term,
        said.host,
        said.first,
    )


def _pool_labels(hub: Hub, node: Registration) -> list[str]:
    """Return the apps of a node that are labels of pools. The hub opens those of these pools that have a list of free
    slots already: the node may have written it itself."""
    return [app for app in node.apps[:SLOTS_MAX] if hub.pools.usable(app)]


@router.post(
    "/node/{node_id:path}/slots",
    **operation("publishSlots", (NODE, TOKEN), refusals=(InvalidLabel, Forbidden, UnknownNode, Superseded)),
)
async def publish(hub: Hub, caller: Caller, sent: Unread[PublishBody], node_id: str) -> Answer[PublishedShape]:
    """Put slots of a registered node on offer. A repeat changes nothing; each slot is answered on its own."""
    node, said = check_node_id(node_id), sent.read()
    caller.check_node(node)
    slots = offering.publication(hub, node, said, sent.document)
    rows = await offering.publish(hub, node, slots, said) if slots else []
    if not slots:
        await hub.nodes.get(node)
    published = sum(row["status"] == "published" for row in rows)
    return Answer(PublishedShape(nodeId=node, published=published, slots=rows))


@router.delete(
    "/node/{node_id:path}/slots/{slot_id}",
    **operation(
        "withdrawSlot",
        (NODE, TOKEN),
        p.NUMBER,
        refusals=(InvalidValue, Forbidden, UnknownNode, SlotLent, Superseded),
    ),
)
async def withdraw(
    hub: Hub, node: OwnNode, only_free: OnlyFree, reason: Reason, process: Process, slot_id: str
) -> Answer[WithdrawnShape]:
    """Take a slot off offer because it is gone; a lease of the slot ends at once. With `onlyFree=1` a slot that is lent
    is left as it is, and the call is refused. The holder of a lease that ends is told the `reason`."""
    caller = process.caller()._asdict()
    word, ended = await hub.pools.withdraw(node, slot_id, only_free=only_free, reason=reason, **caller)
    answer = WithdrawnShape(withdrawn=slot_id, ended=ended)
    if word == "unknown":
        answer["note"] = "not published"
    elif word == "late":
        answer["note"] = "published again by a later call"
    return Answer(answer)


@router.delete("/node/{node_id:path}", **operation("leaveNode", (NODE, TOKEN), refusals=(Forbidden, Superseded)))
async def leave(serving: Serving, caller: Caller, node: OwnNode, process: Process) -> Answer[LeftShape]:
    """Remove a node that leaves: its slots are withdrawn, and leases of them end, at once. A token that the node got by
    joining stays valid if the node keeps the secret of this token for its next start.

    A process that names its `incarnation` removes the node only while it is the node itself: 409 `superseded` when
    another process is the node by now.
    """
    answer = await remove(serving.hub, node, process.incarnation)
    if caller.token:
        await serving.hub.tokens.left(caller.token)
        serving.holders.forget()
    return answer


async def remove(hub: Hub, node_id: str, incarnation: str = "") -> Answer[LeftShape]:
    """Remove a node, and return how many slots were withdrawn and how many leases ended."""
    node = check_node_id(node_id)
    gone = await hub.nodes.leave(node, incarnation)
    answer = LeftShape(left=node, slots=gone.slots, ended=len(gone.ended))
    if not gone.known:
        answer["note"] = "not registered"
    return Answer(answer)


@router.post(
    "/node/heartbeat",
    **operation("sendHeartbeat", (NODE, TOKEN), refusals=(Forbidden,), about=Subject("node", in_body=True)),
)
async def heartbeat(hub: Hub, caller: Caller, body: Sent[BeatBody]) -> Answer[OrdersShape]:
    """Say that a node is alive, and learn what it must do. Answered once Redis has the heartbeat."""
    return Answer(await _take(hub, caller, body))


async def _take(hub: Hub, caller: Caller, body: BeatBody) -> OrdersShape:
    beat = body.beat
    caller.check_node(beat.node_id)
    return orders_shape(beat, await hub.nodes.beats.take(beat), hub.nodes.timeout_ms)


@router.post("/node/heartbeats", **operation("sendHeartbeats", (NODE, TOKEN), about=Subject("beats", in_body=True)))
async def heartbeats(request: Request, hub: Hub, caller: Caller, body: Sent[BeatsBody]) -> Answer[BeatenShape]:
    """Take up to 1,000 heartbeats in one call, for an agent of a whole host; each heartbeat is answered on its own."""
    answers = await asyncio.gather(*(_one(hub, caller, each, request.url.path) for each in body.beats))
    return Answer(BeatenShape(beats=answers))


async def _one(hub: Hub, caller: Caller, document: Any, path: str) -> OrdersShape | RefusedBeatShape:
    try:
        if not isinstance(document, dict):
            raise InvalidJson("a heartbeat must be a JSON object")
        return await _take(hub, caller, BeatBody.read(document))
    except HubError as error:
        if error.status == 503:
            raise
        said = document.get("nodeId") if isinstance(document, dict) else None
        return RefusedBeatShape(nodeId=said if isinstance(said, str) else None, error=problem(error, path))


@router.get(
    "/nodes",
    **operation(
        "listNodes",
        (ANYBODY, RUNNER, ADMIN, NODE),
        p.DETAIL,
        p.LIMIT,
        p.CURSOR,
        p.STATE,
        p.SEARCH,
        shared=True,
        borrows=True,
    ),
)
async def nodes(request: Request, serving: Serving, query: Query) -> Answer[list[NodeId] | NodePageShape]:
    """Return the ids of all nodes; with `detail=1` a page of nodes as operators see them: all, those of one `state`, or
    those whose id, labels or pools contain `q`.

    With `q` alone the hub searches 20,000 nodes at a time: `total` is how many are registered, and `next` is the cursor
    of the next call.
    """
    hub = serving.hub
    if not bodies.switch(request, "detail"):
        return Answer(await hub.nodes.ids())
    await check_reader(request, RUNNER, ADMIN, NODE)
    _, limit = bodies.page(request)
    state, cursor, text = query.get("state"), query.get("cursor", "0"), bodies.search(request)
    if state is not None and state not in STATES:
        raise InvalidValue(f"state must be one of {', '.join(STATES)}", member="state")
    start = whole_number(cursor, "cursor", 0, 2**64 - 1)
    if state is None:
        total, ids, after = await (
            hub.nodes.find(text, str(start), limit) if text else hub.nodes.page(str(start), limit)
        )
        found = await hub.nodes.describe(ids)
    else:
        total, found = await hub.nodes.in_state(state, start, limit, text)
        after = str(start + limit) if start + limit < total else None
    return Answer(NodePageShape(total=total, nodes=[shown(node) for node in found], next=after))


@router.get(
    "/nodes/{node_id:path}/safe-to-kill",
    **operation(
        "checkSafeToKill", (RUNNER, ADMIN, NODE, TOKEN), refusals=(InvalidValue, Forbidden, UnknownNode, Settling)
    ),
)
async def safe_to_kill(hub: Hub, node: OwnNode) -> Answer[DepartureShape]:
    """Return whether a node can be shut down without harm: it drains, and none of its slots is lent.

    404 when the node is not registered: it has left or was expired, and no slot is known to be its own. For a node
    timeout after a loss of the store that is not certain, and the answer is 503 `settling`.
    """
    found = await hub.nodes.safe_to_kill(node)
    return Answer(
        DepartureShape(
            nodeId=node,
            safe=found.safe,
            draining=found.draining,
            lent=found.lent,
            reason=found.reason,
            deadlineSecondsLeft=in_seconds(found.deadline_left_ms),
        )
    )


@router.get(
    "/nodes/{node_id:path}",
    **operation("getNode", (RUNNER, ADMIN, NODE, TOKEN), refusals=(InvalidValue, Forbidden, UnknownNode), borrows=True),
)
async def node(hub: Hub, node: OwnNode) -> Answer[NodeInFullShape]:
    """Return a node with its slots and its open orders; 404 when it is not registered."""
    found = await hub.nodes.get(node)
    slots = await hub.nodes.slots(found.id)
    alike = await likenesses(hub.store, [slot for slot, _, _ in slots])
    listed = [SlotOfNodeShape(browserId=slot, labelKey=pool, state=place) for slot, pool, place in slots]
    for shape, like in zip(listed, alike, strict=True):
        if like.attributes is not None:
            shape["attributes"] = like.attributes
        if like.warm:
            shape["warm"] = like.warm
    for shape, hold in zip(listed, await hub.holds.of([slot for slot, _, _ in slots]), strict=True):
        if hold.reason:
            shape["held"], shape["heldBy"] = hold.reason, hold.by
    orders = [_order(each) for each in await hub.nodes.orders(found, (slot for slot, _, _ in slots))]
    return Answer(NodeInFullShape(**shown(found), slotList=listed, orders=orders))


def _order(order: Order) -> OrderOfNodeShape:
    shown = OrderOfNodeShape(order=order.word, secondsLeft=in_seconds(order.left_ms))
    if order.reason:
        shown["reason"] = order.reason
    if order.slots:
        shown["slots"] = list(order.slots)
    return shown


def shown(node: Node) -> NodeShape:
    """Return a node as operators see it."""
    try:
        labels = orjson.loads(node.labels)
    except orjson.JSONDecodeError:
        labels = {}
    if not isinstance(labels, dict):
        labels = {}
    found = NodeShape(
        nodeId=node.id,
        state=node.state,
        draining=node.draining,
        deadlineSecondsLeft=in_seconds(node.deadline_left_ms),
        lastSeenUtc=node.last_seen or None,
        sinceBeatMs=node.since_beat_ms,
        capacity=int(node.capacity[:18]) if node.capacity.isdecimal() else None,
        apps=list(node.apps),
        labels=labels,
        baseUrl=node.base_url or None,
        slots=node.slots,
        lent=node.lent,
    )
    if node.service != "lending":
        found["service"] = node.service
    if node.cordon:
        found["reason"] = node.cordon
    if node.held:
        found["held"] = node.held
    if node.kept:
        found["kept"] = True
    return found
