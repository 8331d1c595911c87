"""Providers over the wire: registered, read through, answering."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from uuid import UUID, uuid4

import pytest

from tests.joblib.people import (
    LONGEST_S,
    PROVIDER,
    all_at_once,
    done,
    empty,
    framework,
    fresh,
    invalid,
    is_id,
    moment,
    problem,
)
from tests.joblib.stage import DEFAULT_S
from tests.world import SLACK_S, wait_until

NOTHING_ASKED = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


def test_a_new_provider_is_created_with_a_new_worker(alice, stranger, room):
    made = done(alice.put_provider(room, schema_={"x": 1}, content_type="text/plain"), 201)
    assert set(made) == PROVIDER
    assert is_id(made["id"])
    assert is_id(made["worker_id"])
    moment(made["created_at"])
    assert (made["room_id"], made["category"], made["name"]) == (room, "files", "disk")
    assert (made["full_name"], made["schema"]) == (f"{room}:files:disk", {"x": 1})
    assert stranger.get(f"/rooms/{room}/providers/{room}:files:disk/info").json() == made
    assert made in stranger.get(f"/rooms/{room}/providers?limit=500").json()["items"]
    assert alice.claim(made["worker_id"]) is None


def test_registering_a_provider_again_replaces_all_but_its_id_and_time(alice, room):
    first = alice.provider(room, schema={"x": 1})
    worker = alice.worker()
    again = done(alice.put_provider(room, schema={"y": 2}, worker_id=worker), 200)
    assert again == {**first, "schema": {"y": 2}, "worker_id": worker}
    third = done(alice.put_provider(room), 200)
    assert third == {**first, "schema": {}, "worker_id": third["worker_id"]}
    assert third["worker_id"] not in (worker, first["worker_id"])


def test_only_its_owner_or_a_superuser_may_register_a_provider_again(alice, bob, root, room):
    first = alice.provider(room)
    workers = alice.get("/workers?limit=0").json()["total"]
    problem(bob.put_provider(room, schema={"b": 1}), 403, "forbidden")
    assert alice.get("/workers?limit=0").json()["total"] == workers
    taken = done(root.put_provider(room), 200)
    assert (taken["id"], taken["created_at"]) == (first["id"], first["created_at"])
    problem(alice.put_provider(room), 403, "forbidden")
    problem(alice.upload(first["id"], "h", b""), 403, "forbidden")
    problem(alice.call("DELETE", f"/providers/{first['id']}"), 403, "forbidden")


@pytest.mark.parametrize("where", ["@global", "@internal"])
def test_only_superusers_may_register_providers_in_shared_rooms(alice, root, where):
    name = fresh("p")
    problem(alice.put_provider(where, name, worker_id=str(uuid4())), 403, "forbidden")
    problem(alice.get(f"/rooms/@internal/providers/{where}:files:{name}/info"), 404, "provider-not-found")
    assert root.put_provider(where, name).status_code == 201


def test_the_worker_of_a_provider_must_belong_to_the_caller(alice, bob, root, room):
    for worker in (bob.worker(), str(uuid4())):
        for person in (alice, root):
            if worker:
                problem(person.put_provider(room, worker_id=worker), 404, "worker-not-found")
    assert [item for item in alice.listed(f"/rooms/{room}/providers") if item["room_id"] == room] == []


def test_only_its_owner_or_a_superuser_may_delete_a_provider(alice, bob, root, room):
    for owner in (alice, root):
        made = alice.provider(room)
        problem(bob.call("DELETE", f"/providers/{made['id']}"), 403, "forbidden")
        empty(owner.call("DELETE", f"/providers/{made['id']}"))
        for answer in (
            owner.call("DELETE", f"/providers/{made['id']}"),
            alice.get(f"/rooms/{room}/providers/{made['full_name']}/info"),
            alice.read(room, made["full_name"]),
            alice.upload(made["id"], "h", b""),
        ):
            problem(answer, 404, "provider-not-found")
        assert alice.put_provider(room).json()["id"] != made["id"]
        alice.call("DELETE", f"/providers/{alice.provider(room)['id']}")


# 12.3

QUERIES = [
    ("", "{}"),
    ("path=/a/b", '{"path":"/a/b"}'),
    ("b=2&a=1", '{"a":"1","b":"2"}'),
    ("a=1&b=2", '{"a":"1","b":"2"}'),
    ("a=1&a=2", '{"a":"2"}'),
    ("q=%C3%BC", '{"q":"\\u00fc"}'),
    ("q=ü&z=日", '{"q":"\\u00fc","z":"\\u65e5"}'),
    ("q=%F0%9F%A6%80", '{"q":"\\ud83e\\udd80"}'),
    ("%C3%BC=1&a=2", '{"a":"2","\\u00fc":"1"}'),
    ("q=a+b%2Bc", '{"q":"a b+c"}'),
    ('q="\\', '{"q":"\\"\\\\"}'),
    ("q=", '{"q":""}'),
    ("limit=-1&offset=x&status=", '{"limit":"-1","offset":"x","status":""}'),
    ("wait=3&prefer=x", '{"prefer":"x","wait":"3"}'),
    ("n=1.0&b=true", '{"b":"true","n":"1.0"}'),
    ("q=%0A%00%7F", '{"q":"\\n\\u0000\\u007f"}'),
]


@pytest.mark.parametrize(("query", "canonical"), QUERIES)
def test_a_provider_answers_a_read_by_the_hash_of_the_canonical_text_of_its_parameters(alice, room, query, canonical):
    made = alice.provider(room)
    digest = sha256(canonical.encode()).hexdigest()
    if not query:
        assert digest == NOTHING_ASKED
    alice.read(room, made["full_name"], query, prefer="wait=0")
    empty(alice.upload(made["id"], digest, b"found"))
    answer = alice.read(room, made["full_name"], query, prefer="wait=0")
    assert (answer.status_code, answer.content) == (200, b"found")


@pytest.mark.parametrize(
    ("registered", "shown"),
    [
        ("application/json", "application/json"), ("image/png", "image/png"),
        ("text/plain", "text/plain; charset=utf-8"),
        ("application/octet-stream", "application/octet-stream"), ("chemical/x-xyz", "chemical/x-xyz"),
    ],
)  # fmt: skip
def test_bytes_are_answered_unchanged_with_the_content_type_of_the_provider(alice, room, registered, shown):
    made = alice.provider(room, content_type="application/x-old")
    body = bytes(range(256)) * 40
    empty(alice.answer(made, body, **{"content-type": "image/x-whatever"}))
    assert alice.read(room, made["full_name"]).headers["content-type"] == "application/x-old"
    alice.provider(room, content_type=registered)
    answer = alice.read(room, made["full_name"])
    assert (answer.status_code, answer.content, answer.headers["content-type"]) == (200, body, shown)


def test_the_default_content_type_is_json(alice, room):
    made = alice.provider(room)
    empty(alice.answer(made, b'{"a": 1}'))
    assert alice.read(room, made["full_name"]).headers["content-type"] == "application/json"


@pytest.mark.parametrize("prefer", [None, "wait=0", "wait=8"])
def test_a_cached_answer_is_returned_without_a_wait(alice, room, prefer):
    made = alice.provider(room)
    empty(alice.answer(made, b""))
    answer = alice.read(room, made["full_name"], prefer=prefer)
    assert (answer.status_code, answer.content) == (200, b"")
    assert "preference-applied" not in answer.headers


def test_a_read_without_an_answer_in_time_is_told_to_retry(alice, room):
    full = alice.provider(room)["full_name"]
    waits = {None: DEFAULT_S, "wait=0": 0, "wait=2": 2, "wait=77": LONGEST_S, "WAIT=2": DEFAULT_S, "wait=2s": DEFAULT_S}
    answers = all_at_once(alice.read, *[(room, full, "", prefer) for prefer in waits])
    for (prefer, seconds), (answer, took_s) in zip(waits.items(), answers, strict=True):
        assert full in problem(answer, 504, "provider-timeout")
        assert answer.headers["retry-after"] == "2"
        assert seconds - 0.05 <= took_s < seconds + SLACK_S, prefer


@pytest.mark.parametrize(
    ("prefer", "applied"), [(None, None), ("wait=8", "wait=8"), ("wait=60", "wait=8"), ("x, wait=6", "wait=6")]
)
@pytest.mark.parametrize("hub", [0, 1])
def test_an_answer_reaches_a_waiting_read_at_either_hub(hubs, alice, bob, room, prefer, applied, hub):
    made = alice.provider(room)
    digest = sha256(b'{"q":"1"}').hexdigest()
    with ThreadPoolExecutor(3) as pool:
        reads = [pool.submit(bob.at(0).read, room, made["full_name"], "q=1", prefer)]
        wait_until(lambda: hubs.server.client().exists(f"hub:wanted:{UUID(made['id']).hex}:{digest}"))
        reads += [pool.submit(bob.at(0).read, room, made["full_name"], "q=1", prefer) for _ in range(2)]
        empty(alice.at(hub).upload(made["id"], digest, b"here"))
        answers = [read.result() for read in reads]
    assert [(answer.status_code, answer.content) for answer in answers] == [(200, b"here")] * 3
    assert answers[0].headers.get("preference-applied") == applied
    assert {answer.headers.get("preference-applied") for answer in answers} <= {applied, None}  # who came late


def test_an_upload_replaces_the_cached_answer(alice, room):
    made = alice.provider(room)
    for body in (b"one", b"two"):
        empty(alice.answer(made, body))
        assert alice.read(room, made["full_name"]).content == body


def test_a_new_provider_of_the_same_name_serves_no_answer_of_the_old_one(alice, root, room):
    made = alice.provider(room)
    empty(alice.answer(made, b"old"))
    empty(alice.call("DELETE", f"/providers/{made['id']}"))
    alice.provider(room)
    problem(alice.read(room, made["full_name"], prefer="wait=0"), 504, "provider-timeout")


# 12.4


def test_an_upload_is_checked_in_the_documented_order(alice, bob, root, stranger, room):
    made = alice.provider(room)
    path = f"/providers/{made['id']}/results"
    framework(stranger.call("POST", path), 401, "Unauthorized")
    invalid(bob.call("POST", path), "header", "x-request-hash")
    invalid(bob.call("POST", f"/providers/{uuid4()}/results"), "header", "x-request-hash")
    problem(bob.upload(str(uuid4()), "h", b""), 404, "provider-not-found")
    problem(bob.upload(made["id"], NOTHING_ASKED, b"wrong"), 403, "forbidden")
    problem(alice.read(room, made["full_name"], prefer="wait=0"), 504, "provider-timeout")
    empty(root.upload(made["id"], NOTHING_ASKED, b"right"))
    assert alice.read(room, made["full_name"]).content == b"right"


@pytest.mark.parametrize("digest", ["x", "a b", "0" * 500, "{}", "Not-A-Hash!", NOTHING_ASKED])
def test_only_the_owner_may_upload_before_a_question_was_asked(alice, bob, root, room, digest):
    made = alice.provider(room)
    problem(root.upload(made["id"], digest, b"x"), 409, "result-not-asked")
    problem(bob.upload(made["id"], digest, b"x"), 403, "forbidden")
    empty(alice.upload(made["id"], digest, b"early"))
    if digest == NOTHING_ASKED:
        assert alice.read(room, made["full_name"], prefer="wait=0").content == b"early"


def test_an_answer_is_accepted_although_no_caller_waits_any_more(alice, room):
    made = alice.provider(room)
    problem(alice.read(room, made["full_name"], prefer="wait=0"), 504, "provider-timeout")
    empty(alice.upload(made["id"], NOTHING_ASKED, b"late"))
    assert alice.read(room, made["full_name"], prefer="wait=0").content == b"late"


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("text/html", False), ("text/html; charset=utf-8", False), ("application/xhtml+xml", False), ("", False),
        ("text/javascript", False), ("application/pdf", False), ("x image/png", False), ("image/png", True),
        ("image/svg+xml", True), ("application/json", True), ("application/geo+json; charset=utf-8", True),
    ],
)  # fmt: skip
def test_an_answer_of_a_provider_cannot_act_as_a_page_of_the_hub(alice, room, kind, shown):
    made = alice.provider(room, content_type=kind)
    empty(alice.answer(made, b"<script>alert(1)</script>"))
    answer = alice.read(room, made["full_name"])
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"] == "sandbox"
    assert answer.headers.get("content-disposition") == (None if shown else "attachment")
