"""The short way of a heartbeat: the hub answers it without a task of asyncio, without routing, and in one write.

The server's protocol offers every complete `POST /node/heartbeat` to `take` first. A heartbeat that is unusual in any
way (refused, chunked, large, or sent while Redis is away) goes the way of all requests instead, to the route in
`hub.api.capacity.nodes`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from hub.api.callers.finding import speaks
from hub.api.capacity.nodes import heartbeat, router
from hub.api.capacity.orders import orders_json
from hub.api.handling import request_counts
from hub.api.handling.context import Serving
from hub.api.operations import row_of
from hub.api.serving.private import Cycle
from hub.api.shapes import reading as bodies
from hub.api.shapes.node_bodies import BeatBody
from hub.capacity.nodes.models import Beat, Orders
from hub.errors import Forbidden, HubError, Unauthorized
from hub.observability.tracing import tracing
from hub.tokens.secrets import HEADER

HEARTBEAT = row_of(router.routes, heartbeat)
PATH = HEARTBEAT.path
_taken = request_counts.row(PATH, HEARTBEAT.method, 200)
_SECRET = HEADER.encode()
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"


def take(serving: Serving, cycle: Cycle, give_up: Callable[[], None]) -> bool:
    """Answer the heartbeat in a request-response cycle of the server; False when the ordinary way has to answer it.

    `give_up` is called later when the store has failed or the connection is to be closed: then the ordinary way
    answers.
    """
    try:
        beat = _read(serving, cycle)
    except HubError:
        return False
    timeout_ms, started = serving.hub.nodes.timeout_ms, time.perf_counter()

    def done(orders: asyncio.Future[Orders]) -> None:
        failed = orders.cancelled() or orders.exception() is not None  # asyncio logs an exception that is never read
        if cycle.disconnected or cycle.transport.is_closing():
            return
        if failed or not cycle.keep_alive:
            give_up()  # sends the heartbeat to the store again, which is safe, and answers in full
        else:
            answer = orders_json(beat, orders.result(), timeout_ms)
            cycle.response_started = cycle.response_complete = True
            cycle.transport.write(_HEAD % (len(answer), answer))
            cycle.on_response()
            took_s = time.perf_counter() - started
            _taken.add(took_s)
            if tracing.on:
                began_ns = time.time_ns() - int(took_s * 1e9)
                tracing.past(HEARTBEAT.method, PATH, 200, cycle.scope["headers"], began_ns)

    serving.hub.nodes.beats.take(beat).add_done_callback(done)
    return True


def _read(serving: Serving, cycle: Cycle) -> Beat:
    node = None  # the one node that the caller may speak for; None for any node
    if not serving.secrets.open:
        given = b""
        for name, value in cycle.scope["headers"]:
            if name == _SECRET:
                given = value
                break
        secret = given.decode("latin-1")
        try:
            serving.secrets.check_value(secret, *HEARTBEAT.roles)
        except Unauthorized:
            holder = serving.holders.remembered(secret)
            if holder is None or not speaks(holder):
                raise
            node = holder.name
    beat = BeatBody.read(bodies.read_object(bytes(cycle.body))).beat
    if node not in (None, beat.node_id):
        raise Forbidden("The token shown speaks for another node.")
    return beat
