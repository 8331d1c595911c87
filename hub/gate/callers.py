"""Callers and their credentials: the gate has none of its own, and shows the hub that of its caller."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import unquote, unquote_plus

from pydantic import SecretStr
from starlette.requests import HTTPConnection

from hub.api.handling.browsers import Gate
from hub.client import HubClient
from hub.client.guard import Guard
from hub.errors import BadInput, CallerGone, Foreign, Unauthorized, Unavailable
from hub.gate.leasing import GateLease, Pulse
from hub.retries import now_s
from hub.settings import Settings

# Seconds in the queue unless the caller says otherwise: fewer than the 30 after which Playwright gives up by itself, so
# that the caller hears the reason.
WAIT_S: Final = 25.0
TTL_S: Final = 60.0  # a slot stays lent for so long after its gate has died
CONNECT: Final = "/connect/"
_OWN_QUERY: Final = ("token", "ttl", "wait", "where")
LONGEST_S: Final = 86_400.0
ATTEMPT_S: Final = 5.0  # for one answer of the hub: bytes wait for it
CLIENTS_KEPT: Final = 50  # clients without a caller that stay connected to the hub


@dataclass(frozen=True)
class GateCall:
    """The wish of a caller: a slot of `label`, for a WebSocket or for requests to `rest` below it."""

    label: str
    rest: str
    query: str  # without what is for the gate
    wait_s: float
    ttl_s: float
    credential: str
    where: str = ""  # what the attributes of the slot must satisfy

    @classmethod
    def of(cls, connection: HTTPConnection) -> Self:
        """Return what is asked; raises `BadInput`."""
        label, slash, rest = connection.scope["raw_path"].decode("ascii").removeprefix(CONNECT).partition("/")
        query: str = connection.scope["query_string"].decode("ascii", "replace")
        own = {name: value for name, value in connection.query_params.items() if name in _OWN_QUERY}
        others = [part for part in query.split("&") if part and unquote_plus(part.partition("=")[0]) not in _OWN_QUERY]
        if {".", ".."} & set(unquote(rest).split("/")):
            raise BadInput("The path has . or .. in it.")
        if others and not rest:
            raise BadInput(f"The query has {others[0][:50]!r}; of the query the gate knows wait, ttl, where and token.")
        return cls(
            label=unquote(label),
            rest=slash + rest,
            query="&".join(others),
            wait_s=_seconds(own, "wait", WAIT_S, 0.0),
            ttl_s=_seconds(own, "ttl", TTL_S, 0.05),
            credential=_credential(connection, own.get("token", "")),
            where=own.get("where", ""),
        )


def _seconds(query: Mapping[str, str], name: str, default: float, least: float) -> float:
    try:
        value = float(query.get(name, default))
    except ValueError:
        value = -1.0
    if not least <= value <= LONGEST_S:
        raise BadInput(f"{name}={query[name][:20]} cannot be read: it is a number of seconds from {least:g} to 86400.")
    return value


def _credential(connection: HTTPConnection, token: str) -> str:
    shown = {token, *connection.headers.getlist("x-hub-secret")}
    for value in connection.headers.getlist("authorization"):
        kind, _, text = value.partition(" ")
        try:
            found = base64.b64decode(text, validate=True).decode() if kind.lower() == "basic" else f":{text.strip()}"
        except (binascii.Error, ValueError):
            raise BadInput("Authorization cannot be read; as Basic it is base64 of NAME:SECRET.") from None
        shown.add(found.partition(":")[2])
    shown.discard("")
    if len(shown) > 1:
        raise BadInput("The request shows several credentials; show one, as x-hub-secret, Authorization or ?token=.")
    credential = next(iter(shown), "")
    if not credential.isascii() or (credential and not credential.isprintable()):
        raise Unauthorized
    return credential


class GateCallers:
    """The clients of the hub at `url`, one for each credential. `beyond`: callers of other machines can connect."""

    def __init__(self, settings: Settings, url: str, *, beyond: bool) -> None:
        self.settings = settings
        self.pulse = Pulse(settings.revoke_grace_s)
        self._url, self._beyond = url, beyond
        self._hub_is_closed = False  # it was seen to refuse a call without a credential
        self._clients: dict[str, tuple[HubClient, list[object]]] = {}
        # As at the hub itself: where callers need no credential only names of this machine count.
        secrets = dict.fromkeys(("runner_secret", "node_secret", "admin_secret", "tokens_file"))
        needs = {"runner_secret": SecretStr("-")} if beyond else {}
        self._pages = Gate(settings.model_copy(update={**secrets, **needs}))

    async def close(self) -> None:
        """Close all clients."""
        for client, _ in self._clients.values():
            await client.close()

    @asynccontextmanager
    async def admitted(self, connection: HTTPConnection) -> AsyncIterator[tuple[GateCall, HubClient]]:
        """Return what is asked, and the client with the credential of the caller. Raises `BadInput`, `Unauthorized`,
        `Foreign` for web pages and names that are not listed, and `Unavailable` for too many of one credential."""
        headers = self._pages.check(connection.scope, None, socket=True)
        origin = headers.get(b"origin")  # a browser may add a credential that it knows to what a page asks for
        if origin and not self._pages.welcome(
            origin.decode("latin-1"), {"HTTP_HOST": connection.headers.get("host", "")}
        ):
            raise Foreign("Pages of this origin may not use the gate; its operator may list it in HUB_ALLOWED_ORIGINS.")
        if not origin and headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin"):
            raise Foreign("A link of another page leads to no slot.")
        call = GateCall.of(connection)
        if self._beyond:
            await self._refuse_strangers(call)
        async with self._client(call.credential) as client:
            yield call, client

    async def _refuse_strangers(self, call: GateCall) -> None:
        if not call.credential:
            raise Unauthorized
        if not self._hub_is_closed:
            async with self._client("") as stranger:
                with suppress(Unauthorized):
                    await stranger.pools(limit=1)
                    raise Foreign("The hub asks for no secret, so its gate serves callers of its own machine only.")
            self._hub_is_closed = True

    @asynccontextmanager
    async def _client(self, credential: str) -> AsyncIterator[HubClient]:
        if credential not in self._clients:
            self._clients[credential] = HubClient(self._url, credential, attempt_timeout=ATTEMPT_S), []
        client, users = self._clients[credential] = self._clients.pop(credential)  # now the last in order of use
        if len(users) >= self.settings.gate_connections:
            raise Unavailable("This credential has too many connections; close some.", retry_after_s=5.0)
        users.append(mark := object())
        try:
            yield client
        finally:
            users.remove(mark)
            idle = [each for each, (_, others) in self._clients.items() if not others]
            for each in idle[: max(0, len(idle) - CLIENTS_KEPT)]:
                await self._clients.pop(each)[0].close()

    @asynccontextmanager
    async def lent(self, call: GateCall, client: HubClient) -> AsyncIterator[GateLease]:
        """Borrow a slot while the block runs; raises what the hub refuses with, and `LeaseLost` in the end."""
        began_s = now_s()
        async with client.borrow(call.label, where=call.where, wait=call.wait_s, ttl=call.ttl_s) as slot:
            lease = GateLease(client, slot, self.pulse, began_s)
            await lease.tell()  # from now on the idle rule counts, and the slot says which it is
            yield lease

    def idle_s(self, lease: GateLease, default_s: float = 0.0) -> float:
        """Return after how many seconds without use the gate ends a connection, by the rule of its slot or the default.

        0: never; where the pool or the hub has an idle rule, the hub ends the lease, and knows of pauses.
        """
        own, told = lease.slot.item.get("idleTimeoutSeconds"), lease.slot.use.idle_s
        return float(own) if isinstance(own, int | float) else 0.0 if told else default_s


@asynccontextmanager
async def while_there(gone: asyncio.Future[Any]) -> AsyncIterator[None]:
    """Cancel the block, and raise `CallerGone`, once `gone` is done."""
    guard, error = Guard(), None
    watch = asyncio.ensure_future(asyncio.wait([gone]))
    watch.add_done_callback(lambda done: None if done.cancelled() else guard.break_off())
    try:
        yield
    except BaseException as raised:
        error = raised
        raise
    finally:
        watch.cancel()
        if guard.close(error) and gone.done():
            raise CallerGone("The caller has gone.") from None
