"""Ids in paths: an escaped slash separates nothing, so that each call is about the id it spells, and no other."""

from __future__ import annotations

import json
import re
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from hub.api.app import create_app
from hub.api.handling import request_counts
from tests.world import settings_for

CONTRACT = Path(__file__).parents[2] / "hub/api/contract/openapi.json"
OPERATIONS = [
    (method.upper(), path)
    for path, methods in json.loads(CONTRACT.read_text())["paths"].items()
    for method in methods
    if "{" in path and method != "parameters"
]
# Ends that look like another route come first; each is one id.
IDS = [
    "bench/slots/3", "bench/slots", "bench/orders", "bench/safe-to-kill", "bench/drain", "bench/cordon",
    "bench/sidecar/upgrade", "x/tasks", "docs/info", "x/restart", "s1/verify", "s1/test", "jobs/lab:modifiers:Rotate",
    "a/b", "/a", "a/", "//", "a%2Fb", "%", "a?b", "a#b", "a;b", "a b", "a\\b", "a+b", "ä/ö", "\N{FIRE}", "a:b:c/d",
    "../x", "x/..", "./x", "...", "{room_id}", "*", "\udc2f".encode("utf-8", "replace").decode(),
]  # fmt: skip
STEPS = [".", ".."]


class Spy:
    """The application, with the scope of its last request."""

    def __init__(self, app):
        self.app, self.scope = app, {}

    async def __call__(self, scope, receive, send):
        self.scope = scope
        await self.app(scope, receive, send)

    @property
    def reached(self):
        """The template of the route that was reached, and the ids in its path."""
        route = self.scope.get(request_counts.ROUTE) or getattr(self.scope.get("route"), "path", None)
        return re.sub(r":\w+(?=\})", "", route or "none"), self.scope.get("path_params")


@asynccontextmanager
async def spied(redis_server, **changes):
    app = create_app(
        settings_for(**{"redis_url": redis_server.url, "provider_long_poll_default_s": 0.05, **changes}), sweep=False
    )
    async with app.app.router.lifespan_context(app.app):
        spy = Spy(app)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=spy), base_url="http://hub") as client:
            yield spy, client


@pytest.mark.slow
async def test_each_operation_gets_the_id_that_its_path_spells(redis_server):
    wrong = []
    async with spied(redis_server) as (spy, client):
        for method, path in OPERATIONS:
            names = re.findall(r"\{(\w+)\}", path)
            for text in IDS:
                ids = {name: "node" if name == "kind" else text for name in names}
                sent = path.format(**{name: quote(each, safe="") for name, each in ids.items()})
                answer = await client.request(method, sent, headers={"prefer": "wait=0"}, json={})
                if spy.reached != (path, ids) or answer.status_code == 500:
                    wrong.append((method, sent, spy.reached, answer.status_code))
    assert wrong == []


async def test_an_unescaped_slash_is_part_of_an_id_where_no_other_route_matches(redis_server):
    async with spied(redis_server) as (spy, client):
        for path, node in (("/nodes/a/b", "a/b"), ("/nodes/a%2Fb", "a/b"), ("/nodes/a/b%2Forders", "a/b/orders")):
            await client.get(path)
            assert spy.reached == ("/nodes/{node_id}", {"node_id": node})


async def test_a_leaving_node_takes_no_slot_of_another_node_with_it(api):
    for node, slot in (("bench", "3"), ("bench/slots/3", "other")):
        body = {"nodeId": node, "slots": [{"labelKey": "gpu:a100", "slotId": slot}]}
        assert (await api.post("/node/register", json=body)).is_success
    lent = (await api.post("/session/borrow", json={"labelKey": "gpu:a100"})).json()
    other = (await api.post("/session/borrow", json={"labelKey": "gpu:a100"})).json()
    assert {lent["browserId"], other["browserId"]} == {"3", "other"}
    assert (await api.delete(f"/node/{quote('bench/slots/3', safe='')}")).is_success
    left = (await api.get("/sessions")).text
    assert '"3"' in left
    assert '"other"' not in left
    assert (await api.get("/nodes/bench")).is_success
    assert (await api.get("/nodes/bench%2Fslots%2F3")).status_code == 404


@pytest.mark.parametrize("step", STEPS)
async def test_an_id_that_no_path_can_spell_is_refused(api, step):
    slots = [{"labelKey": "gpu:a100", "slotId": "s1"}]
    job = {"category": "modifiers", "name": "Rotate"}
    calls = [
        ("POST", "/node/register", {"nodeId": step, "slots": slots}),
        ("POST", "/node/heartbeat", {"nodeId": step}),
        ("POST", "/node/register", {"nodeId": "rack-7", "slots": [{"labelKey": "gpu:a100", "slotId": step}]}),
        ("PUT", f"/v1/joblib/rooms/{step.replace('.', '%2E')}/jobs", job),
        ("PUT", f"/v1/joblib/rooms/{step.replace('.', '%2E')}/providers", job),
        (
            "PUT",
            f"/v1/joblib/rooms/lab/schedules/{step.replace('.', '%2E')}",
            {"job": "lab:modifiers:Rotate", "cron": "* * * * *"},
        ),
    ]
    for method, path, body in calls:
        answer = await api.request(method, path, json=body)
        assert answer.status_code in (400, 422), (method, path, answer.text)
    assert "rack-7" not in (await api.get("/nodes", params={"detail": "1"})).text


def test_a_heartbeat_path_with_an_escaped_slash_is_not_found(start_hub):
    hub = start_hub()
    beat = {"nodeId": "rack-7"}
    with httpx.Client(base_url=hub.url, headers={"x-hub-secret": hub.node_secret}) as client:
        assert client.post("/node/register", json={"nodeId": "rack-7", "slots": []}).is_success
        assert client.post("/node/heartbeat", json=beat).status_code == 200
        assert client.post("/node%2Fheartbeat", json=beat).status_code in (404, 405)
