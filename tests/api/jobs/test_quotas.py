"""Quotas: a user at its quota is refused, other users are not, and tasks that have ended do not count."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from redis import Redis

from hub.core import Hub
from tests.api.jobs.people import JOB, Person, is_problem

USERS = ("alice", "bob", "cleo", "dan", "eve")
TOKENS = "".join(f'[[tokens]]\ntoken = "{name}-t"\nuser = "{name}"\n' for name in USERS)
TOKENS += '[[tokens]]\ntoken = "root-t"\nuser = "root"\nsuperuser = true\n'
MOST = {
    "user_tasks_max_bytes": 50_000, "user_schemas_max_bytes": 20_000, "user_schedules_max": 3, "user_providers_max": 3,
    "user_rooms_max": 4, "user_keys_max": 3, "user_reads_max": 3,
}  # fmt: skip
LARGE = {"payload": {"text": "x" * 10_000}}
FOR_ALL = "@global:modifiers:All"


class Shop:
    """A hub with small quotas; `root` offers FOR_ALL to all rooms and JOB and a provider in room `lab`."""

    def __init__(self, api: httpx.AsyncClient, hub: Hub, redis: Redis) -> None:
        self.hub, self.redis = hub, redis
        self.people = {name: Person(api, name) for name in (*USERS, "root")}
        self.worker: dict[str, str] = {}

    async def furnish(self) -> None:
        root = self.people["root"]
        await self.hub.clock.tick()
        self.worker["root"] = await root.offering()
        for room, kind, about in (("@global", "jobs", {"category": "modifiers", "name": "All"}),
                                  ("lab", "providers", {"category": "frames", "name": "All"})):  # fmt: skip
            made = await root.call("PUT", f"/rooms/{room}/{kind}", {**about, "worker_id": self.worker["root"]})
            assert made.status_code == 201, made.text

    def used(self) -> dict[str, dict[str, float]]:
        """Return what is counted, by kind and owner."""
        kinds = {key.rpartition(":")[2]: key for key in self.redis.scan_iter("hub:used:*")}
        return {kind: dict(self.redis.zrange(key, 0, -1, withscores=True)) for kind, key in kinds.items()}


@pytest.fixture
async def shop(make_api, redis: Redis, tmp_path) -> AsyncIterator[Shop]:
    path = tmp_path / "tokens.toml"
    path.write_text(TOKENS)
    async with make_api(tokens_file=path, **MOST) as api:
        found = Shop(api, api._transport.app.app.state.serving.hub, redis)
        await found.furnish()
        yield found


async def a_task(shop: Shop, who: Person, name: str) -> httpx.Response:
    return await who.submit(LARGE)


async def without_a_task(shop: Shop, who: Person, answer: httpx.Response) -> None:
    assert (await who.move(answer.json()["id"], "cancelled")).status_code == 200


async def a_dead_letter(shop: Shop, who: Person, name: str) -> httpx.Response:
    """Submit a task; cancel it; try it again: that is another one, and the first counts no more."""
    first = await who.submit(LARGE)
    if first.status_code != 202:
        return first
    await without_a_task(shop, who, first)
    return await who.call("POST", f"/tasks/{first.json()['id']}/retry")


async def a_schema(shop: Shop, who: Person, name: str) -> httpx.Response:
    worker = shop.worker.setdefault(str(id(who)), "") or await who.worker()
    shop.worker[str(id(who))] = worker
    schema = {"title": "x" * 4_000}
    wanted = {"category": "modifiers", "name": name, "schema": schema, "worker_id": worker}
    return await who.call("PUT", "/rooms/lab/jobs", wanted)


async def a_schedule(shop: Shop, who: Person, name: str) -> httpx.Response:
    return await who.call("PUT", f"/rooms/lab/schedules/{name}", {"job": f"lab:{JOB}", "everySeconds": 3600})


async def without_a_schedule(shop: Shop, who: Person, answer: httpx.Response) -> None:
    path = f"/rooms/lab/schedules/{answer.json()['name']}"
    assert (await who.call("DELETE", path)).status_code == 204


async def a_provider(shop: Shop, who: Person, name: str) -> httpx.Response:
    return await who.call("PUT", "/rooms/lab/providers", {"category": "frames", "name": name})


async def without_a_provider(shop: Shop, who: Person, answer: httpx.Response) -> None:
    assert (await who.call("DELETE", f"/providers/{answer.json()['id']}")).status_code == 204


async def a_room(shop: Shop, who: Person, name: str) -> httpx.Response:
    return await who.call("POST", f"/rooms/room-{name}/tasks/{FOR_ALL}", {"payload": {}})


async def a_key(shop: Shop, who: Person, name: str) -> httpx.Response:
    return await who.submit({"payload": {}}, headers={"idempotency-key": name})


async def a_question(shop: Shop, who: Person, name: str) -> httpx.Response:
    path = f"/rooms/lab/providers/lab:frames:All?about={name}"
    return await who.call("GET", path, headers={"prefer": "wait=0"})


@dataclass(frozen=True)
class Bounded:
    """Something of which a user may have so much. ok: what adding one is answered with."""

    setting: str
    add: Callable[[Shop, Person, str], Awaitable[httpx.Response]]
    take_away: Callable[[Shop, Person, httpx.Response], Awaitable[None]] | None = None
    fits: int = 3
    ok: int = 201


THINGS = [
    Bounded("HUB_USER_TASKS_MAX_BYTES", a_task, without_a_task, 4, 202),
    Bounded("HUB_USER_TASKS_MAX_BYTES", a_dead_letter, without_a_task, 4, 202),
    Bounded("HUB_USER_SCHEMAS_MAX_BYTES", a_schema, None, 4),
    Bounded("HUB_USER_SCHEDULES_MAX", a_schedule, without_a_schedule),
    Bounded("HUB_USER_PROVIDERS_MAX", a_provider, without_a_provider),
    Bounded("HUB_USER_ROOMS_MAX", a_room, without_a_task, 4, 202),
    Bounded("HUB_USER_KEYS_MAX", a_key, None, 3, 202),
    Bounded("HUB_USER_READS_MAX", a_question, None, 3, 504),
]


@pytest.mark.parametrize("thing", THINGS, ids=lambda each: each.add.__name__)
async def test_a_user_at_its_quota_is_refused_and_another_user_is_not(shop, thing):
    weak, strong = shop.people["alice"], shop.people["bob"]
    taken = [await thing.add(shop, weak, f"n{number}") for number in range(thing.fits)]
    assert [each.status_code for each in taken] == [thing.ok] * thing.fits, taken[-1].text
    counted = shop.used()
    refused = is_problem(await thing.add(shop, weak, "more"), 409, "quota-exceeded")
    assert refused["detail"].startswith("You hold")
    assert thing.setting in refused["detail"]
    if thing.add is not a_dead_letter:
        assert shop.used() == counted, "a refusal has left something"
    assert (await thing.add(shop, strong, "other")).status_code == thing.ok
    if thing.take_away:
        await thing.take_away(shop, weak, taken[0])
        assert (await thing.add(shop, weak, "again")).status_code == thing.ok


@pytest.mark.parametrize("thing", [each for each in THINGS if each.add in (a_task, a_schema, a_schedule, a_provider)],
                         ids=lambda each: each.add.__name__)  # fmt: skip
async def test_a_room_refuses_a_part_of_what_five_users_may_add_by_their_quotas(shop, thing):
    taken, name = 0, 0
    refusals: list[dict[str, Any]] = []
    for who in USERS:
        for _ in range(thing.fits):
            answer = await thing.add(shop, shop.people[who], f"n{(name := name + 1)}")
            if answer.status_code == thing.ok:
                taken += 1
            else:
                refusals.append(is_problem(answer, 409, "quota-exceeded"))
    assert len(refusals) + taken == 5 * thing.fits
    assert refusals, "one room holds what five users may have"
    assert refusals[0]["detail"].startswith("Room lab holds")


async def test_a_repeated_submit_is_answered_even_when_the_quota_is_used_up(shop):
    alice = shop.people["alice"]
    first = await alice.submit(LARGE, headers={"idempotency-key": "k"})
    assert first.status_code == 202
    for _ in range(3):
        assert (await alice.submit(LARGE)).status_code == 202
    is_problem(await alice.submit(LARGE), 409, "quota-exceeded")
    counted = shop.used()
    again = await alice.submit(LARGE, headers={"idempotency-key": "k"})
    assert (again.status_code, again.json()["id"]) == (202, first.json()["id"])
    assert shop.used() == counted


async def test_a_unique_submit_that_adds_no_task_is_answered_even_when_the_quota_is_used_up(shop):
    alice = shop.people["alice"]
    first = await alice.submit({**LARGE, "uniqueKey": "one"})
    for _ in range(3):
        assert (await alice.submit(LARGE)).status_code == 202
    counted = shop.used()
    again = await alice.submit({**LARGE, "uniqueKey": "one"})
    assert again.json()["id"] == first.json()["id"]
    assert shop.used() == counted


async def test_many_payloads_are_accepted_all_or_none_under_a_quota(shop):
    many = [{"text": "x" * 600}] * 130  # three scripts of 64: the second one would be over
    alice = shop.people["alice"]
    refused = await alice.call("POST", f"/rooms/lab/tasks/lab:{JOB}", {"payloads": many})
    is_problem(refused, 409, "quota-exceeded")
    assert "user" not in str(shop.used().get("tasks", {}))
    assert (await alice.call("GET", "/rooms/lab/tasks")).json()["total"] == 0


async def test_many_payloads_for_an_internal_job_are_accepted_all_or_none_under_a_quota(shop, redis):
    job, alice = "@internal:modifiers:Mean", shop.people["alice"]
    await shop.hub.jobs.ensure_internal(job, {}, "{}")
    before = shop.used()
    many = [{"text": "x" * 600}] * 130
    refused = await alice.call("POST", f"/rooms/lab/tasks/{job}", {"payloads": many})
    is_problem(refused, 409, "quota-exceeded")
    assert shop.used() == before
    assert (await alice.call("GET", "/rooms/lab/tasks")).json()["total"] == 0
    assert redis.xlen(shop.hub.store.keys.taskiq) == 0
    accepted = await alice.call("POST", f"/rooms/lab/tasks/{job}", {"payloads": many[:30]})
    assert accepted.status_code == 202, accepted.text
    assert redis.xlen(shop.hub.store.keys.taskiq) == 30
    assert shop.used()["tasks"]["room:lab"] == 30 * (len('{"text":""}') + 600 + 512)


async def test_ended_tasks_do_not_count_and_a_user_who_holds_nothing_leaves_no_counter(shop, redis):
    alice, root = shop.people["alice"], shop.people["root"]
    before = shop.used()
    tasks = [(await alice.submit({"payload": {"n": n}})).json()["id"] for n in range(3)]
    elsewhere = (await a_room(shop, alice, "one")).json()["id"]
    schedule, provider = await a_schedule(shop, alice, "s"), await a_provider(shop, alice, "p")
    changed = {"job": f"lab:{JOB}", "everySeconds": 60, "payload": {"text": "x" * 900}}
    assert (await alice.call("PUT", "/rooms/lab/schedules/s", changed)).status_code == 200
    await alice.move(tasks[0], "cancelled")
    claimed = (await root.claim(shop.worker["root"], limit=5, start=True)).json()["tasks"]
    assert {each["id"] for each in claimed} == {*tasks[1:], elsewhere}
    for each, status in zip(claimed, ("completed", "failed", "completed"), strict=True):
        moved = await root.move(each["id"], status, **({"error": "no"} if status == "failed" else {}))
        assert moved.status_code == 200, moved.text
    await without_a_schedule(shop, alice, schedule)
    await without_a_provider(shop, alice, provider)
    assert shop.used() == before
    assert redis.hgetall("hub:room_openers").keys() == {"lab"}


async def test_a_refused_schedule_leaves_the_key_of_another_program_as_it_is(shop, redis):
    root = shop.people["root"]
    assert [(await a_schedule(shop, root, f"n{number}")).status_code for number in range(3)] == [201] * 3
    redis.hset("hub:schedule:lab:s", "theirs", "precious")
    is_problem(await a_schedule(shop, root, "s"), 409, "quota-exceeded")
    assert redis.hgetall("hub:schedule:lab:s") == {"theirs": "precious"}
    assert (await root.call("DELETE", "/rooms/lab/schedules/n0")).status_code == 204
    assert (await a_schedule(shop, root, "s")).status_code == 201
    assert not redis.hexists("hub:schedule:lab:s", "theirs")


async def test_a_schedule_makes_no_task_and_says_why_while_its_user_is_at_the_quota(shop, redis):
    alice = shop.people["alice"]
    assert (await a_schedule(shop, alice, "s")).status_code == 201
    for _ in range(4):
        assert (await alice.submit(LARGE)).status_code == 202
    await alice.submit({"payload": {"text": "x" * 6_000}})
    due = int(redis.hget("hub:schedule:lab:s", "due")) - 3_600_000_000
    redis.hset("hub:schedule:lab:s", "due", due)
    redis.zadd("hub:schedules", {"lab:s": due})
    redis.hset("hub:schedule:lab:s", "payload", '{"text":"%s"}' % ("x" * 9_000))
    assert await shop.hub.schedules.fire_due() == 0
    assert (await shop.hub.schedules.get("lab", "s")).why == "quota"


async def test_a_job_whose_owner_is_lost_counts_for_the_next_user_that_registers_it(shop, redis):
    assert (await a_schema(shop, shop.people["alice"], "s")).status_code == 201
    (job,) = [key for key in redis.keys("hub:job:lab:*") if redis.hget(key, "by") and JOB not in key]
    redis.hdel(job, "by")
    redis.hset(job, "bytes", 1)
    assert (await a_schema(shop, shop.people["bob"], "s")).status_code in (200, 201)
    assert redis.hget(job, "by")
