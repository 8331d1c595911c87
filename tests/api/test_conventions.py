"""Rules for every path: the alias, problem documents, sizes, methods, and refusals of callers."""

from __future__ import annotations

import json
import re
from uuid import uuid4

import pytest

from hub.api.capacity import pools as pools_api
from hub.errors import StoreFault
from hub.observability import metrics
from hub.store.store import Store
from tests.world import borrow, picture, publish


def is_problem(answer, status, code, path):
    document = answer.json()
    assert answer.status_code == document["status"] == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert (document["code"], document["instance"]) == (code, path)
    assert document["type"].startswith("http")
    assert document["title"]
    assert ("traceId" in document) == (status != 413)
    return document


async def test_every_path_has_an_alias_and_problems_name_the_path_without_the_prefix(api):
    await publish(api, "n1", **{"a:b": ["s1"]})
    document = (await api.get("/openapi.json")).json()
    for path in (
        "/nodes",
        "/pools",
        "/pools/a:b",
        "/health",
        "/health/ready",
        "/ready",
        "/metrics",
        "/sessions",
        "/audit",
    ):
        plain, alias = await api.get(path), await api.get(f"/api/v1{path}")
        assert (alias.status_code, alias.headers["content-type"]) == (200, plain.headers["content-type"]), path
    assert "/pools" in document["paths"]
    for method, path in (("POST", "/session/borrow"), ("GET", "/nodes/x"), ("GET", "/nothing"), ("PUT", "/nodes")):
        plain, alias = await api.request(method, path), await api.request(method, f"/api/v1{path}")
        assert alias.status_code == plain.status_code
        assert alias.json()["instance"] == path
    beaten = await api.post("/api/v1/node/heartbeat", json={"nodeId": "n1"})
    assert beaten.json()["known"]
    for path in ("/api/v1", "/api/v1nodes", "/api/v2/nodes", "/api/v1/api/v1/nodes"):
        assert (await api.get(path)).status_code == 404, path


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "not-found"),
        ("GET", "/nodes/", 400, "invalid-value"),
        ("POST", "/session/borrow/", 404, "not-found"),
        ("GET", "/session/borrow", 405, "method-not-allowed"),
        ("PATCH", "/session/borrow", 405, "method-not-allowed"),
        ("BREW", "/session/borrow", 405, "method-not-allowed"),
        ("GET", "/node/heartbeat", 405, "method-not-allowed"),
        ("POST", "/session/borrow", 400, "invalid-json"),
        ("GET", "/sessions/s1", 404, "not-found"),
        ("GET", "/pools/a:b", 404, "not-found"),
        ("GET", "/pools/a", 400, "invalid-label"),
    ],
)
async def test_a_refusal_is_a_problem_document(api, method, path, status, code):
    answer = await api.request(method, path)
    document = is_problem(answer, status, code, path)
    assert set(document) <= {"type", "title", "status", "code", "detail", "instance", "traceId", "reason", "member"}
    assert document["detail"]


async def test_a_wrong_method_is_refused_with_the_list_of_allowed_methods(api):
    assert "POST" in (await api.get("/session/borrow")).headers["allow"]
    assert "GET" in (await api.delete("/pools")).headers["allow"]


async def test_every_path_that_answers_get_also_answers_head(api):
    await publish(api, "n1", **{"a:b": ["s1"]})
    known = {"node_id": "n1", "label": "a:b", "slot": "s1", "kind": "node", "id": "n1", "room_id": "lab"}
    paths = (await api.get("/openapi.json")).json()["paths"]
    got = ["/docs", "/openapi.json", *(path for path in paths if "get" in paths[path] and path != "/events")]
    for path in got:
        named = re.sub(r"\{(\w+)\}", lambda part: known.get(part[1], "none"), path)
        whole, head = await api.get(named), await api.head(named)
        assert (head.status_code, head.content) == (whole.status_code, b""), path
        assert head.headers["content-type"] == whole.headers["content-type"], path


async def test_each_request_has_its_own_trace_id(api):
    first, second = [(await api.get("/nothing")).json()["traceId"] for _ in range(2)]
    assert first != second


async def test_an_unforeseen_error_is_a_problem_document_that_reveals_no_internals(api, monkeypatch, caplog):
    async def broken(*_):
        raise RuntimeError("the password is hunter2")

    monkeypatch.setattr(pools_api, "state", broken)
    answer = await api.get("/pools")
    is_problem(answer, 500, "internal", "/pools")
    assert "hunter2" not in answer.text
    assert "hunter2" in caplog.text


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("POST", "/node/register", "store-fault"),
        ("POST", "/session/return", "store-fault"),
        ("POST", "/v1/joblib/workers", None),
        ("POST", "/v1/joblib/tasks/claim", None),
    ],
)
async def test_an_error_reply_of_redis_is_logged_for_the_operator(api, monkeypatch, caplog, method, path, code):
    async def refuse(store, script, arguments):
        raise StoreFault(f"{script.name}: the password is hunter2")

    before = metrics.unhandled._value.get()
    monkeypatch.setattr(Store, "call", refuse)
    body = {"worker_id": str(uuid4()), "labelKey": "a:b", "browserId": "s1", "nodeId": "n1"}
    answer = await api.request(method, path, json=body)
    assert (answer.status_code, answer.json().get("code")) == (500, code)
    assert "hunter2" not in answer.text
    assert "hunter2" in caplog.text
    assert metrics.unhandled._value.get() == before + 1


LIMIT = 65_536


def padded(size, **members):
    body = json.dumps(members).encode()
    return body[:-1] + b" " * (size - len(body)) + b"}"


POSTS = [
    ("/session/borrow", {"labelKey": "a:b"}), ("/node/heartbeat", {"nodeId": "n1"}),
    ("/node/register", {"nodeId": "n1"}), ("/node/heartbeats", {"beats": []}),
    ("/session/return", {"labelKey": "a:b", "browserId": "s1"}),
]  # fmt: skip


@pytest.mark.parametrize("chunked", [False, True], ids=["with a length", "chunked"])
@pytest.mark.parametrize(("path", "members"), POSTS, ids=[row[0] for row in POSTS])
async def test_a_body_may_have_exactly_the_limit_and_not_a_byte_more(api, redis, path, members, chunked):
    async def pieces(body):
        for start in range(0, len(body), 10_000):
            yield body[start : start + 10_000]

    await publish(api, "n1", **{"a:b": ["s1", "s2"]})
    fits, over = padded(LIMIT, **members), padded(LIMIT + 1, **members)
    assert (len(fits), len(over)) == (LIMIT, LIMIT + 1)
    taken = await api.post(path, content=pieces(fits) if chunked else fits)
    assert taken.status_code == 200, taken.text
    before = picture(redis)
    refused = await api.post(path, content=pieces(over) if chunked else over)
    document = is_problem(refused, 413, "too-large", path)
    assert str(LIMIT) in document["detail"]
    assert document["title"] == "Payload Too Large"
    assert picture(redis) == before


async def test_the_body_size_is_checked_before_the_secret(make_api):
    async with make_api(node_secret="n", runner_secret="r") as api:
        for path, _ in POSTS:
            assert (await api.post(path, content=b"x" * (LIMIT + 1))).status_code == 413
            assert (await api.post(path, content=b"x" * LIMIT)).status_code == 401


async def test_the_log_paths_have_a_separate_limit_of_body_size(make_api):
    async with make_api(max_log_body_bytes=100_000) as api:
        assert (await api.post("/results/x/commands", content=b"x" * 100_000)).status_code == 404
        assert (await api.post("/results/x/commands", content=b"x" * 100_001)).status_code == 413
        assert (await api.post("/results/x/api-logs", content=b"x" * 100_001)).status_code == 413


async def test_the_limit_of_body_size_can_be_set(make_api):
    async with make_api(max_control_body_bytes=8192) as api:
        assert (await api.post("/session/borrow", content=b"x" * 8192)).status_code == 400
        assert (await api.post("/session/borrow", content=b"x" * 8193)).status_code == 413


async def test_answers_are_json_under_any_accept_header(api):
    await publish(api, "n1", **{"a:b": ["s1"]})
    for headers in ({"accept": "text/html"}, {"accept": "application/xml"}, {"accept-encoding": "br"}):
        assert (await api.get("/pools", headers=headers)).headers["content-type"] == "application/json"


async def test_the_root_path_redirects_to_the_dashboard(make_api):
    async with make_api(dashboard_url="http://dash:3001/x") as api:
        root, dashboard = await api.get("/"), await api.get("/dashboard")
    assert (root.status_code, root.headers["location"]) == (302, "/dashboard")
    assert (dashboard.status_code, dashboard.headers["location"]) == (302, "http://dash:3001/x")


ROLES = {
    "runner": [("POST", "/results/browser/s/test")],
    "node": [("POST", "/node/register"), ("POST", "/node/heartbeats"), ("DELETE", "/node/n")],
    "admin": [
        ("POST", "/admin/pools/a:b/restart"), ("POST", "/admin/nodes/n/drain"), ("DELETE", "/admin/nodes/n"),
        ("GET", "/admin/brake"), ("POST", "/admin/brake/release"), ("GET", "/admin/caps"), ("PUT", "/admin/caps/a:b"),
        ("PUT", "/admin/sweeper"), ("POST", "/admin/sweep"), ("GET", "/audit"), ("GET", "/diagnostics"),
    ],
    "runner admin": [
        ("POST", "/session/borrow"), ("POST", "/session/renew"),
        ("GET", "/history"), ("GET", "/why/slot/s"), ("GET", "/sessions"), ("GET", "/sessions/s"),
        ("GET", "/autoscale/a:b"), ("GET", "/queue"), ("GET", "/queue/t"), ("DELETE", "/queue/t"),
    ],
    "runner admin node": [
        ("POST", "/session/return"),
        ("GET", "/pools"), ("GET", "/nodes?detail=1"), ("GET", "/nodes/n/safe-to-kill"),
        ("GET", "/leases/s/verify?token=1"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("allowed", ROLES, ids=list(ROLES))
async def test_each_secret_opens_what_its_holder_needs_and_nothing_else(make_api, allowed):
    async with make_api(runner_secret="runner-x", node_secret="node-x", admin_secret="admin-x") as api:
        for method, path in ROLES[allowed]:
            opened = {
                role
                for role in ("runner", "node", "admin")
                if (await api.request(method, path, headers={"x-hub-secret": f"{role}-x"}, json={})).status_code != 401
            }
            assert opened == set(allowed.split()), path


async def test_without_an_admin_secret_the_runner_secret_opens_admin_calls(make_api):
    async with make_api(runner_secret="r", node_secret="n") as api:
        status = [(await api.get("/audit", headers={"x-hub-secret": secret})).status_code for secret in ("r", "n", "")]
    assert status == [200, 401, 401]


async def test_a_role_without_a_secret_is_closed_once_another_role_has_one(make_api):
    async with make_api(runner_secret="r") as api:
        for secret in ("r", "", "None", "none"):
            answer = await api.post("/node/register", json={"nodeId": "n1"}, headers={"x-hub-secret": secret})
            assert answer.status_code == 401


async def test_a_list_of_secrets_accepts_each_member_and_the_whole_text(make_api):
    async with make_api(runner_secret="old, new ,,last", node_secret="n") as api:
        opened = [
            secret
            for secret in ("old", "new", "last", "old, new ,,last", "old,new", ",", "ol", "oldx", "OLD")
            if (await borrow_as(api, secret)).status_code != 401
        ]
    assert opened == ["old", "new", "last", "old, new ,,last", " new "] or opened == [
        "old",
        "new",
        "last",
        "old, new ,,last",
    ]


async def borrow_as(api, secret):
    return await api.post("/session/borrow", json={"labelKey": "a:b"}, headers={"x-hub-secret": secret})


async def test_a_secret_beyond_ascii_is_compared_by_its_bytes(make_api):
    async with make_api(runner_secret="schlüssel-€", node_secret="n") as api:
        sent = [(b"x-hub-secret", "schlüssel-€".encode())]
        answer = await api.post("/session/borrow", json={"labelKey": "a:b"}, headers=sent)
        assert answer.status_code == 503
        beaten = await api.post("/node/heartbeat", json={"nodeId": "n1"}, headers=sent)
        assert beaten.status_code == 401


async def test_without_any_secret_every_caller_may_do_everything(api):
    await publish(api, "n1", **{"a:b": ["s1"]})
    assert (await borrow(api, "a:b")).status_code == 200
    assert (await api.get("/diagnostics")).status_code == 200
