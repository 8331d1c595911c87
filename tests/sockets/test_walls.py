"""Sockets with a token bound to rooms hear events of these rooms and of the global room."""

from __future__ import annotations

import pytest

from tests.sockets.people import ANN, JOB, OK, connections, new_worker, publish
from tests.world import eventually

BOUND = """
[[tokens]]
token = "bound"
user = "ann"
user_id = "{}"
rooms = ["lab"]
"""


@pytest.fixture
async def bound(tokens, serve, listen, hub):
    tokens.write_text(tokens.read_text() + BOUND.format(ANN))
    process, _ = await serve(tokens_file=tokens)
    return await listen(process, "bound")


async def test_a_bound_token_joins_its_rooms_and_the_global_one_and_hears_no_other(bound, redis):
    assert [await bound.join(room) for room in ("lab", "@global")] == [OK, OK]
    refused = [
        await bound.join("other"),
        await bound.say("join_job_room", {"job_name": "other:modifiers:Rotate"}),
        await bound.say("join_job_room", {"job_name": "@global:modifiers:Rotate"}),
        await bound.say("join_provider_room", {"provider_name": "other:frames:All"}),
    ]
    assert all("bound to 'lab'" in answer for answer in refused), refused
    assert await bound.say("join_job_room", {"job_name": JOB}) == OK
    for room in ("room:other", "jobs:other:modifiers:Rotate", "jobs:@global:modifiers:Rotate", "room:lab"):
        publish(redis, room, room)
    await eventually(lambda: len(bound.told) == 1)
    assert bound.told[0][0] == "room:lab"


async def test_a_worker_that_serves_rooms_beyond_the_token_is_not_bound_to_the_socket(bound, redis, hub):
    worker = (await hub.workers.create(ANN, new_worker())).id
    redis.hset(f"hub:worker_rooms:{worker}", "other", 1)
    assert "other" in await bound.offer(worker)
    assert connections(redis, worker) == 0
