"""The store comes back empty, older, restarted or without its scripts: nothing is lent twice, tokens still rise."""

from __future__ import annotations

import asyncio
import shutil

import pytest

from hub.capacity.models import BorrowRequest
from hub.core import Hub
from hub.errors import Settling, StoreUnavailable
from hub.store.connection import open_store
from hub.store.store import SETTLE_MS
from tests.world import (
    SLACK_S,
    RedisServer,
    age_node,
    beat,
    borrow,
    eventually,
    give_back,
    listed,
    publish,
    settings_for,
    sweepers,
)

LABEL = "a:b"


@pytest.fixture
async def serving(make_api):
    """(client, hub) of one application."""
    async with make_api() as api:
        yield api, api._transport.app.app.state.serving.hub


async def notice(*hubs):
    for hub in hubs:
        await hub.clock.tick()


def settle(redis):
    """Let the time pass in which hubs say what they know."""
    redis.hincrby("hub:store", "clock_ms", SETTLE_MS + 1)


async def test_a_flushed_script_cache_is_filled_again_unnoticed(serving, redis):
    api, hub = serving
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    before = hub.store.generation
    first = (await borrow(api, LABEL)).json()
    redis.function_flush()
    second = (await borrow(api, LABEL)).json()
    assert (first["browserId"], second["browserId"], hub.store.generation) == ("s1", "s2", before)
    assert int(second["leaseToken"]) == int(first["leaseToken"]) + 1


async def test_after_a_wipe_nodes_are_told_to_register_and_nothing_is_lent_before_hubs_have_reported(serving, redis):
    api, hub = serving
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    lease = (await borrow(api, LABEL)).json()
    redis.flushall()
    assert (await beat(api, "n1"))["known"] is False
    refused = await borrow(api, LABEL)
    assert (refused.status_code, refused.json()["code"]) == (503, "settling")
    assert 1 <= int(refused.headers["retry-after"]) <= 3
    await notice(hub)
    assert redis.hget("session:s1", "leaseToken") == lease["leaseToken"]
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    settle(redis)
    later = (await borrow(api, LABEL)).json()
    assert later["browserId"] == "s2"
    assert int(later["leaseToken"]) > int(lease["leaseToken"])
    assert (await borrow(api, LABEL)).json()["code"] == "no-capacity"
    assert (await give_back(api, LABEL, "s1", leaseToken=lease["leaseToken"])).json() == {"returned": "s1"}
    assert (await borrow(api, LABEL)).json()["browserId"] == "s1"


async def test_a_lease_that_the_hub_forgot_is_restored_by_its_node(serving, redis):
    api, hub = serving
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    lease = (await borrow(api, LABEL)).json()
    known = (await beat(api, "n1"))["lent"]
    assert known == {"s1": lease["leaseToken"]}
    hub.leases.memory.leases.clear()
    redis.flushall()
    await notice(hub)
    settle(redis)
    slots = [{"labelKey": LABEL, "slotId": slot} for slot in ("s1", "s2")]
    answer = await api.post("/node/register", json={"nodeId": "n1", "slots": slots, "lent": known})
    assert [slot["status"] for slot in answer.json()["slots"]] == ["lent", "published"]
    assert [(await borrow(api, LABEL)).json().get("browserId") for _ in range(2)] == ["s2", None]
    renewed = await api.post("/session/renew", json={"browserId": "s1", "leaseToken": lease["leaseToken"]})
    assert renewed.status_code == 200


async def test_leases_made_by_two_hubs_are_restored_by_both(serving, redis, settings):
    api, first = serving
    await publish(api, "n1", **{LABEL: ["s1", "s2", "s3"]})
    mine = (await borrow(api, LABEL)).json()
    async with open_store(settings) as store:
        second = Hub(store, settings)
        theirs = await second.leases.borrow(BorrowRequest(LABEL, 900_000, "r2", "q", "q", "f", 60))
        redis.flushall()
        await notice(first, second)
        assert {key: redis.hget(key, "leaseToken") for key in redis.keys("session:*")} == {
            "session:s1": mine["leaseToken"], "session:s2": theirs.token,
        }  # fmt: skip
        assert sorted(listed(redis, f"inuse:{LABEL}")) == ["s1", "s2"]


async def test_a_slot_returned_at_another_hub_is_not_valid_before_that_hub_has_reported(serving, redis, settings):
    """The lending hub restores the lease first; until the other hub has reported, a token check must be repeated."""
    api, first = serving
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    over, kept = [(await borrow(api, LABEL)).json() for _ in range(2)]
    async with open_store(settings) as store:
        second = Hub(store, settings)
        await second.leases.give_back(over["browserId"], LABEL, over["leaseToken"])
        redis.flushall()
        await notice(first)
        for lease in (over, kept):
            assert redis.hget(f"session:{lease['browserId']}", "leaseToken") == lease["leaseToken"]
            asked = await api.get(f"/leases/{lease['browserId']}/verify?token={lease['leaseToken']}")
            renewed = await api.post("/session/renew", json=lease)
            assert [each.json()["code"] for each in (asked, renewed)] == ["settling", "settling"]
        await notice(second)
        settle(redis)
        said = [
            (await api.get(f"/leases/{lease['browserId']}/verify?token={lease['leaseToken']}")).json()["valid"]
            for lease in (over, kept)
        ]
        assert said == [False, True]
        assert (await api.post("/session/renew", json=kept)).status_code == 200


async def test_a_renewal_before_all_have_reported_keeps_the_lease(serving, redis):
    """The renewal is answered 503, and counts."""
    api, hub = serving
    await publish(api, "n1", **{LABEL: ["s1"]})
    lease = (await borrow(api, LABEL, ttlSeconds=15)).json()
    redis.hset("hub:store", "run_id", "before")
    redis.function_flush()
    await notice(hub)
    redis.zadd("hub:deadlines", {"s1": int(redis.hget("hub:store", "clock_ms")) + 500})
    assert (await api.post("/session/renew", json=lease)).json()["code"] == "settling"
    settle(redis)
    assert (await api.get(f"/leases/s1/verify?token={lease['leaseToken']}")).json()["valid"]


async def test_a_returned_lease_is_not_restored(serving, redis):
    api, hub = serving
    await publish(api, "n1", **{LABEL: ["s1"]})
    await borrow(api, LABEL)
    await give_back(api, LABEL, "s1")
    redis.flushall()
    await notice(hub)
    assert redis.keys("session:*") == []


async def test_a_restored_slot_that_its_node_never_reports_is_not_lent_again(serving, redis):
    api, hub = serving
    await publish(api, "n1", **{LABEL: ["s1"]})
    lease = (await borrow(api, LABEL)).json()
    redis.flushall()
    await notice(hub)
    settle(redis)
    await give_back(api, LABEL, "s1", leaseToken=lease["leaseToken"])
    assert redis.keys("available:*") == []
    assert (await borrow(api, LABEL)).json()["code"] == "no-capacity"


async def test_a_new_store_lends_at_once_and_so_does_a_new_hub_on_an_old_store(make_api, redis):
    for _ in range(2):
        async with make_api() as api:
            await publish(api, "n1", **{LABEL: ["s1", "s2"]})
            assert (await borrow(api, LABEL)).status_code == 200


async def test_tokens_rise_over_any_number_of_wipes(serving, redis):
    api, hub = serving
    tokens = []
    for _ in range(3):
        await publish(api, "n1", **{LABEL: ["s1"]})
        tokens.append(int((await borrow(api, LABEL)).json()["leaseToken"]))
        hub.leases.memory.leases.clear()
        redis.flushall()
        await notice(hub)
        settle(redis)
    assert tokens == sorted(set(tokens))


async def test_a_repeated_return_is_recognised_by_the_hub_that_answered_the_first(serving, redis, redis_server):
    api, hub = serving
    await publish(api, "n1", **{LABEL: ["s1"]})
    token = (await borrow(api, LABEL)).json()["leaseToken"]
    settings = settings_for(redis_server.url)
    async with open_store(settings) as store:  # carries it out, and is never heard of again
        assert (await Hub(store, settings).leases.give_back("s1", LABEL, token, key="k1"))[0] == "returned"
    assert (await hub.leases.give_back("s1", LABEL, token, key="k1"))[0] == "returned"
    redis.flushall()
    await notice(hub)
    offer = [{"slotId": "s1", "labelKey": LABEL}]
    body = {"nodeId": "n1", "slots": offer, "lent": {"s1": token}}  # it was not told yet
    assert (await api.post("/node/register", json=body)).status_code == 200
    assert redis.exists("session:s1") == 0


async def test_a_killed_server_that_comes_back_older_does_not_lend_a_lent_slot_again(tmp_path, make_api):
    with RedisServer(tmp_path / "server", append_fsync="no") as server:
        async with make_api(redis_url=server.url, redis_timeout_s=5) as api:
            hub = api._transport.app.app.state.serving.hub
            await publish(api, "n1", **{LABEL: ["s1", "s2"]})
            shutil.copytree(server.folder, tmp_path / "older")
            lease = (await borrow(api, LABEL)).json()
            server.kill()
            await hub.clock.tick()
            refused = await borrow(api, LABEL)
            assert (refused.status_code, refused.json()["code"]) == (503, "store-unavailable")
            assert int(refused.headers["retry-after"]) >= 1
            assert refused.headers["content-type"] == "application/problem+json"
            shutil.rmtree(server.folder)
            shutil.move(tmp_path / "older", server.folder)
            server.start()
            await hub.clock.tick()
            redis = server.client()
            assert redis.hget("session:s1", "leaseToken") == lease["leaseToken"]
            assert (await borrow(api, LABEL)).json()["code"] == "settling"
            settle(redis)
            assert (await borrow(api, LABEL)).json()["code"] == "no-capacity"  # s2 may have been lent, too
            await tell(api)
            later = (await borrow(api, LABEL)).json()
            assert (later["browserId"], int(later["leaseToken"]) > int(lease["leaseToken"])) == ("s2", True)


async def tell(api):
    """The node beats, is asked to report, and does."""
    assert (await beat(api, "n1"))["known"] is False
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    assert (await beat(api, "n1"))["known"] is True


async def test_after_a_restart_a_node_that_does_not_report_lends_again_after_one_timeout(serving, redis, settings):
    api, hub = serving
    await publish(api, "n1", **{LABEL: ["s1"]})
    redis.hset("hub:store", "run_id", "before")
    redis.function_flush()
    await notice(hub)
    settle(redis)
    assert (await borrow(api, LABEL)).json()["code"] == "no-capacity"
    redis.hincrby("hub:store", "clock_ms", int(settings.node_timeout_s * 1000))
    assert (await beat(api, "n1"))["known"] is True
    assert (await borrow(api, LABEL)).json()["browserId"] == "s1"


async def wiped(api, hub, redis):
    """A slot is lent, the store is emptied, and no hub remembers. Returns the lease as its holder knows it."""
    await publish(api, "n1", **{LABEL: ["s1"]})
    lease = (await borrow(api, LABEL)).json()
    hub.leases.memory.leases.clear()
    redis.flushall()
    await notice(hub)
    settle(redis)
    return {"browserId": "s1", "labelKey": LABEL, "leaseToken": lease["leaseToken"]}


async def report(api, held, *, again=False):
    """Let the node beat, register, and report its lease."""
    assert (await beat(api, "n1"))["known"] is again
    slots = [{"labelKey": LABEL, "slotId": "s1"}]
    body = {"nodeId": "n1", "slots": slots, "lent": {"s1": held["leaseToken"]}}
    return (await api.post("/node/register", json=body)).json()["slots"][0]["status"]


async def test_a_lease_is_not_called_lost_before_its_node_has_reported(serving, redis):
    api, hub = serving
    held = await wiped(api, hub, redis)
    renewed = await api.post("/session/renew", json=held)
    assert (renewed.status_code, renewed.json()["code"]) == (503, "settling")
    asked = await api.get(f"/leases/s1/verify?token={held['leaseToken']}")
    assert (asked.status_code, asked.json()["code"]) == (503, "settling")
    assert await report(api, held) == "lent"
    assert (await api.post("/session/renew", json=held)).status_code == 200


async def test_a_slot_returned_before_its_node_has_reported_is_free_afterwards(serving, redis):
    api, hub = serving
    held = await wiped(api, hub, redis)
    assert (await give_back(api, LABEL, "s1", leaseToken=held["leaseToken"])).status_code == 200
    assert await report(api, held) == "published"
    assert (await borrow(api, LABEL)).json()["browserId"] == "s1"


async def test_a_restored_slot_returned_before_its_node_has_reported_is_free_afterwards(serving, redis):
    api, hub = serving
    await publish(api, "n1", **{LABEL: ["s1"]})
    lease = (await borrow(api, LABEL)).json()
    assert (await beat(api, "n1"))["lent"] == {"s1": lease["leaseToken"]}
    redis.flushall()
    await notice(hub)
    settle(redis)
    assert (await give_back(api, LABEL, "s1", leaseToken=lease["leaseToken"])).json() == {"returned": "s1"}
    assert await report(api, lease) == "published"
    assert (await borrow(api, LABEL)).json()["browserId"] == "s1"


async def test_a_slot_returned_after_its_node_has_reported_is_free_although_a_late_hub_reports_it_as_lent(
    serving, redis, settings
):
    api, hub = serving
    await publish(api, "n1", **{LABEL: ["s1"]})
    async with open_store(settings) as store:
        late = Hub(store, settings)
        lent = await late.leases.borrow(BorrowRequest(LABEL, 900_000, "r2", "q", "q", "f", 60))
        redis.flushall()
        await notice(hub)
        settle(redis)
        await publish(api, "n1", **{LABEL: ["s1"]})
        assert (await give_back(api, LABEL, "s1", leaseToken=lent.token)).status_code == 200
        await notice(late)
    assert (redis.exists("session:s1"), listed(redis, f"available:{LABEL}")) == (0, ["s1"])


async def test_a_restored_lease_stays_when_its_node_reports_it(serving, redis):
    api, hub = serving
    await publish(api, "n1", **{LABEL: ["s1"]})
    lease = (await borrow(api, LABEL)).json()
    redis.flushall()
    await notice(hub)
    settle(redis)
    assert [await report(api, lease), await report(api, lease, again=True)] == ["lent", "lent"]
    assert (await borrow(api, LABEL)).json()["code"] == "no-capacity"
    renewed = await api.post("/session/renew", json={"browserId": "s1", "leaseToken": lease["leaseToken"]})
    assert renewed.status_code == 200


@pytest.mark.parametrize("lender_first", [True, False])
async def test_a_slot_lent_at_one_hub_and_returned_at_another_is_free_in_either_order_of_reports(
    serving, redis, settings, lender_first
):
    api, lender = serving
    await publish(api, "n1", **{LABEL: ["s1"]})
    lease = (await borrow(api, LABEL)).json()
    assert (await beat(api, "n1"))["lent"] == {"s1": lease["leaseToken"]}
    async with open_store(settings) as store:
        taker = Hub(store, settings)
        assert (await taker.leases.give_back("s1", LABEL, lease["leaseToken"]))[0] == "returned"
        redis.flushall()
        await notice(*((lender, taker) if lender_first else (taker, lender)))
    settle(redis)
    assert await report(api, lease) == "published"
    assert (await borrow(api, LABEL)).json()["browserId"] == "s1"


async def test_a_reported_return_ends_no_later_lease_of_the_slot(serving, redis, settings):
    api, taker = serving
    await publish(api, "n1", **{LABEL: ["s1"]})
    before = (await borrow(api, LABEL)).json()
    await give_back(api, LABEL, "s1", leaseToken=before["leaseToken"])
    async with open_store(settings) as store:
        lender = Hub(store, settings)
        now = await lender.leases.borrow(BorrowRequest(LABEL, 900_000, "r2", "q", "q", "f", 60))
        redis.flushall()
        await notice(lender, taker)
    assert redis.hget("session:s1", "leaseToken") == now.token
    assert redis.zscore("hub:deadlines", "s1") is not None


async def test_a_slot_returned_just_before_the_loss_is_free_although_its_node_reports_it_as_lent(serving, redis):
    api, hub = serving
    await publish(api, "n1", **{LABEL: ["s1"]})
    lease = (await borrow(api, LABEL)).json()
    await give_back(api, LABEL, "s1", leaseToken=lease["leaseToken"])
    redis.flushall()
    await notice(hub)
    settle(redis)
    assert await report(api, lease) == "published"


async def test_a_lease_that_no_node_reports_ends_after_one_timeout(serving, redis, settings):
    api, hub = serving
    held = await wiped(api, hub, redis)
    redis.hincrby("hub:store", "clock_ms", int(settings.node_timeout_s * 1000))
    assert (await api.post("/session/renew", json=held)).status_code == 409


async def test_after_a_restart_no_node_expires_before_all_had_one_timeout_to_be_heard(serving, redis, settings):
    api, hub = serving
    await publish(api, "n1", **{LABEL: ["s1"]})
    redis.hset("hub:store", "run_id", "before")
    redis.function_flush()
    await notice(hub)
    age_node(redis, "n1", settings.node_timeout_s * 10)
    service, _ = sweepers(hub)
    assert (await service.sweep()).expired == 0
    redis.hincrby("hub:store", "clock_ms", int(settings.node_timeout_s * 1000))
    assert (await service.sweep()).expired == 1


async def test_a_later_lease_reported_by_the_node_replaces_an_older_one_in_the_store(serving, redis):
    """The store has an earlier lease of the slot; the node reports the next one, whose token is higher."""
    api, hub = serving
    await publish(api, "n1", **{LABEL: ["s1"]})
    old = (await borrow(api, LABEL, run="old")).json()["leaseToken"]
    redis.hset("hub:store", "run_id", "before")
    redis.function_flush()
    hub.leases.memory.leases.clear()
    await notice(hub)
    newer = str(int(redis.hget("hub:store", "lost_above")) + 5)
    slots = [{"labelKey": LABEL, "slotId": "s1"}]
    answer = await api.post("/node/register", json={"nodeId": "n1", "slots": slots, "lent": {"s1": newer}})
    assert [slot["status"] for slot in answer.json()["slots"]] == ["lent"]
    settle(redis)
    answers = [
        await api.post("/session/renew", json={"browserId": "s1", "leaseToken": token}) for token in (old, newer)
    ]
    assert [each.status_code for each in answers] == [409, 200]
    assert len(redis.lrange(f"inuse:{LABEL}", 0, -1)) == 1


async def test_an_unopened_store_is_opened_by_the_first_request(redis, settings):
    async with open_store(settings) as store:
        hub = Hub(store, settings)
        redis.delete("hub:store")
        with pytest.raises(Settling):
            await hub.leases.borrow(BorrowRequest(LABEL, 900_000, "r", "q", "q", "f", 60))


async def test_while_redis_is_away_every_call_is_refused_at_once_and_reads_work_again_afterwards(own_redis):
    settings = settings_for(own_redis.url, redis_timeout_s=5, redis_connect_timeout_s=5)
    async with open_store(settings) as store:
        hub = Hub(store, settings)
        own_redis.kill()
        await hub.clock.tick()
        started = asyncio.get_running_loop().time()
        for _ in range(20):
            with pytest.raises(StoreUnavailable):
                await hub.nodes.ids()
        assert asyncio.get_running_loop().time() - started < SLACK_S  # and not 20 times as long as Redis may take
        own_redis.start()

        async def back():
            await hub.clock.tick()
            return hub.clock.away_since is None

        await eventually(back)
        assert await hub.nodes.ids() == []
