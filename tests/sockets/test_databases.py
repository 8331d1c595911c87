"""Hubs on different databases of one Redis: no event reaches a client of another database, though pub/sub has none."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from redis import Redis

from hub.core import Hub
from hub.jobs.models import JobRequest, Options, ProviderRequest
from hub.store.connection import open_store
from tests.sockets.people import ANN, JOB, OK, new_worker
from tests.world import PATIENCE_S, HubProcess, RedisServer, eventually, settings_for

DISK = "lab:frames:Disk"


async def test_events_reach_only_clients_of_the_same_database(
    here: HubProcess,
    start: Callable[..., HubProcess],
    listen: Callable[..., Any],
    hub: Hub,
    redis: Redis,
    redis_server: RedisServer,
) -> None:
    url = f"{redis_server.url}/1"
    there = start(HUB_REDIS_URL=url)
    one, other = await listen(here, "ann"), await listen(there, "ann")
    for listener in (one, other):
        assert await listener.join("lab") == OK
        assert await listener.offer(new_worker()) == OK
    async with open_store(settings_for(url)) as store:
        elsewhere = Hub(store, settings_for(url))
        for each in (elsewhere, hub):
            await each.jobs.register(JobRequest("lab", "modifiers", "Rotate"), {}, ANN, superuser=False)
            await each.tasks.submit("lab", JOB, ["{}"], ANN, Options())
    await eventually(lambda: all(len(listener.told) >= 3 for listener in (one, other)))
    names = [[event for event, _ in listener.told] for listener in (one, other)]
    assert sorted(names[0]) == sorted(names[1]) == ["jobs_invalidate", "task_available", "task_status_event"]
    ids = [{str(data.get("id")) for event, data in each.told if event == "task_status_event"} for each in (one, other)]
    assert ids[0].isdisjoint(ids[1])


async def test_a_provider_is_asked_only_in_its_own_database(
    here: HubProcess,
    start: Callable[..., HubProcess],
    listen: Callable[..., Any],
    hub: Hub,
    redis_server: RedisServer,
) -> None:
    """Both databases have the same provider, so that a request in the wrong one would be answered there."""
    url = f"{redis_server.url}/1"
    there = start(HUB_REDIS_URL=url)
    near, far = await listen(here, "ann"), await listen(there, "ann")
    for listener in (near, far):
        assert await listener.say("join_provider_room", {"provider_name": DISK, "worker_id": "None"}) == OK
    async with open_store(settings_for(url)) as store:
        for each, listener, path in ((hub, near, "/here"), (Hub(store, settings_for(url)), far, "/there")):
            worker = await each.workers.create(ANN, new_worker())
            wanted = ProviderRequest("lab", "frames", "Disk", worker=worker.id)
            made, _ = await each.providers.register(wanted, ANN, False)
            reading = asyncio.ensure_future(each.providers.read(made, {"path": path}, PATIENCE_S))

            async def asked(listener: Any = listener) -> bool:
                return bool(listener.told)

            await eventually(asked)
            await each.providers.upload(made.id, listener.told[0][1]["request_id"], path.encode(), ANN, False)
            assert await reading == path.encode()
    for listener, path in ((near, "/here"), (far, "/there")):
        assert [(event, json.loads(data["params"])) for event, data in listener.told] == [
            ("provider_request", {"path": path})
        ]


async def test_a_long_poll_is_not_woken_by_an_event_of_another_database(hub: Hub, redis_server: RedisServer) -> None:
    url = f"{redis_server.url}/1"
    async with open_store(settings_for(url)) as store:
        for name in ("job_notice", "task_done", "result_notice", "granted"):
            assert getattr(store.keys, name)("x") != getattr(hub.store.keys, name)("x")
        async with (
            store.notifications.listen(store.keys.job_notice(JOB)) as near,
            hub.store.notifications.listen(hub.store.keys.job_notice(JOB)) as far,
        ):
            elsewhere = Hub(store, settings_for(url))
            await elsewhere.jobs.register(JobRequest("lab", "modifiers", "Rotate"), {}, ANN, superuser=False)
            await elsewhere.tasks.submit("lab", JOB, ["{}"], ANN, Options())
            assert await near.wait(30)
            assert not await far.wait(0.2)


async def test_only_channels_contain_the_number_of_the_database_and_keys_do_not(
    hub: Hub, redis_server: RedisServer
) -> None:
    assert hub.store.keys.socketio == "hub:socketio"
    async with open_store(settings_for(f"{redis_server.url}/2", key_prefix="p:")) as store:
        assert store.keys.socketio == "p:db2:hub:socketio"
        assert (store.keys.nodes, store.keys.task("x")) == ("p:nodes", "p:hub:task:x")
