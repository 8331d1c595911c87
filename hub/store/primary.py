"""Which server the hub speaks to: where the primary is, and whether it still is the one whose store was opened.

A server is known by its `run_id` and its `master_replid`: a restart changes the first, a promotion the second, also of
a server that was primary before and never ended. Every new connection asks for both before anything else is sent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.connection import Connection, SSLConnection
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError

from hub.store.cancelling import cancel_all

ASK_S = 0.5  # how often the Sentinels are asked: as often as the hub clock ticks
ANSWER_S = 2.0  # for each of them; nobody waits for it once a majority has answered
HIDDEN = "hidden"  # the identity of a server that does not tell it to this user


class AnotherServer(RedisError):
    """The connection leads to another server than the one whose store is open: that has to be opened first."""


class Sentinels:
    """A primary that Sentinels watch over. A majority of those the URL names must answer: fewer cannot know of a
    failover that the others agreed on, and two primaries would both be lent from.
    """

    def __init__(self, clients: Sequence[Redis], service: str) -> None:
        self._clients = clients
        self._service = service

    async def find(self) -> tuple[str, int]:
        """The primary by the Sentinel that knows the latest failover."""
        needed = len(self._clients) // 2 + 1
        known: list[tuple[int, str, int]] = []
        asking = [asyncio.ensure_future(self._ask(client)) for client in self._clients]
        try:
            for answer in asyncio.as_completed(asking):
                if (found := await answer) is not None:
                    known.append(found)
                if len(known) >= needed:
                    _, host, port = max(known)
                    return host, port
        finally:
            await cancel_all(asking)
        raise RedisConnectionError(
            f"{len(known)} of {len(self._clients)} Sentinels know the primary {self._service!r}; {needed} must answer"
        )

    async def _ask(self, client: Redis) -> tuple[int, str, int] | None:
        try:
            async with asyncio.timeout(ANSWER_S):
                pipe = client.pipeline(transaction=False)
                pipe.execute_command("SENTINEL GET-MASTER-ADDR-BY-NAME", self._service)
                pipe.execute_command("SENTINEL MASTER", self._service)
                address, state = await pipe.execute()
                host, port = (_text(part) for part in address)
                return int(state["config-epoch"]), host, int(port)
        except (RedisError, OSError, TimeoutError, TypeError, KeyError):  # it is gone, or does not watch over this one
            return None

    async def close(self) -> None:
        """Let go of the connections."""
        await asyncio.gather(*(client.aclose() for client in self._clients))


class Primary:
    """The server behind a pool of connections, each of which greets it."""

    def __init__(self, sentinels: Sentinels | None = None) -> None:
        self._sentinels = sentinels
        self.may_move = sentinels is not None
        self.address: tuple[str, int] | None = None
        self.identity: str | None = None  # None: it is not known yet, and the next connection says
        self._asked_at = float("-inf")

    async def locate(self) -> tuple[str, int] | None:
        """The address to connect to; asks for it where it is not known."""
        if self.address is None:
            await self.ask()
        return self.address

    async def ask(self) -> bool:
        """Whether the primary is at another address than it was before."""
        if self._sentinels is None:
            return False
        before, self.address = self.address, await self._sentinels.find()
        self._asked_at = time.monotonic()
        return before not in (None, self.address)

    async def ask_again(self) -> bool:
        """As `ask`, where the last answer is as old as a tick."""
        return time.monotonic() - self._asked_at >= ASK_S and await self.ask()

    async def greet(self, connection: Any) -> None:
        """The beginning of every connection. Raises `AnotherServer`, or ConnectionError for a replica."""
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
        """Let go of the connections to whoever knows where it is."""
        if self._sentinels is not None:
            await self._sentinels.close()

    def forget(self) -> None:
        """The next connection says who the server is."""
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


class LocatedConnection(_Located, Connection):
    """Plain."""


class LocatedSSLConnection(_Located, SSLConnection):
    """Over TLS."""


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
    return dict(line.split(":", 1) for line in _text(answer).splitlines() if ":" in line)


def _text(answer: Any) -> str:
    return answer.decode() if isinstance(answer, bytes) else str(answer)
