"""Access to keys of other programs, on the hub's Redis or another one: plain commands, and scripts with keys given."""

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
_SPREAD = (AskError, ClusterCrossSlotError)  # keys are on several servers of a cluster; MovedError is an AskError


class ExternalRedis:
    """A Redis that need not have a store or the hub's library on it."""

    def __init__(self, client: Redis) -> None:
        self._client = client

    @classmethod
    def at(cls, url: str, settings: Settings) -> Self:
        """Return the Redis of a URL, which is connected on first use; raises ValueError for unknown options in it."""
        try:
            client = make_client(url, settings)
            pool: Any = client.connection_pool
            pool.make_connection()  # does not connect yet, but raises for options that it does not know
        except (TypeError, ValueError, AttributeError, LookupError, RedisError):
            raise ValueError("it has an option, or a value of one, that no connection to Redis takes") from None
        return cls(client)

    async def read(self, *command: Any) -> Any:
        """Return the answer of a plain command; raises `StoreFault` when Redis refuses it, and `StoreUnavailable`.

        The text of `StoreUnavailable` continues a sentence that begins with a server's name: `does not answer: ...`.
        """
        try:
            return await self._send(command)
        except RedisError as error:
            raise _fault(error) from None

    async def call(self, script: Script, keys: Sequence[str], rest: Iterable[Any] = (), **named: Any) -> Any:
        """Return the answer of a script of `lua/external/` that is given these keys; raises what `read` raises."""
        arguments = (len(keys), *keys, *script.ordered(rest, named))
        try:
            return await self._send(("EVALSHA", script.sha, *arguments))
        except NoScriptError:
            return await self.read("EVAL", script.text, *arguments)
        except RedisError as error:
            raise _fault(error) from None

    async def close(self) -> None:
        """Close the connections."""
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
    """Return the `StoreFault` for an error; `spread` in its facts says that the keys are on several cluster servers."""
    return StoreFault(str(error), spread=isinstance(error, _SPREAD))
