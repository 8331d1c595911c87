"""What drivers ask of a browser over its DevTools protocol."""

from __future__ import annotations

import json
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from hub.fleet.processes import Unwell


async def version(client: httpx.AsyncClient, port: int) -> dict[str, str]:
    """Return what `/json/version` of the browser at a port of this machine says; raises `Unwell` for no such answer."""
    try:
        answer = await client.get(f"http://127.0.0.1:{port}/json/version")
        found: dict[str, str] = answer.raise_for_status().json()
    except (httpx.HTTPError, ValueError) as error:
        raise Unwell(f"/json/version: {error or type(error).__name__}") from None
    return found


async def try_page(url: str, *, new: bool) -> None:
    """Have a page of the browser at a WebSocket URL calculate: a new one, which is closed again, or one that is open.

    Raises `Unwell` if it does not. Supervision bounds the time.
    """
    try:
        async with connect(url, compression=None, proxy=None, open_timeout=None) as socket:
            if new:
                target = (await _call(socket, 1, "Target.createTarget", url="about:blank"))["targetId"]
            else:
                targets = (await _call(socket, 1, "Target.getTargets"))["targetInfos"]
                target = next((each["targetId"] for each in targets if each["type"] == "page"), "")
            session = (await _call(socket, 2, "Target.attachToTarget", targetId=target, flatten=True))["sessionId"]
            answer = await _call(socket, 3, "Runtime.evaluate", session, expression="6 * 7")
            if answer["result"].get("value") != 42:
                raise Unwell("a page of the browser does not calculate")
            if new:
                await socket.send(json.dumps({"id": 4, "method": "Target.closeTarget", "params": {"targetId": target}}))
                while json.loads(await socket.recv()).get("method") != "Target.detachedFromTarget":
                    pass  # the page is still there when the call has been answered
    except (OSError, WebSocketException) as error:
        raise Unwell(f"DevTools: {error}") from None


async def _call(
    socket: ClientConnection, number: int, method: str, session: str | None = None, **given: Any
) -> dict[str, Any]:
    """Call a method and return its result; events that come before it are left alone."""
    message = {"id": number, "method": method, "params": given, "sessionId": session}
    await socket.send(json.dumps({name: value for name, value in message.items() if value is not None}))
    while (answer := json.loads(await socket.recv())).get("id") != number:
        pass
    if "error" in answer:
        raise Unwell(f"{method}: {answer['error'].get('message')}")
    result: dict[str, Any] = answer["result"]
    return result
