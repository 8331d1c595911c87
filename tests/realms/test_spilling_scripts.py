"""The note at home of a ticket that another realm serves: the scripts one at a time, on the store of home."""

from __future__ import annotations

from typing import Any

from hub.core import Hub
from tests.capacity.queue.test_regressions import POOL, ask, undo

THERE = {"realm": "us", "request": "there-1", "slot": "far-1", "token": "7"}


async def serve(hub: Hub, ticket: str, **changes: Any) -> list[Any]:
    return list(
        await hub.store.script("queue/serve_elsewhere")(ticket=ticket, keep_lease_s=600, **{**THERE, **changes})
    )


async def unserve(hub: Hub, ticket: str, request: str = THERE["request"]) -> list[Any]:
    return list(await hub.store.script("queue/unserve")(ticket=ticket, request=request))


async def test_a_ticket_is_served_elsewhere_once_and_then_leaves_its_queue(hub, redis):
    for key in ("k1", "k2"):
        assert (await ask(hub, key=key))[0] == "waiting"
    assert await serve(hub, "k1") == ["served"]
    assert await serve(hub, "k1", request="there-2", slot="far-2", token="8") == ["over"]
    assert (await ask(hub, key="k1"))[:3] == ["elsewhere", "us", "there-1"]
    assert (await ask(hub, key="k2"))[:2] == ["waiting", 1]
    assert redis.hgetall("hub:elsewhere:far-1") == {"7": "us"}
    assert 0 < redis.ttl("hub:elsewhere:far-1") <= 600
    event = redis.xrevrange("hub:history", count=1)[0][1]
    assert (event["event"], event["ticket"], event["slot"], event["realm"]) == ("ticket.elsewhere", "k1", "far-1", "us")


async def test_a_ticket_that_left_the_queue_is_not_served_elsewhere(hub, redis):
    assert (await ask(hub, key="away"))[0] == "waiting"
    first = (await hub.store.read("HGET", "hub:ticket:away", "attempt")) or ""
    assert await undo(hub, "away", first, "h1") == ["left", "away"]
    for ticket in ("away", "nobody"):
        assert await serve(hub, ticket) == ["over"]
        assert redis.exists(f"hub:request:{ticket}", "hub:elsewhere:far-1") == 0


async def test_the_place_of_a_served_ticket_is_remembered_for_a_minute_if_it_has_a_key(hub, redis):
    assert (await ask(hub, key="k1"))[0] == (await ask(hub))[0] == "waiting"
    other = next(key for key in redis.scan_iter("hub:ticket:try-*")).removeprefix("hub:ticket:")
    assert await serve(hub, "k1") == await serve(hub, other, slot="far-2") == ["served"]
    assert 0 < redis.ttl("hub:ticket:k1") <= 60
    assert redis.exists(f"hub:ticket:{other}", "hub:turns", "hub:pending") == 0


async def test_undoing_the_lease_elsewhere_gives_the_key_its_place_back(hub, redis):
    assert (await ask(hub, key="k1"))[0] == "waiting"
    assert await serve(hub, "k1") == ["served"]
    assert await unserve(hub, "k1", "there-0") == ["nothing"], "it was served by a later one"
    assert redis.exists("hub:request:k1", "hub:elsewhere:far-1") == 2
    assert await unserve(hub, "k1") == ["ok"]
    assert redis.exists("hub:request:k1", "hub:elsewhere:far-1") == 0
    assert (redis.ttl("hub:ticket:k1"), redis.hexists("hub:ticket:k1", "handed")) == (-1, False)
    assert redis.zscore("hub:patience", "k1") is not None, "nobody forgets it in time"
    assert await unserve(hub, "k1") == ["nothing"]
    assert (await ask(hub, key="k1"))[:2] == ["waiting", 1]


async def test_the_lease_elsewhere_is_undone_only_when_the_caller_is_gone(hub):
    assert (await ask(hub, key="k1"))[0] == "waiting"
    attempt = await hub.store.read("HGET", "hub:ticket:k1", "attempt")
    assert await serve(hub, "k1") == ["served"]
    assert await undo(hub, "k1", attempt, "h1", why="timeout") == ["granted"]
    assert (await undo(hub, "k1", attempt, "h1"))[:3] == ["elsewhere", "us", "there-1"]


async def test_another_request_with_the_same_key_does_not_get_the_lease_elsewhere(hub):
    assert (await ask(hub, key="k1"))[0] == "waiting"
    assert await serve(hub, "k1") == ["served"]
    assert await ask(hub, f"{POOL}:big", key="k1") == ["reused"]
    assert await hub.store.script("queue/cancel")(ticket="k1", recalled=0, by="") == ["granted", "far-1"]
