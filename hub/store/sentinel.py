"""Sentinels: who knows where the primary is that they watch over."""

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
    """A primary that Sentinels watch over. A majority of those the URL names must answer: fewer cannot know of a
    failover that the others agreed on, and two primaries would both be lent from.
    """

    in_cluster = False

    def __init__(self, clients: Sequence[Redis], service: str) -> None:
        self._clients = clients
        self._service = service

    async def find(self) -> tuple[str, int]:
        """Return the primary by the Sentinel that knows the latest failover."""
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
        except (RedisError, OSError, TimeoutError, TypeError, KeyError):  # it is gone, or does not watch over this one
            return None

    async def close(self) -> None:
        """Let go of the connections."""
        await asyncio.gather(*(client.aclose() for client in self._clients))


def sentinels(url: str, options: Mapping[str, Any]) -> Sentinels:
    """Return the Sentinels that the URL names; raises ValueError where it names none."""
    named = read_sentinel_url(url)
    asked = {key: options[key] for key in ASKED_WITH} | named.sentinel
    return Sentinels([Redis(host=host, port=port, **asked) for host, port in named.hosts], named.service)
