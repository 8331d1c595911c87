"""Workers whose connection is lost: removed with all they held unless they are back in time; hubs that stop or die."""

from __future__ import annotations

import asyncio
import signal
import socket
import time

import pytest
import requests
from socketio.exceptions import ConnectionError as Refused

from hub.jobs.models import Claim, JobRequest, Options
from tests.sockets.people import ANN, JOB, OK, Listener, connections, lives, new_worker, publish, traces
from tests.sockets.test_rooms import session_at
from tests.world import PATIENCE_S, SLACK_S, eventually, wait_until

GONE_S = 8 + SLACK_S  # the grace, and what finding out takes


@pytest.mark.parametrize("transport", ["websocket", "polling"])
@pytest.mark.parametrize("how", ["says goodbye", "breaks off"])
async def test_a_worker_that_hangs_up_is_removed_and_its_tasks_fail(how, transport, here, listen, hub, redis):
    job, _ = await hub.jobs.register(JobRequest("lab", "modifiers", "Rotate"), {}, ANN, superuser=False)
    (task,) = await hub.tasks.submit("lab", JOB, ["{}"], ANN, Options())
    await hub.claims.claim(job.worker, ANN, Claim())
    reader, worker = await listen(here, None), await listen(here, "ann", transports=[transport])
    await reader.join("lab")
    await reader.catch_up(redis, "lab")
    assert await worker.offer(job.worker) == OK
    if how == "says goodbye":
        await worker.hang_up()
    else:
        await break_off(worker)
    await eventually(lambda: not lives(redis, job.worker), GONE_S)
    ended = await hub.tasks.get(task.id)
    assert (ended.status, ended.error) == ("failed", "Worker disconnected")
    await eventually(lambda: len(reader.told) == 2)
    assert sorted(event for event, _ in reader.told) == ["jobs_invalidate", "task_status_event"]
    assert traces(redis) == set()


async def test_a_worker_whose_connection_is_cut_reconnects_and_keeps_its_tasks(start, listen, hub, redis):
    process = start(HUB_SIO_DISCONNECT_GRACE_SECONDS="10")
    worker_id = (await hub.workers.create(ANN, new_worker())).id
    worker = await listen(process, "ann", reconnection=True, reconnection_delay=0.2)
    worker.client.on("connect", lambda: worker.client.start_background_task(worker.offer, worker_id))
    assert await worker.offer(worker_id) == OK
    await break_off(worker)
    await eventually(lambda: worker.hung_up_on == 1)
    await eventually(lambda: connections(redis, worker_id) == 1)
    assert redis.zcard("hub:hung_up") == 0
    assert lives(redis, worker_id)


async def test_a_worker_with_a_second_connection_at_another_hub_stays(here, start, listen, hub, redis):
    worker_id = (await hub.workers.create(ANN, new_worker())).id
    first, second = await listen(here), await listen(start())
    for listener in (first, second):
        assert await listener.offer(worker_id) == OK
    await first.hang_up()
    await eventually(lambda: connections(redis, worker_id) == 1)
    assert redis.zcard("hub:hung_up") == 0
    await second.hang_up()
    await eventually(lambda: not lives(redis, worker_id), GONE_S)


async def test_a_user_cannot_hang_up_for_the_worker_of_another_user(here, listen, hub, redis):
    worker_id = (await hub.workers.create(ANN, new_worker())).id
    bob = await listen(here, "bob")
    assert await bob.offer(worker_id) == OK
    await bob.hang_up()
    other = await listen(here, "bob")  # what it does comes after the other's end
    await other.join("lab")
    assert (traces(redis), lives(redis, worker_id)) == (set(), True)


@pytest.mark.parametrize("transport", ["websocket", "polling"])
async def test_a_stopping_hub_disconnects_its_workers_and_removes_none(transport, here, start, listen, hub, redis):
    """The next hub takes the same port. The grace is zero, so that no worker could be back in time."""
    first = start(HUB_SIO_DISCONNECT_GRACE_SECONDS="0")
    worker_id = (await hub.workers.create(ANN, new_worker())).id
    worker = await listen(first, "ann", reconnection=True, reconnection_delay=0.2, transports=[transport])
    worker.client.on("connect", lambda: worker.client.start_background_task(worker.offer, worker_id))
    assert await worker.offer(worker_id) == OK
    since = time.monotonic()
    first.signal(signal.SIGTERM)
    code = await asyncio.to_thread(first.process.wait, PATIENCE_S)
    assert (code, time.monotonic() - since < 5 + SLACK_S) == (0, True)
    assert traces(redis) == set()
    second = start(HUB_PORT=str(first.port))
    assert second.port == first.port
    await eventually(lambda: connections(redis, worker_id) == 1)
    assert lives(redis, worker_id)


async def test_a_stopping_hub_accepts_no_connection(start, listen):
    hub = start(linger_s=PATIENCE_S)
    await listen(hub)
    hub.signal(signal.SIGTERM)
    wait_until(lambda: "stopping" in hub.log())
    url = f"{hub.url}/socket.io/?EIO=4&transport=polling"
    answer = await asyncio.to_thread(requests.get, url, timeout=PATIENCE_S)
    assert (answer.status_code, "retry-after" in answer.headers) == (503, True)
    with pytest.raises(Refused):
        await listen(hub)


async def test_a_hub_stops_in_time_with_a_client_that_does_not_read(start, listen, redis):
    hub = start()
    deaf = await listen(hub)
    await deaf.join("lab")
    deaf.client.eio.ws._response.connection.transport.pause_reading()
    for _ in range(100):
        publish(redis, "noise", "room:lab", {"text": "x" * 200_000})
    hub.signal(signal.SIGTERM)
    assert await asyncio.to_thread(hub.process.wait, 6 + SLACK_S) == 0
    deaf.client.eio.ws._response.connection.transport.abort()


async def test_workers_of_a_killed_hub_are_not_removed_for_its_death(start, listen, hub, redis):
    dies, stays = start(), start()
    lost, back = [(await hub.workers.create(ANN, new_worker())).id for _ in range(2)]
    for worker in (lost, back):
        assert await (await listen(dies)).offer(worker) == OK
    dies.kill()
    again = await listen(stays)
    assert await again.offer(back) == OK
    await eventually(lambda: (connections(redis, lost), connections(redis, back)) == (0, 1))
    assert (redis.zcard("hub:hung_up"), lives(redis, lost), lives(redis, back)) == (0, True, True)
    await again.hang_up()
    await eventually(lambda: not lives(redis, back), GONE_S)
    assert lives(redis, lost)  # its heartbeats will tell


def test_an_aborted_poll_ends_its_connection(here):
    sid = session_at(here)
    url = f"{here.url}/socket.io/?EIO=4&transport=polling&sid={sid}"
    assert requests.post(url, data='40{"token":"ann"}', timeout=PATIENCE_S).text == "OK"
    assert requests.get(url, timeout=PATIENCE_S).text.startswith("40")
    with pytest.raises(requests.ReadTimeout):
        requests.get(url, timeout=0.2)
    wait_until(lambda: requests.post(url, data="3", timeout=PATIENCE_S).status_code == 400)


async def break_off(listener: Listener) -> None:
    """Cut a client's connections without a word, as when its process is killed."""
    eio = listener.client.eio
    if eio.current_transport == "websocket":
        eio.ws._response.connection.transport.abort()
        return
    for held in list(eio.http.connector._acquired):
        held.transport.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
    eio.state = "cut off"
