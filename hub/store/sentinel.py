"""A client of the server that Sentinel names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from redis.asyncio import Redis
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool

from hub.settings.sentinel import read_sentinel_url

_ASKED_WITH = ("socket_timeout", "socket_connect_timeout", "retry")


class _Pool(SentinelConnectionPool):
    """Closes the connections to the Sentinels as well: redis-py leaves them to the garbage collector."""

    async def aclose(self) -> None:
        await super().aclose()
        for sentinel in self.sentinel_manager.sentinels:
            await sentinel.aclose()


def sentinel_client(url: str, options: Mapping[str, Any]) -> Redis:
    """A client of the service that the Sentinel URL names; raises ValueError where it is none."""
    named = read_sentinel_url(url)
    asked = {key: options[key] for key in _ASKED_WITH}
    sentinel = Sentinel(named.hosts, sentinel_kwargs={**asked, **named.sentinel})  # type: ignore[no-untyped-call]
    client = sentinel.master_for(named.service, connection_pool_class=_Pool, **options, **named.server)
    return cast(Redis, client)
