"""Connections whose commands are packed by hiredis, and whose answers are read with one coroutine each: where redis-py
is asynchronous it packs in Python, and reads an answer through four, and either is a tenth of what a hub does."""

from __future__ import annotations

from typing import Any

import hiredis
from redis.asyncio import ConnectionPool
from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import ConnectionError as RedisConnectionError


class Packed(AbstractConnection):
    """hiredis takes text that is UTF-8, bytes and numbers; what it does not take is packed, or refused, by redis-py."""

    def pack_command(self, *args: Any) -> list[bytes]:
        try:
            if " " not in args[0]:  # else it is two words, which redis-py sends apart
                return [hiredis.pack_command(args)]
        except (TypeError, UnicodeEncodeError):
            pass
        packed: list[bytes] = super().pack_command(*args)
        return packed

    async def read_answers(self, count: int) -> list[Any]:
        """Return the answers to so many commands, errors of Redis among them. Raises what `read_response` raises when
        the connection fails, and closes it then; it has no timeout of its own.
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
    """Plain."""


class PackedSSLConnection(Packed, SSLConnection):
    """Over TLS."""


class PackedUnixConnection(Packed, UnixDomainSocketConnection):
    """On this machine."""


_PACKED: dict[Any, type[AbstractConnection]] = {
    Connection: PackedConnection,
    SSLConnection: PackedSSLConnection,
    UnixDomainSocketConnection: PackedUnixConnection,
}


def packed(pool: ConnectionPool) -> ConnectionPool:
    """Return the pool, before its first connection, with such connections."""
    pool.connection_class = _PACKED[pool.connection_class]
    return pool
