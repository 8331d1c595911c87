"""The fair line over HTTP: who waits, what a refusal says, attending a ticket again, and giving it up."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.world import HubProcess, borrow, eventually, give_back, picture, publish

LABEL = "Maps:Chromium:Prod"
NO_PLACE = {"ticket", "position", "estimatedWaitSeconds"}
_numbers = itertools.count()


class People:
    """Borrowers that wait at a hub, one call each."""

    def __init__(self, api: httpx.AsyncClient) -> None:
        self.api = api
        self.calls: list[asyncio.Task[httpx.Response]] = []

    async def queue(self, **query: Any) -> dict[str, Any]:
        """What `GET /queue` says."""
        answer = await self.api.get("/queue", params=query)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def come(self, label: str = LABEL, *, key: str = "", run: str = "", **body: Any) -> Any:
        """Borrow, and return the call once it stands in line or is answered."""
        call = self.start(label, key=key, run=run, **body)
        before = (await self.queue())["waiting"]

        async def in_line() -> bool:
            return call.done() or (await self.queue())["waiting"] > before

        await eventually(in_line)
        return call

    def start(self, label: str = LABEL, *, key: str = "", run: str = "", **body: Any) -> asyncio.Task[httpx.Response]:
        """Borrow, and return the call at once."""
        headers = {"x-run-id": run or f"run-{next(_numbers)}", **({"idempotency-key": key} if key else {})}
        asked = self.api.post("/session/borrow", json={"labelKey": label, **body}, headers=headers, timeout=60)
        self.calls.append(asyncio.create_task(asked))
        return self.calls[-1]

    async def look(self, ticket: str, wait: str = "") -> httpx.Response:
        """`GET /queue/{ticket}`, by its key or its id."""
        headers = {"prefer": wait} if wait else {}
        return await self.api.get(f"/queue/{quote(ticket, safe='')}", headers=headers, timeout=60)

    async def state(self, ticket: str) -> str:
        """What has become of a ticket."""
        return str((await self.look(ticket)).json()["state"])

    async def give_up(self, ticket: str) -> httpx.Response:
        """`DELETE /queue/{ticket}`."""
        return await self.api.delete(f"/queue/{quote(ticket, safe='')}")

    async def go_home(self) -> None:
        """Hang up."""
        for call in self.calls:
            call.cancel()
        await asyncio.gather(*self.calls, return_exceptions=True)


@pytest.fixture
def make_people(make_api: Callable[..., Any]) -> Callable[..., Any]:
    """People at an application of their own: `async with make_people(borrow_queue_max_per_run=1) as people`."""

    @asynccontextmanager
    async def make(**changes: Any) -> AsyncIterator[People]:
        async with make_api(**{"borrow_queue_timeout_s": 30, **changes}) as api:
            people = People(api)
            yield people
            await people.go_home()

    return make


@pytest.fixture
async def people(make_people: Callable[..., Any]) -> AsyncIterator[People]:
    async with make_people() as found:
        yield found


async def in_use(people: People, *slots: str, label: str = LABEL) -> list[dict[str, Any]]:
    """Publish slots that are lent again as they are, and lend them all."""
    listed = [{"labelKey": label, "slotId": slot} for slot in slots]
    await people.api.post("/node/register", json={"nodeId": "n1", "policy": "reuse", "slots": listed})
    answers = [await borrow(people.api, label, run=f"holder-{slot}") for slot in slots]
    assert [answer.status_code for answer in answers] == [200] * len(slots)
    return [answer.json() for answer in answers]


async def away(people: People, key: str, **body: Any) -> None:
    """A ticket whose call has ended in vain."""
    answer = await people.start(key=key, maxWaitSeconds=0.05, **body)
    assert answer.json()["code"] == "timeout", answer.text


def refused(answer: httpx.Response, code: str, status: int = 503) -> dict[str, Any]:
    document: dict[str, Any] = answer.json()
    assert (answer.status_code, document.get("code")) == (status, code), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return document


async def test_who_waits_is_shown_by_label_those_next_in_turn_first(people: People):
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
            assert 0 < ticket.pop("secondsLeft") <= 30
            assert ticket.pop("ticket").startswith(("key-", "try-"))
    one = {"priority": 0, "estimatedWaitSeconds": None}
    assert shown == {
        "total": 2,
        "waiting": 3,
        "away": 1,
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
     ("offset=x", "offset"), ("label=maps", None)],
)  # fmt: skip
async def test_a_page_of_the_queue_that_cannot_be_is_refused(people: People, query, member):
    answer = await people.api.get(f"/queue?{query}")
    assert (answer.status_code, answer.json().get("member")) == (400, member)


async def test_a_wait_that_times_out_says_where_it_stood_and_leaves_no_waiter(make_people, redis):
    async with make_people(borrow_queue_timeout_s=1) as people:
        await in_use(people, "s1", "s2")
        problem = refused(await people.start(run="r1"), "timeout")
        assert problem["detail"] == f"Borrow timed out after 1s for {LABEL}"
        assert problem["ticket"].startswith("try-")
        assert (problem["position"], problem["estimatedWaitSeconds"]) == (1, None)
        assert await people.queue() == {"total": 0, "waiting": 0, "away": 0, "labels": []}
        assert (redis.exists("hub:pending"), redis.keys("hub:line:*"), redis.keys("hub:ticket:*")) == (0, [], [])


async def test_a_run_that_waits_as_often_as_it_may_is_refused_at_once(make_people):
    async with make_people(borrow_queue_max_per_run=1) as people:
        await in_use(people, "s1")
        await people.come(run="r1")
        problem = refused(await people.start(run="r1"), "per-run-cap")
        assert problem["detail"].startswith(f"No browser available for {LABEL}")
        assert problem["position"] == 2
        assert (await people.queue())["waiting"] == 1


async def test_a_line_with_as_many_waiters_as_it_may_have_refuses_at_once(make_people):
    async with make_people(borrow_queue_max_per_label=2) as people:
        for _ in range(2):
            await people.come()
        problem = refused(await people.start(priority=100), "per-label-cap")
        assert problem["detail"].startswith(f"No browser available for {LABEL}")
        assert problem["position"] == 1, "its priority would have put it first"


async def test_a_cap_makes_the_second_wait_although_a_slot_is_free(make_people):
    async with make_people(borrow_concurrency_caps=f"{LABEL}=1") as people:
        await publish(people.api, "n1", **{LABEL: ["s1", "s2"]})
        assert (await people.start()).json()["browserId"] == "s1"
        second = await people.come()
        assert not second.done()
        await give_back(people.api, LABEL, "s1")
        assert (await second).json()["browserId"] == "s2"


@pytest.mark.parametrize("cap", ["", f"{LABEL}=1"], ids=["nothing free", "at its cap"])
async def test_who_would_not_wait_is_refused_at_once_and_told_his_place(make_people, cap):
    async with make_people(borrow_concurrency_caps=cap) as people:
        await in_use(people, "s1")
        await people.come()
        problem = refused(await people.start(maxWaitSeconds=0), "capped" if cap else "no-capacity")
        assert (problem["position"], problem["estimatedWaitSeconds"]) == (2, None)
        assert (await people.queue())["waiting"] == 1


async def test_a_wait_that_is_expected_to_be_too_long_is_refused_at_once_once_the_pace_is_known(people: People):
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


@pytest.mark.parametrize("wait", [-1, 86_401, "soon", True, [], {}, "nan"], ids=repr)
@pytest.mark.parametrize("member", ["maxWaitSeconds", "priority"])
async def test_a_wish_that_cannot_be_is_refused_by_name(people: People, redis, member, wait):
    answer = await people.start(**{member: wait if member == "maxWaitSeconds" else {-1: -101, 86_401: 101}.get(wait, wait)})
    assert (answer.status_code, answer.json()["member"]) == (400, member)
    assert redis.keys("hub:ticket:*") == []


KEYS = ["k1", "a/b", "../x", "50% off?#&=", "key-1", "été €", "x" * 255, "\U0001f600"]


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key[:12])
async def test_a_ticket_is_found_by_its_key_and_by_its_id_and_looking_changes_nothing(people: People, redis, key):
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
    assert picture(redis, own=True) == before
    assert found.pop("sinceUtc").endswith("0Z")
    assert 0 < found.pop("secondsLeft") <= 30
    assert found.pop("ticket").startswith("key-")
    assert found == {
        "state": "waiting", "labelKey": LABEL, "runId": "r1", "position": 1, "priority": 2,
        "estimatedWaitSeconds": None,
    }  # fmt: skip


async def test_a_granted_ticket_is_shown_as_the_borrow_was_answered(people: People):
    await in_use(people, "s1")
    call = await people.come(key="k1", run="r1")
    await give_back(people.api, LABEL, "s1")
    grant = (await call).json()
    answer = await people.look("k1")
    shown = answer.json()
    assert answer.headers["correlation-id"] == "r1"
    assert (shown.pop("state"), shown.pop("ticket")[:4]) == ("granted", "key-")
    passing = ("expiresAtUtc", "ttlSeconds")
    assert shown.keys() == grant.keys()
    assert {name: shown[name] for name in shown if name not in passing} == {
        name: grant[name] for name in grant if name not in passing
    }
    assert shown["ttlSeconds"] == pytest.approx(900, abs=5)


async def test_a_ticket_whose_grant_has_ended_is_over_and_one_nobody_knows_is_not_found(people: People):
    await publish(people.api, "n1", **{LABEL: ["s1"]})
    await people.start(key="k1")
    await give_back(people.api, LABEL, "s1")
    for answer in (await people.look("k1"), await people.look("k1", "wait=5"), await people.give_up("k1")):
        assert "s1" in refused(answer, "grant-over", 409)["detail"]
    for answer in (await people.look("other"), await people.look("other", "wait=5"), await people.give_up("other")):
        refused(answer, "unknown-ticket", 404)


async def test_the_key_of_a_return_is_no_ticket(people: People):
    await in_use(people, "s1")
    body = {"labelKey": LABEL, "browserId": "s1"}
    await people.api.post("/session/return", json=body, headers={"idempotency-key": "k1"})
    refused(await people.look("k1"), "unknown-ticket", 404)
    refused(await people.give_up("k1"), "unknown-ticket", 404)


async def test_a_ticket_that_is_away_is_attended_with_a_preference_and_served_at_its_old_place(people: People):
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


async def test_attending_ends_after_the_time_asked_for_and_the_place_is_kept(people: People):
    await away(people, "k1")
    answer = await people.look("k1", "respond-async, Wait=\"1\"; x=y, wait=9")
    assert (answer.status_code, answer.json()["state"], answer.json()["position"]) == (200, "away", 1)
    assert answer.headers["preference-applied"] == "wait=1"
    assert 50 < answer.json()["secondsLeft"] <= 60


async def test_attending_is_bounded_by_what_a_borrow_may_wait(make_people):
    async with make_people(borrow_queue_timeout_s=1.5) as people:
        await away(people, "k1")
        assert (await people.look("k1", "wait=3600")).headers["preference-applied"] == "wait=1"


@pytest.mark.parametrize("given", ["wait", "wait=", "wait=0", "wait=-1", "wait=1.5", "wait=soon", "wait=²", "wait=x, wait=1",
    "wait=9999999999", "return=minimal", ",;=,", "waiting=1"])  # fmt: skip
async def test_a_preference_that_is_none_is_ignored(people: People, given):
    await away(people, "k1")
    answer = await people.api.get("/queue/k1", headers={"prefer": given.encode()})
    assert (answer.status_code, answer.json()["state"]) == (200, "away")
    assert "preference-applied" not in answer.headers


async def test_a_ticket_without_a_key_can_only_be_looked_at(people: People):
    await people.come()
    (ticket,) = (await people.queue())["labels"][0]["tickets"]
    answer = await people.look(ticket["ticket"], "wait=20")
    assert (answer.json()["state"], answer.json()["position"]) == ("waiting", 1)
    assert "preference-applied" not in answer.headers


async def test_a_grant_made_while_nobody_asked_is_taken_by_whoever_attends(people: People):
    """The plain look leaves the grant with its attempt; with a preference the caller holds it."""
    await publish(people.api, "n1", **{LABEL: ["s1"]})
    grant = (await people.start(key="k1")).json()
    answer = await people.look("k1", "wait=5")
    assert (answer.json()["state"], answer.json()["leaseToken"]) == ("granted", grant["leaseToken"])


@pytest.mark.parametrize("how", ["by key", "by ticket"])
async def test_giving_up_ends_the_call_that_waits_at_once_and_is_safe_to_repeat(make_people, redis, how):
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


async def test_a_ticket_that_is_away_can_be_given_up(people: People):
    await away(people, "k1")
    assert (await people.give_up("k1")).status_code == 200
    assert (await people.queue())["away"] == 0


async def test_a_granted_ticket_is_not_given_up_but_given_back(people: People, redis):
    await publish(people.api, "n1", **{LABEL: ["s1"]})
    await people.start(key="k1")
    problem = refused(await people.give_up("k1"), "ticket-granted", 409)
    assert problem["browserId"] == "s1"
    assert "/session/return" in problem["detail"]
    assert redis.exists("session:s1")


async def test_the_length_of_each_line_is_a_metric(people: People):
    for label in (LABEL, LABEL, "Shop:Firefox"):
        await people.come(label)
    text = (await people.api.get("/metrics")).text
    assert f'hub_borrow_queue_length{{label="{LABEL}"}} 2.0' in text
    assert 'hub_borrow_queue_length{label="Shop:Firefox"} 1.0' in text
    await people.go_home()


@pytest.fixture(scope="module")
def live(_server):
    """A hub in a process of its own, whose connections can be cut; every test has a label of its own."""
    process = HubProcess({"HUB_REDIS_URL": _server.url, "HUB_KEY_PREFIX": "queue:", "HUB_NODE_TIMEOUT": "600"})
    process.wait_until_ready()
    yield process
    process.kill()


@pytest.fixture
async def callers(live: HubProcess) -> AsyncIterator[People]:
    """People whose calls are connections."""
    async with live.client("admin") as api:
        api.headers["x-hub-secret"] = live.runner_secret
        found = People(api)
        yield found
        await found.go_home()
