"""Connections whose commands are packed by hiredis: redis-py does it in Python where it is asynchronous, which costs a
hub a tenth of all it does."""

from __future__ import annotations

from typing import Any

import hiredis
from redis.asyncio import ConnectionPool
from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection, UnixDomainSocketConnection


class _Packed(AbstractConnection):
    """hiredis takes text that is UTF-8, bytes and numbers; what it does not take is packed, or refused, by redis-py."""

    def pack_command(self, *args: Any) -> list[bytes]:
        try:
            if " " not in args[0]:  # else it is two words, which redis-py sends apart
                return [hiredis.pack_command(args)]
        except (TypeError, UnicodeEncodeError):
            pass
        packed: list[bytes] = super().pack_command(*args)
        return packed


class PackedConnection(_Packed, Connection):
    """Plain."""


class PackedSSLConnection(_Packed, SSLConnection):
    """Over TLS."""


class PackedUnixConnection(_Packed, UnixDomainSocketConnection):
    """On this machine."""


_PACKED: dict[Any, type[AbstractConnection]] = {
    Connection: PackedConnection,
    SSLConnection: PackedSSLConnection,
    UnixDomainSocketConnection: PackedUnixConnection,
}


def packed(pool: ConnectionPool) -> ConnectionPool:
    """The same pool, before its first connection, of such connections."""
    pool.connection_class = _PACKED[pool.connection_class]
    return pool
