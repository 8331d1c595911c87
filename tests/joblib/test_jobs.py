"""Jobs over the wire: registered, matched, refused without a trace."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from tests.joblib.people import JOB, done, empty, fresh, invalid, is_id, problem


def test_a_new_job_is_created_with_a_new_worker(alice, full, room):
    answer = done(alice.put_job(room, schema={"type": "object"}), 201)
    assert set(answer) == JOB
    worker = answer["worker_id"]
    assert is_id(answer["id"])
    assert is_id(worker)
    assert answer == {
        "id": answer["id"], "room_id": room, "category": "modifiers", "name": "Rotate", "full_name": full,
        "schema": {"type": "object"}, "workers": [worker], "worker_id": worker,
    }  # fmt: skip
    assert done(alice.get(f"/rooms/{room}/jobs/{full}"), 200) == {**answer, "worker_id": None}
    assert alice.claim(worker) is None


def test_a_job_shows_the_result_schema_of_the_latest_registration(alice, room, full):
    made = done(alice.put_job(room, resultSchema={"type": "object", "required": ["left"]}), 201)
    assert set(made) == {*JOB, "resultSchema"}
    found = done(alice.get(f"/rooms/{room}/jobs/{full}"), 200)
    assert found["resultSchema"] == made["resultSchema"] == {"type": "object", "required": ["left"]}
    listed = done(alice.get(f"/rooms/{room}/jobs"), 200)["items"]  # jobs of every room are listed too
    assert ["resultSchema" in each for each in listed if each["full_name"] == full] == [False]
    assert "resultSchema" not in done(alice.put_job(room, resultSchema=None), 200)
    assert set(done(alice.get(f"/rooms/{room}/jobs/{full}"), 200)) == JOB
    invalid(alice.put_job(room, "b", resultSchema=[]), "body", "resultSchema")
    assert alice.put_job(room, "b", resultSchema={"title": "x" * 270_000}).status_code == 413


def test_registering_a_job_again_links_the_worker_and_changes_nothing_else(alice, bob, room, full):
    first = done(alice.put_job(room, schema={"a": 1}), 201)
    mine = alice.worker()
    for _ in range(2):
        again = done(alice.put_job(room, schema={"a": 1}, worker_id=mine), 200)
        assert (again["id"], again["worker_id"]) == (first["id"], mine)
        assert sorted(again["workers"]) == sorted([first["worker_id"], mine])
    made = [done(person.put_job(room, schema={"a": 1}), 200)["worker_id"] for person in (alice, bob, bob)]
    assert len({*made, mine, first["worker_id"]}) == 5
    found = done(alice.get(f"/rooms/{room}/jobs/{full}"), 200)
    assert sorted(found["workers"]) == sorted([first["worker_id"], mine, *made])


def test_a_schema_is_accepted_under_both_member_names(alice, room):
    assert done(alice.put_job(room, "a", schema_={"x": 1}), 201)["schema"] == {"x": 1}
    assert done(alice.put_job(room, "b", schema={"x": 1}), 201)["schema"] == {"x": 1}
    assert done(alice.put_job(room, "c", schema_={"x": 1}, schema={"y": 2}), 201)["schema"] == {"y": 2}
    assert done(alice.put_job(room, "d"), 201)["schema"] == {}
    assert done(alice.put_job(room, "a", schema={"x": 1}), 200)["schema"] == {"x": 1}
    problem(alice.put_job(room, "a"), 409, "schema-conflict")
    for spelling in ("schema", "schema_"):
        for wrong in (None, [], "x", 1):
            invalid(alice.put_job(room, "e", **{spelling: wrong}), "body", spelling)
    problem(alice.get(f"/rooms/{room}/jobs/{room}:modifiers:e"), 404, "job-not-found")


EQUAL = [
    ('{"a": 1, "b": 2}', '{"b":2,"a":1}'), ('{"a": 1}', '{"a": 1.0}'), ('{"a": 100}', '{"a": 1e2}'),
    ('{"a": [1, {"b": {}}]}', '{"a":[1.0,{"b":{}}]}'), ('{"a": "\\u00fc"}', '{"a": "ü"}'), ("{}", "{ }"),
    ('{"a": 9007199254740993}', '{"a": 9007199254740993}'), ('{"a": 0}', '{"a": -0.0}'),
]  # fmt: skip
DIFFERENT = [
    ('{"a": 1}', '{"a": true}'), ('{"a": 0}', '{"a": false}'), ('{"a": 1}', '{"a": "1"}'), ('{"a": {}}', '{"a": []}'),
    ('{"a": null}', "{}"), ('{"a": [1, 2]}', '{"a": [2, 1]}'), ('{"a": 9007199254740993}', '{"a": 9007199254740992}'),
    ('{"a": "x"}', '{"a": "X"}'), ('{"a": ""}', '{"a": null}'), ('{"a": 1.5}', '{"a": 1}'),
]  # fmt: skip


def put_text(person, room, text):
    content = f'{{"category": "modifiers", "name": "Rotate", "schema": {text}}}'.encode()
    return person.call("PUT", f"/rooms/{room}/jobs", content=content)


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_schemas_are_compared_by_content_and_not_by_text(alice, room, full, one, other):
    assert put_text(alice, room, one).status_code == 201
    assert put_text(alice, room, other).status_code == 200
    assert put_text(alice, room, one).status_code == 200
    assert done(alice.get(f"/rooms/{room}/jobs/{full}"), 200)["schema"] == json.loads(one)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_a_registration_with_another_schema_is_a_conflict(alice, room, full, one, other):
    first = put_text(alice, room, one)
    assert first.status_code == 201
    assert full in problem(put_text(alice, room, other), 409, "schema-conflict")
    found = done(alice.get(f"/rooms/{room}/jobs/{full}"), 200)
    assert (found["schema"], found["workers"]) == (json.loads(one), [first.json()["worker_id"]])


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1.0,"b":1,"c":[],"d":{},"e":9007199254740993,"f":"日本 🦀","g":null,"h":[[],{}],"i":1e-7,"j":"\\"{}"}',
        '{"":""}',
    ],
)
def test_a_schema_comes_back_as_it_was_sent(alice, room, full, text):
    answers = [put_text(alice, room, text), alice.get(f"/rooms/{room}/jobs/{full}")]
    for answer in answers:
        assert exact(answer.text)["schema"] == exact(text)


def exact(text):
    """JSON with its numbers as texts and its members in order."""
    return json.loads(text, parse_float=lambda number: ("float", number), parse_int=lambda number: ("int", number))


@pytest.mark.parametrize("where", ["@global", "@internal"])
def test_only_superusers_may_register_in_shared_rooms(alice, root, where):
    name = fresh("J")
    before = alice.get("/workers?limit=0").json()["total"]
    problem(alice.put_job(where, name), 403, "forbidden")
    problem(alice.put_job(where, name, category="shiny"), 403, "forbidden")
    problem(alice.put_job(where, name, worker_id=str(uuid4())), 403, "forbidden")
    problem(alice.get(f"/rooms/lab/jobs/{where}:modifiers:{name}"), 404, "job-not-found")
    assert alice.get("/workers?limit=0").json()["total"] == before
    assert done(root.put_job(where, name), 201)["room_id"] == where


def test_checks_are_made_in_their_order_and_leave_no_trace(alice, bob, room, full):
    first = done(alice.put_job(room, schema={"v": 1}), 201)
    foreign, unknown = bob.worker(), str(uuid4())
    before = alice.get("/workers?limit=0").json()["total"]
    problem(alice.put_job(room, category="shiny", schema={"v": 2}, worker_id=unknown), 400, "invalid-category")
    problem(alice.put_job(room, schema={"v": 2}, worker_id=unknown), 409, "schema-conflict")
    for worker in (foreign, unknown):
        assert worker in problem(alice.put_job(room, schema={"v": 1}, worker_id=worker), 404, "worker-not-found")
        problem(alice.put_job(room, "New", worker_id=worker), 404, "worker-not-found")
    problem(alice.get(f"/rooms/{room}/jobs/{room}:modifiers:New"), 404, "job-not-found")
    assert done(alice.get(f"/rooms/{room}/jobs/{full}"), 200) == {**first, "worker_id": None}
    empty(alice.leave(first["worker_id"]))
    for worker in (foreign, unknown):
        problem(alice.put_job(room, schema={"v": 9}, worker_id=worker), 404, "worker-not-found")
    problem(alice.get(f"/rooms/{room}/jobs/{full}"), 404, "job-not-found")
    assert alice.get("/workers?limit=0").json()["total"] == before - 1


def test_a_superuser_may_not_use_the_worker_of_another(alice, root, room):
    problem(root.put_job(room, worker_id=alice.worker()), 404, "worker-not-found")


def test_of_many_concurrent_first_registrations_one_creates_the_job(alice, bob):
    for _ in range(5):
        room = fresh()
        with ThreadPoolExecutor(8) as pool:
            people = [alice, bob] * 4
            answers = list(pool.map(lambda person, room=room: person.put_job(room, schema={"a": 1}), people))
        assert sorted(answer.status_code for answer in answers) == [200] * 7 + [201]
        assert len({answer.json()["id"] for answer in answers}) == 1
        found = done(alice.get(f"/rooms/{room}/jobs/{room}:modifiers:Rotate"), 200)
        assert sorted(found["workers"]) == sorted(answer.json()["worker_id"] for answer in answers)


def test_of_two_concurrent_schemas_one_is_kept(alice, bob):
    for _ in range(5):
        room = fresh()
        with ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(lambda v, room=room: alice.put_job(room, schema={"v": v}), range(6)))
        assert sorted(answer.status_code for answer in answers) == [201] + [409] * 5
