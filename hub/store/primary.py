"""The primary: the Redis server that the hub uses, and the check that it is still the one whose store was opened.

The identity of a server is its `run_id` and its `master_replid`. A restart changes the first, a promotion to primary
the second, also for a server that was primary before. Each new connection reads both before it sends anything else.
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
ANSWER_S = 2.0  # timeout of each server that a finder asks; a majority of answers is enough
ASKED_WITH = ("socket_timeout", "socket_connect_timeout", "retry")  # options that connections of finders share
HIDDEN = "hidden"  # the identity of a server that does not tell it to this user


class AnotherServer(RedisError):
    """The connection leads to another server than the one whose store is open; the store there must be opened first."""


class Finder(Protocol):
    """A way to find the address of the primary: by Sentinels, or by the servers of a cluster (`in_cluster`)."""

    in_cluster: bool

    async def find(self) -> tuple[str, int]:
        """Return the host and port of the primary; raises ConnectionError while no majority knows it."""

    async def close(self) -> None:
        """Close the connections to the servers that are asked."""


class Primary:
    """The server behind a pool of connections. Each new connection calls `greet`, which checks its identity."""

    def __init__(self, finder: Finder | None = None) -> None:
        self._finder = finder
        self.may_move = finder is not None
        self.in_cluster = finder is not None and finder.in_cluster
        self.address: tuple[str, int] | None = None
        self.identity: str | None = None  # None until the first connection has read it
        self._asked_at = float("-inf")

    async def locate(self) -> tuple[str, int] | None:
        """Return the address to connect to, None to use that of the URL; ask the finder where it is not known."""
        if self.address is None:
            await self.ask()
        return self.address

    async def ask(self) -> bool:
        """Ask the finder for the address of the primary; return whether it has changed. Raises ConnectionError."""
        if self._finder is None:
            return False
        before, self.address = self.address, await self._finder.find()
        self._asked_at = time.monotonic()
        return before not in (None, self.address)

    async def ask_again(self) -> bool:
        """Call `ask` if its last answer is older than a tick; return whether the address has changed."""
        return time.monotonic() - self._asked_at >= ASK_S and await self.ask()

    async def greet(self, connection: Any) -> None:
        """Begin a new connection and check the identity of its server.

        Raises `AnotherServer` when it is not the server whose store is open, and ConnectionError for a replica.
        """
        await connection.on_connect()
        identity = await _identity(connection)
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
        """Close the connections of the finder."""
        if self._finder is not None:
            await self._finder.close()

    def forget(self) -> None:
        """Forget the identity of the server, so that the next connection sets it."""
        self.identity = None


class _Located:
    """A connection to the address that the primary has at the moment of connecting."""

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
    """A connection without TLS to the address that the primary has at the moment of connecting."""


class LocatedSSLConnection(_Located, PackedSSLConnection):
    """A connection over TLS to the address that the primary has at the moment of connecting."""


class _Pool(BlockingConnectionPool):
    """A pool of connections to the primary; closing it also closes the connections of the finder."""

    def __init__(self, *, primary: Primary, **options: Any) -> None:
        super().__init__(primary=primary, **options)
        self._primary = primary

    async def aclose(self) -> None:
        await super().aclose()
        await self._primary.close()


def located_client(server: Mapping[str, Any], options: Mapping[str, Any], primary: Primary) -> Redis:
    """Return a client that connects to the present address of the primary; `server` has TLS options and password."""
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
