"""POST /node/heartbeat, straight on ASGI: the hottest path, at several times the rate a routed handler reaches."""

from __future__ import annotations

from starlette.types import Receive, Scope, Send

from hub.api import bodies
from hub.api.auth import NODE
from hub.api.deps import Serving
from hub.api.nodes import orders_json

PATH = "/node/heartbeat"
_SECRET = b"x-hub-secret"
_JSON = (b"content-type", b"application/json")


async def heartbeat(serving: Serving, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one heartbeat once Redis has it; refusals are raised."""
    if not serving.secrets.open:
        given = next((value for name, value in scope["headers"] if name == _SECRET), b"")
        serving.secrets.check_value(given.decode("latin-1"), NODE)
    message = await receive()
    body = message.get("body", b"")
    while message.get("more_body"):
        message = await receive()
        body += message.get("body", b"")
    nodes = serving.hub.nodes
    beat = bodies.beat(bodies.read_object(body))
    answer = orders_json(beat, await nodes.beats.take(beat), nodes.timeout_ms)
    length = (b"content-length", str(len(answer)).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [_JSON, length]})
    await send({"type": "http.response.body", "body": answer})
