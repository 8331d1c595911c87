"""Sentinels: finding the address of the primary that they watch."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from hub.settings.sentinel import read_sentinel_url
from hub.store.cancelling import cancel_all
from hub.store.primary import ANSWER_S, ASKED_WITH, text


class Sentinels:
    """The finder of a primary that Sentinels watch.

    A majority of the Sentinels that the URL names must answer. Fewer may not know of a failover that the others agreed
    on, and then hubs could lend from two primaries.
    """

    in_cluster = False

    def __init__(self, clients: Sequence[Redis], service: str) -> None:
        self._clients = clients
        self._service = service

    async def find(self) -> tuple[str, int]:
        """Return host and port of the primary, from the Sentinel that knows the latest failover; raises ConnectionError
        when no majority answers.
        """
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
                host, port = (text(part) for part in address)
                return int(state["config-epoch"]), host, int(port)
        except (RedisError, OSError, TimeoutError, TypeError, KeyError):  # gone, or it does not watch this primary
            return None

    async def close(self) -> None:
        """Close the connections to the Sentinels."""
        await asyncio.gather(*(client.aclose() for client in self._clients))


def sentinels(url: str, options: Mapping[str, Any]) -> Sentinels:
    """Return the finder for the Sentinels that a URL names; raises ValueError for a bad URL."""
    named = read_sentinel_url(url)
    asked = {key: options[key] for key in ASKED_WITH} | named.sentinel
    return Sentinels([Redis(host=host, port=port, **asked) for host, port in named.hosts], named.service)
