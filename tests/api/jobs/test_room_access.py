"""Tokens that are bound to rooms: what they reach over HTTP, and what the lists show them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.api.jobs.people import J, Person, is_problem

FILE = """
[[tokens]]
token = "free-t"
user = "ann"
[[tokens]]
token = "bound-t"
user = "ann"
rooms = ["lab"]
[[tokens]]
token = "both-t"
user = "ann"
rooms = ["lab", "@global"]
superuser = true
[[tokens]]
token = "root-t"
user = "root"
superuser = true
"""
ROTATE = {"category": "modifiers", "name": "Rotate"}
FRAMES = {"category": "frames", "name": "All"}


class Rooms:
    """Two rooms and what is offered to all, with a job, a provider and a task in each; ann owns the workers."""

    def __init__(self, api: httpx.AsyncClient) -> None:
        self.free, self.bound, self.both, self.root = (Person(api, name) for name in ("free", "bound", "both", "root"))
        self.worker: dict[str, str] = {}
        self.task: dict[str, str] = {}
        self.provider: dict[str, str] = {}

    async def furnish(self) -> None:
        for room in ("lab", "other", "@global"):
            by = self.root if room == "@global" else self.free
            job = await by.call("PUT", f"/rooms/{room}/jobs", ROTATE)
            assert job.status_code == 201, job.text
            self.worker[room] = job.json()["worker_id"]
            self.provider[room] = (await by.call("PUT", f"/rooms/{room}/providers", FRAMES)).json()["id"]
            submitted = await self.free.call("POST", f"/rooms/{room}/tasks/{room}:modifiers:Rotate", {"payload": {}})
            assert submitted.status_code == 202, submitted.text
            self.task[room] = submitted.json()["id"]


@pytest.fixture
async def rooms(make_api, tmp_path) -> AsyncIterator[Rooms]:
    path = tmp_path / "tokens.toml"
    path.write_text(FILE)
    async with make_api(tokens_file=path, anonymous_reads=False, provider_long_poll_default_s=0.1) as api:
        found = Rooms(api)
        await found.furnish()
        yield found


BEYOND: list[tuple[str, str, Any]] = [
    ("PUT", "/rooms/other/jobs", ROTATE), ("PUT", "/rooms/other/providers", FRAMES),
    ("PUT", "/rooms/@global/jobs", ROTATE), ("PUT", "/rooms/@global/providers", FRAMES),
    ("GET", "/rooms/other/jobs", None), ("GET", "/rooms/other/tasks", None), ("GET", "/rooms/other/workers", None),
    ("GET", "/rooms/other/providers", None), ("GET", "/rooms/other/jobs/other:modifiers:Rotate", None),
    ("GET", "/rooms/lab/jobs/other:modifiers:Rotate", None),
    ("GET", "/rooms/lab/jobs/other:modifiers:Rotate/tasks", None),
    ("GET", "/rooms/other/jobs/@global:modifiers:Rotate/tasks", None),
    ("GET", "/rooms/other/providers/other:frames:All", None),
    ("GET", "/rooms/@global/providers/other:frames:All", None),
    ("GET", "/rooms/lab/providers/other:frames:All/info", None),
    ("GET", "/rooms/@global/providers/other:frames:All/info", None),
    ("POST", "/rooms/other/tasks/lab:modifiers:Rotate", {}),
    ("POST", "/rooms/other/tasks/@global:modifiers:Rotate", {}),
    ("POST", "/rooms/lab/tasks/other:modifiers:Rotate", {}), ("POST", "/rooms/@global/tasks/lab:modifiers:Rotate", {}),
    ("PUT", "/rooms/other/schedules/s", {"job": "lab:modifiers:Rotate", "everySeconds": 60}),
    ("PUT", "/rooms/lab/schedules/s", {"job": "other:modifiers:Rotate", "everySeconds": 60}),
    ("GET", "/rooms/other/schedules", None), ("GET", "/rooms/other/schedules/s", None),
    ("PATCH", "/rooms/other/schedules/s", {"paused": True}), ("DELETE", "/rooms/other/schedules/s", None),
    ("GET", "/workers", None),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "body"), BEYOND, ids=lambda value: str(value))
async def test_a_token_bound_to_rooms_is_refused_in_every_other_room(rooms, method, path, body):
    refused = await rooms.bound.call(method, path, body)
    assert "room" in is_problem(refused, 403, "forbidden")["detail"]
    assert (await rooms.free.call(method, path, body)).status_code in (200, 201, 202, 403, 404, 504)


async def test_a_token_bound_to_rooms_does_in_its_room_what_other_tokens_do_there(rooms):
    who, lab = rooms.bound, rooms.worker["lab"]
    for path in ("/rooms/lab/jobs", "/rooms/lab/tasks", "/rooms/lab/workers", "/rooms/lab/providers",
                 "/rooms/lab/jobs/lab:modifiers:Rotate", "/rooms/lab/jobs/lab:modifiers:Rotate/tasks",
                 "/rooms/lab/providers/lab:frames:All/info", f"/tasks/{rooms.task['lab']}"):  # fmt: skip
        assert (await who.call("GET", path)).status_code == 200, path
    assert (await who.call("PUT", "/rooms/lab/jobs", {**ROTATE, "worker_id": lab})).status_code == 200
    claimed = (await who.claim(lab)).json()["task"]
    assert claimed["id"] == rooms.task["lab"]
    assert (await who.move(claimed["id"], "running")).status_code == 200
    assert (await who.move(claimed["id"], "failed")).status_code == 200
    assert (await who.call("POST", f"/tasks/{claimed['id']}/retry")).status_code == 202
    assert (await who.call("DELETE", f"/providers/{rooms.provider['lab']}")).status_code == 204
    assert (await who.call("DELETE", f"/workers/{lab}")).status_code == 204


async def test_a_token_bound_to_rooms_sees_and_uses_what_is_offered_to_all_rooms(rooms):
    who = rooms.bound
    names = {each["full_name"] for each in (await who.call("GET", "/rooms/lab/jobs")).json()["items"]}
    assert names == {"lab:modifiers:Rotate", "@global:modifiers:Rotate"}
    for path in ("/rooms/@global/jobs", "/rooms/@global/tasks", "/rooms/@global/workers", "/rooms/@global/providers",
                 "/rooms/lab/jobs/@global:modifiers:Rotate", "/rooms/lab/providers/@global:frames:All/info",
                 f"/tasks/{rooms.task['@global']}"):  # fmt: skip
        assert (await who.call("GET", path)).status_code == 200, path
    task = (await who.call("POST", "/rooms/lab/tasks/@global:modifiers:Rotate", {"payload": {}})).json()
    assert (await who.move(task["id"], "cancelled")).status_code == 200
    assert (await who.call("GET", "/rooms/lab/providers/@global:frames:All")).status_code == 504


async def test_a_bound_token_gets_not_found_for_ids_of_things_in_other_rooms(rooms):
    who, other = rooms.bound, rooms.task["other"]
    unknown = str(uuid4())
    for method, path, body in (
        ("GET", "/tasks/{}", None), ("PATCH", "/tasks/{}", {"status": "cancelled"}), ("POST", "/tasks/{}/retry", None),
    ):  # fmt: skip
        said = [
            is_problem(await who.call(method, path.format(i), body), 404, "task-not-found") for i in (other, unknown)
        ]
        assert said[0]["detail"].replace(other, "") == said[1]["detail"].replace(unknown, "")
    submit = ("POST", "/rooms/lab/tasks/lab:modifiers:Rotate")
    refused = [await who.call(*submit, {"after": [task]}) for task in (other, unknown)]
    assert [answer.status_code for answer in refused] == [422, 422]
    said = [answer.json()["detail"][0] for answer in refused]
    assert said[0]["msg"].replace(other, "") == said[1]["msg"].replace(unknown, "") == "There is no task "
    assert (await who.call(*submit, {"after": [rooms.task["lab"], rooms.task["@global"]]})).status_code == 202
    provider = rooms.provider["other"]
    headers = {"x-request-hash": "0" * 64}
    for method, path in (("DELETE", f"/providers/{provider}"), ("POST", f"/providers/{provider}/results")):
        is_problem(await who.call(method, path, headers=headers), 404, "provider-not-found")
    assert (await rooms.free.look(other)).json()["status"] == "pending"


async def test_reports_on_tasks_of_other_rooms_are_answered_like_reports_on_unknown_tasks(rooms):
    who, worker, own = rooms.bound, rooms.worker["lab"], rooms.task["lab"]
    waits, held, unknown = rooms.task["other"], rooms.task["other"], str(uuid4())

    async def words(*tasks):
        reports = [{"id": task, "status": "failed"} for task in tasks]
        ended = (await who.claim(worker, limit=0, results=reports)).json()["results"]
        said = {"workerId": worker, "tasks": [{"id": task, "progress": 0.5} for task in tasks]}
        noted = (await who.call("POST", "/tasks/progress", said)).json()["tasks"]
        return [[each["outcome"] for each in some] for some in (ended, noted)]

    assert await words(waits, unknown) == [["gone", "gone"], ["gone", "gone"]]
    assert (await rooms.free.claim(rooms.worker["other"])).json()["task"]["id"] == held
    assert await words(held, unknown) == [["gone", "gone"], ["gone", "gone"]]
    assert await words(own) == [["conflict"], ["conflict"]]
    assert await words(rooms.task["@global"]) == [["conflict"], ["conflict"]]


@pytest.mark.parametrize("room", ["other", "@global"])
async def test_a_bound_token_is_refused_its_own_worker_that_serves_other_rooms(rooms, room):
    worker, refused = rooms.worker["other"], []
    if room == "@global":
        worker = (await rooms.both.call("PUT", "/rooms/@global/jobs", ROTATE)).json()["worker_id"]
    refused.append(await rooms.bound.claim(worker))
    refused.append(await rooms.bound.claim(worker, limit=0, results=[{"id": rooms.task["other"], "status": "failed"}]))
    refused.append(await rooms.bound.call("DELETE", f"/workers/{worker}"))
    for answer in refused:
        assert repr(room) in is_problem(answer, 403, "forbidden")["detail"]


async def test_a_token_bound_to_the_global_room_as_well_serves_it(rooms):
    worker = (await rooms.both.call("PUT", "/rooms/@global/jobs", ROTATE)).json()["worker_id"]
    assert (await rooms.both.claim(worker)).json()["task"]["id"] == rooms.task["@global"]


async def test_a_task_of_another_room_submitted_to_a_job_of_the_tokens_room_can_be_served(rooms):
    who, lab = rooms.bound, rooms.worker["lab"]
    submitted = await rooms.free.call("POST", "/rooms/other/tasks/lab:modifiers:Rotate", {"payload": {}})
    claimed = (await who.claim(lab, limit=2)).json()["tasks"]
    assert [each["id"] for each in claimed] == [rooms.task["lab"], submitted.json()["id"]]
    for task in claimed:
        assert (await who.move(task["id"], "running")).status_code == 200
        assert (await who.look(task["id"])).status_code == 200


async def test_a_bound_superuser_is_a_superuser_in_its_rooms_alone(rooms):
    for method, path in (("GET", "/dead"), ("GET", f"/dead/{uuid4()}"), ("DELETE", f"/dead/{uuid4()}")):
        is_problem(await rooms.both.call(method, path), 403, "forbidden")
    shown = {"authorization": "Bearer both-t"}
    for method, path in (("GET", "/admin/tokens"), ("POST", "/admin/tokens"), ("DELETE", "/admin/tokens/x")):
        answer = await rooms.both.api.request(method, path, json={"user": "eve"}, headers=shown)
        assert (answer.status_code, "rooms" in answer.json()["detail"]) == (403, True)


async def test_a_token_made_in_the_store_is_bound_to_its_rooms_like_one_of_the_file(rooms):
    shown = {"authorization": "Bearer root-t"}
    names = ["a b", "lab", "ünï/%20"]
    made = await rooms.root.api.post("/admin/tokens", json={"user": "eve", "rooms": names}, headers=shown)
    assert (made.status_code, made.json()["rooms"]) == (201, names)
    eve = {"authorization": f"Bearer {made.json()['token']}"}
    status = {}
    for room in ("lab", "a%20b", "%C3%BCn%C3%AF%2F%2520", "other", "a+b"):
        status[room] = (await rooms.root.api.get(f"{J}/rooms/{room}/tasks", headers=eve)).status_code
    assert status == {"lab": 200, "a%20b": 200, "%C3%BCn%C3%AF%2F%2520": 200, "other": 403, "a+b": 403}


async def test_a_token_bound_to_rooms_is_refused_reads_elsewhere_even_where_strangers_may_read(make_api, tmp_path):
    path = tmp_path / "tokens.toml"
    path.write_text(FILE)
    async with make_api(tokens_file=path) as api:
        found = Rooms(api)
        await found.furnish()
        assert (await Person(api, "stranger").call("GET", "/rooms/other/tasks")).status_code == 200
        is_problem(await found.bound.call("GET", "/rooms/other/tasks"), 403, "forbidden")


async def test_a_room_named_like_the_list_of_shared_workers_is_an_ordinary_room(rooms, redis):
    lists = {"*": set(), "lab": set()}
    worker = (await rooms.free.call("PUT", "/rooms/*/jobs", ROTATE)).json()["worker_id"]

    async def listed(room: str) -> set[str]:
        answer = await rooms.free.call("GET", f"/rooms/{room}/workers")
        assert answer.json()["total"] == len(answer.json()["items"])
        return {each["id"] for each in answer.json()["items"]}

    for room in lists:
        lists[room] = await listed(room)
    shared = rooms.worker["@global"]
    assert lists == {"*": {worker, shared}, "lab": {rooms.worker["lab"], shared}}
    assert (await rooms.free.call("DELETE", f"/workers/{worker}")).status_code == 204
    assert (await listed("*"), await listed("lab")) == ({shared}, lists["lab"])


async def test_a_heartbeat_with_a_bound_token_for_a_worker_of_another_room_is_refused(rooms):
    """A heartbeat names the tasks that its worker holds: those it leaves out would fail."""
    theirs = rooms.worker["other"]
    assert (await rooms.free.claim(theirs)).json()["task"]["id"] == rooms.task["other"]
    for body in ({"tasks": []}, {}, None):
        refused = await rooms.bound.call("PATCH", f"/workers/{theirs}", body)
        assert "'other'" in is_problem(refused, 403, "forbidden")["detail"]
    assert (await rooms.bound.call("PATCH", f"/workers/{rooms.worker['lab']}", {"tasks": []})).status_code == 200
    assert (await rooms.free.call("PATCH", f"/workers/{theirs}", {"tasks": []})).status_code == 200
