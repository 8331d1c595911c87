"""How large requests may be, each by its path."""

import json

import pytest

from hub.api.app import TABLE
from hub.api.handling.bounds import BATCH_BYTES, ERRORS_BYTES, SLACK_BYTES, Bounds
from hub.jobs.names import params_hash
from tests.api.jobs.people import JOB, is_problem
from tests.world import settings_for

KIB = 1024
SUBMIT = f"/rooms/lab/tasks/lab:{JOB}"


def sized(size, filler="x"):
    """Return an object of exactly so many bytes."""
    room, width = size - len('{"a":""}'), len(filler.encode())
    return {"a": filler * (room // width) + "y" * (room % width)}


@pytest.mark.parametrize("filler", ["x", "ü"], ids=["ASCII", "beyond"])
async def test_a_payload_may_have_exactly_the_limit_and_not_a_byte_more(make_people, filler):
    async with make_people(task_payload_max_bytes=4 * KIB) as people:
        alice = people["alice"]
        await alice.offering()
        fits, over = sized(4 * KIB, filler), sized(4 * KIB + 1, filler)
        spaced = json.dumps({"payload": fits}, indent=8, ensure_ascii=False).encode()
        assert (await alice.call("POST", SUBMIT, content=spaced)).status_code == 202  # blanks do not count
        refused = await alice.submit({"payload": over})
        assert str(4 * KIB) in is_problem(refused, 413, "too-large")["detail"]
        refused = await alice.submit({"payloads": [{}, fits, over]})
        assert "payloads.2" in is_problem(refused, 413, "too-large")["detail"]
        assert (await alice.submit({"payloads": [{}, fits, fits]})).status_code == 202
        assert (await alice.call("GET", "/rooms/lab/tasks")).json()["total"] == 4


@pytest.mark.parametrize("kind", ["jobs", "providers"])
async def test_a_schema_may_have_exactly_the_limit_and_not_a_byte_more(make_people, kind):
    async with make_people(schema_max_bytes=2 * KIB) as people:

        async def put(schema):
            return await people["alice"].call(
                "PUT", f"/rooms/lab/{kind}", {"category": "analysis", "name": "x", "schema_": schema}
            )

        is_problem(await put(sized(2 * KIB + 1)), 413, "too-large")
        assert (await put(sized(2 * KIB))).status_code == 201


async def test_the_answer_of_a_provider_may_have_exactly_the_limit_and_not_a_byte_more(make_people):
    async with make_people(provider_result_max_bytes=100_000) as people:
        alice = people["alice"]
        made = await alice.call("PUT", "/rooms/lab/providers", {"category": "frames", "name": "x"})

        async def upload(size):
            async def pieces():
                for start in range(0, size, 10_000):
                    yield b"x" * min(10_000, size - start)

            path, headers = f"/providers/{made.json()['id']}/results", {"x-request-hash": params_hash({})}
            await alice.call("GET", "/rooms/lab/providers/lab:frames:x", headers={"prefer": "wait=0"})
            whole = await alice.call("POST", path, content=b"x" * size, headers=headers)
            chunked = await alice.call("POST", path, content=pieces(), headers=headers)
            return [whole, chunked]

        assert [answer.status_code for answer in await upload(100_000)] == [204, 204]
        for answer in await upload(100_001):
            is_problem(answer, 413, "too-large")


BOUNDS = Bounds(settings_for("redis://nowhere"))


@pytest.mark.parametrize(
    ("method", "path", "bound"),
    [
        ("POST", SUBMIT, BATCH_BYTES + SLACK_BYTES), ("POST", "/rooms/tasks/tasks/x", BATCH_BYTES + SLACK_BYTES),
        ("PUT", "/rooms/lab/jobs", 256 * KIB + SLACK_BYTES), ("PUT", "/rooms/lab/providers", 256 * KIB + SLACK_BYTES),
        ("POST", "/tasks/claim", ERRORS_BYTES + SLACK_BYTES), ("PATCH", "/tasks/x", ERRORS_BYTES + SLACK_BYTES),
        ("POST", "/providers/x/results", 16 * 1024 * KIB), ("DELETE", "/providers/x", 64 * KIB),
        ("POST", "/workers", 64 * KIB), ("PATCH", "/workers/x", 64 * KIB), ("GET", "/rooms/lab/workers", 64 * KIB),
        ("POST", "", 64 * KIB), ("POST", "/", 64 * KIB), ("POST", "/x/results", 64 * KIB),
    ],
)  # fmt: skip
def test_each_operation_has_its_own_limit_of_body_size(method, path, bound):
    path = f"/v1/joblib{path}"
    assert BOUNDS.of(TABLE.find(method, path), path) == bound


async def test_the_body_size_is_checked_before_the_token(people):
    large = b"x" * (64 * KIB + 1)
    is_problem(await people["stranger"].call("PATCH", "/workers/x", content=large), 413, "too-large")
    assert (await people["stranger"].call("PATCH", "/workers/x", content=large[1:])).status_code == 401


async def test_one_call_takes_at_most_a_thousand_payloads(alice):
    await alice.offering()
    answer = await alice.submit({"payloads": [{"n": n} for n in range(1000)]})
    assert (answer.status_code, len(set(answer.json()["ids"]))) == (202, 1000)
    page = (await alice.call("GET", "/rooms/lab/tasks?limit=500&offset=500")).json()
    assert (page["total"], [task["payload"]["n"] for task in page["items"]]) == (1000, list(range(500))[::-1])
    for count in (0, 1001):
        assert (await alice.submit({"payloads": [{}] * count})).status_code == 422


async def test_the_error_of_a_task_may_be_longer_than_a_payload_and_is_cut_at_its_end(alice):
    worker = await alice.offering()
    task = await alice.task()
    await alice.claim(worker)
    answer = await alice.move(task, "failed", error="é" * 5_000_000)
    assert answer.status_code == 200
    assert answer.json()["error"] == "é" * ((64 * KIB - len(" [cut]")) // 2) + " [cut]"
