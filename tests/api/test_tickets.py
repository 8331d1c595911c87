"""Tickets: what has become of a borrow that waits, attending it again after its call was lost, and giving it up."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator

import pytest

from tests.api.people import LABEL, NAMELESS, People, away, in_use, refused
from tests.world import PATIENCE_S, SECRETS, HubProcess, eventually, give_back, picture, publish

KEYS = ["k1", "a/b", "../x", "50% off?#&=", "key-1", "été €", "x" * 255, "\U0001f600"]


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key[:12])
async def test_a_ticket_is_found_by_its_key_and_by_its_id_and_reading_it_changes_nothing(people: People, redis, key):
    people.calls.append(
        asyncio.create_task(
            people.api.post(
                "/session/borrow",
                json={"labelKey": LABEL, "runId": "r1", "priority": 2},
                headers={"idempotency-key": key.encode()},
            )
        )
    )

    async def in_line() -> bool:
        return (await people.queue())["waiting"] == 1

    await eventually(in_line)
    before = picture(redis, own=True)
    found = (await people.look(key)).json()
    assert found == {**(await people.look(found["ticket"])).json(), "secondsLeft": found["secondsLeft"]}
    assert picture(redis, own=True) | {"hub:hubs": 0} == before | {"hub:hubs": 0}  # there it says once a second: here
    assert found.pop("sinceUtc").endswith("0Z")
    assert 0 < found.pop("secondsLeft") <= 31  # a second more while the hub clock stands still
    assert found.pop("ticket").startswith("key-")
    assert found.pop("holder") == NAMELESS
    assert found == {
        "state": "waiting", "labelKey": LABEL, "runId": "r1", "position": 1, "priority": 2,
        "estimatedWaitSeconds": None,
    }  # fmt: skip


async def test_a_granted_ticket_is_shown_as_the_borrow_was_answered(people: People):
    await in_use(people, "s1")
    call = await people.come(key="k1", run="r1")
    await give_back(people.api, LABEL, "s1")
    lease = (await call).json()
    answer = await people.look("k1")
    shown = answer.json()
    assert answer.headers["correlation-id"] == "r1"
    assert (shown.pop("state"), shown.pop("ticket")[:4]) == ("granted", "key-")
    passing = ("expiresAtUtc", "ttlSeconds")
    assert shown.keys() == lease.keys()
    assert {name: shown[name] for name in shown if name not in passing} == {
        name: lease[name] for name in lease if name not in passing
    }
    assert shown["ttlSeconds"] == pytest.approx(900, abs=5)


async def test_a_ticket_whose_lease_has_ended_is_over_and_an_unknown_ticket_is_not_found(people: People):
    await publish(people.api, "n1", **{LABEL: ["s1"]})
    await people.start(key="k1")
    await give_back(people.api, LABEL, "s1")
    for answer in (await people.look("k1"), await people.look("k1", "wait=5"), await people.give_up("k1")):
        assert "s1" in refused(answer, "grant-over", 409)["detail"]
    for answer in (await people.look("other"), await people.look("other", "wait=5"), await people.give_up("other")):
        refused(answer, "unknown-ticket", 404)


async def test_the_key_of_a_return_finds_no_ticket(people: People):
    await in_use(people, "s1")
    body = {"labelKey": LABEL, "browserId": "s1"}
    await people.api.post("/session/return", json=body, headers={"idempotency-key": "k1"})
    refused(await people.look("k1"), "unknown-ticket", 404)
    refused(await people.give_up("k1"), "unknown-ticket", 404)


async def test_a_ticket_without_a_waiting_call_keeps_its_place_and_can_be_waited_on_again(people: People):
    await in_use(people, "s1")
    await away(people, "first", run="r1")
    behind = await people.come()
    assert (await people.look("first")).json()["position"] == 1
    assert await people.state("first") == "away"
    attending = asyncio.create_task(people.look("first", "wait=25"))

    async def attended() -> bool:
        return await people.state("first") == "waiting"

    await eventually(attended)
    await give_back(people.api, LABEL, "s1")
    answer = await attending
    assert (answer.json()["state"], answer.json()["browserId"]) == ("granted", "s1")
    assert (answer.headers["preference-applied"], answer.headers["correlation-id"]) == ("wait=25", "r1")
    assert not behind.done()
    repeat = await people.start(key="first", run="r1")
    assert repeat.json()["leaseToken"] == answer.json()["leaseToken"]


async def test_waiting_on_a_ticket_ends_after_the_time_asked_for_and_keeps_the_place(people: People):
    await away(people, "k1")
    answer = await people.look("k1", 'respond-async, Wait="1"; x=y, wait=9')
    assert (answer.status_code, answer.json()["state"], answer.json()["position"]) == (200, "away", 1)
    assert answer.headers["preference-applied"] == "wait=1"
    assert 50 < answer.json()["secondsLeft"] <= 61


async def test_waiting_on_a_ticket_is_bounded_by_the_longest_wait_of_a_borrow(make_people):
    async with make_people(borrow_queue_timeout_s=1.5) as people:
        await away(people, "k1")
        assert (await people.look("k1", "wait=3600")).headers["preference-applied"] == "wait=1"


NO_PREFERENCES = [
    "wait", "wait=", "wait=0", "wait=-1", "wait=1.5", "wait=soon", "wait=²", "wait=x, wait=1", "wait=9999999999",
    "return=minimal", ",;=,", "waiting=1",
]  # fmt: skip


@pytest.mark.parametrize("given", NO_PREFERENCES)
async def test_an_unreadable_wait_preference_is_ignored(people: People, given):
    await away(people, "k1")
    answer = await people.api.get("/queue/k1", headers={"prefer": given.encode()})
    assert (answer.status_code, answer.json()["state"]) == (200, "away")
    assert "preference-applied" not in answer.headers


async def test_a_ticket_without_a_key_can_be_read_and_not_waited_on(people: People):
    await people.come()
    (ticket,) = (await people.queue())["labels"][0]["tickets"]
    answer = await people.look(ticket["ticket"], "wait=20")
    assert (answer.json()["state"], answer.json()["position"]) == ("waiting", 1)
    assert "preference-applied" not in answer.headers


async def test_a_lease_granted_while_the_caller_was_away_goes_to_the_next_call_that_waits(people: People):
    """The plain look leaves the lease with its attempt; with a preference the caller holds it."""
    await publish(people.api, "n1", **{LABEL: ["s1"]})
    lease = (await people.start(key="k1")).json()
    answer = await people.look("k1", "wait=5")
    assert (answer.json()["state"], answer.json()["leaseToken"]) == ("granted", lease["leaseToken"])


async def test_operators_read_a_ticket_of_runners_and_wait_on_it_as_these_do(make_people):
    async with make_people(runner_secret="runner-x", admin_secret="admin-x") as people:
        people.api.headers["x-hub-secret"] = "runner-x"
        await away(people, "k1")
        people.api.headers["x-hub-secret"] = "admin-x"
        assert await people.state("k1") == "away"
        assert (await people.look("k1", "wait=1")).json()["state"] == "away"


@pytest.mark.parametrize("how", ["by key", "by ticket"])
async def test_giving_up_a_ticket_ends_the_waiting_call_at_once_and_may_be_repeated(make_people, redis, how):
    async with make_people() as people, make_people() as elsewhere:
        call = await people.come(key="k1")
        behind = await people.come()
        ticket = "k1" if how == "by key" else (await people.look("k1")).json()["ticket"]
        for _ in range(2):
            answer = await elsewhere.give_up(ticket)
            assert (answer.status_code, answer.json()) == (200, {"cancelled": True})
        assert "ticket" not in refused(await call, "withdrawn", 409)
        refused(await people.look("k1"), "unknown-ticket", 404)
        refused(await people.start(key="k1"), "withdrawn", 409)
        assert (await people.queue())["labels"][0]["waiting"] == 1
        await publish(people.api, "n1", **{LABEL: ["s1"]})
        assert (await behind).status_code == 200
        assert redis.keys("hub:ticket:*") == []


async def test_a_ticket_without_a_key_is_given_up_by_its_id(people: People):
    call = await people.come()
    (ticket,) = (await people.queue())["labels"][0]["tickets"]
    assert (await people.give_up(ticket["ticket"])).json() == {"cancelled": True}
    refused(await call, "withdrawn", 409)


async def test_a_ticket_without_a_waiting_call_can_be_given_up(people: People):
    await away(people, "k1")
    assert (await people.give_up("k1")).status_code == 200
    assert (await people.queue())["away"] == 0


async def test_a_ticket_that_has_its_lease_cannot_be_given_up(people: People, redis):
    await publish(people.api, "n1", **{LABEL: ["s1"]})
    await people.start(key="k1")
    problem = refused(await people.give_up("k1"), "ticket-granted", 409)
    assert problem["browserId"] == "s1"
    assert "/session/return" in problem["detail"]
    assert redis.exists("session:s1")


ONE_STORE = {"HUB_KEY_PREFIX": "tickets:", "HUB_NODE_TIMEOUT": "600", **dict.fromkeys(SECRETS, "one-for-all")}


@pytest.fixture(scope="module")
def live(_server):
    """A hub in a process of its own, whose connections can be cut; every test has a label and slots of its own."""
    with HubProcess({"HUB_REDIS_URL": _server.url, **ONE_STORE}) as process:
        yield process


@pytest.fixture
async def callers(live: HubProcess) -> AsyncIterator[People]:
    """People whose calls are connections."""
    async with live.client() as api:
        found = People(api)
        yield found
        await found.go_home()


async def test_a_waiting_call_that_is_cut_keeps_its_place_for_its_repeat(callers: People):
    label = "cut:place"
    await in_use(callers, "c1", label=label)
    lost = await callers.come(label, key="lost", run="r1")
    lost.cancel()

    async def gone() -> bool:
        return await callers.state("lost") == "away"

    await eventually(gone)
    others = [await callers.come(label) for _ in range(2)]
    assert (await callers.look("lost")).json()["position"] == 1
    again = await callers.come(label, key="lost", run="r1")
    places = (await callers.queue(label=label))["labels"][0]["tickets"]
    assert places[0]["runId"] == "r1"
    await give_back(callers.api, label, "c1")
    assert (await again).json()["browserId"] == "c1"
    assert not any(call.done() for call in others)


async def test_a_first_ticket_without_a_waiting_call_is_passed_over_and_stays_first(callers: People):
    label = "cut:passed"
    await in_use(callers, "p1", label=label)
    (await callers.come(label, key="passed", run="r1")).cancel()

    async def gone() -> bool:
        return await callers.state("passed") == "away"

    await eventually(gone)
    behind, last = [await callers.come(label) for _ in range(2)]
    await give_back(callers.api, label, "p1")
    assert (await behind).json()["browserId"] == "p1"
    again = await callers.come(label, key="passed", run="r1")
    await give_back(callers.api, label, "p1")
    assert (await again).json()["browserId"] == "p1"
    assert not last.done()


async def test_hanging_up_while_waiting_on_a_ticket_loses_neither_the_place_nor_the_lease(callers: People):
    label = "cut:attended"
    await in_use(callers, "a1", label=label)
    (await callers.come(label, key="attended", run="r1")).cancel()

    async def state_is(state: str) -> None:
        async def so() -> bool:
            return await callers.state("attended") == state

        await eventually(so)

    await state_is("away")
    attending = asyncio.create_task(callers.look("attended", "wait=20"))
    await state_is("waiting")
    attending.cancel()
    await state_is("away")
    behind = await callers.come(label)
    assert (await callers.look("attended")).json()["position"] == 1
    attending = asyncio.create_task(callers.look("attended", "wait=20"))
    await state_is("waiting")
    await give_back(callers.api, label, "a1")
    assert (await attending).json()["browserId"] == "a1"
    assert not behind.done()


async def test_a_stopping_hub_sends_its_waiters_to_another_hub_where_they_keep_their_places(callers: People, start_hub):
    label = "stop:line"
    stopping = start_hub(linger_s=PATIENCE_S, **ONE_STORE)
    async with stopping.client() as api:
        unlucky = People(api)
        calls = [await unlucky.come(label, key=key, run=f"run-{key}") for key in ("one", "two")]
        stopping.signal(signal.SIGTERM)
        for place, call in enumerate(calls):
            problem = refused(await call, "stopping")
            assert (await call).headers["retry-after"] == "30"
            assert problem["position"] == place + 1
    behind = await callers.come(label)
    again = await callers.come(label, key="one", run="run-one")
    await publish(callers.api, "n-stop", **{label: ["t1"]})
    assert (await again).json()["browserId"] == "t1"
    assert not behind.done()
