"""An unreadable key affects one record alone: every list of the hub is still answered, with the other records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from redis import Redis

from hub.api.console import overview
from hub.doctor import examine
from tests.world import borrow, eventually, publish

J = "/v1/joblib"
PLACES = {"{room_id}": "lab", "{job_name}": "lab:modifiers:one"}
CONSOLE = ("overview", "jobs", "workers", "tasks", "tasks?status=failed", "schedules", "logins", "settings", "stuck")
ENDLESS = "/events"
# Page -> text of the first of two records there, which must be shown although the second cannot be read.
SHOWN = {
    f"{J}/rooms/lab/tasks": "one", f"{J}/rooms/lab/jobs": "lab:modifiers:one", f"{J}/rooms/lab/workers": "worker_one",
    f"{J}/rooms/lab/providers": "lab:files:one", f"{J}/rooms/lab/schedules": '"one"', "/nodes": '"one"',
    "/pools": "gpu:one", "/sessions": '"s1"', "/queue": "wait:one", "/admin/tokens": "token-one",
    "/admin/caps": "gpu:one",
}  # fmt: skip


class House:
    """A hub with two of everything, `one` and `two`."""

    def __init__(self, api: httpx.AsyncClient, redis: Redis) -> None:
        self.api, self.redis = api, redis
        self.names: dict[str, str] = {}
        self.waiting: list[asyncio.Task[httpx.Response]] = []

    async def make(self) -> None:
        for number, which in enumerate(("one", "two"), 1):
            job = await self.made("PUT", f"{J}/rooms/lab/jobs", {"category": "modifiers", "name": which})
            self.names[f"worker_{which}"] = job["worker_id"]
            made = await self.made("POST", f"{J}/rooms/lab/tasks/lab:modifiers:{which}", {"payload": {}})
            self.names[which] = made["id"]
            provider = {"category": "files", "name": which, "worker_id": job["worker_id"]}
            await self.made("PUT", f"{J}/rooms/lab/providers", provider)
            schedule = {"job": f"lab:modifiers:{which}", "everySeconds": 60}
            await self.made("PUT", f"{J}/rooms/lab/schedules/{which}", schedule)
            await publish(self.api, which, **{f"gpu:{which}": [f"s{number}"]})
            assert (await borrow(self.api, f"gpu:{which}")).status_code == 200
            self.waiting.append(asyncio.create_task(borrow(self.api, f"wait:{which}")))
            await self.made("PUT", f"/admin/caps/gpu:{which}", {"cap": 5})
        for which in ("one", "two"):
            token = await self.made("POST", "/admin/tokens", {"user": f"token-{which}", "superuser": True})
            self.names[f"token_{which}"] = token["id"]
            self.api.headers.setdefault("authorization", f"Bearer {token['token']}")
        await eventually(lambda: self.redis.exists("hub:line:wait:one", "hub:line:wait:two") == 2)
        [self.names["ticket"]] = self.redis.zrange("hub:line:wait:two", 0, -1)

    async def made(self, method: str, path: str, body: Any) -> Any:
        answer = await self.api.request(method, path, json=body)
        assert answer.status_code < 300, answer.text
        return answer.json()

    async def lists(self) -> list[str]:
        """Return everything that can be read without the name of a record."""
        contract = (await self.api.get("/openapi.json")).json()["paths"]
        found = [path for path, operations in contract.items() if "get" in operations and path != ENDLESS]
        for place, text in PLACES.items():
            found = [path.replace(place, text) for path in found]
        return [path for path in found if "{" not in path] + [f"/console/{each}" for each in CONSOLE]

    def keys_of_two(self) -> list[str]:
        """Return the keys of the second of everything."""
        names = [text.replace("-", "") for name, text in self.names.items() if not name.endswith("one")]
        ticket = self.names["ticket"]
        return sorted(key for key in self.redis.keys("*") if any(n in key for n in (*names, "two", "s2", ticket)))

    def spoil(self, key: str, kind: str) -> None:
        """Have another program write a key."""
        type_ = self.redis.type(key)
        self.redis.rename(key, "kept")
        if kind == "foreign" and type_ != "string":
            self.redis.set(key, "x")
        elif kind == "foreign":
            self.redis.rpush(key, "x")
        elif type_ == "hash":
            self.redis.hset(key, mapping=dict.fromkeys(self.redis.hgetall("kept"), "x"))
        elif type_ == "zset":
            self.redis.zadd(key, {"x": 1})
        elif type_ == "set":
            self.redis.sadd(key, "x")
        elif type_ == "list":
            self.redis.rpush(key, "x")
        else:
            self.redis.set(key, "x")


@pytest.fixture
async def house(make_api, redis, monkeypatch) -> AsyncIterator[House]:
    monkeypatch.setattr(overview, "FRESH_S", 0)  # an overview that is reused would hide what a later key breaks
    async with make_api(borrow_queue_timeout_s=60) as api:
        found = House(api, redis)
        await found.make()
        yield found
        for task in found.waiting:
            task.cancel()
        await asyncio.gather(*found.waiting, return_exceptions=True)


@pytest.mark.parametrize("kind", ["foreign", "garbage"])
async def test_a_key_of_the_wrong_type_removes_only_its_own_record_from_lists(house, kind):
    lists = await house.lists()
    before = {path: (await house.api.get(path)).status_code for path in lists}
    assert len([status for status in before.values() if status == 200]) > 30
    keys = house.keys_of_two()
    assert len(keys) > 20
    wrong = []
    for key in keys:
        house.spoil(key, kind)
        for path in lists:
            answer = await house.api.get(path)
            shown = SHOWN.get(path, "")
            if answer.status_code != before[path] or house.names.get(shown, shown) not in answer.text:
                wrong.append((key, path, answer.status_code))
        house.redis.rename("kept", key)
    assert wrong == []


async def test_the_doctor_names_a_key_it_cannot_read_and_goes_on(house, hub):
    unnamed = []
    for key in house.keys_of_two():
        house.spoil(key, "foreign")
        found = await examine(hub.store, settings=hub.settings, pause_s=0)
        if not any(each.subject.endswith(key) or "cannot be read" in each.problem for each in found):
            unnamed.append(key)
        house.redis.rename("kept", key)
    assert unnamed == []
