"""While Redis does not answer: 503 and when to ask again, never a refusal that a worker would take for its end."""

import pytest

from tests.api.jobs.people import JOB, Person, is_plain, is_problem

SOME = "3f1c9a64-7d2e-4b58-9c11-5e0a8f7b2d43"  # an id that nothing has
CALLS = [
    ("POST", "/workers", None), ("GET", "/workers", None), ("PATCH", f"/workers/{SOME}", None),
    ("DELETE", f"/workers/{SOME}", None), ("GET", "/rooms/lab/workers", None),
    ("PUT", "/rooms/lab/jobs", {"category": "modifiers", "name": "x"}), ("GET", "/rooms/lab/jobs", None),
    ("GET", f"/rooms/lab/jobs/lab:{JOB}", None), ("GET", f"/rooms/lab/jobs/lab:{JOB}/tasks", None),
    ("GET", "/rooms/lab/tasks", None), ("POST", f"/rooms/lab/tasks/lab:{JOB}", {}),
    ("POST", f"/rooms/lab/tasks/@internal:{JOB}", {}), ("POST", f"/rooms/lab/tasks/lab:{JOB}", {"payloads": [{}]}),
    ("POST", "/tasks/claim", {"worker_id": SOME}), ("POST", "/tasks/claim", {"worker_id": SOME, "waitSeconds": 5}),
    ("POST", "/tasks/claim", {"worker_id": SOME, "results": [{"id": SOME, "status": "completed"}]}),
    ("POST", "/tasks/claim", {"worker_id": SOME, "limit": 0}), ("GET", f"/tasks/{SOME}", None),
    ("PATCH", f"/tasks/{SOME}", {"status": "running"}), ("POST", f"/tasks/{SOME}/retry", None),
    ("PUT", "/rooms/lab/providers", {"category": "frames", "name": "x"}), ("GET", "/rooms/lab/providers", None),
    ("GET", "/rooms/lab/providers/lab:frames:x/info", None), ("GET", "/rooms/lab/providers/lab:frames:x", None),
    ("DELETE", f"/providers/{SOME}", None), ("GET", "/dead", None), ("GET", f"/dead/{SOME}", None),
    ("DELETE", f"/dead/{SOME}", None),
]  # fmt: skip


@pytest.fixture
async def cut_off(make_people, own_redis):
    """People at a hub whose Redis has gone."""
    async with make_people(redis_url=own_redis.url, redis_timeout_s=5) as people:
        await people["alice"].offering()
        own_redis.kill()
        yield people


async def test_every_call_is_answered_503_with_a_retry_after_while_redis_is_away(cut_off):
    for method, path, body in CALLS:
        for headers in ({}, {"prefer": "wait=5", "idempotency-key": "k"}):
            answer = await cut_off["root"].call(method, path, body, headers=headers)
            is_problem(answer, 503, "store-unavailable")
            assert int(answer.headers["retry-after"]) >= 1
    upload = await cut_off["root"].call(
        "POST", f"/providers/{SOME}/results", content=b"x", headers={"x-request-hash": "h"}
    )
    is_problem(upload, 503, "store-unavailable")


async def test_a_token_that_cannot_be_looked_up_is_neither_accepted_nor_called_wrong(cut_off):
    unheard = Person(cut_off["root"].api, "unheard")
    for method, path, body in CALLS:
        if method != "GET":
            is_problem(await unheard.call(method, path, body), 503, "store-unavailable")


async def test_a_request_that_needs_no_store_is_refused_as_usual(cut_off):
    alice = cut_off["alice"]
    is_problem(await alice.call("POST", "/rooms/a:b/tasks/x", {}), 400, "invalid-room-id")
    is_plain(await cut_off["gone"].call("POST", "/workers"), 401, "Unauthorized")
    is_plain(await alice.call("GET", "/nothing"), 404, "Not Found")
    is_problem(await cut_off["reader"].call("POST", "/workers"), 403, "forbidden")
    assert (await alice.call("PATCH", "/workers/x")).status_code == 422
