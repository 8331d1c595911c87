"""The arguments of `process`, and those that are refused."""

from __future__ import annotations

import pytest

from hub.recovery.loop import process
from hub.recovery.models import RedisSource, TaskSource
from tests.recovery.loop.world import handled, nothing, source_of


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"batch": "3"}, "batch is a whole number, and it is '3'"),
        ({"batch": 2.5}, "batch is a whole number, and it is 2.5"),
        ({"batch": 10_001}, "batch is from 1 to 10000"),
        ({"concurrency": True}, "concurrency is a whole number"),
        ({"poll_s": float("nan")}, "poll_s is a number of seconds above 0"),
        ({"poll_s": "1"}, "poll_s is a number of seconds above 0"),
        ({"heartbeat": None}, "heartbeat is True, False, or a number of seconds"),
        ({"heartbeat": float("nan")}, "heartbeat is True, False, or a number of seconds"),
        ({"park": True}, "park is the URL of a Redis, or False"),
        ({"stop": True}, "stop is an asyncio.Event"),
        ({"get_session": 5}, "get_session is a function"),
    ],
)
async def test_an_impossible_option_is_refused_with_a_readable_sentence(jobs, options, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        await process(source_of(jobs), nothing, **options)


@pytest.mark.parametrize("handler", [None, "handle", lambda record: None])
async def test_a_handler_that_is_not_callable_is_refused_at_the_start(jobs, handler):
    jobs.add(1, status="Pending")
    with pytest.raises(TypeError, match="handler is a function of a record and a session"):
        await handled(source_of(jobs), handler)
    assert jobs.statuses() == {"Pending": 1}


@pytest.mark.parametrize("source", [RedisSource(name="x", index="i", key="a:{id}"), TaskSource(name="t")])
async def test_a_source_that_is_no_table_is_refused(source):
    with pytest.raises(TypeError, match="records of an SqlSource, not of a "):
        await process(source, nothing)
