"""Which server the hub speaks to: where the primary is, and whether it still is the one whose store was opened.

A server is known by its `run_id` and its `master_replid`: a restart changes the first, a promotion the second, also of
a server that was primary before and never ended. Every new connection asks for both before anything else is sent.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

from redis.asyncio import BlockingConnectionPool, Redis
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError

from hub.store.packing import PackedConnection, PackedSSLConnection

ASK_S = 0.5  # how often the finder is asked: as often as the hub clock ticks
ANSWER_S = 2.0  # for each of those a finder asks; nobody waits for it once a majority has answered
ASKED_WITH = ("socket_timeout", "socket_connect_timeout", "retry")  # of the options of the hub's own connections
HIDDEN = "hidden"  # the identity of a server that does not tell it to this user


class AnotherServer(RedisError):
    """The connection leads to another server than the one whose store is open: that has to be opened first."""


class Finder(Protocol):
    """Who knows where the primary is, and whether it is one of a cluster."""

    in_cluster: bool

    async def find(self) -> tuple[str, int]:
        """Its address; raises ConnectionError while too few know it."""

    async def close(self) -> None:
        """Let go of the connections."""


class Primary:
    """The server behind a pool of connections, each of which greets it."""

    def __init__(self, finder: Finder | None = None) -> None:
        self._finder = finder
        self.may_move = finder is not None
        self.in_cluster = finder is not None and finder.in_cluster
        self.address: tuple[str, int] | None = None
        self.identity: str | None = None  # None: it is not known yet, and the next connection says
        self._asked_at = float("-inf")

    async def locate(self) -> tuple[str, int] | None:
        """Return the address to connect to; ask for it where it is not known."""
        if self.address is None:
            await self.ask()
        return self.address

    async def ask(self) -> bool:
        """Return whether the primary is at another address than it was before."""
        if self._finder is None:
            return False
        before, self.address = self.address, await self._finder.find()
        self._asked_at = time.monotonic()
        return before not in (None, self.address)

    async def ask_again(self) -> bool:
        """Ask as `ask`, where the last answer is as old as a tick."""
        return time.monotonic() - self._asked_at >= ASK_S and await self.ask()

    async def greet(self, connection: Any) -> None:
        """Begin a connection. Raises `AnotherServer`, or ConnectionError for a replica."""
        try:
            await connection.on_connect()
            identity = await _identity(connection)
        except AttributeError as error:  # redis-py: it was dropped while it was made, and has nothing to write to
            raise RedisConnectionError("the connection was dropped while it was made") from error
        if self.identity is None:
            self.identity = identity
        elif self.identity != identity:
            raise AnotherServer(f"the server is {identity}, and the store was opened on {self.identity}")

    async def check(self, client: Redis) -> None:
        """Raise `AnotherServer` when the server was demoted or promoted while its connections stayed open."""
        if self.identity in (None, HIDDEN):
            await client.ping()
            return
        found = _read(await client.info("replication"))
        if found["master_replid"] != str(self.identity).partition(":")[2]:
            raise AnotherServer("the replication id of the server has changed")

    async def close(self) -> None:
        """Let go of the connections to those who know where it is."""
        if self._finder is not None:
            await self._finder.close()

    def forget(self) -> None:
        """Let the next connection say which server it is."""
        self.identity = None


class _Located:
    """A connection to wherever the primary is at the moment of connecting."""

    host: str
    port: int

    def __init__(self, *, primary: Primary, **options: Any) -> None:
        super().__init__(**options)
        self._primary = primary

    async def _connect(self) -> None:
        address = await self._primary.locate()
        if address is not None:
            self.host, self.port = address
        await super()._connect()  # type: ignore[misc]


class LocatedConnection(_Located, PackedConnection):
    """Plain."""


class LocatedSSLConnection(_Located, PackedSSLConnection):
    """Over TLS."""


class _Pool(BlockingConnectionPool):
    """Closes the connections to those who know where the primary is as well."""

    def __init__(self, *, primary: Primary, **options: Any) -> None:
        super().__init__(primary=primary, **options)
        self._primary = primary

    async def aclose(self) -> None:
        await super().aclose()
        await self._primary.close()


def located_client(server: Mapping[str, Any], options: Mapping[str, Any], primary: Primary) -> Redis:
    """Make a client that connects to wherever the primary is; `server` says what to show it."""
    shown = dict(server)
    kind = LocatedSSLConnection if shown.pop("ssl", False) else LocatedConnection
    return Redis.from_pool(_Pool(connection_class=kind, primary=primary, **options, **shown))


async def _identity(connection: Any) -> str:
    found: dict[str, str] = {}
    for section in ("server", "replication"):
        await connection.send_command("INFO", section)
        try:
            found |= _read(await connection.read_response())
        except (NoPermissionError, AuthenticationError):
            return HIDDEN
        except ResponseError as error:
            if "unknown command" not in str(error):
                raise
            return HIDDEN
    if found.get("role") != "master":
        raise RedisConnectionError("the server is a replica")
    return f"{found['run_id']}:{found['master_replid']}"


def _read(answer: Any) -> dict[str, str]:
    if isinstance(answer, dict):
        return {str(name): str(value) for name, value in answer.items()}
    return dict(line.split(":", 1) for line in text(answer).splitlines() if ":" in line)


def text(answer: Any) -> str:
    return answer.decode() if isinstance(answer, bytes) else str(answer)
