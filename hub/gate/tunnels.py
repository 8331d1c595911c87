"""HTTP below `/connect/{label}/session...`: servers that speak WebDriver, whose clients are as they are.

`POST .../session` borrows a slot. The id of the session in its answer names the lease in the paths of all further
requests, until `DELETE .../session/ID`, or until none came for too long. It counts only with the first credential.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterable
from typing import Final
from urllib.parse import SplitResult

import httpx
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from hub.client import HubClient
from hub.errors import CallerGone, HubError, NotFound, TooLarge
from hub.gate.callers import GateCall, GateCallers, while_there
from hub.gate.leasing import CONNECT_S, GateLease, SlotUnreachable
from hub.gate.slots import LEASE, address_of, asked, client_of_slot, passed_on
from hub.observability.logs import get_logger
from hub.retries import now_s

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
REQUEST_BYTES, ANSWER_BYTES = 8 * 2**20, 32 * 2**20  # kept whole: what is passed on is there, and the lease still holds
_SESSION: Final = re.compile(r"/(?:wd/hub/)?session(?:/([^/]+)(/.*)?)?", re.DOTALL)
_log = get_logger("hub.gate")


class GateTunnel:
    """The lease behind the requests of one caller."""

    def __init__(self, call: GateCall) -> None:
        loop = asyncio.get_running_loop()
        self.call, self.name = call, ""
        self.lease: asyncio.Future[GateLease] = loop.create_future()
        self.over: asyncio.Future[str] = loop.create_future()
        self.http = client_of_slot(timeout=httpx.Timeout(None, connect=CONNECT_S))

    def end(self, why: str) -> None:
        """Give the slot back."""
        if not self.over.done():
            self.over.set_result(why)


class Tunnels:
    """All tunnels of one gate. Another gate does not know them: a balancer sends a caller to the same gate."""

    def __init__(self, callers: GateCallers) -> None:
        self._callers = callers
        self._named: dict[str, GateTunnel] = {}  # id of the session -> its tunnel
        self._keeping: dict[asyncio.Task[None], GateTunnel] = {}

    async def close(self) -> None:
        """End all tunnels, and wait until their slots were given back."""
        for tunnel in self._keeping.values():
            tunnel.end("the gate stops")
        if self._keeping:
            await asyncio.wait(self._keeping)

    def socket_of(self, call: GateCall) -> tuple[GateLease, SplitResult]:
        """Return the lease of the session that is named, and the URL of the WebSocket asked for; raises `NotFound`."""
        lease = self._find(call).lease.result()
        url = _below(lease, call)
        return lease, url._replace(scheme=url.scheme.replace("http", "ws"))

    def _find(self, call: GateCall) -> GateTunnel:
        session = _SESSION.fullmatch(call.rest)
        tunnel = self._named.get(session[1] or "") if session else None
        if tunnel is None or (tunnel.call.label, tunnel.call.credential) != (call.label, call.credential):
            raise NotFound(
                "There is no such session: its lease has ended, another gate has it, or POST /session first."
            )
        return tunnel

    async def answer(self, request: Request) -> Response:
        """Pass a request on to the slot of its session, and the answer back."""
        async with self._callers.admitted(request) as (call, client):
            session = _SESSION.fullmatch(call.rest)
            begins = session is not None and session[1] is None and request.method == "POST"
            tunnel = None if begins else self._find(call)
            if begins:
                await client.pools(limit=1)  # so that strangers are refused before their bodies are kept
            try:
                body = await _whole(request.stream(), REQUEST_BYTES)
            except ClientDisconnect:
                raise CallerGone("The caller has gone.") from None
            gone = asyncio.ensure_future(request.receive())
            try:
                async with while_there(gone):
                    tunnel = tunnel or await self._begin(call, client)
                    answer = await _forward(request, tunnel, call, body)
                    if begins and (name := _session_in(bytes(answer.body))):
                        if name in self._named:
                            raise SlotUnreachable(
                                f"Slot {tunnel.lease.result().slot.id} made a session with the id of another one."
                            )
                        tunnel.name = name
                        self._named[name] = tunnel
            finally:
                gone.cancel()
                if begins and tunnel is not None and not tunnel.name:
                    tunnel.end("no session was made")
            if session and session[2] is None and request.method == "DELETE" and answer.status_code < 300:
                tunnel.end("the session was deleted")
            return answer

    async def _begin(self, call: GateCall, client: HubClient) -> GateTunnel:
        tunnel = GateTunnel(call)
        keeping = asyncio.create_task(self._keep(tunnel, client))
        self._keeping[keeping] = tunnel
        keeping.add_done_callback(self._keeping.pop)
        try:
            await asyncio.shield(tunnel.lease)
        except asyncio.CancelledError:
            keeping.cancel()
            raise
        return tunnel

    async def _keep(self, tunnel: GateTunnel, client: HubClient) -> None:
        """Borrow a slot for a tunnel, and hold it until the tunnel ends or is idle."""
        why = "the caller has gone"
        try:
            async with self._callers.lent(tunnel.call, client) as lease, tunnel.http:
                tunnel.lease.set_result(lease)
                idle_s = self._callers.idle_s(lease, self._callers.settings.gate_idle_s)
                idle = await lease.was_idle(idle_s, tunnel.over)
                why = f"no request for {idle_s:g} s" if idle else lease.why_lost() or tunnel.over.result()
        except HubError as error:
            why = str(error)
            if not tunnel.lease.done():
                tunnel.lease.set_exception(error)
        finally:
            tunnel.lease.cancel()
            self._named.pop(tunnel.name, None)
            _log.info("gate tunnel ended", label=tunnel.call.label, why=why)


def _below(lease: GateLease, call: GateCall) -> SplitResult:
    """Return the URL of the slot that the path of a call names."""
    url = address_of(lease)
    scheme = url.scheme.replace("ws", "http")
    return url._replace(scheme=scheme, path=url.path.rstrip("/") + call.rest, query=call.query)


async def _forward(request: Request, tunnel: GateTunnel, call: GateCall, body: bytes) -> Response:
    lease = tunnel.lease.result()
    headers = [each for each in passed_on(request.scope["headers"]) if each[0] != "accept-encoding"]
    headers += [("accept-encoding", "identity"), (LEASE, lease.slot.token)]
    lease.busy += 1
    try:
        asking = asked(tunnel.http, lease, request.method, _below(lease, call), headers=headers, content=body)
        async with asking as found:
            answer = Response(await _whole(found.aiter_raw(), ANSWER_BYTES), found.status_code)
    finally:
        lease.busy -= 1
        lease.used_s = now_s()
    await lease.confirm()
    for name, value in passed_on(found.headers.raw):
        answer.headers.append(name, value)
    # A browser that opens this must not take it for a page of the hub, whose origin a proxy may give to the gate.
    answer.headers.append("content-security-policy", "sandbox")
    answer.headers["x-content-type-options"] = "nosniff"
    return answer


async def _whole(pieces: AsyncIterable[bytes], most: int) -> bytes:
    found = bytearray()
    async for piece in pieces:
        found += piece
        if len(found) > most:
            raise TooLarge(f"The gate passes on bodies of at most {most} bytes.")
    return bytes(found)


def _session_in(body: bytes) -> str:
    """Return the id of a session of WebDriver in the answer that made it, "" where it made none."""
    try:
        made = json.loads(body)
        return str((made["value"] or {}).get("sessionId") or made.get("sessionId") or "")
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""
