"""Credentials, formats, the order of checks, pages: what every endpoint has in common."""

from __future__ import annotations

from itertools import pairwise
from uuid import UUID

import pytest

from tests.joblib.people import J, done, empty, framework, fresh, invalid, is_id, moment, problem

SOME = "3f1c9a64-7d2e-4b58-9c11-5e0a8f7b2d43"  # an id that nothing has
FULL = "lab:modifiers:Rotate"
GUARDED = [
    ("POST", "/workers"), ("PATCH", f"/workers/{SOME}"), ("DELETE", f"/workers/{SOME}"), ("PUT", "/rooms/lab/jobs"),
    ("POST", f"/rooms/lab/tasks/{FULL}"), ("POST", "/tasks/claim"), ("PATCH", f"/tasks/{SOME}"),
    ("PUT", "/rooms/lab/providers"), ("GET", "/rooms/lab/providers/lab:files:disk"), ("DELETE", f"/providers/{SOME}"),
    ("POST", f"/providers/{SOME}/results"),
]  # fmt: skip
OPEN = [
    ("/workers", 200), ("/rooms/lab/workers", 200), ("/rooms/lab/jobs", 200), ("/rooms/lab/tasks", 200),
    (f"/rooms/lab/jobs/{FULL}", 404), (f"/rooms/lab/jobs/{FULL}/tasks", 404), (f"/tasks/{SOME}", 404),
    ("/rooms/lab/providers", 200), ("/rooms/lab/providers/lab:files:disk/info", 404),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), GUARDED)
def test_a_call_that_needs_a_user_is_refused_without_one(stranger, gone, method, path):
    wrong = [{}, {"authorization": "Bearer nobody"}, {"authorization": "Basic YTpi"}, {"authorization": "alice-t"}]
    for headers in wrong:
        framework(stranger.call(method, path, {}, headers=headers), 401, "Unauthorized")
    framework(gone.call(method, path, {}), 401, "Unauthorized")


@pytest.mark.parametrize(("path", "status"), OPEN)
def test_open_reads_are_served_to_strangers_and_users_alike(stranger, alice, path, status):
    answers = [who.get(path) for who in (stranger, alice)]
    assert [answer.status_code for answer in answers] == [status, status]
    assert answers[0].json() == answers[1].json()


def test_two_tokens_may_belong_to_one_user(alice):
    worker = alice.worker()
    assert alice.showing("alice-2").beat(worker).status_code == 200
    empty(alice.showing("alice-2").leave(worker))


def test_an_id_is_accepted_in_every_spelling_and_answered_in_one(alice):
    worker = alice.worker()
    assert is_id(worker)
    for spelt in (worker.upper(), worker.replace("-", ""), worker.replace("-", "").upper(), f"{{{worker}}}"):
        assert done(alice.beat(spelt), 200)["id"] == worker
        assert done(alice.ask(spelt), 200) == {"task": None}
    task = alice.submit(registered(alice))
    assert done(alice.get(f"/tasks/{UUID(task).hex.upper()}"), 200)["id"] == task


def registered(person):
    room = fresh()
    person.job(room)
    return f"{room}:modifiers:Rotate"


@pytest.mark.parametrize(
    ("method", "path", "body", "place"),
    [
        ("PATCH", "/workers/x", None, ("path", "worker_id")),
        ("DELETE", "/workers/1-2", None, ("path", "worker_id")),
        ("GET", "/tasks/x", None, ("path", "task_id")),
        ("PATCH", "/tasks/x", {"status": "running"}, ("path", "task_id")),
        ("DELETE", "/providers/x", None, ("path", "provider_id")),
        ("POST", "/tasks/claim", {"worker_id": "None"}, ("body", "worker_id")),
        ("POST", "/tasks/claim", {"worker_id": None}, ("body", "worker_id")),
        ("POST", "/tasks/claim", {}, ("body", "worker_id")),
        ("PUT", "/rooms/lab/jobs", {"category": "modifiers"}, ("body", "name")),
        ("PUT", "/rooms/lab/jobs", {"name": "Rotate"}, ("body", "category")),
        ("PUT", "/rooms/lab/jobs", {"name": "x", "category": "modifiers", "worker_id": "x"}, ("body", "worker_id")),
        ("PUT", "/rooms/lab/providers", {"category": "files"}, ("body", "name")),
        ("PUT", "/rooms/lab/providers", {"name": "x", "category": "f", "content_type": 1}, ("body", "content_type")),
        ("PATCH", f"/tasks/{SOME}", {"status": "done"}, ("body", "status")),
        ("PATCH", f"/tasks/{SOME}", {}, ("body", "status")),
        ("PATCH", f"/tasks/{SOME}", {"status": "failed", "error": 1}, ("body", "error")),
        ("GET", "/rooms/lab/tasks?status=done", None, ("query", "status")),
        ("GET", "/rooms/lab/tasks?status=", None, ("query", "status")),
        ("GET", f"/rooms/lab/jobs/{FULL}/tasks?status=", None, ("query", "status")),
    ],
)
def test_a_validation_error_has_the_form_of_the_framework(alice, method, path, body, place):
    invalid(alice.call(method, path, body), *place)


@pytest.mark.parametrize("path", [path for path, status in OPEN if status == 200])
@pytest.mark.parametrize("query", ["limit=-1", "limit=501", "limit=x", "limit=", "offset=-1", "offset=x"])
def test_the_bounds_of_a_page_are_checked(stranger, path, query):
    invalid(stranger.get(f"{path}?{query}"), "query", query.split("=")[0])


@pytest.mark.parametrize("path", [path for path, status in OPEN if status == 200])
def test_a_page_repeats_its_requested_bounds(stranger, path):
    room = fresh()
    path = path.replace("lab", room)
    for query, limit, offset in (
        ("", 50, 0),
        ("?limit=500", 500, 0),
        ("?limit=0&offset=3", 0, 3),
        ("?offset=9999999", 50, 9999999),
    ):
        page = done(stranger.get(f"{path}{query}"), 200)
        assert set(page) == {"items", "total", "limit", "offset"}
        assert (page["limit"], page["offset"]) == (limit, offset)
        assert limit or page["items"] == []


def filled(person, what):
    """Fill a new list with 23 items; return its path, the field that names an item, and the names, newest first."""
    room, names = fresh(), [f"n{number:02}" for number in range(23)]
    if what == "jobs":
        worker = person.worker()
        for name in names:
            person.job(room, name, worker)
        return f"/rooms/{room}/jobs", "name", names[::-1]
    if what == "providers":
        worker = person.worker()
        for name in names:
            person.provider(room, name, worker_id=worker)
        return f"/rooms/{room}/providers", "name", names[::-1]
    if what == "workers":
        return f"/rooms/{room}/workers", "id", [person.job(room) for _ in names][::-1]
    person.job(room)
    full = f"{room}:modifiers:Rotate"
    tasks = [person.submit(full) for _ in names][::-1]
    path = f"/rooms/{room}/tasks" if what == "tasks" else f"/rooms/{room}/jobs/{full}/tasks?status=pending"
    return path, "id", tasks


@pytest.mark.parametrize("what", ["jobs", "providers", "workers", "tasks", "tasks of a job"])
def test_pages_begin_with_the_newest_and_neither_repeat_nor_skip_an_item(alice, stranger, what):
    path, key, expected = filled(alice, what)
    sign = "&" if "?" in path else "?"
    page = done(stranger.get(f"{path}{sign}limit=100"), 200)
    items = [item for item in page["items"] if item.get("room_id", "").startswith("@") is False]
    assert [item[key] for item in items][: len(expected)] == expected
    total = page["total"]
    assert total == len(page["items"])
    seen = []
    for offset in range(0, total + 5, 5):
        part = done(stranger.get(f"{path}{sign}limit=5&offset={offset}"), 200)
        assert part["total"] == total
        seen += part["items"]
    assert seen == page["items"]
    assert done(stranger.get(f"{path}{sign}limit=0"), 200)["total"] == total
    assert done(stranger.get(f"{path}{sign}offset={total}"), 200)["items"] == []


def test_the_list_of_all_workers_begins_with_the_newest_and_counts_their_jobs(alice, bob, stranger):
    room = fresh()
    idle, other = alice.worker(), bob.worker()
    busy = alice.job(room, "one")
    alice.job(room, "two", busy)
    alice.job(fresh(), "three", busy)
    page = done(stranger.get("/workers?limit=3"), 200)
    assert [(item["id"], item["job_count"]) for item in page["items"]] == [(busy, 3), (other, 0), (idle, 0)]
    assert all(set(item) == {"id", "last_heartbeat", "job_count"} for item in page["items"])
    beats = [moment(item["last_heartbeat"]) for item in page["items"]]
    assert all(later > earlier for later, earlier in pairwise(beats))


# 1.3: the order of checks, each request wrong in every later way as well.


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/nothing"), ("POST", "/rooms/a/b/tasks/x"), ("PUT", "/rooms/a/b/jobs"), ("GET", "/rooms//jobs")],
)
def test_an_unknown_path_is_refused_before_anything_else(stranger, method, path):
    framework(stranger.call(method, path), 404, "Not Found")


@pytest.mark.parametrize(
    ("method", "path"), [("PUT", "/workers"), ("DELETE", "/rooms/b:d/jobs"), ("GET", "/providers/x")]
)
def test_a_wrong_method_is_refused_before_anything_else(stranger, method, path):
    framework(stranger.call(method, path), 405, "Method Not Allowed")


WRITES = [("PUT", "jobs"), ("PUT", "providers"), ("POST", f"tasks/{FULL}")]


@pytest.mark.parametrize(("method", "what"), WRITES)
@pytest.mark.parametrize("room", ["a@b", "a:b", "@x", "@", ":", "@Global", "@globals", "x@global", "%40other"])
def test_routes_that_write_check_the_room_before_the_token(stranger, alice, method, what, room):
    for person in (stranger, alice):
        detail = problem(person.call(method, f"/rooms/{room}/{what}", content=b"{"), 400, "invalid-room-id")
        assert "invalid characters" in detail


@pytest.mark.parametrize(
    "what", ["jobs", "workers", "tasks", "providers", f"jobs/{FULL}", f"jobs/{FULL}/tasks", "providers/x/info"]
)
def test_other_routes_check_the_room_after_the_query(stranger, alice, what):
    assert "invalid characters" in problem(stranger.get(f"/rooms/a@b/{what}"), 400, "invalid-room-id")
    if not what.endswith("info") and what != f"jobs/{FULL}":
        invalid(stranger.get(f"/rooms/a@b/{what}?limit=-1"), "query", "limit")


def test_a_read_of_a_provider_checks_the_user_before_the_room(stranger, alice):
    framework(stranger.read("a@b", "x"), 401, "Unauthorized")
    problem(alice.read("a@b", "x"), 400, "invalid-room-id")


def test_the_token_is_checked_before_the_body(stranger, alice):
    for method, path in GUARDED:
        framework(stranger.call(method, path.replace(SOME, "x"), content=b"{"), 401, "Unauthorized")
    invalid(alice.call("PUT", "/rooms/@global/jobs", {"category": "no"}), "body", "name")
    invalid(alice.call("POST", f"/rooms/lab/tasks/{FULL}", {"payload": []}), "body", "payload")
    invalid(alice.call("PATCH", f"/tasks/{SOME}", {"status": "x"}), "body", "status")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"x"', b'{"payload": NaN}', b'{"payload": {"a": 1e999}}'])
@pytest.mark.parametrize(
    "method_path", [("PUT", "/rooms/lab/jobs"), ("POST", f"/rooms/lab/tasks/{FULL}"), ("POST", "/tasks/claim")]
)
def test_a_body_that_is_no_object_does_not_validate(alice, method_path, body):
    answer = alice.call(*method_path, content=body)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/json"), answer.text
    assert {"type", "loc", "msg", "input"} <= set(answer.json()["detail"][0])


def test_unknown_members_of_a_body_are_ignored(alice):
    full = registered(alice)
    assert alice.send(full.split(":")[0], full, {"payload": {"a": 1}, "nonsense": [1]}).json()["payload"] == {"a": 1}
    worker = alice.worker()
    assert done(alice.ask(worker, nonsense=1), 200) == {"task": None}


def test_the_location_of_a_new_task_can_be_followed(alice):
    full = registered(alice)
    answer = alice.send(full.split(":")[0], full)
    assert answer.headers["location"] == f"{J}/tasks/{answer.json()['id']}"
    assert answer.headers["retry-after"] == "1"
