"""Batches of commands over one connection, cheaper than redis-py's own pipelines: those take a connection from the pool
and begin an asyncio task for each batch, and set a timer for each answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from hub.observability import metrics
from hub.store.packing import Packed


class Pipeline:
    """A sender of batches, one after the other, on one connection, which it keeps until `release` is called."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._connection: Any = None

    async def carry(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Send commands and return their answers in order; errors of Redis are among them, not raised.

        When the connection was cut, all commands are sent once more on a new one. Raises what redis-py raises when that
        fails too.
        """
        metrics.redis_round_trips.inc()
        metrics.redis_commands.inc(len(commands))
        with metrics.redis_seconds.time():
            return await self._tried_twice(commands)

    async def _tried_twice(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        if self._connection is None:
            self._connection = await self._client.connection_pool.get_connection()  # type: ignore[no-untyped-call]
        connection = self._connection
        found: list[Any] = await connection.retry.call_with_retry(
            lambda: self._once(connection, commands), lambda _: connection.disconnect(nowait=True)
        )
        return found

    async def release(self) -> None:
        """Return the connection to the pool."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await self._client.connection_pool.release(connection)

    async def _once(self, connection: Any, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        if not connection.is_connected:
            await connection.connect()
        # The whole batch has the timeout of one answer: a timer for each answer would double the cost.
        limit_s, connection.socket_timeout = connection.socket_timeout, None
        try:
            async with asyncio.timeout(limit_s):
                await connection.send_packed_command(connection.pack_commands(commands))
                if isinstance(connection, Packed):
                    answers = await connection.read_answers(len(commands))
                else:  # fakeredis, the store in memory
                    answers = [await _one_answer(connection) for _ in commands]
        except TimeoutError:
            await connection.disconnect(nowait=True)
            raise RedisTimeoutError(f"Redis has not answered within {limit_s:g} s") from None
        finally:
            connection.socket_timeout = limit_s
        return [self._read(command[0], answer) for command, answer in zip(commands, answers, strict=True)]

    def _read(self, name: Any, answer: Any) -> Any:
        """Return an answer in the form in which redis-py returns it: the answers of some commands are converted."""
        if name == "FCALL" or name not in self._client.response_callbacks or isinstance(answer, ResponseError):
            return answer
        return self._client.response_callbacks[name](answer)


async def _one_answer(connection: Any) -> Any:
    try:
        return await connection.read_response()
    except ResponseError as error:
        return error
