"""Sockets that name no realm when they connect, like the sockets of a client from before there were realms."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator

import httpx
import pytest
from redis import Redis

from hub.settings.realms import tag_of
from tests.client.jobs.live import TOKEN, tokens_file
from tests.realms.world import EU, write_realms
from tests.sockets.people import OK, Listener, publish
from tests.world import HubProcess, eventually, wait_until

ROOM = "lab-eu-1"
JOB = f"{ROOM}:modifiers:Rotate"
WORKER = f"{tag_of('eu')}-0000-8000-8000-000000000000"  # an id as the hub gives in eu


def wait_for(hub: HubProcess, *names: str) -> None:
    headers = {"x-hub-secret": hub.admin_secret}
    for name in names:
        at = f"{hub.url}/realms/{name}/health/ready"
        wait_until(lambda at=at: httpx.get(at, headers=headers, timeout=60).status_code == 200)


@pytest.fixture
def hub(start_hub, tmp_path, second) -> HubProcess:
    """A hub with the default realm and `eu`, and one token for both."""
    file = write_realms(tmp_path / "realms.toml", eu=(second.url, EU))
    found: HubProcess = start_hub(HUB_REALMS_FILE=str(file), HUB_TOKENS_FILE=tokens_file(tmp_path))
    wait_for(found, "eu")
    return found


@pytest.fixture
async def listener(hub) -> AsyncIterator[Listener]:
    found = Listener(hub, TOKEN)
    await found.connect()
    yield found
    await found.hang_up()


def say(redis: Redis, event: str, room: str, realm: str = "") -> int:
    return publish(redis, event, room, channel=f"{{{realm}}}:hub:socketio" if realm else "hub:socketio")


async def heard(listener: Listener, *events: str) -> None:
    await eventually(lambda: len(listener.told) >= len(events))
    assert [event for event, *_ in listener.told] == list(events)


async def test_events_of_a_room_are_heard_in_its_realm_alone(listener, redis, second):
    assert await listener.join(ROOM) == OK
    with second.client() as far:
        assert say(redis, "here", f"room:{ROOM}") == 1
        assert say(far, "far", f"room:{ROOM}", "eu") == 1
        await heard(listener, "far")
        assert await listener.say("room_leave", {"room_id": ROOM}) == OK
        assert await listener.join("lab") == OK
        say(far, "left", f"room:{ROOM}", "eu")
        say(far, "not of this realm", "room:lab", "eu")
        assert say(redis, "here", "room:lab") == 1
        await heard(listener, "far", "here")


async def test_where_no_rule_matches_the_worker_decides_the_realm_of_its_socket(listener, second):
    job = "@global:modifiers:Rotate"
    assert await listener.say("join_job_room", {"job_name": job, "worker_id": WORKER}) == OK
    with second.client() as far:
        assert say(far, "far", f"jobs:{job}", "eu") == 1
    await heard(listener, "far")


async def test_a_socket_that_names_its_realm_hears_no_other(hub, redis, second):
    named = Listener(hub, TOKEN, headers={"x-hub-realm": "default"})
    await named.connect()
    try:
        assert await named.join(ROOM) == OK
        with second.client() as far:
            assert say(far, "far", f"room:{ROOM}", "eu") == 0
        say(redis, "here", f"room:{ROOM}")
        await heard(named, "here")
    finally:
        await named.hang_up()


async def test_a_token_that_a_realm_does_not_know_cannot_join_its_rooms(hub):
    async with hub.client() as api:
        made = (await api.post("/admin/tokens", json={"user": "eve"})).json()["token"]
    eve = Listener(hub, made)
    await eve.connect()
    try:
        assert await eve.join("lab") == OK
        assert await eve.join(ROOM) == "Unauthorized"
        assert await eve.say("join_job_room", {"job_name": JOB, "worker_id": WORKER}) == "Unauthorized"
    finally:
        await eve.hang_up()


async def test_a_socket_is_cut_off_when_its_realm_moves_to_another_store(hub, listener, redis, tmp_path, second):
    """It comes back and joins its rooms, wherever they are then."""
    assert (await listener.join("lab"), await listener.join(ROOM)) == (OK, OK)
    with second.client() as far:
        write_realms(tmp_path / "realms.toml", us=(second.url, {"rooms": ["lab-eu-*"]}))
        hub.signal(signal.SIGHUP)
        await eventually(lambda: listener.hung_up_on == 1)
        await eventually(lambda: say(far, "nobody", "room:x", "eu") == 0)
        wait_for(hub, "us")
        again = Listener(hub, TOKEN)
        await again.connect()
        try:
            assert await again.join(ROOM) == OK
            assert say(far, "far", f"room:{ROOM}", "us") == 1
            await heard(again, "far")
        finally:
            await again.hang_up()


async def test_a_realm_that_is_down_is_reported_and_heard_again_when_it_is_back(hub, listener, own_redis, tmp_path):
    write_realms(tmp_path / "realms.toml", eu=(own_redis.url, EU))
    own_redis.kill()
    hub.signal(signal.SIGHUP)
    await eventually(lambda: "realm store unusable" in hub.log())
    said = await listener.join(ROOM)
    assert said == "Realm eu is away: its store does not answer; try again in a moment."
    own_redis.start()
    wait_for(hub, "eu")
    assert await listener.join(ROOM) == OK
    with own_redis.client() as far:
        far.client_kill_filter(_type="pubsub")
        await eventually(lambda: say(far, "far", f"room:{ROOM}", "eu") == 1)
    await heard(listener, "far")


async def test_a_hub_without_the_default_realm_accepts_sockets_for_other_realms(start_hub, tmp_path, second):
    file = write_realms(tmp_path / "realms.toml", us=(second.url, {}), eu=(second.url, EU))
    hub = start_hub(HUB_REALMS_FILE=str(file), HUB_REALMS="us,eu", HUB_TOKENS_FILE=tokens_file(tmp_path))
    wait_for(hub, "us", "eu")
    found = Listener(hub, TOKEN)
    await found.connect()
    try:
        assert await found.join(ROOM) == OK
        with second.client() as far:
            assert say(far, "far", f"room:{ROOM}", "eu") == 1
        await heard(found, "far")
        assert await found.join("lab") == "This call names no realm, and no rule fits it; this hub serves us, eu."
    finally:
        await found.hang_up()
