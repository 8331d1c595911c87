"""The orders to a node, as the answer to its heartbeat has them."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from hub.api.shapes.nodes import AskedForShape, CalledDrainShape, HeldByOperatorShape, OrdersShape
from hub.capacity.nodes.models import Beat, DrainCall, LentFor, Orders, next_beat_ms


def orders_json(beat: Beat, orders: Orders, timeout_ms: int) -> bytes:
    """Return the answer to a heartbeat as JSON text."""
    return orjson.dumps(orders_shape(beat, orders, timeout_ms))


def orders_shape(beat: Beat, orders: Orders, timeout_ms: int) -> OrdersShape:
    """Return the answer to a heartbeat: the orders to the node, and its leases where they have changed."""
    answer = OrdersShape(
        nodeId=beat.node_id,
        known=orders.known,
        drain=orders.drain,
        recycle=list(orders.recycle),
        nextBeatMs=next_beat_ms(timeout_ms),
        version=orders.version,
    )
    if orders.lent is not None:
        answer["lent"] = orders.lent
        if orders.lent_for:
            answer["lentFor"] = asked_shape(orders.lent_for)
        if orders.ends:
            answer["ends"] = dict(orders.ends)
        if orders.held:
            called = (each.partition("|") for each in orders.held.values())
            shown = [HeldByOperatorShape(number=number, reason=reason) for number, _, reason in called]
            answer["operatorHeld"] = dict(zip(orders.held, shown, strict=True))
        if orders.offers:
            answer["offers"] = orders.offers
        if orders.drain_call:
            answer["drainCall"] = _drain_call(orders.drain_call)
    if orders.superseded:
        answer["superseded"] = True
    if orders.notes:
        answer["notes"] = dict(orders.notes)
    return answer


def asked_shape(lent_for: Mapping[str, LentFor]) -> dict[str, AskedForShape]:
    """Return, by slot, the label and the run under which each lent slot was asked for, and its holder if known."""
    return {slot: _asked_for(*asked) for slot, asked in lent_for.items()}


def _asked_for(label: str, run: str, holder: str) -> AskedForShape:
    shown = AskedForShape(labelKey=label, runId=run)
    if holder:
        shown["holder"] = holder
    return shown


def _drain_call(call: DrainCall) -> CalledDrainShape:
    shown = CalledDrainShape(on=call.on, number=call.number, leftMs=call.left_ms)
    if call.reason:
        shown["reason"] = call.reason
    return shown
