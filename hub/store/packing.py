"""Faster connections to Redis: hiredis packs the commands, and one coroutine reads each answer.

The asynchronous redis-py packs commands in Python and reads each answer through four coroutines; each of the two costs
a tenth of a hub's processor time.
"""

from __future__ import annotations

from typing import Any

import hiredis
from redis.asyncio import ConnectionPool
from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import ConnectionError as RedisConnectionError

# What redis-py and uvloop raise for a connection that another task closes while it is used.
_CLOSED_MEANWHILE = (RuntimeError, AttributeError)


class Packed(AbstractConnection):
    """A connection whose commands hiredis packs, if they are UTF-8 text, bytes and numbers; redis-py packs others.

    A call raises redis-py's ConnectionError when another task closes the connection meanwhile.
    """

    def pack_command(self, *args: Any) -> list[bytes]:
        try:
            if " " not in args[0]:  # redis-py splits a name of two words, such as `CLUSTER NODES`
                return [hiredis.pack_command(args)]
        except (TypeError, UnicodeEncodeError):
            pass
        packed: list[bytes] = super().pack_command(*args)
        return packed

    async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        try:
            await super().send_packed_command(command, check_health)
        except _CLOSED_MEANWHILE as error:
            raise RedisConnectionError(f"the connection was closed while it was used: {error}") from error

    async def read_response(self, *args: Any, **options: Any) -> Any:
        try:
            return await super().read_response(*args, **options)
        except _CLOSED_MEANWHILE as error:
            raise RedisConnectionError(f"the connection was closed while it was used: {error}") from error

    async def read_answers(self, count: int) -> list[Any]:
        """Return the answers to `count` commands; errors of Redis are among them, not raised. When the connection
        fails, close it and raise what `read_response` raises. There is no timeout: the caller sets one.
        """
        try:
            parser: Any = self._parser
            return [await parser.read_response() for _ in range(count)]
        except BaseException as error:
            await self.disconnect(nowait=True)
            if isinstance(error, (OSError, *_CLOSED_MEANWHILE)):
                raise RedisConnectionError(f"Redis was cut off: {error}") from error
            raise


class PackedConnection(Packed, Connection):
    """A plain TCP connection."""


class PackedSSLConnection(Packed, SSLConnection):
    """A connection over TLS."""


class PackedUnixConnection(Packed, UnixDomainSocketConnection):
    """A connection to a unix socket on this machine."""


_PACKED: dict[Any, type[AbstractConnection]] = {
    Connection: PackedConnection,
    SSLConnection: PackedSSLConnection,
    UnixDomainSocketConnection: PackedUnixConnection,
}


def packed(pool: ConnectionPool) -> ConnectionPool:
    """Make a pool open connections whose commands hiredis packs; return the pool. It must have no connection yet."""
    pool.connection_class = _PACKED[pool.connection_class]
    return pool
