"""`GET /events`: what happens, as it happens; resuming, filters, listeners that go, are slow, or are too many."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from hub.api.app import create_app
from hub.api.operators import events as events_api
from hub.api.pipeline import RequestPipeline
from hub.errors import Unavailable
from hub.history import live
from hub.history.events import Event, wanted
from hub.store.follow import Follower
from tests.api.streams import ENDLESS, listening
from tests.world import (
    PATIENCE_S,
    borrow,
    eventually,
    give_back,
    publish,
    settings_for,
    wait_until,
)

POOL = "gpu:a100"


class Served:
    """An application and a client of it."""

    def __init__(self, app: RequestPipeline, api: httpx.AsyncClient) -> None:
        self.app = app
        self.api = api

    @property
    def live(self) -> live.Live:
        found: live.Live = self.app.app.state.serving.live
        return found


@pytest.fixture
def make_served(redis_server) -> Callable[..., Any]:
    @asynccontextmanager
    async def make(**changes: Any) -> AsyncIterator[Served]:
        app = create_app(settings_for(**{"redis_url": redis_server.url, **changes}), sweep=False)
        transport = httpx.ASGITransport(app=app)
        async with (
            app.app.router.lifespan_context(app.app),
            httpx.AsyncClient(transport=transport, base_url="http://hub") as api,
        ):
            yield Served(app, api)

    return make


@pytest.fixture
async def served(make_served) -> AsyncIterator[Served]:
    async with make_served() as found:
        yield found


async def lend(served: Served, slot: str = "s1", run: str = "r1") -> None:
    """A lease and its end: two events."""
    assert (await borrow(served.api, POOL, run=run)).json()["browserId"] == slot
    await give_back(served.api, POOL, slot)


async def test_a_listener_gets_each_later_event_with_the_rule_behind_it(served):
    await publish(served.api, "n1", **{POOL: ["s1"]})
    async with listening(served.app) as stream:
        await lend(served)
        lent, returned = await stream.until(2)
    assert (stream.status, stream.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert (stream.headers["cache-control"], stream.headers["x-accel-buffering"]) == ("no-store", "no")
    assert stream.names == ["grant.lent", "grant.returned"]
    assert {name: lent[name] for name in ("event", "slot", "node", "pool", "label", "run")} == {
        "event": "grant.lent", "slot": "s1", "node": "n1", "pool": POOL, "label": POOL, "run": "r1",
    }  # fmt: skip
    assert lent["rule"].startswith("Best-matching pool, longest-free slot")
    assert returned["id"] == stream.last_id


@pytest.mark.parametrize(
    ("query", "heard"),
    [
        ({"kind": "node"}, ["node.registered"]),
        ({"kind": "grant,pool"}, ["slot.published", "slot.published", "grant.lent", "grant.returned"]),
        ({"slot": "s1"}, ["slot.published", "grant.lent", "grant.returned"]),
        ({"node": "n1", "kind": "pool"}, ["slot.published", "slot.published"]),
        ({"run": "r1"}, ["grant.lent", "grant.returned"]),
        ({"label": "x:y"}, ["slot.published"]),
        ({"pool": POOL, "kind": "grant"}, ["grant.lent", "grant.returned"]),
    ],
    ids=str,
)
async def test_a_listener_gets_only_events_that_match_its_filter(served, query, heard):
    async with listening(served.app, **query) as stream, listening(served.app) as everything:
        await publish(served.api, "n1", **{POOL: ["s1"], "x:y": ["s2"]})
        await lend(served)
        await everything.until(5)
        await stream.until(len(heard))
    assert stream.names == heard
    async with listening(served.app, after="0", **query) as replayed:
        await replayed.until(len(heard))
    assert replayed.names == heard


async def test_a_listener_that_was_cut_off_gets_each_missed_event_once(served):
    await publish(served.api, "n1", **{POOL: ["s1"]})
    async with listening(served.app) as first:
        await lend(served, run="r1")
        await first.until(2)
    await lend(served, run="r2")
    async with listening(served.app, {"last-event-id": first.last_id}) as second:
        await second.until(2)
        await lend(served, run="r3")
        heard = [(event["event"], event["run"]) for event in await second.until(4)]
    assert heard == [(name, run) for run in ("r2", "r3") for name in ("grant.lent", "grant.returned")]


async def test_a_listener_that_resumes_after_the_newest_listed_event_does_not_get_that_event_again(served, monkeypatch):
    monkeypatch.setattr(live, "TURN_S", 1.0)
    async with listening(served.app) as first:
        await publish(served.api, "n1", **{POOL: ["s1"]})
        await first.until(2)  # now the hub looks again in a second
        await publish(served.api, "n2")
        newest = (await served.api.get("/history?limit=1")).json()["events"][0]
        async with listening(served.app, {"last-event-id": newest["id"]}) as second:
            await publish(served.api, "n3")
            heard = [(event["event"], event["node"]) for event in await second.until(1)]
    assert newest["node"] == "n2"
    assert heard == [("node.registered", "n3")]


async def test_events_that_the_hub_reads_together_are_written_to_a_listener_together(served, monkeypatch):
    written: list[int] = []
    many, reading, follow, following = 2 * live.TOGETHER, asyncio.Event(), events_api.EventStream._follow, Follower.next

    async def noted(self: events_api.EventStream, put: Callable[..., Any], *rest: Any) -> None:
        async def noting(body: bytes) -> None:
            if events := body.count(b"event: "):  # it says now and then that it lives
                written.append(events)
            await put(body)

        await follow(self, noting, *rest)

    async def held(self: Follower, after: str) -> Any:
        await reading.wait()
        return await following(self, after)

    monkeypatch.setattr(events_api.EventStream, "_follow", noted)
    monkeypatch.setattr(Follower, "next", held)
    async with listening(served.app) as listener:
        for number in range(many):
            await publish(served.api, f"n-{number}")
        reading.set()
        await listener.until(many)
    assert written == [many]


@pytest.mark.parametrize(("share", "pause_s"), [(0.0, 0.2), (0.5, 0.4), (0.75, 0.8), (0.9, 1.0), (1.2, 1.0)])
async def test_a_busy_hub_sends_events_less_often(served, monkeypatch, share, pause_s):
    now, pauses, reckon = 0.0, asyncio.Queue[float](), live.pause_s

    def went_on() -> float:
        nonlocal now
        now += 2.0
        return now

    def reckoned(busy: float) -> float:
        pauses.put_nowait(reckon(busy))
        return 0.0

    clocks = SimpleNamespace(monotonic=went_on, process_time=lambda: now * share)
    monkeypatch.setattr(live, "time", clocks)
    monkeypatch.setattr(live, "pause_s", reckoned)
    async with listening(served.app) as listener:
        await publish(served.api, "n1")
        await listener.until(1)
        assert await asyncio.wait_for(pauses.get(), PATIENCE_S) == pytest.approx(pause_s)


def test_a_short_burst_of_work_before_an_event_does_not_count_as_busy(monkeypatch):
    now, spent = 0.0, 0.0
    monkeypatch.setattr(live, "time", SimpleNamespace(monotonic=lambda: now, process_time=lambda: spent))
    busy = live.Busy()
    now, spent = 0.004, 0.004  # all of the time since a stream was opened
    assert live.pause_s(busy.share()) == pytest.approx(live.TURN_S, rel=0.05)
    now, spent = 0.404, 0.204
    assert busy.share() == pytest.approx(0.5)


async def test_a_listener_without_an_event_resumes_from_where_it_began(served):
    async with listening(served.app) as first:
        pass
    await publish(served.api, "n1", **{POOL: ["s1"]})
    async with listening(served.app, {"last-event-id": first.last_id}) as second:
        await second.until(2)
    assert second.names == ["node.registered", "slot.published"]


async def test_a_returning_listener_is_told_of_trimmed_events_before_it_gets_the_rest(served, redis):
    await publish(served.api, "n1", **{POOL: ["s1"]})
    async with listening(served.app) as first:
        await lend(served)
        await first.until(2)
    await lend(served, run="r2")
    redis.xtrim("hub:history", maxlen=1, approximate=False)
    for after in (first.last_id, "0"):
        async with listening(served.app, after=after) as second:
            gap, event = await second.until(2)
        assert second.names == ["gap", "grant.returned"]
        assert (gap["oldest"], event["run"]) == (event["id"], "r2")
    async with listening(served.app, after=event["id"]) as third:
        await lend(served, run="r3")
        await third.until(2)
    assert third.names == ["grant.lent", "grant.returned"]


async def test_a_listener_gets_events_of_a_new_store_although_their_ids_are_lower_than_before(served, redis):
    """The clock of the server that took over is behind, and it has lost what was written last."""
    hub = served.app.app.state.serving.hub
    async with listening(served.app) as stream:
        seconds, _ = redis.time()
        redis.xadd("hub:history", {"event": "grant.lent", "slot": "s1"}, id=f"{(seconds + 3600) * 1000}-0")
        await stream.until(1)
        redis.flushall()
        await hub.clock.tick()
        nodes = (f"n{number}" for number in range(1000))

        async def heard():
            await publish(served.api, next(nodes))
            return "node.registered" in stream.names

        await eventually(heard)


async def test_a_replay_of_more_than_one_page_is_complete(served, redis):
    for number in range(1203):
        redis.xadd("hub:history", {"event": "grant.lent", "slot": f"s{number}"})
    async with listening(served.app, after="0", kind="grant") as stream:
        events = await stream.until(1203)
    assert [event["slot"] for event in events] == [f"s{number}" for number in range(1203)]


@pytest.mark.parametrize(
    ("query", "headers", "member"),
    [
        ({"kind": "nodes"}, {}, "kind"), ({"after": "yesterday"}, {}, "after"), ({"after": "1-2-3"}, {}, "after"),
        ({"after": str(2**64)}, {}, "after"), ({"after": "-"}, {}, "after"),
        ({}, {"last-event-id": "x"}, "Last-Event-ID"),
    ],
)  # fmt: skip
async def test_a_bad_parameter_of_the_stream_is_refused_by_its_name(served, query, headers, member):
    answer = await served.api.get("/events", params=query, headers=headers)
    assert (answer.status_code, answer.json()["code"], answer.json()["member"]) == (400, "invalid-value", member)


@pytest.mark.parametrize("path", ENDLESS)
async def test_nodes_and_strangers_may_not_listen_to_events(make_served, path):
    async with make_served(runner_secret="r", node_secret="n", admin_secret="a") as served:
        for secret in ("n", "", "x"):
            assert (await served.api.get(path, headers={"x-hub-secret": secret})).status_code == 401
        for secret in ("r", "a"):
            async with listening(served.app, {"x-hub-secret": secret}, path) as stream:
                assert stream.status == 200


async def test_a_silent_stream_sends_a_sign_of_life_with_its_position(served, redis, monkeypatch):
    monkeypatch.setattr(live, "KEEP_ALIVE_S", 0.05)
    async with listening(served.app, kind="node") as stream:
        last = redis.xadd("hub:history", {"event": "grant.lent"})
        await eventually(lambda: stream.last_id == last)
    assert stream.names == []
    assert " nothing new" in {frame.get("") for frame in stream.frames}


@pytest.mark.parametrize("path", ENDLESS)
async def test_a_stream_outlives_the_time_a_request_may_take(make_served, redis, path):
    async with make_served(request_timeout_s=3) as served, listening(served.app, path=path) as stream:
        await asyncio.sleep(3.5)
        redis.xadd("hub:history", {"event": "grant.lent"})
        await stream.until(1)
        assert not stream.ended


async def test_all_listeners_share_one_reader_which_ends_with_the_last_listener(served, redis):
    async def readers() -> int:
        return int(redis.info("clients")["blocked_clients"])

    async def one() -> bool:
        return await readers() == 1

    async def none() -> bool:
        return await readers() == 0

    async with listening(served.app) as first:
        await eventually(one)
        async with listening(served.app) as second, listening(served.app) as third:
            redis.xadd("hub:history", {"event": "grant.lent"})
            for stream in (first, second, third):
                await stream.until(1)
            assert await readers() <= 1
        redis.xadd("hub:history", {"event": "grant.lent"})
        await first.until(2)
    await eventually(none)
    async with listening(served.app) as later:
        redis.xadd("hub:history", {"event": "grant.lent"})
        await later.until(1)


async def test_a_reader_that_misses_its_cancellation_still_ends(served, redis, monkeypatch):
    """On Python 3.11 a reader may miss it; a second reader beside it would send each event twice."""
    read = Follower.next

    async def deaf(self, after):
        with suppress(asyncio.CancelledError):
            return await read(self, after)
        return []

    monkeypatch.setattr(Follower, "next", deaf)
    for _ in range(2):
        async with listening(served.app) as stream:
            redis.xadd("hub:history", {"event": "grant.lent"})
            await stream.until(1)
    await eventually(lambda: int(redis.info("clients")["blocked_clients"]) == 0)


async def test_an_event_is_encoded_once_for_all_listeners_and_sent_to_a_crowd_in_parts(served, redis, monkeypatch):
    written, real = [], Event.document
    monkeypatch.setattr(Event, "document", lambda event: written.append(event.id) or real(event))
    async with listening(served.app) as one, listening(served.app) as other:
        with redis.pipeline(transaction=True) as several:
            for number in range(100):
                several.xadd("hub:history", {"event": "grant.lent", "slot": f"s{number}"})
            several.execute()
        heard = [[event["slot"] for event in await stream.until(100)] for stream in (one, other)]
    assert heard == [[f"s{number}" for number in range(100)]] * 2
    assert sorted(written) == sorted(set(written))


async def test_the_number_of_listeners_is_bounded(served, monkeypatch):
    monkeypatch.setattr(live, "LISTENERS_MAX", 2)
    async with listening(served.app), listening(served.app):
        answer = await served.api.get("/events")
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        assert "retry-after" in answer.headers
    async with listening(served.app) as stream:
        assert stream.status == 200


async def test_a_credential_with_many_streams_loses_one_to_another_credential(hub, monkeypatch):
    monkeypatch.setattr(live, "LISTENERS_MAX", 3)
    everything, lives = wanted("", {}), live.Live(hub.store)
    async with AsyncExitStack() as weak, lives.listen(everything, "strong"):
        kept = [await weak.enter_async_context(lives.listen(everything, "weak")) for _ in range(2)]
        with pytest.raises(Unavailable):
            await weak.enter_async_context(lives.listen(everything, "weak"))
        async with lives.listen(everything, "other") as other:
            assert [each.over for each in (*kept, other)].count(True) == 1
            assert not other.over
    await lives.close()


async def test_a_slow_listener_is_told_and_misses_nothing_when_it_reconnects(served, redis, monkeypatch):
    monkeypatch.setattr(live, "WAITING_MAX", 5)
    async with listening(served.app) as slow, listening(served.app) as quick:
        redis.xadd("hub:history", {"event": "grant.lent", "slot": "s0"})
        await slow.until(1)
        slow.reading.clear()
        for number in range(1, 21):
            redis.xadd("hub:history", {"event": "grant.lent", "slot": f"s{number}"})
            await quick.until(number + 1)
        slow.reading.set()
        await eventually(lambda: slow.ended)
    assert slow.names[-1] == "slow"
    heard = [event["slot"] for event in slow.events[:-1]]
    async with listening(served.app, {"last-event-id": slow.last_id}) as again:
        heard += [event["slot"] for event in await again.until(21 - len(heard))]
    assert heard == [f"s{number}" for number in range(21)]


async def test_a_listener_who_reads_nothing_is_cut_off(served, redis, monkeypatch):
    monkeypatch.setattr(events_api, "SEND_S", 0.1)
    async with listening(served.app) as stream:
        stream.reading.clear()
        redis.xadd("hub:history", {"event": "grant.lent"})
        await eventually(lambda: stream.aborted)


async def test_a_stopping_hub_ends_its_streams_at_once_and_accepts_no_new_ones(served):
    async with listening(served.app) as stream:
        served.app.app.state.serving.stop()
        await eventually(lambda: stream.ended)
        answer = await served.api.get("/events")
    assert (answer.status_code, answer.json()["code"]) == (503, "stopping")


async def test_a_hub_without_its_store_refuses_listeners(served, monkeypatch):
    served.live._store.client.connection_pool.connection_kwargs["port"] = 1
    await served.live._store.client.connection_pool.disconnect()
    answer = await served.api.get("/events")
    assert (answer.status_code, answer.json()["code"]) == (503, "store-unavailable")


async def test_the_latest_events_are_listed_newest_first(served, redis):
    await publish(served.api, "n1", **{POOL: ["s1"]})
    await lend(served)
    found = (await served.api.get("/history", params={"slot": "s1", "limit": 2})).json()
    assert [event["event"] for event in found["events"]] == ["grant.returned", "grant.lent"]
    assert not found["complete"]
    found = (await served.api.get("/history", params={"slot": "s1"})).json()
    assert (len(found["events"]), found["complete"]) == (3, True)
    redis.xtrim("hub:history", maxlen=3, approximate=False)
    found = (await served.api.get("/history", params={"slot": "s1"})).json()
    assert (len(found["events"]), found["complete"]) == (3, False)
    assert (await served.api.get("/history", params={"limit": "0"})).json()["member"] == "limit"


def test_over_a_real_connection_streams_survive_an_outage_of_redis_and_end_with_the_hub(own_redis, start_hub):
    hub = start_hub(HUB_REDIS_URL=own_redis.url, HUB_NODE_TIMEOUT="600")
    headers = {"x-hub-secret": hub.runner_secret}
    with (
        httpx.Client(base_url=hub.url, headers=headers, timeout=PATIENCE_S) as api,
        api.stream("GET", "/events") as answer,
    ):
        heard = (line for line in answer.iter_lines() if line.startswith("data:"))
        register(hub, "n1")
        assert '"node":"n1"' in next(heard)
        own_redis.kill()
        wait_until(lambda: "event history unreadable" in hub.log(), why=hub.log)
        own_redis.start()
        wait_until(lambda: api.get("/health/ready").status_code == 200, why=hub.log)
        register(hub, "n2")
        assert '"node":"n2"' in next(heard)
        gauge = api.get("/metrics").text
        assert "hub_event_streams 1.0" in gauge
        hub.signal(signal.SIGTERM)
        assert list(heard) == []  # it ends, and as a whole answer
    assert hub.process.wait(PATIENCE_S) in (0, -signal.SIGTERM)
    assert "Traceback" not in hub.log()


def register(hub, node: str) -> None:
    headers = {"x-hub-secret": hub.node_secret}
    answer = httpx.post(f"{hub.url}/node/register", json={"nodeId": node}, headers=headers, timeout=PATIENCE_S)
    assert answer.status_code == 200, answer.text
