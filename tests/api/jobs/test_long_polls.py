"""Calls that wait: their time, what ends them, and what becomes of a claim whose caller has hung up."""

import asyncio
import json
import time

import pytest

from hub.api.handling import long_polls
from tests.api.jobs.people import J, is_problem
from tests.world import PATIENCE_S, SLACK_S, eventually


def edge_of(person):
    return person.api._transport.app


def serving_of(person):
    return edge_of(person).app.state.serving


async def waits(hub, channel):
    """Wait until a caller listens on the channel."""

    async def heard():
        return bool((await hub.store.read("PUBSUB", "NUMSUB", channel))[1])

    await eventually(heard)


async def test_a_long_poll_may_last_longer_than_the_request_timeout(make_people):
    async with make_people(request_timeout_s=4) as people:
        alice = people["alice"]
        worker = await alice.offering()
        task = await alice.task()
        await alice.claim(worker)
        await alice.call("PUT", "/rooms/lab/providers", {"category": "frames", "name": "x", "worker_id": worker})

        async def timed(call):
            began = time.monotonic()
            answer = await call
            assert 5 <= time.monotonic() - began < 5 + SLACK_S
            return answer

        found, claimed, read = await asyncio.gather(
            timed(alice.look(task, "wait=5")),
            timed(alice.claim(worker, waitSeconds=5)),
            timed(alice.call("GET", "/rooms/lab/providers/lab:frames:x", headers={"prefer": "wait=5"})),
        )
        assert (found.status_code, found.headers["preference-applied"]) == (200, "wait=5")
        assert found.json()["status"] == "claimed"
        assert claimed.json() == {"task": None}
        assert "within 5 s" in is_problem(read, 504, "provider-timeout")["detail"]


async def test_a_long_poll_is_answered_as_soon_as_its_task_ends(alice):
    worker = await alice.offering()
    task = await alice.task()
    waiter = asyncio.create_task(alice.look(task, "respond-async, wait=600"))
    store = serving_of(alice).hub.store
    await waits(serving_of(alice).hub, store.keys.task_done(task.replace("-", "")))
    await alice.claim(worker, start=True)
    await alice.move(task, "completed")
    answer = await asyncio.wait_for(waiter, 20)
    assert (answer.json()["status"], answer.headers["preference-applied"]) == ("completed", "wait=60")
    again = await alice.look(task, "wait=60")
    assert "preference-applied" not in again.headers


@pytest.mark.parametrize("prefer", ["wait=0", "WAIT=1", "wait = 1", "wait=x", "respond-async", ""])
async def test_a_request_without_a_wait_preference_is_answered_at_once(alice, prefer):
    await alice.offering()
    answer = await alice.look(await alice.task(), prefer)
    assert answer.status_code == 200
    assert "preference-applied" not in answer.headers


async def test_a_wait_preference_is_found_in_any_of_several_prefer_headers(make_people):
    async with make_people(long_poll_max_wait_s=0.2) as people:
        alice = people["alice"]
        await alice.offering()
        task = await alice.task()
        headers = [("authorization", "Bearer alice-t"), ("prefer", "respond-async"), ("prefer", "wait=7")]
        answer = await alice.api.get(f"{J}/tasks/{task}", headers=headers)
        assert answer.headers["preference-applied"] == "wait=0.2"


async def test_a_waiting_claim_gets_a_task_as_soon_as_one_is_submitted(alice):
    worker = await alice.offering()
    waiter = asyncio.create_task(alice.claim(worker, waitSeconds=30, limit=5, start=True))
    hub = serving_of(alice).hub
    await waits(hub, hub.store.keys.job_notice("lab:modifiers:Rotate"))
    task = await alice.task()
    answer = (await asyncio.wait_for(waiter, 20)).json()
    assert [each["id"] for each in answer["tasks"]] == [task]
    assert answer["task"]["status"] == "running"


async def test_long_polls_end_when_the_hub_stops(alice, monkeypatch):
    monkeypatch.setattr(long_polls, "PIECE_S", 0.1)
    worker = await alice.offering()
    task = await alice.task()
    await alice.move(task, "cancelled")
    left = await alice.task()
    other = await alice.worker()
    waiters = [
        asyncio.create_task(alice.look(left, "wait=60")), asyncio.create_task(alice.claim(other, waitSeconds=60)),
    ]  # fmt: skip
    hub = serving_of(alice).hub
    await waits(hub, hub.store.keys.task_done(left.replace("-", "")))
    serving_of(alice).stop()
    found, claimed = await asyncio.wait_for(asyncio.gather(*waiters), 20)
    assert (found.status_code, found.json()["status"]) == (200, "pending")
    assert claimed.json() == {"task": None}
    assert (await alice.claim(worker)).json()["task"]["id"] == left  # what needs no waiting is still served


class Ghost:
    """A caller that hangs up once its request is sent, or after the hub has checked `looks` times for a hang-up."""

    def __init__(self, person, looks=0):
        self._app = edge_of(person)
        self._looks = looks
        self._parts = []

    async def call(self, method, path, body=b"", headers=()):
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive():
            if messages:
                return messages.pop()
            if self._looks:
                self._looks -= 1
                await asyncio.Event().wait()  # the hub only checks; it does not wait for the answer
            return {"type": "http.disconnect"}

        async def send(message):
            self._parts.append(message)

        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": f"{J}{path}", "raw_path": f"{J}{path}".encode(), "query_string": b"", "root_path": "",
            "headers": [(b"authorization", b"Bearer alice-t"), *headers], "client": ("127.0.0.1", 1),
            "server": ("hub", 80),
        }  # fmt: skip
        await self._app(scope, receive, send)


@pytest.mark.parametrize("looks", [0, 1], ids=["before", "meanwhile"])
async def test_a_task_claimed_for_a_caller_who_hung_up_goes_back_into_the_queue(alice, looks):
    worker = await alice.offering()
    first, second = await alice.task(n=1), await alice.task(n=2)
    for more in ({}, {"limit": 2, "start": True}, {"waitSeconds": 1}):
        await Ghost(alice, looks).call("POST", "/tasks/claim", json.dumps({"worker_id": worker, **more}).encode())
        found = [(await alice.look(task)).json() for task in (first, second)]
        assert [(task["status"], task["queue_position"]) for task in found] == [("pending", 1), ("pending", 2)]
        assert [task["worker_id"] for task in found] == [None, None]


async def test_a_claim_repeated_with_its_key_gets_the_task_of_the_first_attempt(alice):
    worker = await alice.offering()
    task = await alice.task()
    body = json.dumps({"worker_id": worker}).encode()
    await Ghost(alice, 1).call("POST", "/tasks/claim", body, [(b"idempotency-key", b"claim-1")])
    assert (await alice.look(task)).json()["status"] == "claimed"
    assert (await alice.claim(worker)).json() == {"task": None}
    again = await alice.claim(worker, {"idempotency-key": "claim-1"})
    assert again.json()["task"]["id"] == task


async def test_a_wait_ends_when_its_caller_hangs_up(alice, monkeypatch):
    monkeypatch.setattr(long_polls, "PIECE_S", 0.1)
    worker = await alice.offering()
    task = await alice.task()
    await alice.claim(worker)
    body = json.dumps({"worker_id": worker, "waitSeconds": 60}).encode()
    async with asyncio.timeout(20):
        await Ghost(alice).call("GET", f"/tasks/{task}", headers=[(b"prefer", b"wait=60")])
        await Ghost(alice).call("POST", "/tasks/claim", body)
    assert (await alice.look(task)).json()["status"] == "claimed"


async def test_a_read_waits_for_the_answer_of_the_provider_which_is_then_cached(make_people):
    async with make_people(provider_long_poll_default_s=PATIENCE_S) as people:
        await ask_and_answer(people["alice"])


async def ask_and_answer(alice):
    made = await alice.call(
        "PUT", "/rooms/lab/providers", {"category": "frames", "name": "x", "content_type": "text/csv"}
    )
    provider = made.json()["id"]
    path = "/rooms/lab/providers/lab:frames:x"

    async def read(query, *, prefer=None, upload=True):
        waiter = asyncio.create_task(alice.call("GET", path + query, headers={"prefer": prefer} if prefer else {}))
        if upload:
            hub = serving_of(alice).hub
            digest = {"?b=2&a=1&a=3": "4e1043651ed0", "": "44136fa355b3"}[query]
            asked = None
            while asked is None:
                wanted = await hub.store.read("KEYS", "hub:wanted:*")
                asked = next((each for each in wanted if digest in each), None)
            whole = asked.rpartition(":")[2]
            sent = await alice.call(
                "POST", f"/providers/{provider}/results", content=b"\x00\xffdata", headers={"x-request-hash": whole}
            )
            assert sent.status_code == 204
            assert sent.content == b""
        return await asyncio.wait_for(waiter, 20)

    first = await read("?b=2&a=1&a=3", prefer="wait=600")
    assert (first.status_code, first.content) == (200, b"\x00\xffdata")
    assert first.headers["content-type"] == "text/csv; charset=utf-8"
    assert first.headers["preference-applied"] == "wait=30"
    assert "preference-applied" not in (await read("?a=3&b=2", prefer="wait=9", upload=False)).headers
    assert "preference-applied" not in (await read("")).headers
