"""Asking a node itself, over HTTP: the one question the hub has for nodes is how they are set up."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

import orjson

from hub.errors import HubError

ANSWER_S = 5.0  # for the whole of it
MOST_BYTES = 1 << 20
PORT = 5000  # of a node that named no BaseUrl
PATH = "/diagnostics/env"
_KNOWN = {each.value for each in HTTPStatus}


class NodeSilent(HubError):
    """A node that was asked something gave no answer."""

    code = "node-silent"


class NodeRefused(HubError):
    """A node that was asked something refused; the status is its own."""

    code = "node-refused"


async def environment(node_id: str, base_url: str, secret: str) -> Any:
    """What a node says of its environment. Raises `NodeSilent`, and `NodeRefused` with the status of the node."""
    url = base_url.rstrip("/") or f"http://{node_id}:{PORT}"
    try:
        async with asyncio.timeout(ANSWER_S):  # a thread that is still at it ends by its own timeouts
            status, said = await asyncio.to_thread(_get, url + PATH, secret)
        if status < 300:
            return orjson.loads(said)
    except (OSError, HTTPException, ValueError) as error:
        why = str(error) or type(error).__name__
        raise NodeSilent(f"Node {node_id} gives no answer at {url}{PATH}: {why[:200]}") from None
    refusal = NodeRefused(f"Node {node_id} answered {status} at {url}{PATH}")
    refusal.status = status if 400 <= status < 600 and status in _KNOWN else 500  # type: ignore[misc]
    raise refusal


def _get(url: str, secret: str) -> tuple[int, bytes]:
    """One request, without following redirects."""
    parts = urlsplit(url)
    kinds: dict[str, type[HTTPConnection]] = {"http": HTTPConnection, "https": HTTPSConnection}
    if parts.scheme not in kinds or not parts.hostname:
        raise ValueError("its BaseUrl is no http or https address")
    connection = kinds[parts.scheme](parts.hostname, parts.port, timeout=ANSWER_S)
    try:
        headers = {"accept": "application/json"} | ({"x-hub-secret": secret} if secret else {})
        connection.request("GET", parts.path, headers=headers)
        answer = connection.getresponse()
        said = answer.read(MOST_BYTES + 1)
        if len(said) > MOST_BYTES:
            raise ValueError(f"its answer is longer than {MOST_BYTES} bytes")
        return answer.status, said
    finally:
        connection.close()
