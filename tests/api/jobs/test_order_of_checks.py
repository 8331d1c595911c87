"""Which of several things that are wrong with a request is answered: the route, the room, the caller, the request."""

import pytest

from tests.api.jobs.people import JOB, J, is_invalid, is_plain, is_problem

SOME = "3f1c9a64-7d2e-4b58-9c11-5e0a8f7b2d43"  # an id that nothing has
WRITES = [("PUT", "/rooms/{}/jobs"), ("PUT", "/rooms/{}/providers"), ("POST", f"/rooms/{{}}/tasks/lab:{JOB}")]
READS = [
    "/rooms/{}/workers", "/rooms/{}/jobs", f"/rooms/{{}}/jobs/lab:{JOB}", f"/rooms/{{}}/jobs/lab:{JOB}/tasks",
    "/rooms/{}/tasks", "/rooms/{}/providers", "/rooms/{}/providers/lab:x:y/info",
]  # fmt: skip
BAD_ROOMS = ["a:b", "@lab", "a@b", "@Global", "lab@internal", ":"]
NEEDS_A_USER = [
    ("POST", "/workers"), ("PATCH", f"/workers/{SOME}"), ("DELETE", f"/workers/{SOME}"), ("PUT", "/rooms/lab/jobs"),
    ("POST", f"/rooms/lab/tasks/lab:{JOB}"), ("POST", "/tasks/claim"), ("PATCH", f"/tasks/{SOME}"),
    ("PUT", "/rooms/lab/providers"), ("GET", "/rooms/lab/providers/lab:x:y"), ("DELETE", f"/providers/{SOME}"),
    ("POST", f"/providers/{SOME}/results"), ("POST", f"/tasks/{SOME}/retry"), ("GET", "/dead"),
    ("GET", f"/dead/{SOME}"), ("DELETE", f"/dead/{SOME}"),
]  # fmt: skip


@pytest.mark.parametrize("room", BAD_ROOMS)
@pytest.mark.parametrize(("method", "path"), WRITES, ids=["job", "provider", "submit"])
async def test_routes_that_write_refuse_a_wrong_room_before_a_missing_token(people, method, path, room):
    for name in ("stranger", "gone", "alice"):
        answer = await people[name].call(method, path.format(room), content=b"no JSON")
        assert "invalid characters" in is_problem(answer, 400, "invalid-room-id")["detail"]


@pytest.mark.parametrize("room", BAD_ROOMS)
@pytest.mark.parametrize("path", READS)
async def test_routes_that_read_refuse_a_wrong_room_after_everything_else(make_people, path, room):
    async with make_people(anonymous_reads=False) as people:
        is_plain(await people["stranger"].call("GET", path.format(room)), 401, "Unauthorized")
        if path.endswith(("workers", "jobs", "tasks", "providers")):
            is_invalid(await people["alice"].call("GET", path.format(room) + "?limit=x"), ["query", "limit"])
        is_problem(await people["alice"].call("GET", path.format(room)), 400, "invalid-room-id")


async def test_a_read_of_a_provider_without_a_user_is_refused_before_its_room_is_checked(people):
    is_plain(await people["stranger"].call("GET", "/rooms/a:b/providers/x:y:z"), 401, "Unauthorized")
    is_problem(await people["alice"].call("GET", "/rooms/a:b/providers/x:y:z"), 400, "invalid-room-id")


@pytest.mark.parametrize(("method", "path"), NEEDS_A_USER, ids=str)
async def test_an_unknown_caller_is_refused_before_anything_else_is_checked(people, method, path):
    for name in ("stranger", "gone"):
        for wrong in (path, path.replace(SOME, "no-uuid")):
            answer = await people[name].call(method, wrong, content=b"{no JSON")
            is_plain(answer, 401, "Unauthorized")
            assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(("method", "path"), [row for row in NEEDS_A_USER if SOME in row[1]], ids=str)
async def test_a_path_with_an_invalid_uuid_does_not_validate(people, method, path):
    name = {"workers": "worker_id", "tasks": "task_id", "providers": "provider_id", "dead": "task_id"}[
        path.split("/")[1]
    ]
    for wrong in ("no-uuid", SOME + "0", SOME[:-1], "%00", "%FF", "é"):
        answer = await people["root"].call(method, path.replace(SOME, wrong), content=b"{}")
        assert is_invalid(answer, ["path", name]) == ["uuid_parsing"]


async def test_a_uuid_is_accepted_in_every_spelling_that_parsers_take(alice):
    worker = await alice.worker()
    for spelt in (worker.upper(), worker.replace("-", ""), f"{{{worker}}}", f"urn:uuid:{worker}"):
        answer = await alice.call("PATCH", f"/workers/{spelt}")
        assert (answer.status_code, answer.json()["id"]) == (200, worker)
        assert (await alice.claim(spelt)).json() == {"task": None}


async def test_an_invalid_request_is_refused_before_its_subject_is_looked_up(people):
    root = people["root"]
    is_invalid(await root.call("PATCH", f"/tasks/{SOME}", {"status": "done"}), ["body", "status"])
    is_problem(await root.call("PATCH", f"/tasks/{SOME}", {"status": "running"}), 404, "task-not-found")
    is_invalid(await root.call("POST", f"/providers/{SOME}/results"), ["header", "x-request-hash"])
    upload = await root.call("POST", f"/providers/{SOME}/results", headers={"x-request-hash": ""})
    is_problem(upload, 404, "provider-not-found")
    is_invalid(await root.call("POST", f"/rooms/lab/tasks/lab:{JOB}", {"payload": []}), ["body", "payload"])
    is_problem(await root.call("POST", f"/rooms/lab/tasks/lab:{JOB}", {}), 404, "job-not-found")
    is_invalid(await people["alice"].call("PUT", "/rooms/@global/jobs", {"category": "x"}), ["body", "name"])
    refused = await people["alice"].call("PUT", "/rooms/@global/jobs", {"category": "x", "name": "y"})
    is_problem(refused, 403, "forbidden")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "", 404), ("GET", "/", 404), ("GET", "/nothing", 404), ("POST", "/workers/", 404),
        ("GET", "/tasks", 404), ("GET", f"/workers/{SOME}/x", 404),
        ("GET", "/rooms//jobs", 404), ("GET", "/rooms/a/b/workers", 404),
        ("POST", "/rooms//tasks/x", 404), ("PATCH", "/tasks/", 404), ("PATCH", f"/workers/{SOME}/", 404),
        ("PUT", "/workers", 405), ("GET", f"/workers/{SOME}", 405), ("POST", f"/tasks/{SOME}", 405),
        ("DELETE", "/tasks/claim", 405), ("HEAD", f"/workers/{SOME}", 405), ("GET", f"/rooms/lab/tasks/lab:{JOB}", 405),
        ("BREW", "/dead", 405),
    ],
)  # fmt: skip
async def test_an_unknown_path_or_method_is_answered_as_the_framework_does_for_any_caller(people, method, path, status):
    answer = await people["stranger"].call(method, path)
    if method == "HEAD":
        assert answer.status_code == status
        return
    is_plain(answer, status, "Not Found" if status == 404 else "Method Not Allowed")
    assert ("allow" in answer.headers) == (status == 405)


async def test_the_jobs_api_has_no_alias_under_other_path_prefixes(people):
    api = people["alice"].api
    for path in (f"/api/v1{J}/workers", f"{J[3:]}/workers", f"/api/v1{J[3:]}/workers"):
        answer = await api.get(path)
        assert (answer.status_code, answer.json()["code"]) == (404, "not-found"), path
    assert (await api.get("/v1/joblibs")).json()["code"] == "not-found"
    assert (await api.get("/api/v1/nodes")).status_code == 200
    assert (await api.get(f"{J}/workers")).status_code == 200


SCOPES = {"worker": "worker", "submitter": "submit", "reader": "read", "admin": "admin"}
SCOPED = {
    "worker": [
        ("POST", "/workers"), ("PATCH", f"/workers/{SOME}"), ("DELETE", f"/workers/{SOME}"), ("PUT", "/rooms/lab/jobs"),
        ("POST", "/tasks/claim"), ("PUT", "/rooms/lab/providers"), ("DELETE", f"/providers/{SOME}"),
        ("POST", f"/providers/{SOME}/results"),
    ],
    "submitter": [("POST", f"/rooms/lab/tasks/lab:{JOB}"), ("POST", f"/tasks/{SOME}/retry")],
    "worker submitter": [("PATCH", f"/tasks/{SOME}")],
    "reader": [("GET", "/rooms/lab/providers/lab:x:y")],
    "admin": [("GET", "/dead"), ("GET", f"/dead/{SOME}"), ("DELETE", f"/dead/{SOME}")],
}  # fmt: skip


@pytest.mark.parametrize("allowed", SCOPED, ids=list(SCOPED))
async def test_each_scope_opens_what_its_holder_needs_and_nothing_else(people, allowed):
    for method, path in SCOPED[allowed]:
        for name, scope in SCOPES.items():
            answer = await people[name].call(method, path, content=b"{")
            if name in allowed.split():
                assert answer.status_code not in (401, 403), (name, path, answer.text)
            else:
                assert is_problem(answer, 403, "forbidden")["detail"].endswith(f"the one shown has {scope}.")


async def test_dead_letters_are_for_superusers_and_for_tokens_with_the_scope_of_operators(people):
    answers = {name: (await person.call("GET", "/dead")).status_code for name, person in people.items()}
    assert {name for name, status in answers.items() if status == 200} == {"root", "admin"}
    assert {name for name, status in answers.items() if status == 401} == {"stranger", "gone"}


async def test_with_anonymous_reads_off_a_read_without_a_token_is_refused(make_people):
    paths = ["/workers", *(path.format("lab") for path in READS), f"/tasks/{SOME}"]
    async with make_people() as people:
        assert 401 not in [(await people["stranger"].call("GET", path)).status_code for path in paths]
    async with make_people(anonymous_reads=False) as people:
        for path in paths:
            is_plain(await people["stranger"].call("GET", path), 401, "Unauthorized")
            is_problem(await people["worker"].call("GET", path), 403, "forbidden")
            assert (await people["reader"].call("GET", path)).status_code in (200, 404)
