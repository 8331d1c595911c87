"""A lease that ends before its time: its holder is told at once, and its slot is held until the holder has stopped."""

from __future__ import annotations

import asyncio
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis import Redis

from hub.client import HubClient, LeaseLost, Slot, SyncHubClient, watch
from hub.client.exchange import RetryPolicy
from hub.core import Hub
from hub.doctor import examine
from hub.settings import Settings
from hub.store.monitor import ConnectionMonitor
from hub.store.store import SETTLE_MS
from tests.cli.command import Command
from tests.client.live import LABEL, agent_of, client_of
from tests.world import HubProcess, age_node, beat, borrow, eventually, give_back, publish

NEVER = "600"  # a grace for which no test waits: the slot is freed because its holder reports that it has stopped
GRACE_MS = 5_000
STEP_MS = 2_500
# A call that listens is answered by a notification or not at all: no test could tell a poll from it that comes in time.
NO_POLL = """
from hub.capacity.watching import Watching
wait = Watching.wait
Watching.wait = lambda self, leases, _, ended, heard: wait(self, leases, 3600, ended, heard)
"""

How = Callable[[HubProcess, Slot], Awaitable[None]]


# -- with a listening holder: it has stopped before the slot is lent again


@pytest.fixture
def no_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients here do not give up their first call that listens."""
    monkeypatch.setattr(watch, "_POLICY", RetryPolicy(trouble_s=0.0, attempt_s=3600))


async def by_an_operator(hub: HubProcess, slot: Slot) -> None:
    async with hub.client("runner") as api:
        assert (await give_back(api, LABEL, slot.id, revoke=True)).json() == {"returned": slot.id}


async def by_the_command_line(hub: HubProcess, slot: Slot) -> None:
    command = Command(hub, Path(tempfile.gettempdir()))
    done = await asyncio.to_thread(command, "return", slot.id, "--force", "--reason", "a test")
    assert done.returncode == 0, done.stderr


async def by_the_deadline_of_a_drain(hub: HubProcess, slot: Slot) -> None:
    async with hub.client("admin") as api:
        (await api.post("/admin/nodes/n1/drain", json={"deadlineSeconds": 1})).raise_for_status()
        await until_over(hub, slot)
        (await api.post("/admin/nodes/n1/undrain")).raise_for_status()


async def by_its_own_node(hub: HubProcess, slot: Slot) -> None:
    """Which makes it fresh: takes it off offer, and offers it again."""
    offer = {"slotId": slot.id, "labelKey": LABEL}
    async with hub.client("node") as api:
        (await api.delete(f"/node/n1/slots/{slot.id}")).raise_for_status()
        (await api.post("/node/n1/slots", json={"slots": [offer]})).raise_for_status()


async def until_over(hub: HubProcess, slot: Slot) -> None:
    await eventually(lambda: hub.redis.hget(f"session:{slot.id}", "leaseToken") != slot.token)


class Holder:
    """A borrower that holds a slot in a block until it is told that the lease is over; `said` has its events."""

    def __init__(self, hub: HubProcess, name: str, said: list[str]) -> None:
        self.slot: Slot | None = None
        self._hub, self._name, self._said = hub, name, said

    async def hold(self, client: HubClient) -> None:
        async with client.borrow(LABEL, ttl=3600, wait=None) as self.slot:
            self._said.append(f"{self._name} begins")
            try:
                await asyncio.sleep(3600)
            finally:
                self._said.append(f"{self._name} ends")

    def hold_in_a_thread(self) -> None:
        with (
            SyncHubClient(self._hub.url, self._hub.runner_secret) as client,
            client.borrow(LABEL, ttl=3600, wait=None) as self.slot,
        ):
            self._said.append(f"{self._name} begins")
            self.slot.lost.wait()
            self._said.append(f"{self._name} ends")

    async def has(self) -> Slot:
        await eventually(lambda: self.slot is not None)
        assert self.slot
        return self.slot


HOWS = [by_an_operator, by_the_command_line, by_the_deadline_of_a_drain, by_its_own_node]
IN_TURN = ["first begins", "first ends", "second begins"]


async def hand_over(hub: HubProcess, how: How, kind: str = "async") -> list[str]:
    """A slot is taken from its holder, and goes to the next; what they said, in order."""
    async with client_of(hub) as one, client_of(hub) as other:
        said: list[str] = []
        first, second = Holder(hub, "first", said), Holder(hub, "second", said)
        holding = asyncio.create_task(first.hold(one) if kind == "async" else asyncio.to_thread(first.hold_in_a_thread))
        slot = await first.has()
        waiting = asyncio.create_task(second.hold(other))
        await eventually(lambda: heard(hub.redis, set()))
        await how(hub, slot)
        await second.has()
        with pytest.raises(LeaseLost, match="the hub ended the lease"):
            await holding
        in_order = list(said)
        waiting.cancel()
        await asyncio.wait([waiting])
        return in_order


@pytest.mark.story
@pytest.mark.usefixtures("no_poll")
@pytest.mark.parametrize("kind", ["async", "sync"])
@pytest.mark.parametrize("how", HOWS, ids=lambda how: how.__name__.replace("_", " "))
async def test_the_holder_of_a_revoked_lease_has_stopped_before_the_next_one_begins(
    start_hub: Callable[..., HubProcess], how: How, kind: str
) -> None:
    hub = start_hub(before=NO_POLL, HUB_REVOKE_GRACE_SECONDS=NEVER, HUB_NODE_TIMEOUT="600")
    async with agent_of(hub, slots=1):
        assert await hand_over(hub, how, kind) == IN_TURN


@contextmanager
def agent_process(hub: HubProcess, folder: Path) -> Iterator[How]:
    """An agent that runs, and what ends the leases of its node: it is stopped, its node expires, it goes on."""
    agent = Command(hub, folder).start("agent", "--node", "n1", "--slots", f"{LABEL}=1")

    async def by_the_death_of_its_node(hub: HubProcess, slot: Slot) -> None:
        agent.signal(signal.SIGSTOP)
        age_node(hub.redis, "n1", 60)
        await until_over(hub, slot)
        agent.signal(signal.SIGCONT)

    try:
        yield by_the_death_of_its_node
    finally:
        agent.kill()


@pytest.mark.story
@pytest.mark.usefixtures("no_poll")
async def test_the_holder_of_a_lease_of_a_dead_node_has_stopped_before_the_slot_is_lent_again(
    start_hub: Callable[..., HubProcess], tmp_path: Path
) -> None:
    hub = start_hub(before=NO_POLL, HUB_REVOKE_GRACE_SECONDS=NEVER, HUB_NODE_TIMEOUT="3")
    with agent_process(hub, tmp_path) as by_its_death:
        assert await hand_over(hub, by_its_death) == IN_TURN


@asynccontextmanager
async def stood_still() -> AsyncIterator[list[float]]:
    """For how long this process stood still, at the longest, in seconds: a holder that does is not told in time."""
    longest_s = [0.0]

    async def look() -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.05)
            longest_s[0] = max(longest_s[0], time.monotonic() - began)

    looking = asyncio.create_task(look())
    yield longest_s
    looking.cancel()


@pytest.mark.story
async def test_with_the_default_grace_no_watching_holder_overlaps_with_the_next(
    start_hub: Callable[..., HubProcess], tmp_path: Path
) -> None:
    hub = start_hub(HUB_NODE_TIMEOUT="3")
    assert Settings().revoke_grace_s == 5
    assert "HUB_REVOKE_GRACE_SECONDS" not in hub.log()  # only settings that differ from their default are logged
    with agent_process(hub, tmp_path) as by_its_death:
        for how in (*HOWS, by_its_death):
            for _ in range(3):
                async with stood_still() as longest_s:
                    said = await hand_over(hub, how)
                if said == IN_TURN or longest_s[0] < GRACE_MS / 2000:
                    break
            assert said == IN_TURN, how.__name__


@pytest.mark.story
async def test_a_holder_whose_footprint_was_deleted_is_told_although_the_slot_has_no_grace(
    live_hub: HubProcess,
) -> None:
    async with agent_of(live_hub), client_of(live_hub) as client:
        holder = Holder(live_hub, "first", [])
        holding = asyncio.create_task(holder.hold(client))
        live_hub.redis.delete(f"borrow_ttl:{(await holder.has()).id}")
        with pytest.raises(LeaseLost, match="the hub ended the lease"):
            await holding


# -- with a holder that does not listen: its slot is held for the grace, and no longer


@pytest.fixture
async def lent(make_api: Callable[..., Any], redis: Redis) -> AsyncIterator[httpx.AsyncClient]:
    """A slot that is lent by a hub whose clock stands still, with a grace of five seconds; `s1` under `token`."""
    async with make_api(revoke_grace_s=GRACE_MS / 1000) as api:
        await publish(api, "n1", **{LABEL: ["s1"]})
        api.token = (await borrow(api, LABEL)).json()["leaseToken"]
        yield api


async def is_free(api: httpx.AsyncClient, hub: Hub) -> bool:
    await hub.queue.look_after()
    return bool((await api.get(f"/pools/{LABEL}")).json()["available"])


async def test_a_revoked_slot_is_held_for_the_grace_and_no_longer(
    lent: httpx.AsyncClient, hub: Hub, redis: Redis
) -> None:
    await give_back(lent, LABEL, "s1", revoke=True)
    assert not redis.exists("session:s1")
    redis.hincrby("hub:store", "clock_ms", GRACE_MS - 1_500)
    assert not await is_free(lent, hub)
    assert (await borrow(lent, LABEL, run="r2")).status_code == 503
    redis.hincrby("hub:store", "clock_ms", 1_500)
    assert await is_free(lent, hub)
    assert (await borrow(lent, LABEL, run="r2")).json()["browserId"] == "s1"
    assert redis.keys("hub:revoked*") == []
    told = (await lent.get("/why/slot/s1")).json()["history"]
    assert ["An operator ended the lease" in str(each) for each in told if each["event"] == "grant.ended"] == [True]


@pytest.mark.parametrize(("renewed_every_ms", "overlap_ms"), [(GRACE_MS, 0), (4 * GRACE_MS, 3 * GRACE_MS)])
async def test_a_holder_that_only_renews_overlaps_with_the_next_holder_at_most_until_its_next_renewal(
    lent: httpx.AsyncClient, hub: Hub, redis: Redis, renewed_every_ms: int, overlap_ms: int
) -> None:
    """The bound of the manual, on the hub clock, for a lease that ends at any moment between two renewals."""
    longest, token = 0, lent.token
    for ended_ms in range(0, renewed_every_ms, STEP_MS):  # after a renewal
        await give_back(lent, LABEL, "s1", revoke=True)
        others: list[tuple[int, str]] = []
        for passed_ms in range(ended_ms, renewed_every_ms + 1, STEP_MS):
            answer = await borrow(lent, LABEL, run="r2")
            if answer.status_code == 200:
                others.append((passed_ms, answer.json()["leaseToken"]))
            redis.hincrby("hub:store", "clock_ms", STEP_MS)
            await beat(lent, "n1")
            await hub.queue.look_after()
        refused = await lent.post("/session/renew", json={"browserId": "s1", "leaseToken": token})
        assert (refused.status_code, refused.json()["code"]) == (409, "grant-over")
        assert len(others) <= 1
        longest = max([longest, *(renewed_every_ms - begun_ms for begun_ms, _ in others)])
        await give_back(lent, LABEL, "s1", leaseToken=others[0][1] if others else token)
        token = (await borrow(lent, LABEL)).json()["leaseToken"]
    assert longest == overlap_ms


async def test_the_grace_of_a_revoked_slot_outlives_an_emptied_store(lent: httpx.AsyncClient, redis: Redis) -> None:
    hub: Hub = lent._transport.app.app.state.serving.hub  # type: ignore[attr-defined]
    await hub.clock.tick()
    await give_back(lent, LABEL, "s1", revoke=True)
    redis.flushall()
    await hub.clock.tick()
    await publish(lent, "n1", **{LABEL: ["s1", "s2"]})
    redis.hincrby("hub:store", "clock_ms", SETTLE_MS + 1)
    assert (await borrow(lent, LABEL, run="r2")).json()["browserId"] == "s2"
    assert not await is_free(lent, hub)
    assert (await borrow(lent, LABEL, run="r2")).json()["code"] == "no-capacity"
    redis.hincrby("hub:store", "clock_ms", GRACE_MS - SETTLE_MS)
    assert await is_free(lent, hub)
    assert (await borrow(lent, LABEL, run="r2")).json()["browserId"] == "s1"


async def test_the_return_by_its_last_holder_ends_the_grace(lent: httpx.AsyncClient, hub: Hub) -> None:
    await give_back(lent, LABEL, "s1", revoke=True)
    await give_back(lent, LABEL, "s1", leaseToken="1")  # a token that was never given out
    assert not await is_free(lent, hub)
    answer = await give_back(lent, LABEL, "s1", leaseToken=lent.token)
    assert (answer.status_code, answer.json()["note"]) == (200, "already returned")
    assert (await borrow(lent, LABEL, run="r2")).json()["browserId"] == "s1"


async def test_an_operator_can_end_the_grace_with_force(lent: httpx.AsyncClient, redis: Redis) -> None:
    await give_back(lent, LABEL, "s1", force=True)
    assert (await borrow(lent, LABEL, run="r2")).json()["browserId"] == "s1"


async def test_a_slot_within_its_grace_is_no_finding_of_the_doctor(lent: httpx.AsyncClient, hub: Hub) -> None:
    await give_back(lent, LABEL, "s1", revoke=True)
    assert await examine(hub.store, settings=hub.settings, pause_s=0.01) == []


# -- listening


async def over(api: httpx.AsyncClient, wait_s: float, *leases: tuple[str, str]) -> list[dict[str, str]]:
    body = {"leases": [{"browserId": slot, "leaseToken": token} for slot, token in leases], "waitSeconds": wait_s}
    answer = await api.post("/leases/watch", json=body)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, str]] = answer.json()["over"]
    return found


async def test_a_watch_call_is_answered_when_the_first_of_its_leases_is_over(
    lent: httpx.AsyncClient, redis: Redis
) -> None:
    assert await over(lent, 0, ("s1", lent.token)) == []
    listening = asyncio.create_task(over(lent, 30, ("s1", lent.token)))
    await eventually(lambda: heard(redis, set()))
    await give_back(lent, LABEL, "s1", revoke=True)
    ended = {"browserId": "s1", "leaseToken": lent.token, "reason": "not lent", "because": "an operator ended it"}
    assert await listening == [ended]
    assert await over(lent, 30, ("s1", lent.token)) == [ended]  # a later call is told too


async def test_a_watch_call_listens_again_after_its_connection_to_redis_died(
    lent: httpx.AsyncClient, hub: Hub, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    dies = asyncio.Event()

    async def check(monitor: ConnectionMonitor) -> None:
        if dies.is_set() and any("revoked_bell" in channel for channel in monitor._pubsub.channels):
            dies.clear()
            raise ConnectionResetError("nothing is heard of Redis")

    monkeypatch.setattr(ConnectionMonitor, "check", check)
    listening = asyncio.create_task(over(lent, 30, ("s1", lent.token)))
    await eventually(lambda: heard(redis, set()))
    before = {client["id"] for client in redis.client_list(_type="pubsub")}
    dies.set()
    await eventually(lambda: heard(redis, before), 10)  # and not when the caller asks again
    await give_back(lent, LABEL, "s1", revoke=True)
    assert [each["reason"] for each in await listening] == ["not lent"]


async def heard(redis: Redis, before: set[str]) -> bool:
    """Return whether a connection other than `before` listens for the end of a lease."""
    others = [client for client in redis.client_list(_type="pubsub") if client["id"] not in before]
    return bool(others) and any("revoked_bell" in channel for channel in redis.pubsub_channels())


async def test_a_lease_that_the_store_may_have_lost_is_not_reported_as_over(
    lent: httpx.AsyncClient, redis: Redis
) -> None:
    redis.hset("hub:store", "settle_ms", 10**15)
    redis.delete("session:s1")
    assert await over(lent, 0, ("s1", lent.token)) == []


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "missing leases"),
        ({"leases": []}, "missing leases"),
        ({"leases": "s1"}, "missing leases"),
        ({"leases": [{"browserId": "s1"}]}, "browserId and leaseToken"),
        ({"leases": ["s1"]}, "browserId and leaseToken"),
        ({"leases": [{"browserId": "s1", "leaseToken": "1"}] * 1001}, "at most 1000"),
        ({"leases": [{"browserId": "s1", "leaseToken": "1"}], "waitSeconds": "long"}, "waitSeconds"),
        ({"leases": [{"browserId": "s1", "leaseToken": "1"}], "waitSeconds": -1}, "waitSeconds"),
    ],
)
async def test_an_invalid_watch_call_is_refused_with_what_it_should_contain(
    api: httpx.AsyncClient, body: dict[str, Any], says: str
) -> None:
    answer = await api.post("/leases/watch", json=body)
    assert answer.status_code in (400, 422)
    assert says in answer.json()["detail"]
