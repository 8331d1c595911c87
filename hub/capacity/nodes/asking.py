"""The one HTTP request that the hub sends to a node: how the node is set up (`GET /diagnostics/env`)."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

import orjson

from hub.errors import HubError

ANSWER_S = 5.0  # for the whole request
MOST_BYTES = 1 << 20
PORT = 5000  # where a node that registered without BaseUrl is asked
PATH = "/diagnostics/env"
_KNOWN = {each.value for each in HTTPStatus}


class NodeSilent(HubError):
    """The node did not answer a request of the hub, or its answer cannot be read."""

    code = "node-silent"


class NodeRefused(HubError):
    """The node refused a request of the hub; `status` is the HTTP status of the node's answer."""

    code = "node-refused"


async def environment(node_id: str, base_url: str, secret: str) -> Any:
    """Ask a node how it is set up; return its JSON answer, parsed. `secret` goes into a header, '' sends none.

    Raises `NodeSilent`, and `NodeRefused` with the status that the node answered.
    """
    url = base_url.rstrip("/") or f"http://{node_id}:{PORT}"
    try:
        async with asyncio.timeout(ANSWER_S):  # the thread of a request that takes longer ends by its own timeouts
            status, body = await asyncio.to_thread(_get, url + PATH, secret)
        if status < 300:
            return orjson.loads(body)
    except (OSError, HTTPException, ValueError) as error:
        why = str(error) or type(error).__name__
        raise NodeSilent(f"Node {node_id} gives no answer at {url}{PATH}: {why[:200]}") from None
    refusal = NodeRefused(f"Node {node_id} answered {status} at {url}{PATH}")
    refusal.status = status if 400 <= status < 600 and status in _KNOWN else 500  # type: ignore[misc]
    raise refusal


def _get(url: str, secret: str) -> tuple[int, bytes]:
    """Send one GET, without following redirects; return the status and the body. Raises OSError and ValueError."""
    parts = urlsplit(url)
    kinds: dict[str, type[HTTPConnection]] = {"http": HTTPConnection, "https": HTTPSConnection}
    if parts.scheme not in kinds or not parts.hostname:
        raise ValueError("its BaseUrl is no http or https address")
    connection = kinds[parts.scheme](parts.hostname, parts.port, timeout=ANSWER_S)
    try:
        headers = {"accept": "application/json"} | ({"x-hub-secret": secret} if secret else {})
        connection.request("GET", parts.path, headers=headers)
        answer = connection.getresponse()
        body = answer.read(MOST_BYTES + 1)
        if len(body) > MOST_BYTES:
            raise ValueError(f"its answer is longer than {MOST_BYTES} bytes")
        return answer.status, body
    finally:
        connection.close()
