"""Additions to the plain jobs API: many tasks at once, options, claims that report, repeats, and dead letters."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.api.jobs.people import JOB, is_invalid, is_plain, is_problem

SOME = "3f1c9a64-7d2e-4b58-9c11-5e0a8f7b2d43"  # an id that nothing has
PLAIN = {
    "id", "job_name", "room_id", "status", "created_at", "started_at", "completed_at", "worker_id", "error", "payload",
    "queue_position",
}  # fmt: skip
KEY = "idempotency-key"


def ago(**span):
    return (datetime.now(UTC) - timedelta(**span)).isoformat()


async def test_a_task_shows_the_options_it_was_submitted_with_and_no_others(alice):
    await alice.offering()
    later = datetime.now(UTC).replace(microsecond=7) + timedelta(hours=1)
    for asked, more in (
        ({}, {}),
        ({"priority": None, "maxAttempts": None, "notBefore": None, "backoffSeconds": None}, {}),
        ({"priority": -100}, {"priority": -100}),
        ({"maxAttempts": 3, "backoffSeconds": 0.5}, {"attempt": 1, "maxAttempts": 3}),
        ({"notBefore": later.isoformat()}, {"notBefore": later.strftime("%Y-%m-%dT%H:%M:%S.000007Z")}),
        ({"notBefore": ago(days=30)}, {}),
    ):
        answer = await alice.submit({"payload": {"a": 1}, **asked})
        assert answer.status_code == 202, answer.text
        task = answer.json()
        assert {name: value for name, value in task.items() if name not in PLAIN} == more
        assert (task["status"], task["queue_position"] is None) == ("pending", "notBefore" in more)


@pytest.mark.parametrize(
    "wrong",
    [
        {"priority": 101}, {"priority": -101}, {"priority": 1.5}, {"priority": "1"}, {"priority": True},
        {"priority": 10**30}, {"maxAttempts": 0}, {"maxAttempts": 101}, {"maxAttempts": 1.0}, {"backoffSeconds": -1},
        {"backoffSeconds": 3601},
        {"backoffSeconds": "x"}, {"notBefore": "soon"}, {"notBefore": "2030-01-01T00:00:00"}, {"notBefore": 1893456000},
        {"notBefore": "1893456000"}, {"notBefore": "2100-01-01T00:00:00Z"},
        {"notBefore": "9999-12-31T23:59:59.999999Z"},
        {"notBefore": "2030-13-01T00:00:00Z"}, {"payloads": {}}, {"payloads": []}, {"payloads": "x"},
    ],
)  # fmt: skip
async def test_an_option_with_an_impossible_value_does_not_validate(alice, wrong):
    await alice.offering()
    is_invalid(await alice.submit(wrong), ["body", *wrong])
    assert (await alice.call("GET", "/rooms/lab/tasks")).json()["total"] == 0


async def test_a_submit_with_payload_and_payloads_is_refused_and_each_payload_must_be_an_object(alice):
    await alice.offering()
    is_invalid(await alice.submit({"payload": {}, "payloads": [{}]}), ["body", "payload"])
    is_invalid(await alice.submit({"payloads": [{}, None, []]}), ["body", "payloads", 1], ["body", "payloads", 2])
    answer = await alice.submit({"payloads": [{"n": 1}, {"n": 2}], "maxAttempts": 2})
    assert (answer.status_code, answer.headers["retry-after"], set(answer.json())) == (202, "1", {"ids"})
    assert "location" not in answer.headers
    found = [(await alice.look(task)).json() for task in answer.json()["ids"]]
    assert [(task["payload"], task["maxAttempts"], task["queue_position"]) for task in found] == [
        ({"n": 1}, 2, 1),
        ({"n": 2}, 2, 2),
    ]


async def test_a_submit_that_is_repeated_with_its_key_is_answered_with_the_same_tasks(people):
    alice, bob = people["alice"], people["bob"]
    await alice.offering()
    first, again = [await alice.submit({"payload": {"a": 1}}, headers={KEY: "k"}) for _ in range(2)]
    assert (again.status_code, again.json()) == (202, first.json())
    assert again.headers["location"] == first.headers["location"]
    for body, room in (
        ({"payload": {"a": 2}}, "lab"),
        ({"payload": {"a": 1}, "priority": 1}, "lab"),
        ({"payload": {"a": 1}}, "x"),
    ):
        is_problem(await alice.submit(body, room, headers={KEY: "k"}), 422, "key-reused")
    foreign = await bob.submit({"payload": {"a": 1}}, headers={KEY: "k"})
    assert foreign.json()["id"] != first.json()["id"]
    many = [(await alice.submit({"payloads": [{}, {}]}, headers={KEY: "m"})).json()["ids"] for _ in range(2)]
    assert many[0] == many[1]
    assert (await alice.call("GET", "/rooms/lab/tasks")).json()["total"] == 4


@pytest.mark.parametrize("key", ["", "   ", "k" * 256])
async def test_an_empty_or_too_long_key_does_not_validate(alice, key):
    worker = await alice.offering()
    task = await alice.task()
    for method, path, body in (
        ("POST", f"/rooms/lab/tasks/lab:{JOB}", {}), ("POST", "/tasks/claim", {"worker_id": worker}),
        ("PATCH", f"/tasks/{task}", {"status": "cancelled"}),
    ):  # fmt: skip
        answer = await alice.call(method, path, body, headers={KEY: key})
        is_invalid(answer, ["header", "idempotency-key"])
    assert (await alice.submit(headers={KEY: "k" * 255})).status_code == 202


async def test_a_claim_with_a_limit_answers_with_a_list_of_tasks(alice):
    worker = await alice.offering()
    tasks = [await alice.task(n=n) for n in range(5)]
    some = (await alice.claim(worker, limit=2)).json()
    assert [each["id"] for each in some["tasks"]] == tasks[:2]
    assert (some["task"], some["results"]) == (some["tasks"][0], [])
    assert (await alice.claim(worker, limit=0)).json() == {"task": None, "tasks": [], "results": []}
    running = (await alice.claim(worker, limit=100, start=True)).json()["tasks"]
    assert [(each["id"], each["status"], each["started_at"] is None) for each in running] == [
        (task, "running", False) for task in tasks[2:]
    ]
    assert (await alice.claim(worker)).json() == {"task": None}


async def test_a_claim_with_limit_0_by_another_user_than_the_owner_of_the_worker_is_refused(people):
    worker = await people["alice"].offering()
    for body in (
        {"limit": 0},
        {"limit": 0, "results": []},
        {"limit": 0, "results": [{"id": SOME, "status": "failed"}]},
    ):
        is_problem(await people["root"].claim(worker, **body), 403, "forbidden")
        is_problem(await people["root"].claim(SOME, **body), 404, "worker-not-found")


async def test_results_sent_with_a_claim_are_stored_before_the_claim_takes_tasks(people):
    alice = people["alice"]
    worker, other = await alice.offering(), await alice.offering()
    done, failed, back, foreign = [await alice.task(n=n) for n in range(4)]
    await alice.claim(worker, limit=3, start=True)
    await alice.claim(other)
    results = [
        {"id": done, "status": "completed"}, {"id": failed, "status": "failed", "error": "broken"},
        {"id": back.upper(), "status": "pending"}, {"id": foreign, "status": "failed"},
        {"id": SOME, "status": "failed"},
    ]  # fmt: skip
    answer = (await alice.claim(worker, results=results)).json()
    assert [each["outcome"] for each in answer["results"]] == ["ok", "ok", "ok", "forbidden", "gone"]
    assert [each["id"] for each in answer["results"]] == [done, failed, back, foreign, SOME]
    assert (set(answer), answer["task"]["id"]) == ({"task", "results"}, back)
    assert [(await alice.look(task)).json()["error"] for task in (done, failed)] == [None, "broken"]


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        ({"limit": 101}, ["limit"]), ({"limit": -1}, ["limit"]), ({"limit": "1"}, ["limit"]),
        ({"limit": True}, ["limit"]),
        ({"waitSeconds": -1}, ["waitSeconds"]), ({"waitSeconds": "x"}, ["waitSeconds"]), ({"start": 1}, ["start"]),
        ({"maxRuntimeSeconds": 0}, ["maxRuntimeSeconds"]), ({"maxRuntimeSeconds": 1e9}, ["maxRuntimeSeconds"]),
        ({"results": {}}, ["results"]), ({"results": [{}] * 101}, ["results"]),
        ({"results": [{"id": SOME, "status": "claimed"}]}, ["results", 0, "status"]),
        ({"results": [{"id": "x", "status": "failed"}]}, ["results", 0, "id"]),
    ],
)  # fmt: skip
async def test_an_invalid_claim_claims_nothing(alice, wrong, place):
    worker = await alice.offering()
    task = await alice.task()
    is_invalid(await alice.claim(worker, **wrong), ["body", *place])
    assert (await alice.look(task)).json()["status"] == "pending"


async def test_a_claim_that_is_repeated_with_its_key_reports_once_and_gets_the_same_tasks(alice):
    worker = await alice.offering()
    before, _, _ = [await alice.task(n=n) for n in range(3)]
    await alice.claim(worker, start=True)
    body = {"limit": 1, "results": [{"id": before, "status": "completed"}]}
    first, again = [(await alice.claim(worker, {KEY: "c1"}, **body)).json() for _ in range(2)]
    assert again == first
    assert first["results"] == [{"id": before, "outcome": "ok"}]
    assert (await alice.claim(worker, {KEY: "c2"})).json()["task"]["id"] != first["task"]["id"]


async def test_a_status_of_a_task_that_is_set_again_with_its_key_gets_the_same_answer(alice):
    worker = await alice.offering()
    task = await alice.task()
    await alice.claim(worker)

    async def move(status, key):
        return await alice.call("PATCH", f"/tasks/{task}", {"status": status}, headers={KEY: key})

    first, again = [await move("running", "m1") for _ in range(2)]
    assert (again.status_code, again.json()) == (200, first.json())
    is_problem(await move("running", "m2"), 409, "invalid-task-transition")


async def test_a_submitter_may_cancel_its_task_with_a_token_for_submits_only(people):
    worker = await people["alice"].offering()
    task = await people["alice"].task()
    is_problem(await people["reader"].move(task, "cancelled"), 403, "forbidden")
    assert (await people["alice"].claim(worker)).json()["task"]["id"] == task
    for status in ("running", "failed"):
        is_problem(await people["submitter"].move(task, status), 403, "forbidden")
    assert (await people["worker"].move(task, "running")).json()["status"] == "running"
    assert (await people["submitter"].move(task, "cancelled")).json()["status"] == "cancelled"


async def test_a_task_that_fails_its_last_attempt_is_a_dead_letter_until_it_is_dropped_or_retried(people):
    alice, root = people["alice"], people["root"]
    worker = await alice.offering()
    dropped, retried = [
        (await alice.submit({"payload": {"n": n}, "maxAttempts": 2, "backoffSeconds": 0})).json()["id"]
        for n in range(2)
    ]
    for _ in range(4):
        task = (await alice.claim(worker)).json()["task"]["id"]
        await alice.move(task, "failed", error="no")
    dead = (await root.call("GET", "/dead")).json()
    assert ({each["id"] for each in dead["items"]}, dead["total"]) == ({dropped, retried}, 2)
    assert {(each["attempt"], each["maxAttempts"], each["status"]) for each in dead["items"]} == {(2, 2, "failed")}
    assert (await root.call("GET", f"/dead/{dropped}")).json() in dead["items"]

    gone = await root.call("DELETE", f"/dead/{dropped}")
    assert (gone.status_code, gone.content) == (204, b"")
    for method in ("GET", "DELETE"):
        is_problem(await root.call(method, f"/dead/{dropped}"), 404, "task-not-found")
    assert (await alice.look(dropped)).json()["status"] == "failed"

    is_problem(await people["bob"].call("POST", f"/tasks/{retried}/retry"), 403, "forbidden")
    again = await people["submitter"].call("POST", f"/tasks/{retried}/retry")
    assert (again.status_code, again.json()["payload"], again.json()["status"]) == (202, {"n": 1}, "pending")
    assert again.json()["id"] != retried
    assert again.headers["location"].endswith(again.json()["id"])
    assert (await root.call("GET", "/dead")).json()["total"] == 0


async def test_only_failed_and_cancelled_tasks_can_be_retried(alice):
    await alice.offering()
    task = await alice.task(a=1.0)
    is_problem(await alice.call("POST", f"/tasks/{task}/retry"), 409, "invalid-task-transition")
    is_problem(await alice.call("POST", f"/tasks/{SOME}/retry"), 404, "task-not-found")
    await alice.task()  # keeps the job
    await alice.move(task, "cancelled")
    again = await alice.call("POST", f"/tasks/{task}/retry")
    assert (again.status_code, again.json()["payload"]) == (202, {"a": 1.0})


async def test_options_are_refused_for_internal_jobs(people):
    for option in ({"priority": 1}, {"maxAttempts": 2}, {"backoffSeconds": 1}, {"notBefore": "2030-01-01T00:00:00Z"}):
        answer = await people["alice"].call("POST", f"/rooms/lab/tasks/@internal:{JOB}", option)
        is_invalid(answer, ["body"])


async def test_an_open_hub_treats_every_caller_as_one_superuser(api):
    made = await api.post("/v1/joblib/workers")
    assert made.status_code == 201
    job = {"category": "modifiers", "name": "x", "worker_id": made.json()["id"]}
    assert (await api.put("/v1/joblib/rooms/@global/jobs", json=job)).status_code == 201
    assert (await api.get("/v1/joblib/dead")).status_code == 200
    wrong = await api.post("/v1/joblib/workers", headers={"authorization": "Bearer x"})
    assert wrong.status_code == 201


async def test_a_closed_hub_accepts_the_admin_secret(make_api):
    async with make_api(runner_secret="r", node_secret="n", admin_secret="a") as api:
        for secret, status in (("a", 201), ("r", 401), ("n", 401), ("", 401)):
            answer = await api.post("/v1/joblib/workers", headers={"x-hub-secret": secret})
            assert answer.status_code == status
        is_plain(await api.get("/v1/joblib/dead"), 401, "Unauthorized")
