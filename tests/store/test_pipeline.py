"""Batches go over one connection, which is kept while there are more and given back after that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from hub.store.connection import make_client, open_store
from hub.store.pipeline import Pipeline
from hub.store.store import Store
from tests.world import settings_for


@pytest.fixture
async def store(settings) -> AsyncIterator[Store]:
    async with open_store(settings) as found:
        yield found


async def test_each_command_of_a_pipeline_gets_its_own_answer_or_error(store):
    pipeline = Pipeline(store.client)
    answers = await pipeline.carry([("SET", "a", "1"), ("HGET", "a", "x"), ("GET", "a"), ("HGETALL", "none")])
    assert (answers[0], answers[2:], type(answers[1])) == (True, ["1", {}], ResponseError)
    await pipeline.release()


async def test_a_connection_cut_between_two_batches_is_made_anew(store, redis):
    pipeline = Pipeline(store.client)
    (mine,) = await pipeline.carry([("CLIENT ID",)])
    redis.client_kill_filter(_id=mine)
    assert await pipeline.carry([("PING",), ("ECHO", "again")]) == [True, "again"]
    await pipeline.release()


@pytest.mark.parametrize("is_new", [False, True])
async def test_a_connection_that_another_task_closes_while_it_is_used_counts_as_cut(settings, is_new):
    """redis-py itself raises AttributeError or RuntimeError, which a caller would be told as a failure of the hub."""
    client = make_client(settings.redis_url, settings_for(settings.redis_url, redis_timeout_s=0.1))
    connection = await client.connection_pool.get_connection()
    ends = []
    for steps in range(40):  # of the event loop before it is closed: where a step falls is redis-py's affair
        await (connection.disconnect() if is_new else connection.connect())
        using = asyncio.create_task(connection.send_command("PING"))
        for _ in range(steps):
            await asyncio.sleep(0)
        await connection.disconnect(nowait=True)
        ends += await asyncio.gather(using, return_exceptions=True)
    await client.connection_pool.release(connection)
    await client.aclose()
    assert [end for end in ends if not isinstance(end, RedisConnectionError | RedisTimeoutError | None)] == []
    assert any(isinstance(end, RedisConnectionError) for end in ends)


async def test_late_answers_of_a_timed_out_batch_are_not_given_to_another(settings, redis):
    client = make_client(settings.redis_url, settings_for(settings.redis_url, redis_timeout_s=0.5))
    pipeline = Pipeline(client)
    redis.client_pause(2_000, all=True)
    with pytest.raises(RedisTimeoutError):
        await pipeline.carry([("ECHO", "late")])
    redis.client_unpause()
    assert await pipeline.carry([("ECHO", "other")]) == ["other"]
    await pipeline.release()
    await client.aclose()


async def test_calls_made_while_the_connection_is_released_are_answered(store, monkeypatch):
    meanwhile: asyncio.Queue[asyncio.Future[str]] = asyncio.Queue()
    release = store.client.connection_pool.release

    async def slowly(connection):
        await release(connection)
        monkeypatch.undo()
        meanwhile.put_nowait(asyncio.ensure_future(store.read("ECHO", "meanwhile")))
        await asyncio.sleep(0)  # it is in the queue now, and the sender has looked there for the last time

    monkeypatch.setattr(store.client.connection_pool, "release", slowly)
    assert await store.read("ECHO", "first") == "first"
    assert await (await meanwhile.get()) == "meanwhile"


async def test_an_idle_pipeline_holds_no_connection(store):
    assert await asyncio.gather(*(store.read("ECHO", n) for n in range(300))) == [str(n) for n in range(300)]
    assert store._sender is not None
    await store._sender
    assert not store.client.connection_pool._in_use_connections
