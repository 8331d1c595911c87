"""The queue over HTTP: who waits, in what order, and how a borrow that may not or will not wait is refused."""

from __future__ import annotations

import asyncio

import pytest

from tests.api.people import LABEL, NAMELESS, People, away, in_use, refused
from tests.world import PATIENCE_S, give_back, publish


async def test_the_queue_is_shown_by_label_in_the_order_of_service(people: People):
    await in_use(people, "s1")
    await people.api.put(f"/admin/caps/{LABEL}", json={"cap": 3})
    await people.come(run="r1")
    await people.come("Shop:Firefox", run="r2", key="k2", maxWaitSeconds=20)
    await people.come(run="r3", priority=7, key="k3")
    await away(people, "gone", label="Shop:Firefox")
    shown = await people.queue()
    for line in shown["labels"]:
        for ticket in line["tickets"]:
            assert ticket.pop("sinceUtc").endswith("0Z")
            assert 0 < ticket.pop("secondsLeft") <= 31  # a second more while the hub clock stands still
            assert ticket.pop("ticket").startswith(("key-", "try-"))
            assert ticket.pop("holder") == NAMELESS
    one = {"priority": 0, "estimatedWaitSeconds": None}
    assert shown == {
        "total": 2,
        "waiting": 3,
        "away": 1,
        "bundles": [],
        "labels": [
            {
                "labelKey": LABEL, "waiting": 2, "turn": 1, "cap": 3, "inFlight": 1, "estimatedWaitSeconds": None,
                "tickets": [
                    {"position": 1, "runId": "r3", "priority": 7, "estimatedWaitSeconds": None},
                    {"position": 2, "runId": "r1", **one},
                ],
            },
            {
                "labelKey": "Shop:Firefox", "waiting": 1, "turn": 2, "cap": 0, "inFlight": 0,
                "estimatedWaitSeconds": None, "tickets": [{"position": 1, "runId": "r2", **one}],
            },
        ],
    }  # fmt: skip


async def test_the_queue_is_paged_by_label_and_bounded_by_tickets(people: People):
    labels = [f"Maps:Chromium:L{number}" for number in range(3)]
    for label in (*labels, labels[0], labels[0]):
        await people.come(label)
    pages = [await people.queue(offset=offset, limit=2, tickets=2) for offset in (0, 2, 4)]
    assert [page["total"] for page in pages] == [3, 3, 3]
    lines = [line for page in pages for line in page["labels"]]
    assert [line["labelKey"] for line in lines] == labels
    assert [(line["waiting"], len(line["tickets"])) for line in lines] == [(3, 2), (1, 1), (1, 1)]
    one = await people.queue(label=f" {labels[1]} ", tickets=0)
    assert (one["total"], one["waiting"], [line["labelKey"] for line in one["labels"]]) == (1, 5, [labels[1]])
    assert one["labels"][0]["tickets"] == []
    assert (await people.queue(label="nobody:here"))["labels"] == []


@pytest.mark.parametrize(
    ("query", "member"),
    [("tickets=-1", "tickets"), ("tickets=1001", "tickets"), ("limit=100&tickets=201", "tickets"), ("limit=0", "limit"),
     ("offset=x", "offset"), ("label=ma%20ps", None)],
)  # fmt: skip
async def test_impossible_page_bounds_of_the_queue_are_refused(people: People, query, member):
    answer = await people.api.get(f"/queue?{query}")
    assert (answer.status_code, answer.json().get("member")) == (400, member)


async def test_e7_a_returned_slot_goes_to_the_waiter_as_a_complete_lease(people: People, redis):
    await publish(people.api, "blade-9", **{LABEL: ["s1", "s2"]})
    for _ in range(2):
        await people.start()
    third = await people.come(run="r3", ttlSeconds=120)
    await give_back(people.api, LABEL, "s2")
    answer = await asyncio.wait_for(third, PATIENCE_S)
    lease = answer.json()
    assert (lease["browserId"], answer.headers["correlation-id"]) == ("s2", "r3")
    assert lease["ttlSeconds"] == pytest.approx(120, abs=2)
    assert lease["expiresAtUtc"]
    assert (redis.hget("session:s2", "runId"), redis.get("browser_run:s2")) == ("r3", "r3")
    assert 115 < redis.ttl("borrow_ttl:s2") <= 120


async def test_e8_a_wait_that_times_out_tells_its_last_position_and_leaves_no_waiter(make_people, redis):
    async with make_people(borrow_queue_timeout_s=1) as people:
        await in_use(people, "s1", "s2")
        problem = refused(await people.start(run="r1"), "timeout")
        assert problem["detail"] == f"Borrow timed out after 1s for {LABEL}"
        assert problem["ticket"].startswith("try-")
        assert (problem["position"], problem["estimatedWaitSeconds"]) == (1, None)
        assert await people.queue() == {"total": 0, "waiting": 0, "away": 0, "labels": [], "bundles": []}
        assert (redis.exists("hub:pending"), redis.keys("hub:line:*"), redis.keys("hub:ticket:*")) == (0, [], [])


async def test_e9_a_run_with_the_most_waiters_it_may_have_is_refused_at_once(make_people):
    async with make_people(borrow_queue_max_per_run=1) as people:
        await in_use(people, "s1")
        await people.come(run="r1")
        problem = refused(await people.start(run="r1"), "per-run-cap")
        assert problem["detail"].startswith(f"No browser available for {LABEL}")
        assert problem["position"] == 2
        assert (await people.queue())["waiting"] == 1


async def test_a_full_queue_refuses_a_further_waiter_at_once(make_people):
    async with make_people(borrow_queue_max_per_label=2) as people:
        for _ in range(2):
            await people.come()
        problem = refused(await people.start(priority=100), "per-label-cap")
        assert problem["detail"].startswith(f"No browser available for {LABEL}")
        assert problem["position"] == 1, "its priority would have put it first"


async def test_e10_a_reached_cap_makes_a_borrow_wait_although_a_slot_is_free(make_people):
    async with make_people(borrow_concurrency_caps=f"{LABEL}=1") as people:
        await publish(people.api, "n1", **{LABEL: ["s1", "s2"]})
        assert (await people.start()).json()["browserId"] == "s1"
        second = await people.come()
        assert not second.done()
        await give_back(people.api, LABEL, "s1")
        assert (await second).json()["browserId"] == "s2", "s1 is to be replaced, so it is lent last"


async def test_the_longest_wait_of_a_borrow_is_shorter_than_the_request_timeout(make_people):
    async with make_people(borrow_queue_timeout_s=3600) as people:
        await people.come()
        ((ticket,),) = [line["tickets"] for line in (await people.queue())["labels"]]
        assert 50 < ticket["secondsLeft"] <= 57 + 1  # of 60; a second more while the hub clock stands still


@pytest.mark.parametrize("cap", ["", f"{LABEL}=1"], ids=["nothing free", "at its cap"])
async def test_a_borrow_that_does_not_wait_is_refused_at_once_with_its_place(make_people, cap):
    async with make_people(borrow_concurrency_caps=cap) as people:
        await in_use(people, "s1")
        await people.come()
        problem = refused(await people.start(maxWaitSeconds=0), "capped" if cap else "no-capacity")
        assert (problem["position"], problem["estimatedWaitSeconds"]) == (2, None)
        assert (await people.queue())["waiting"] == 1


async def test_a_borrow_is_refused_at_once_when_its_estimated_wait_is_too_long(people: People):
    await in_use(people, "s1")
    first = await people.come()
    await asyncio.sleep(0.2)  # the pace that is measured
    await give_back(people.api, LABEL, "s1")
    assert (await first).status_code == 200
    waiting = await people.come(maxWaitSeconds=20)
    problem = refused(await people.start(maxWaitSeconds=0.1), "deadline")
    assert problem["position"] == 2
    assert problem["estimatedWaitSeconds"] >= 0.4
    (line,) = (await people.queue())["labels"]
    assert line["estimatedWaitSeconds"] >= 0.4
    assert line["tickets"][0]["estimatedWaitSeconds"] >= 0.2
    assert not waiting.done()


NO_WISHES = [
    {"maxWaitSeconds": -0.1}, {"maxWaitSeconds": 86_401}, {"maxWaitSeconds": "soon"}, {"maxWaitSeconds": True},
    {"maxWaitSeconds": []}, {"maxWaitSeconds": "nan"}, {"priority": -101}, {"priority": 101}, {"priority": 1.5},
    {"priority": "high"}, {"priority": False}, {"priority": {}},
]  # fmt: skip


@pytest.mark.parametrize("body", NO_WISHES, ids=str)
async def test_an_impossible_borrow_is_refused_by_the_name_of_the_member(people: People, redis, body):
    answer = await people.start(**body)
    assert (answer.status_code, answer.json()["member"]) == (400, *body)
    assert redis.keys("hub:ticket:*") == []


async def test_the_length_of_each_queue_is_a_metric(people: People):
    async def shown() -> set[str]:
        lines = (await people.api.get("/metrics")).text.splitlines()
        return {line.removeprefix("hub_borrow_queue_length") for line in lines if line.startswith("hub_borrow_queue")}

    for label in (LABEL, LABEL, "Shop:Firefox"):
        await people.come(label)
    assert await shown() == {f'{{label="{LABEL}"}} 2.0', '{label="Shop:Firefox"} 1.0'}
    await publish(people.api, "n1", **{LABEL: ["s1", "s2"]})
    assert await shown() == {'{label="Shop:Firefox"} 1.0'}
