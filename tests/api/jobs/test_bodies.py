"""Bodies of every wrong shape, and that what is opaque comes back as it was sent."""

import json
import re

import pytest

from tests.api.jobs.people import JOB, is_invalid, is_problem

SUBMIT = f"/rooms/lab/tasks/lab:{JOB}"
NO_JSON = [
    b"{", b"{no}", b"\xff{}", b"\xef\xbb\xbf{}", '{"a":1}'.encode("utf-16"), b'{"payload":{}} x', b" ", b'{"a":NaN}',
    b'{"payload":{"a":1e400}}', b'{"payload":{"a":-1e400}}', b'{"payload":{"a":Infinity}}', b"'a'", b"[" * 100_000,
    b'{"payload":{"a":"\\ud800"}}', b'{"payload":{"a":"\n"}}', b'{"payload":{}', b'{"a":' + b"9" * 5000 + b"}",
    b'{"payload":' + b'{"a":' * 2000 + b"1" + b"}" * 2001,
]  # fmt: skip
ROUTES = [
    ("PUT", "/rooms/lab/jobs"), ("PUT", "/rooms/lab/providers"), ("POST", SUBMIT), ("POST", "/tasks/claim"),
    ("PATCH", "/tasks/{task}"),
]  # fmt: skip


@pytest.fixture
async def task(alice):
    await alice.offering()
    return await alice.task()


@pytest.mark.parametrize(("method", "path"), ROUTES, ids=["job", "provider", "submit", "claim", "move"])
async def test_a_body_that_is_no_json_object_does_not_validate(alice, task, method, path):
    path = path.format(task=task)
    for content in NO_JSON:
        answer = await alice.call(method, path, content=content)
        assert answer.status_code == 422, content[:40]
        # Writers of JSON write NaN: a report with it is heard, and lacks what it must have.
        kind = "missing" if re.search(rb"NaN|Infinity|ud800", content) and path.startswith("/tasks") else "json_invalid"
        assert answer.json()["detail"][0]["type"] == kind, content[:40]
    for content in (b"null", b"[]", b'"{}"', b"1", b"true", b"[" * 300 + b"]" * 300):
        assert is_invalid(await alice.call(method, path, content=content), ["body"]) == ["model_attributes_type"]
    assert is_invalid(await alice.call(method, path), ["body"]) == ["missing"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=x", ""])
async def test_the_content_type_of_a_body_does_not_matter(alice, task, kind):
    answer = await alice.call("POST", SUBMIT, content=b'{"payload":{"a":1}}', headers={"content-type": kind})
    assert (answer.status_code, answer.json()["payload"]) == (202, {"a": 1})


EXACT = [
    '{}', '{"a":[]}', '{"a":{}}', '{"a":[{}]}', '{"a":1.0}', '{"a":1}', '{"a":-0.0}', '{"a":1e5}', '{"a":1E-7}',
    '{"a":0.10}', '{"a":9007199254740993}', '{"a":123456789012345678901234567890}', '{"a":"ünïcödé 日本 🦀"}',
    '{"a":"\\u00fc\\ud83e\\udd80"}', '{"a":"\\u0000\\n"}', '{"":""}', '{"b":1,"a":2}', '{"a":1,"a":2}',
    '{"a":"x  y","c":"\\" , :"}', '{"a":null,"b":true}', '{"a":"' + "\\\\" * 40 + '"}',
    '{"__proto__":{"constructor":1}}', '{"a":[1,[2,[3.50]]],"b":"]}"}', '{"payload":{"payload":{}}}',
]  # fmt: skip


def payload_text(answer):
    """Return the payload as it stands in the answer, byte for byte."""
    return answer.text.partition('"payload":')[2].partition(',"queue_position"')[0]


@pytest.mark.parametrize("text", EXACT)
async def test_a_payload_is_answered_exactly_as_it_was_sent(alice, text):
    worker = await alice.offering()
    sent = await alice.call("POST", SUBMIT, content=('{"payload":' + text + "}").encode())
    assert sent.status_code == 202, sent.text
    task = sent.json()["id"]
    answers = [sent, await alice.look(task), await alice.call("GET", "/rooms/lab/tasks"), await alice.claim(worker)]
    assert [payload_text(answer) for answer in answers] == [text] * 4


async def test_blanks_between_the_parts_of_a_payload_are_dropped_and_blanks_in_texts_are_kept(alice, task):
    content = '\n{ "other" : [ 1 , 2 ] ,\t"payload" :\r\n { "a b" : [ 1.0 , "x , \\" : y" , { } ] } }\n'
    assert payload_text(await alice.call("POST", SUBMIT, content=content.encode())) == '{"a b":[1.0,"x , \\" : y",{}]}'
    body = '{"payloads": [ {"n": 1.0}, { }, {"a": " b "} ]}'
    ids = (await alice.call("POST", SUBMIT, content=body.encode())).json()["ids"]
    assert [payload_text(await alice.look(each)) for each in ids] == ['{"n":1.0}', "{}", '{"a":" b "}']


async def test_the_last_of_two_members_with_the_same_name_counts(alice, task):
    sent = await alice.call("POST", SUBMIT, content=b'{"payload":{"first":1},"payload":{"last":1}}')
    assert sent.json()["payload"] == {"last": 1}
    is_invalid(await alice.call("POST", SUBMIT, content=b'{"payload":{"first":1},"payload":null}'), ["body", "payload"])


@pytest.mark.parametrize("payload", [None, [], "x", 1, True, [{}]])
async def test_a_payload_that_is_no_object_does_not_validate(alice, task, payload):
    assert is_invalid(await alice.submit({"payload": payload}), ["body", "payload"]) == ["dict_type"]


async def test_unknown_members_are_ignored_and_a_payload_may_be_left_out(alice, task):
    sent = await alice.submit({"color": "red", "nested": {"payload": 1}})
    assert (sent.status_code, sent.json()["payload"]) == (202, {})


@pytest.mark.parametrize("kind", ["jobs", "providers"])
async def test_a_schema_may_be_named_schema_or_schema_with_an_underscore_and_the_plain_name_wins(alice, kind):
    async def put(name, text):
        content = f'{{"category":"modifiers","name":"{name}"{text}}}'.encode()
        return await alice.call("PUT", f"/rooms/lab/{kind}", content=content)

    shown = [
        (await put(f"n{number}", text)).text.partition('"schema":')[2].partition(',"worker')[0]
        for number, text in enumerate(
            ["", ',"schema":{"a":1.0}', ',"schema_":{"b":[ ]}', ',"schema_":{"b":1},"schema":{"a":1e2}', ',"schema":{}']
        )
    ]
    assert shown == ["{}", '{"a":1.0}', '{"b":[]}', '{"a":1e2}', "{}"]
    for name in ("schema", "schema_"):
        for wrong in ("null", "[]", '"x"', "1"):
            answer = await put("wrong", f',"{name}":{wrong}')
            assert is_invalid(answer, ["body", name]) == ["dict_type"]
    is_invalid(await put("wrong", ',"schema_":{},"schema":null'), ["body", "schema"])
    assert (await alice.call("GET", f"/rooms/lab/{kind}")).json()["total"] == 5


WRONG = [
    ("PUT", "/rooms/lab/jobs", {}, [["body", "category"], ["body", "name"]]),
    ("PUT", "/rooms/lab/jobs", {"category": 1, "name": None}, [["body", "category"], ["body", "name"]]),
    ("PUT", "/rooms/lab/jobs", {"category": "analysis", "name": "x", "worker_id": "x"}, [["body", "worker_id"]]),
    ("PUT", "/rooms/lab/jobs", {"category": "analysis", "name": "x", "worker_id": 7}, [["body", "worker_id"]]),
    ("PUT", "/rooms/lab/providers", {"name": "x"}, [["body", "category"]]),
    ("PUT", "/rooms/lab/providers", {"category": "", "name": "", "content_type": None}, [["body", "content_type"]]),
    ("PUT", "/rooms/lab/providers", {"category": "", "name": "", "content_type": "\r\n"}, [["body", "content_type"]]),
    ("PUT", "/rooms/lab/providers", {"category": "", "name": "", "content_type": "a\n"}, [["body", "content_type"]]),
    ("PUT", "/rooms/lab/providers", {"category": "", "name": "", "content_type": "ä"}, [["body", "content_type"]]),
    ("POST", "/tasks/claim", {}, [["body", "worker_id"]]),
    ("POST", "/tasks/claim", {"worker_id": None}, [["body", "worker_id"]]),
    ("PATCH", "/tasks/{task}", {}, [["body", "status"]]),
    ("PATCH", "/tasks/{task}", {"status": "Running"}, [["body", "status"]]),
    ("PATCH", "/tasks/{task}", {"status": None, "error": 5}, [["body", "status"], ["body", "error"]]),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "body", "places"), WRONG)
async def test_a_refusal_lists_all_faults_of_a_body(alice, task, method, path, body, places):
    is_invalid(await alice.call(method, path.format(task=task), content=json.dumps(body).encode()), *places)


async def test_a_refusal_leaves_out_the_part_of_a_body_that_cannot_be_written_as_json(alice, task):
    deep = b'{"status":' + b"[" * 900 + b"]" * 900 + b"}"
    answer = await alice.call("PATCH", f"/tasks/{task}", content=deep)
    is_invalid(answer, ["body", "status"])
    assert answer.json()["detail"][0]["input"] is None
    large = await alice.call("PATCH", f"/tasks/{task}", {"status": "x" * 100_000})
    is_invalid(large, ["body", "status"])
    assert len(large.content) < 1000


def nested(levels, of="a"):
    opening = b'{"a":' if of == "a" else b"["
    closing = b"}" if of == "a" else b"]"
    return opening * (levels - 1) + b"{}" + closing * (levels - 1)


async def test_a_payload_and_a_schema_may_have_128_levels(alice, task):
    for what, method, path, body in (
        ("payload", "POST", SUBMIT, b'{"payload":%b}'),
        ("schema", "PUT", "/rooms/lab/jobs", b'{"category":"analysis","name":"Deep","schema":%b}'),
    ):
        taken = await alice.call(method, path, content=body % nested(128))
        assert taken.status_code in (201, 202), taken.text
        for levels in (129, 500):
            refused = await alice.call(method, path, content=body % nested(levels))
            assert is_invalid(refused, ["body", what]) == ["nesting"]
    flat = await alice.submit({"payload": {"a": [[n, {}] for n in range(1000)]}})
    assert (flat.status_code, len(flat.json()["payload"]["a"])) == (202, 1000)
    listed = b'{"payloads":[{},' + nested(129) + b"]}"
    assert is_invalid(await alice.call("POST", SUBMIT, content=listed), ["body", "payloads", 1]) == ["nesting"]


@pytest.mark.parametrize(
    ("query", "places"),
    [
        ("limit=-1", ["limit"]), ("limit=501", ["limit"]), ("limit=x", ["limit"]), ("limit=", ["limit"]),
        ("limit=1.5", ["limit"]), ("offset=-1", ["offset"]), ("offset=x", ["offset"]),
        ("limit=x&offset=y", ["limit", "offset"]),
        ("offset=" + "9" * 5000, ["offset"]), ("limit=1&limit=501", ["limit"]),
    ],
)  # fmt: skip
async def test_impossible_page_bounds_do_not_validate(people, query, places):
    for path in (
        "/workers",
        "/rooms/lab/jobs",
        "/rooms/lab/tasks",
        "/rooms/lab/providers",
        "/rooms/lab/workers",
        "/dead",
    ):
        is_invalid(await people["root"].call("GET", f"{path}?{query}"), *(["query", place] for place in places))


@pytest.mark.parametrize("status", ["", "done", "Pending", "pending,failed", "%00"])
async def test_a_status_that_does_not_exist_does_not_validate(alice, task, status):
    for path in ("/rooms/lab/tasks", f"/rooms/lab/jobs/lab:{JOB}/tasks"):
        is_invalid(await alice.call("GET", f"{path}?status={status}"), ["query", "status"])
    assert (await alice.call("GET", f"/rooms/lab/jobs?status={status}")).status_code == 200  # it means nothing there


async def test_a_page_may_begin_at_any_offset(alice, task):
    for query, limit, offset in (
        ("limit=500&offset=1", 500, 1),
        ("limit=0", 0, 0),
        ("offset=999999999999", 50, 10**12 - 1),
    ):
        answer = (await alice.call("GET", f"/rooms/lab/tasks?{query}")).json()
        assert answer == {"items": [], "total": 1, "limit": limit, "offset": offset}
    far = await alice.call("GET", "/rooms/lab/tasks?offset=" + "9" * 300)
    assert (far.status_code, far.json()["items"], far.json()["total"]) == (200, [], 1)


async def test_the_status_filter_of_a_task_list_is_read_from_the_query(alice, task):
    await alice.move(task, "cancelled")
    for status, total in (("pending", 0), ("cancelled", 1)):
        assert (await alice.call("GET", f"/rooms/lab/tasks?status={status}")).json()["total"] == total


async def test_a_refused_body_stores_nothing(alice, redis):
    before = redis.dbsize()
    refused = await alice.call("PUT", "/rooms/lab/jobs", {"category": "nothing", "name": "x"})
    assert "modifiers" in is_problem(refused, 400, "invalid-category")["detail"]
    assert redis.dbsize() == before


@pytest.mark.parametrize("path", ["/tasks/claim", "/tasks/progress", "/rooms/lab/jobs", "/rooms/lab/providers"])
async def test_a_schema_in_two_spellings_is_refused_when_one_is_too_deep_to_be_written_again(alice, path):
    deep: object = []
    for _ in range(300):
        deep = [deep]
    body = {"worker_id": "x", "workerId": deep, "category": "modifiers", "name": "q", "schema": {}, "tasks": []}
    answer = await alice.call("PUT" if path.startswith("/rooms") else "POST", path, body)
    assert answer.status_code == 422, answer.text
    assert answer.json()["detail"][0]["type"] == "names_differ"
