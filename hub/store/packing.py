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


class Packed(AbstractConnection):
    """A connection whose commands hiredis packs, if they are UTF-8 text, bytes and numbers; redis-py packs others."""

    def pack_command(self, *args: Any) -> list[bytes]:
        try:
            if " " not in args[0]:  # redis-py splits a name of two words, such as `CLUSTER NODES`
                return [hiredis.pack_command(args)]
        except (TypeError, UnicodeEncodeError):
            pass
        packed: list[bytes] = super().pack_command(*args)
        return packed

    async def read_answers(self, count: int) -> list[Any]:
        """Return the answers to `count` commands; errors of Redis are among them, not raised. When the connection
        fails, close it and raise what `read_response` raises. There is no timeout: the caller sets one.
        """
        try:
            parser: Any = self._parser
            return [await parser.read_response() for _ in range(count)]
        except BaseException as error:
            await self.disconnect(nowait=True)
            if isinstance(error, OSError):
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
