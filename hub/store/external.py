"""Keys that are not the hub's, on its own Redis or on another one: plain commands, and scripts that are given keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

from redis.asyncio import Redis
from redis.exceptions import (
    AskError,
    AuthenticationError,
    ClusterCrossSlotError,
    NoPermissionError,
    NoScriptError,
    RedisError,
)

from hub.errors import StoreFault, StoreUnavailable
from hub.settings import Settings
from hub.store.connection import make_client
from hub.store.faults import is_away
from hub.store.library import Script

_SHUT = (AuthenticationError, NoPermissionError)
_SPREAD = (AskError, ClusterCrossSlotError)  # the first one is also of keys that have moved


class ExternalRedis:
    """A Redis as any other program uses it: nothing of the hub's has to be there."""

    def __init__(self, client: Redis) -> None:
        self._client = client

    @classmethod
    def at(cls, url: str, settings: Settings) -> Self:
        """Return the Redis of a URL, connected on first use; raises ValueError for options that no connection takes."""
        try:
            client = make_client(url, settings)
            pool: Any = client.connection_pool
            pool.make_connection()  # connects to nothing, and knows which options there are
        except (TypeError, ValueError, AttributeError, LookupError, RedisError):
            raise ValueError("it has an option, or a value of one, that no connection to Redis takes") from None
        return cls(client)

    async def read(self, *command: Any) -> Any:
        """Return the answer of a plain command; raises `StoreFault` when Redis will not have it.

        Raises `StoreUnavailable` as well, which goes on from the name of the server: `does not answer: ...`.
        """
        try:
            return await self._send(command)
        except RedisError as error:
            raise _fault(error) from None

    async def call(self, script: Script, keys: Sequence[str], rest: Iterable[Any] = (), **named: Any) -> Any:
        """Return the answer of a script that takes its keys from its caller; the errors are those of `read`."""
        arguments = (len(keys), *keys, *script.ordered(rest, named))
        try:
            return await self._send(("EVALSHA", script.sha, *arguments))
        except NoScriptError:
            return await self.read("EVAL", script.text, *arguments)
        except RedisError as error:
            raise _fault(error) from None

    async def close(self) -> None:
        """Let go of the connections."""
        await self._client.aclose()

    async def _send(self, command: tuple[Any, ...]) -> Any:
        try:
            return await self._client.execute_command(*command)  # type: ignore[no-untyped-call]
        except (RedisError, OSError) as error:
            if is_away(error):
                how = "does not let the hub in" if isinstance(error, _SHUT) else "does not answer"
                raise StoreUnavailable(f"{how}: {error or type(error).__name__}") from None
            raise


def _fault(error: RedisError) -> StoreFault:
    """`spread` in its facts: the keys are not all where they were asked for."""
    return StoreFault(str(error), spread=isinstance(error, _SPREAD))
