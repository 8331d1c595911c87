"""The route table and the router of FastAPI give the same answers to every request."""

import asyncio
import re
from contextlib import asynccontextmanager
from urllib.parse import quote

import httpx
import pytest
from starlette.routing import Match

from hub.api.app import TABLE, create_app
from tests.api.jobs.people import JOB, TOKENS, Person
from tests.world import settings_for

SOME = "3f1c9a64-7d2e-4b58-9c11-5e0a8f7b2d43"  # an id that nothing has
VOLATILE = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\dT[\d:.]+Z")


@asynccontextmanager
async def application(redis_server, tmp_path):
    """An application in which the people of the tests may call."""
    path = tmp_path / "tokens.toml"
    path.write_text(TOKENS)
    edge = create_app(settings_for(redis_server.url, tokens_file=path), sweep=False)
    made = httpx.AsyncClient(transport=httpx.ASGITransport(app=edge), base_url="http://hub")
    async with edge.app.router.lifespan_context(edge.app), made as client:
        yield client


def shown(answer):
    """Return an answer without its ids and times."""
    headers = {name: VOLATILE.sub("*", value) for name, value in answer.headers.items()}
    return answer.status_code, headers, VOLATILE.sub("*", answer.text)


REQUESTS = [
    ("PATCH", "/workers/{worker}", b""), ("PATCH", "/workers/{worker}", b"{nonsense"),
    ("PATCH", f"/workers/{SOME}", b""),
    ("PATCH", "/workers/{foreign}", b""), ("PATCH", "/workers/x", b""), ("PATCH", "/workers/x%0A", b""),
    ("PATCH", "/workers/", b""), ("PATCH", "/workers", b""), ("PATCH", "/workers/{worker}/", b""),
    ("PATCH", "/workers/{worker}/x", b""), ("PATCH", "/workers/%2F", b""), ("PUT", "/workers/{worker}", b""),
    ("POST", "/tasks/claim", b'{"worker_id":"{worker}"}'), ("POST", "/tasks/claim", b'{"worker_id":"{foreign}"}'),
    ("POST", "/tasks/claim", b""), ("POST", "/tasks/claim", b"[]"), ("POST", "/tasks/claim/", b"{}"),
    ("POST", "/tasks/claim%0A", b'{"worker_id":"{worker}"}'), ("POST", "/tasks/claims", b"{}"),
    ("PATCH", "/tasks/{task}", b'{"status":"cancelled"}'), ("PATCH", "/tasks/{task}", b'{"status":"pending"}'),
    ("PATCH", "/tasks/{task}", b'{"status":"x"}'), ("PATCH", f"/tasks/{SOME}", b'{"status":"running"}'),
    ("PATCH", "/tasks/claim", b"{}"), ("PATCH", "/tasks/{task}/retry", b"{}"), ("PATCH", "/tasks//", b"{}"),
    ("POST", f"/rooms/lab/tasks/lab:{JOB}", b'{"payload":{"a":[1.0]}}'), ("POST", f"/rooms/lab/tasks/lab:{JOB}", b""),
    ("POST", f"/rooms/lab/tasks/lab%3A{quote(JOB, safe='')}", b"{}"), ("POST", "/rooms/lab/tasks/", b"{}"),
    ("POST", "/rooms/lab/tasks/a/b//c:d:e/", b"{}"), ("POST", "/rooms/lab/tasks", b"{}"),
    ("POST", "/rooms//tasks/x", b"{}"), ("POST", "/rooms/lab//tasks/x", b"{}"), ("POST", "/rooms/a%2Fb/tasks/x", b"{}"),
    ("POST", "/rooms/a:b/tasks/x", b"{}"), ("POST", "/rooms/tasks/tasks/tasks", b"{}"),
    ("POST", "/rooms/lab/task/x", b"{}"),
    ("POST", f"/rooms/n%0A/tasks/lab:{JOB}", b"{}"), ("POST", "/rooms/lab/tasks/a%0Ab:c:d%0A", b"{}"),
    ("POST", f"/rooms/lab/tasks/lab:{JOB}", b'{"payload":{"a":1},"payloads":[{}]}'),
    ("POST", f"/rooms/lab/tasks/lab:{JOB}", b'{"payloads":[{},{}]}'), ("POST", "/rooms/lab/jobs", b"{}"),
]  # fmt: skip


async def test_the_fast_path_answers_as_the_framework_does(redis_server, redis, tmp_path, monkeypatch):
    answers = []
    for is_plain in (True, False):
        for row in TABLE.rows:
            monkeypatch.setattr(row, "is_plain", is_plain)
        redis.flushall()
        async with application(redis_server, tmp_path) as api:
            alice, bob, stranger = (Person(api, name) for name in ("alice", "bob", "stranger"))
            known = {"{worker}": await alice.offering(), "{foreign}": await bob.worker(), "{task}": await alice.task()}
            found = []
            for person in (stranger, alice):
                for method, path, content in REQUESTS:
                    for name, value in known.items():
                        path, content = path.replace(name, value), content.replace(name.encode(), value.encode())
                    answer = await person.call(method, path, content=content)
                    found.append((method, VOLATILE.sub("*", path), *shown(answer)))
        answers.append(found)
    assert answers[0] == answers[1]
    assert {200, 202, 400, 401, 403, 404, 405, 409, 422} == {status for _, _, status, _, _ in answers[0]}


IDS = {"kind": "slot", "task_id": SOME}


def example(row, part):
    """Return a path of a row, with something that its parts may be."""
    return re.sub(r"\{(\w+)(?::\w+)?\}", lambda found: IDS.get(found[1], part), row.path)


@pytest.mark.parametrize("part", ["x", "lab:a:b", "x/y", "x/", "/x", "", "x\n", "x.y-z"])
def test_the_route_table_finds_the_same_route_as_the_router(part):
    """For each row, by its own method and by all others."""
    app = create_app(settings_for("redis://nowhere"), sweep=False).app
    for path in {example(row, part) + end for row in TABLE.rows for end in ("", "/", "\n", "x")}:
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            scope = {"type": "http", "method": method, "path": path, "root_path": ""}
            matches = ((route, *route.matches(scope)) for route in app.router.routes)
            routed = next(((route, child) for route, match, child in matches if match is Match.FULL), None)
            found = TABLE.find(method, path)
            if routed is None:
                assert not found.is_taken, (method, path)
                continue
            route, child = routed
            assert found.is_taken, (method, path)
            assert (found.row.route, found.parts) == (route, child["path_params"]), (method, path)


def test_no_endpoint_needs_the_dependency_injection_of_the_framework():
    assert [row.path for row in TABLE.rows if not row.is_plain] == []


async def test_heartbeats_that_arrive_together_are_sent_to_redis_together(alice, redis):
    worker = await alice.worker()
    await alice.call("PATCH", f"/workers/{worker}")
    before = redis.info("commandstats")["cmdstat_fcall"]["calls"]
    answers = await asyncio.gather(*(alice.call("PATCH", f"/workers/{worker}") for _ in range(100)))
    times = [answer.json()["last_heartbeat"] for answer in answers]
    assert len(set(times)) == 100  # each later than the one before
    assert redis.info("commandstats")["cmdstat_fcall"]["calls"] - before <= 20
