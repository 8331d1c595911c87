"""Who may connect: tokens in the connect packet or in the header, secrets, strangers; and what they may do then."""

from __future__ import annotations

from contextlib import suppress

import pytest
import requests
from socketio.exceptions import ConnectionError as Refused

from tests.sockets.people import ANN, JOB, OK, Listener, connections, new_worker, publish
from tests.world import PATIENCE_S, eventually, wait_until


@pytest.mark.parametrize("transport", ["websocket", "polling"])
@pytest.mark.parametrize(
    ("token", "headers"),
    [
        ("ann", {}),
        (None, {"authorization": "Bearer ann"}),
        ("ann", {"authorization": "Bearer nonsense"}),  # the connect packet decides
        (None, {"x-hub-secret": "admin-s3"}),
    ],
    ids=["connect packet", "header", "both", "secret"],
)
async def test_every_caller_with_a_token_or_secret_may_offer_jobs_over_a_socket(
    transport, token, headers, here, listen
):
    listener = await listen(here, token, headers=headers, transports=[transport])
    assert await listener.say("join_job_room", {"job_name": JOB, "worker_id": "None"}) == OK


@pytest.mark.parametrize("transport", ["websocket", "polling"])
@pytest.mark.parametrize(
    ("token", "headers"),
    [
        ("nonsense", {}),
        ("gone", {}),
        ("nonsense", {"authorization": "Bearer ann"}),
        (None, {"authorization": "Bearer nonsense"}),
        (None, {"authorization": "ann"}),
        (None, {"x-hub-secret": "runner-s3"}),
        ("ann\r\nx", {}),
    ],
    ids=["unknown", "of an inactive user", "beside a good header", "header", "no bearer", "other secret", "two lines"],
)
async def test_a_wrong_token_is_refused_even_where_strangers_are_let_in(transport, token, headers, here):
    listener = Listener(here, token, headers=headers, transports=[transport])
    refusals = []
    listener.client.on("connect_error", refusals.append)
    with pytest.raises(Refused):
        await listener.connect()
    assert refusals == [{"message": "Unauthorized"}]
    await listener.hang_up()


async def test_a_stranger_may_only_follow_rooms(here, listen, redis):
    stranger = await listen(here, None)
    assert await stranger.join("lab") == OK
    for event, member in (("join_job_room", "job_name"), ("join_provider_room", "provider_name")):
        assert await stranger.say(event, {member: JOB, "worker_id": new_worker()}) == "Unauthorized"
    publish(redis, "task_available", f"jobs:{JOB}")
    publish(redis, "jobs_invalidate", "room:lab")
    await eventually(lambda: _told(stranger, [("jobs_invalidate", {})]))


async def test_without_anonymous_reads_a_stranger_is_refused(start, listen):
    hub = start(HUB_ANONYMOUS_READS="false")
    with pytest.raises(Refused):
        await listen(hub, None)
    assert await (await listen(hub, "ann-reads")).join("lab") == OK


async def test_a_token_with_the_read_scope_cannot_bind_a_worker(here, listen, redis, hub):
    worker = (await hub.workers.create(ANN, new_worker())).id
    reader = await listen(here, "ann-reads")
    assert "needs a token with the scope worker" in await reader.offer(worker)
    assert connections(redis, worker) == 0


async def test_every_caller_of_an_open_hub_is_the_operator(start_hub, listen):
    open_hub = start_hub(HUB_RUNNER_SECRET="", HUB_NODE_SECRET="", HUB_ADMIN_SECRET="")
    for token in (None, "whatever"):
        assert await (await listen(open_hub, token)).offer(new_worker()) == OK


async def test_while_redis_is_away_every_connection_is_refused_and_told_to_try_again(own_redis, start, listen):
    hub = start(HUB_REDIS_URL=own_redis.url)
    before = await listen(hub)
    own_redis.kill()
    wait_until(lambda: "store unreachable" in hub.log())
    listener = Listener(hub, "ann")
    refusals = []
    listener.client.on("connect_error", refusals.append)
    with pytest.raises(Refused):
        await listener.connect()
    assert "try again" in refusals[0]["message"]
    assert "events come again" in await before.join("lab")

    own_redis.start()
    wait_until(lambda: "store reachable again" in hub.log())
    await eventually(lambda: _connects(listener))
    await eventually(lambda: _joins(before, "lab"))
    publish(own_redis.client(), "jobs_invalidate", "room:lab")
    await eventually(lambda: _told(before, [("jobs_invalidate", {})]))
    await listener.hang_up()


def test_pages_of_other_sites_cannot_open_a_socket(here):
    url = f"{here.url}/socket.io/?EIO=4&transport=polling"
    assert requests.get(url, headers={"Origin": "http://elsewhere.example"}, timeout=PATIENCE_S).status_code == 400
    own = requests.get(url, headers={"Origin": here.url}, timeout=PATIENCE_S)
    assert (own.status_code, own.headers["Access-Control-Allow-Origin"]) == (200, here.url)


async def _told(listener: Listener, what: list[tuple[str, object]]) -> bool:
    return listener.told == what


async def _joins(listener: Listener, room: str) -> bool:
    return await listener.join(room) == OK


async def _connects(listener: Listener) -> bool:
    with suppress(Refused):  # told to try again
        await listener.connect()
    return listener.client.connected
