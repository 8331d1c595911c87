"""How the gate speaks with a slot: where its address leads, requests of its HTTP, and the handshake of a WebSocket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

import httpx

from hub.gate.leasing import GateLease, SlotUnreachable, dial, tls_to_slots
from hub.gate.pipe import PipeEnd
from hub.outgoing import async_client

ANSWER_S: Final = 10.0  # for the answer to a handshake, or to a question of the gate itself
VERSION_BYTES: Final = 65_536
_CDP: Final = "/json/version"  # where a browser with a DevTools port says the address of its WebSocket
# fmt: off
_OF_THE_CONNECTION: Final = frozenset([
    "connection", "keep-alive", "proxy-connection", "proxy-authorization", "proxy-authenticate", "te", "trailer",
    "transfer-encoding", "upgrade", "content-length", "host", "expect",
])
# fmt: on
# None of the slot's business, or for the gate to say.
_OF_THE_CALLER: Final = frozenset(
    ["authorization", "x-hub-secret", "x-hub-lease-token", "origin", "referer", "cookie", "set-cookie"]
)
LEASE: Final = "x-hub-lease-token"  # tells a slot that asks `GET /leases/{slot}/verify` whose connection this is
Headers = list[tuple[str, str]]


def address_of(lease: GateLease) -> SplitResult:
    """Return the address of a slot: that of its WebSocket, else its other one; raises `SlotUnreachable`."""
    slot = lease.slot
    given = slot.address or slot.item.get("endpoint")
    try:
        url = urlsplit(str(given))
        if url.scheme in ("ws", "wss", "http", "https") and url.hostname and url.port != 0:
            return url
    except ValueError:
        pass
    raise SlotUnreachable(f"Slot {slot.id} has no address that begins with ws://, wss://, http:// or https://.")


def passed_on(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers that are not about one connection alone, and not credentials for the gate."""
    given = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers]
    named = {word.strip().lower() for name, value in given if name == "connection" for word in value.split(",")}
    return [each for each in given if each[0] not in _OF_THE_CONNECTION | _OF_THE_CALLER | named]


def client_of_slot(**options: Any) -> httpx.AsyncClient:
    """Return an HTTP client for one slot, which is reached without a proxy."""
    return async_client("https://slot", proxy=None, verify=tls_to_slots(), **options)


@asynccontextmanager
async def asked(
    client: httpx.AsyncClient, lease: GateLease, method: str, url: SplitResult, **request: Any
) -> AsyncIterator[httpx.Response]:
    """Ask the slot over HTTP, and return its answer without its body; raises `SlotUnreachable`, `LeaseLost`."""

    async def look(event: str, _: Any) -> None:
        if event.endswith(("_headers.started", "_body.started", "connect_tcp.started")):
            await lease.confirm()

    try:
        async with client.stream(method, url.geturl(), **request, extensions={"trace": look}) as response:
            yield response
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        lease.slot.check()
        why = str(error) or type(error).__name__
        raise SlotUnreachable(f"Slot {lease.slot.id} cannot be asked: {why}.", browserId=lease.slot.id) from None


async def socket_of(lease: GateLease) -> SplitResult:
    """Return the URL of the WebSocket of a slot. A slot with an http address is asked as a browser's DevTools are."""
    url = address_of(lease)
    if url.scheme.startswith("ws"):
        return url
    version = url._replace(path=url.path.rstrip("/") + _CDP)
    try:
        plain = {"accept-encoding": "identity"}
        async with (
            asyncio.timeout(ANSWER_S),
            client_of_slot(timeout=ANSWER_S) as client,
            asked(client, lease, "GET", version, headers=plain) as said,
        ):
            body = bytearray()
            async for piece in said.aiter_raw():
                body += piece
                if len(body) > VERSION_BYTES:
                    raise ValueError
        named = urlsplit(str(json.loads(body)["webSocketDebuggerUrl"]))
    except TimeoutError:
        raise SlotUnreachable(
            f"Slot {lease.slot.id} does not answer {_CDP} in time.", browserId=lease.slot.id
        ) from None
    except (ValueError, KeyError, TypeError):
        named = url  # no browser
    # The host in the answer is how the browser sees itself; the node knows how it is reached.
    return url._replace(scheme=url.scheme.replace("http", "ws"), path=named.path, query=named.query)


async def shake_hands(lease: GateLease, url: SplitResult, headers: Headers) -> tuple[PipeEnd, bytes]:
    """Open a WebSocket to the slot with the caller's handshake; return it with the head of the answer, no cookies."""
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    lines = [f"GET {target} HTTP/1.1", f"host: {url.netloc.rpartition('@')[2]}", "connection: Upgrade"]
    lines += ["upgrade: websocket", *(f"{name}: {value}" for name, value in headers)]
    lines += [f"{LEASE}: {lease.slot.token}", "", ""]
    try:
        asking = "\r\n".join(lines).encode("latin-1")
    except UnicodeEncodeError:
        raise SlotUnreachable(f"Slot {lease.slot.id} has an address that is no URL.", browserId=lease.slot.id) from None
    await lease.confirm()
    end = await dial(url, lease, PipeEnd)
    end.transport.write(asking)
    try:
        async with asyncio.timeout(ANSWER_S):
            while b"\r\n\r\n" not in end.early and not end.over.done():
                end.arrived.clear()
                await end.arrived.wait()
    except BaseException as error:
        end.transport.abort()
        if not isinstance(error, TimeoutError):
            raise
    head, _, rest = bytes(end.early).partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 101 "):
        end.transport.abort()
        said = head[:60].partition(b"\r\n")[0].decode("latin-1") or "nothing"
        raise SlotUnreachable(f"Slot {lease.slot.id} answered the handshake with {said!r}.", browserId=lease.slot.id)
    end.early[:] = rest
    # splitlines: some browsers end a line where only one of CR and LF is
    kept = [line for line in head.splitlines() if line and not line.lower().startswith(b"set-cookie")]
    return end, b"\r\n".join([*kept, b"", b""])
