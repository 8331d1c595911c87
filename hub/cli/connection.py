"""The hub that a command asks: its address, the secret to send, and its API, over HTTP or inside this process."""

from __future__ import annotations

import asyncio
import errno
import logging
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, cast
from urllib.parse import urlsplit

import typer

from hub.cli import global_options, kept_logins
from hub.cli.environment import environment, given_secret, tell_of_proxies
from hub.cli.inputs import Usage, read_url
from hub.client import plain
from hub.client.calls import NEUTRAL, path
from hub.client.exchange import RetryPolicy, Send, exchange
from hub.client.transport import DEFAULT_URL, AsyncTransport, Secret
from hub.errors import HubError, HubUnavailable, Unauthorized
from hub.settings import mask_url

Role = Literal["look", "runner", "node", "ticket", "figures", "admin", "superuser", "nobody"]
Row = dict[str, Any]

# The variables with a secret for each role; the first that is set is used.
_SECRETS: dict[Role, tuple[str, ...]] = {
    "look": ("HUB_RUNNER_SECRET", "HUB_ADMIN_SECRET", "HUB_NODE_SECRET", "HUB_TOKEN"),
    "runner": ("HUB_RUNNER_SECRET", "HUB_TOKEN"),
    "node": ("HUB_NODE_SECRET",),
    "ticket": ("HUB_ADMIN_SECRET", "HUB_RUNNER_SECRET", "HUB_TOKEN"),
    "figures": ("HUB_RUNNER_SECRET", "HUB_ADMIN_SECRET"),
    "admin": ("HUB_ADMIN_SECRET", "HUB_RUNNER_SECRET"),
    "superuser": ("HUB_ADMIN_SECRET", "HUB_RUNNER_SECRET", "HUB_TOKEN"),
    "nobody": (),
}
PAGE = 500  # rows in one call
# Long enough for a hub that is just starting, and not too long for a person who waits.
_PATIENCE = RetryPolicy(trouble_s=5.0, attempt_s=10.0)
_KNOCK_S = 2.0
_NOT_LISTENING = {errno.ECONNREFUSED, errno.EADDRNOTAVAIL, errno.ENETUNREACH, errno.EAFNOSUPPORT}


# The end of the sentence on a refused secret.
_NEEDED: dict[Role, str] = {
    "look": "looking needs HUB_RUNNER_SECRET, HUB_ADMIN_SECRET, HUB_NODE_SECRET, or HUB_TOKEN with a borrow token",
    "runner": "borrowing and returning needs HUB_RUNNER_SECRET, or HUB_TOKEN with a borrow token",
    "node": "announcing a node needs HUB_NODE_SECRET or a token of the node",
    "nobody": "it needs none",
    "ticket": "this needs HUB_ADMIN_SECRET, HUB_RUNNER_SECRET, or HUB_TOKEN with a borrow token",
    "figures": "this takes no token and needs HUB_RUNNER_SECRET or HUB_ADMIN_SECRET",
    "admin": "this is for operators and needs HUB_ADMIN_SECRET, or HUB_RUNNER_SECRET where the hub has no other",
    "superuser": "it needs HUB_ADMIN_SECRET, HUB_RUNNER_SECRET where the hub has no other, or HUB_TOKEN of a superuser",
}
_shown: dict[str, str] = {}  # the source of the last secret that was sent, and the need for it


@dataclass(frozen=True)
class Address:
    """The URL of a hub and the secret to send; `chosen` when the command line names the hub: then no other is used.

    `renewed` returns the secret anew where it is the token of `hub login`, which ends before a long command does.
    """

    url: str
    secret: str
    chosen: bool
    renewed: Callable[[], str] | None = None

    @property
    def credential(self) -> str | Callable[[], str]:
        """Return the secret, or the function that returns it for each request."""
        return self.renewed or self.secret


def address(url: str | None, secret: str | None, role: Role, *, of_all: bool = False) -> Address:
    """Return URL and secret of the hub: from the command line, else from the environment and `.env`; raises `Usage`.

    The URL is that of the realm which the command line names, unless `of_all`, for a command about all realms.
    """
    variables = environment()
    if url is None:
        named = variables.get("HUB_URL", "").strip()
        try:
            where = read_url(named or DEFAULT_URL)
        except typer.BadParameter as error:
            raise Usage(f"HUB_URL: {error.message}") from None
    else:
        where = url
    source, renewed = "--secret", None
    if secret is None:
        source, secret = _set_secret(role)
        if not secret and role not in ("node", "nobody") and not variables.get("HUB_TOKEN"):
            renewed = kept_logins.find(where)
            source, secret = (f"hub login, for {where}", renewed()) if renewed else ("", "")
    else:
        secret = given_secret(secret, "--secret")
    _shown.update(source=source, needed=_NEEDED[role])
    if not secret.isascii() or not secret.isprintable():
        raise Usage("The secret has characters that no HTTP header can carry.")
    tell_of_proxies(where)
    return Address(where if of_all else in_realm(where), secret, url is not None, renewed)


def as_operator(at: Address) -> Address:
    """Return the address with the secret of operators that is set, unless the command line has named a secret."""
    if _shown.get("source") == "--secret":
        return at
    source, secret = _set_secret("admin")
    if not secret and at.renewed is not None:  # the login of a user
        return at
    _shown.update(source=source, needed=_NEEDED["admin"])
    return replace(at, secret=secret, renewed=None)


def _set_secret(role: Role) -> tuple[str, str]:
    """Return the first variable that is set for a role, and the secret in it; empty texts where none is set."""
    lists = ((name, environment().get(name, "")) for name in _SECRETS[role])
    # While secrets are rotated the variable is a list; any member of it is accepted.
    given = ((name, member.strip()) for name, text in lists for member in text.split(","))
    return next((member for member in given if member[1]), ("", ""))


def in_realm(url: str) -> str:
    """Return the URL of the realm that the command line names, below `url`; raises `Usage` when that is no name."""
    name = global_options.realm()
    if name is None:
        return url
    if not re.fullmatch(r"[a-z0-9-]{1,32}", name):
        raise Usage(
            "--realm names one realm, of 1 to 32 of a-z, 0-9 and -; hub status, nodes, pools, leases and doctor take "
            "'*' for all."
        )
    return f"{url.rstrip('/')}/realms/{name}"


def secret_source() -> str:
    """Return where the secret that is sent comes from, such as `HUB_TOKEN`; empty without one."""
    return _shown.get("source", "")


def secret_refused(error: Unauthorized) -> str:
    """Return the sentence on a secret that the hub refuses: its source, the reason, and which secret is needed."""
    source = secret_source()
    what = f"the secret, which is from {source}" if source else "a call without a secret"
    why = f" ({error.detail.rstrip('.')})" if error.detail else ""
    needed = _shown.get("needed", _NEEDED["look"])
    return f"The hub refuses {what}{why}; {needed}, as the hub has it. --secret @FILE gives another one."


class HubApi:
    """The HTTP API of a hub; its calls are made inside an `async with` block.

    When no hub listens, and the command line names none, a hub inside this process answers, straight on Redis.
    """

    def __init__(self, at: Address, transport: AsyncTransport | None = None, *below: str) -> None:
        """Take the address and, if it is open already, the transport; `below` are the first parts of all paths."""
        self.at = at
        self._below = below
        self._open = AsyncExitStack()
        if transport is not None:
            self._transport = transport

    async def __aenter__(self) -> Self:
        self._transport = await self._open.enter_async_context(_connected(self.at))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        await self._open.aclose()

    def within(self, realm: str) -> HubApi:
        """Return the API of a realm of this hub, over the same transport."""
        return HubApi(self.at, self._transport, "realms", realm)

    async def get(self, *parts: str, **query: Any) -> Row:
        """Return the answer to a GET of this path; raise a `HubError` when the hub refuses."""
        return await self.ask("GET", *parts, **query)

    async def rows(self, *parts: str, **query: Any) -> list[Row]:
        """Return the rows in the answer to a GET of this path, where that is a list."""
        found: Any = await self.ask("GET", *parts, answer_type=list, **query)
        return list(found)

    async def ask(
        self,
        method: str,
        *parts: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        wait_s: float = 0.0,
        answer_type: type = dict,
        **query: Any,
    ) -> Row:
        """Return the answer to a call, which the hub may hold for `wait_s`; raise a `HubError` when the hub refuses."""
        where = path(*self._below, *parts)
        wanted = {name: str(value) for name, value in query.items() if value is not None}
        send = Send(method, where, body, wanted, {**NEUTRAL, **(headers or {})}, wait_s=wait_s)
        answer = await self._transport.run(exchange(send, _PATIENCE))
        if not isinstance(answer.data, answer_type):
            raise HubError(f"The server that answers {method} {where} is no capacity hub.")
        return cast(Row, answer.data)


class JobsApi(HubApi):
    """The jobs API of a hub; its calls are made inside an `async with` block, with the token, or else the secret."""

    def __init__(self, at: Address, token: str) -> None:
        super().__init__(at, None, "v1", "joblib")
        self._token = token

    @classmethod
    def of_command_line(cls, url: str | None, secret: str | None, token: str | None) -> JobsApi:
        """Return the API with the token or secret of the command line, else of the environment and `.env`.

        Raises `Usage`.
        """
        if token is not None and secret is not None:
            raise Usage("--token and --secret exclude each other.")
        if token is None and secret is None:
            token = environment().get("HUB_TOKEN", "")
        elif token is not None:
            token = given_secret(token, "--token")
        token = (token or "").strip()
        if not token.isascii() or not token.isprintable() or " " in token:
            raise Usage("The token has characters that no token may have, such as spaces.")
        if token and not any(char.isalnum() for char in token):
            raise Usage("HUB_TOKEN, or --token, has no token in it.")
        return cls(address(url, "" if token else secret, "admin"), token)

    async def ask(self, method: str, *parts: str, headers: Mapping[str, str] | None = None, **how: Any) -> Row:
        """Return the answer to a call with the token or the secret; raise a `HubError` when the hub refuses."""
        identity = {"authorization": f"Bearer {self._token}"} if self._token else {}
        try:
            return await super().ask(method, *parts, headers={**identity, **(headers or {})}, **how)
        except Unauthorized:
            what = "token" if self._token else "secret"
            hint = "give --token or set HUB_TOKEN, or set HUB_ADMIN_SECRET as the hub has it."
            raise HubError(f"The hub refuses the {what}; {hint}") from None


@asynccontextmanager
async def _connected(at: Address) -> AsyncIterator[AsyncTransport]:
    if await listens(at.url):
        connection = over_http(at)
    elif at.chosen:
        raise HubUnavailable(f"No hub listens at {mask_url(at.url)}.")
    else:
        from hub.cli.direct import in_process  # imported only when no hub runs

        connection = in_process(at.url, at.secret)
    async with connection as transport:
        yield transport


def members(page: Mapping[str, Any], noun: str) -> tuple[int, list[Row]]:
    """Return the total and the rows of a page of a list; raise a `HubError` when it is no page of `noun`."""
    try:
        return int(page["total"]), list(page[noun])
    except (KeyError, TypeError, ValueError):
        raise HubError(f"The server at this address is no capacity hub: it shows no {noun}.") from None


async def listens(url: str) -> bool:
    """Return False when a connection to the URL is refused; any other trouble is left to the request itself."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(_KNOCK_S):
            _, writer = await asyncio.open_connection(parts.hostname, port)
    except ConnectionRefusedError:
        return False
    except OSError as error:
        # A name with several addresses: asyncio puts the errors of all of them into the text of one error.
        numbers = {int(number) for number in re.findall(r"\[Errno (\d+)\]", str(error))}
        return not (errno.ECONNREFUSED in numbers and numbers <= _NOT_LISTENING)
    writer.close()
    return True


@asynccontextmanager
async def over_http(at: Address) -> AsyncIterator[AsyncTransport]:
    """Yield a transport to a hub, which need not listen yet, and close it after the block."""
    transport = AsyncTransport(at.url, Secret(at.credential))
    try:
        yield transport
    finally:
        await transport.close()


def plain_logs() -> None:
    """Print warnings of the SDK as sentences on stderr, for commands that people run."""
    plain.plain_logs("hub: %(message)s", logging.WARNING)
