"""How a command reaches the hub: over HTTP, or, where none answers, the same application inside this process."""

from __future__ import annotations

import asyncio
import errno
import logging
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

import typer

from hub.cli import global_options
from hub.cli.environment import environment, given_secret, tell_of_proxies
from hub.cli.inputs import Usage, read_url
from hub.client import plain
from hub.client.calls import NEUTRAL, path
from hub.client.exchange import RetryPolicy, Send, exchange
from hub.client.transport import DEFAULT_URL, AsyncTransport
from hub.errors import HubError, HubUnavailable, Unauthorized
from hub.settings import mask_url

Role = Literal["look", "runner", "node", "admin"]

# The secrets a role may show, the first that is set.
_SECRETS: dict[Role, tuple[str, ...]] = {
    "look": ("HUB_RUNNER_SECRET", "HUB_ADMIN_SECRET", "HUB_NODE_SECRET"),
    "runner": ("HUB_RUNNER_SECRET",),
    "node": ("HUB_NODE_SECRET",),
    "admin": ("HUB_ADMIN_SECRET", "HUB_RUNNER_SECRET"),
}
# Long enough for a hub that is just starting; a person is waiting.
_PATIENCE = RetryPolicy(trouble_s=5.0, attempt_s=10.0)
_KNOCK_S = 2.0
_NOBODY_THERE = {errno.ECONNREFUSED, errno.EADDRNOTAVAIL, errno.ENETUNREACH, errno.EAFNOSUPPORT}


# What each of them is needed for, by those who are told that theirs is refused.
_NEEDED: dict[Role, str] = {
    "look": "looking needs HUB_RUNNER_SECRET, HUB_ADMIN_SECRET or HUB_NODE_SECRET",
    "runner": "borrowing and returning needs HUB_RUNNER_SECRET",
    "node": "announcing a node needs HUB_NODE_SECRET or a token of the node",
    "admin": "this is for operators and needs HUB_ADMIN_SECRET, or HUB_RUNNER_SECRET where the hub has no other",
}
_shown: dict[str, str] = {}  # where the secret that was shown last comes from, and what it was needed for


@dataclass(frozen=True)
class Address:
    """Which hub, and what to show it. `chosen`: named on the command line, so no other one will do."""

    url: str
    secret: str
    chosen: bool


def address(url: str | None, secret: str | None, role: Role, *, of_all: bool = False) -> Address:
    """The hub of the command line, else of the environment and `.env`, and the secret of the role: in the realm that
    the command line names, unless it is `of_all`."""
    variables = environment()
    if url is None:
        named = variables.get("HUB_URL", "").strip()
        try:
            where = read_url(named or DEFAULT_URL)
        except typer.BadParameter as error:
            raise Usage(f"HUB_URL: {error.message}") from None
    else:
        where = url
    source = "--secret"
    if secret is None:
        lists = ((name, variables.get(name, "")) for name in _SECRETS[role])
        # While secrets are rotated the variable is a list; any member of it is accepted.
        members = ((name, member.strip()) for name, text in lists for member in text.split(","))
        source, secret = next((found for found in members if found[1]), ("", ""))
    else:
        secret = given_secret(secret, "--secret")
    _shown.update(source=source, needed=_NEEDED[role])
    if not secret.isascii() or not secret.isprintable():
        raise Usage("The secret has characters that no HTTP header can carry.")
    tell_of_proxies(where)
    return Address(where if of_all else in_realm(where), secret, chosen=url is not None)


def in_realm(url: str) -> str:
    """The address of the realm that the command line names, at the hub of this address; raises `Usage`."""
    name = global_options.realm()
    if name is None:
        return url
    if not re.fullmatch(r"[a-z0-9-]{1,32}", name):
        raise Usage(
            "--realm names one realm, of 1 to 32 of a-z, 0-9 and -; hub status, nodes, pools, leases and doctor take "
            "'*' for all."
        )
    return f"{url.rstrip('/')}/realms/{name}"


def secret_refused(error: Unauthorized) -> str:
    """What a person needs to know when the hub refuses the secret of this command."""
    source = _shown.get("source")
    what = f"the secret, which is from {source}" if source else "a call without a secret"
    why = f" ({error.detail.rstrip('.')})" if error.detail else ""
    needed = _shown.get("needed", _NEEDED["look"])
    return f"The hub refuses {what}{why}; {needed}, as the hub has it. --secret @FILE gives another one."


def looking(url: str | None, secret: str | None, *, of_all: bool = False) -> Address:
    """The hub for a command that only shows: the realm that the command line names, unless it is `of_all`."""
    plain_logs()
    return address(url, secret, "look", of_all=of_all)


def operating(url: str | None, secret: str | None) -> Address:
    """The hub for a command of an operator."""
    plain_logs()
    return address(url, secret, "admin")


class HubApi:
    """A hub that can be asked."""

    def __init__(self, transport: AsyncTransport, *below: str) -> None:
        self._transport = transport
        self._below = below  # the path that all paths are behind

    def within(self, realm: str) -> HubApi:
        """A realm of that hub."""
        return HubApi(self._transport, "realms", realm)

    async def get(self, *parts: str, **query: Any) -> dict[str, Any]:
        """What the hub shows under this path; a `HubError` when it refuses."""
        wanted = {name: str(value) for name, value in query.items() if value is not None}
        return await self._ask(Send("GET", path(*self._below, *parts), query=wanted, headers=NEUTRAL))

    async def post(self, *parts: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """What the hub answers to this; a `HubError` when it refuses."""
        return await self._ask(
            Send("POST", path(*self._below, *parts), body if body is not None else {}, headers=NEUTRAL)
        )

    async def put(self, *parts: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """What the hub answers to this; a `HubError` when it refuses."""
        return await self._ask(Send("PUT", path(*self._below, *parts), body, headers=NEUTRAL))

    async def delete(self, *parts: str) -> dict[str, Any]:
        """What the hub answers to this; a `HubError` when it refuses."""
        return await self._ask(Send("DELETE", path(*self._below, *parts), headers=NEUTRAL))

    async def _ask(self, send: Send) -> dict[str, Any]:
        answer = await self._transport.run(exchange(send, _PATIENCE))
        if not isinstance(answer.data, dict):
            raise HubError(f"What answers {send.method} {send.path} is no capacity hub.")
        return answer.data


@asynccontextmanager
async def connect(at: Address) -> AsyncIterator[HubApi]:
    """The hub at this address; where none listens there and none was asked for by name, straight on Redis."""
    if await listens(at.url):
        connection = over_http(at)
    elif at.chosen:
        raise HubUnavailable(f"No hub listens at {mask_url(at.url)}.")
    else:
        from hub.cli.direct import in_process  # the packages of a hub, which need not be waited for where one runs

        connection = in_process(at.url, at.secret)
    async with connection as transport:
        try:
            yield HubApi(transport)
        finally:
            await transport.close()


async def listens(url: str) -> bool:
    """False when the connection is refused; every other trouble is for the real request to tell."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(_KNOCK_S):
            _, writer = await asyncio.open_connection(parts.hostname, port)
    except ConnectionRefusedError:
        return False
    except OSError as error:
        # A name with several addresses: asyncio folds what each of them said into the text of one error.
        said = {int(number) for number in re.findall(r"\[Errno (\d+)\]", str(error))}
        return not (errno.ECONNREFUSED in said and said <= _NOBODY_THERE)
    writer.close()
    return True


@asynccontextmanager
async def over_http(at: Address) -> AsyncIterator[AsyncTransport]:
    """How a hub is reached that listens, or that may come."""
    yield AsyncTransport(at.url, at.secret, "")


def plain_logs() -> None:
    """Print warnings of the SDK as sentences on stderr, for commands with a person in front of them."""
    plain.plain_logs("hub: %(message)s", logging.WARNING)
