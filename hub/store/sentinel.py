"""A client of the server that Sentinels name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis

from hub.settings.sentinel import read_sentinel_url
from hub.store.primary import LocatedConnection, LocatedSSLConnection, Primary, Sentinels

_ASKED_WITH = ("socket_timeout", "socket_connect_timeout", "retry")


class _Pool(BlockingConnectionPool):
    """Closes the connections to the Sentinels as well."""

    def __init__(self, *, primary: Primary, **options: Any) -> None:
        super().__init__(primary=primary, **options)
        self._primary = primary

    async def aclose(self) -> None:
        await super().aclose()
        await self._primary.close()


def sentinels(url: str, options: Mapping[str, Any]) -> Sentinels:
    """Those that the URL names; raises ValueError where it is none."""
    named = read_sentinel_url(url)
    asked = {key: options[key] for key in _ASKED_WITH} | named.sentinel
    return Sentinels([Redis(host=host, port=port, **asked) for host, port in named.hosts], named.service)


def sentinel_client(url: str, options: Mapping[str, Any], primary: Primary) -> Redis:
    """A client that connects to wherever the primary is; raises ValueError where the URL names no Sentinels."""
    server = dict(read_sentinel_url(url).server)
    kind = LocatedSSLConnection if server.pop("ssl", False) else LocatedConnection
    return Redis.from_pool(_Pool(connection_class=kind, primary=primary, **options, **server))
