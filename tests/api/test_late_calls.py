"""Every call that may change something, made too late and made twice: a table that a new one cannot be missing from.

Too late is: its caller has hung up; its time, as `Prefer: wait` says, is over; its hub has been silent for longer than
it may; its hub knows another store. Then nothing is changed. Made in time it changes something, and made once more, at
another hub, it leaves nothing in Redis twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from contextlib import AsyncExitStack
from typing import Any

import httpx
import orjson
import pytest
from redis import Redis

from hub.api.app import create_app
from hub.store.cancelling import cancel_all
from tests.world import age_node, eventually, picture, settings_for

SECRETS = {f"{role}_secret": f"{role}-secret-of-the-test" for role in ("runner", "node", "admin")}
ROLES = {"/node/": "node", **dict.fromkeys(("/session", "/bundles", "/results", "/leases", "/queue"), "runner")}
J = "/v1/joblib"
JOB = "lab:modifiers:Rotate"
ROTATE = {"category": "modifiers", "name": "Rotate", "schema": {}}
SHA = hashlib.sha256(b"secret").hexdigest()
HOOK = {"url": "https://9.9.9.9:1/hook", "on": ["lease.ended"], "secret": "whsec_" + "A" * 32}
LEASE = {"labelKey": "gpu:a100", "browserId": "{slot}", "leaseToken": "{lease}"}
CLAIMED = {"status": "running", "claim": "{claim}"}
# Method and path as the router has it -> what is sent there: a body, and headers or a query where it needs them. Names
# in braces stand for what `Stage` has made.
CALLS: dict[str, tuple[Any, dict[str, str]]] = {
    "POST /node/join": ({"nodeId": "n9", "sha256": SHA}, {"authorization": "Bearer {join}"}),
    "POST /node/register": ({"nodeId": "n9", "slots": [{"labelKey": "gpu:a100", "slotId": "s9"}]}, {}),
    "POST /node/{node_id:path}/slots": ({"slots": [{"labelKey": "gpu:a100", "slotId": "s9"}]}, {}),
    "DELETE /node/{node_id:path}/slots/{slot_id}": (None, {}),
    "POST /node/{node_id:path}/slots/{slot_id}/hold": ({"reason": "no answer"}, {}),
    "DELETE /node/{node_id:path}/slots/{slot_id}/hold": (None, {}),
    "DELETE /node/{node_id:path}": (None, {}),
    "POST /node/heartbeat": ({"nodeId": "n1"}, {}),
    "POST /node/heartbeats": ({"beats": [{"nodeId": "n1"}]}, {}),
    "POST /session/borrow": ({"labelKey": "gpu:a100"}, {"idempotency-key": "k"}),
    "POST /session/return": (LEASE, {}),
    "POST /session/renew": ({**LEASE, "ttlSeconds": 3600}, {}),
    "POST /bundles": ({"parts": [{"label": "gpu:a100", "count": 2}]}, {"idempotency-key": "k"}),
    "POST /bundles/{bundle}/renew": ({"ttlSeconds": 3600}, {}),
    "POST /bundles/{bundle}/return": ({}, {}),
    "POST /results/browser/{slot}/test": ({"testId": "t"}, {}),
    "POST /leases/watch": ({"leases": [LEASE]}, {}),
    "POST /leases/{slot}/activity": ({"leaseToken": "{lease}"}, {}),
    "POST /leases/{slot}/pause": ({"leaseToken": "{lease}", "seconds": 60}, {}),
    "DELETE /queue/{ticket:path}": (None, {}),
    "POST /admin/pools/{label:path}/restart": (None, {}),
    "POST /admin/nodes/{node_id:path}/drain": ({"deadlineSeconds": 60}, {}),
    "POST /admin/nodes/{node_id:path}/cordon": ({"reason": "its fan"}, {}),
    "POST /admin/nodes/{node_id:path}/undrain": (None, {}),
    "POST /admin/slots/{slot}/hold": ({"reason": "its fan"}, {}),
    "DELETE /admin/slots/{slot}/hold": (None, {}),
    "POST /admin/nodes/{node_id:path}/sidecar/upgrade": (None, {}),
    "DELETE /admin/nodes/{node_id:path}": (None, {}),
    "PUT /admin/settings/{name}": ({"value": "90", "by": "ann"}, {}),
    "PUT /admin/sweeper": ({"expire": False}, {}),
    "POST /admin/brake/release": ({"by": "ann"}, {}),
    "POST /admin/sweep": ({"dryRun": False}, {}),
    "PUT /admin/caps/{label:path}": ({"cap": 3}, {}),
    "PUT /admin/pools/{pattern:path}/rules": ({"idleSeconds": 60}, {}),
    "DELETE /admin/pools/{pattern:path}/rules": (None, {}),
    "PUT /admin/teams/{team}": ({"label": "gpu:*", "ceiling": 3}, {}),
    "DELETE /admin/teams/{team}": (None, {}),
    "POST /admin/tokens": ({"user": "ann", "sha256": SHA}, {}),
    "DELETE /admin/tokens/{id}": (None, {}),
    "POST /admin/hooks": (HOOK, {}),
    "POST /admin/hooks/{hook}/test": (None, {}),
    "POST /admin/hooks/{hook}/pause": (None, {}),
    "POST /admin/hooks/{hook}/resume": (None, {}),
    "DELETE /admin/hooks/{hook}": (None, {}),
    f"POST {J}/workers": ({}, {}),
    f"PATCH {J}/workers/{{worker_id}}": ({}, {}),
    f"DELETE {J}/workers/{{worker_id}}": (None, {}),
    f"PUT {J}/rooms/{{room_id}}/jobs": ({**ROTATE, "name": "Scale", "worker_id": "{worker_id}"}, {}),
    f"POST {J}/rooms/{{room_id}}/tasks/{{job_name:full}}": ({"payload": {}}, {"idempotency-key": "k"}),
    f"POST {J}/tasks/claim": ({"worker_id": "{worker_id}"}, {"idempotency-key": "k"}),
    f"PATCH {J}/tasks/{{task_id}}": ({"status": "cancelled"}, {}),
    f"POST {J}/tasks/progress": (
        {"worker_id": "{worker_id}", "tasks": [{"id": "{running}", "progress": 0.5, "log": ["a line"]}]},
        {"idempotency-key": "k"},
    ),
    f"PUT {J}/rooms/{{room_id}}/schedules/{{schedule}}": ({"job": JOB, "cron": "30 2 * * *"}, {}),
    f"PATCH {J}/rooms/{{room_id}}/schedules/{{schedule}}": ({"paused": True}, {}),
    f"DELETE {J}/rooms/{{room_id}}/schedules/{{schedule}}": (None, {}),
    f"PUT {J}/rooms/{{room_id}}/providers": ({**ROTATE, "name": "Other", "worker_id": "{worker_id}"}, {}),
    f"DELETE {J}/providers/{{provider_id}}": (None, {}),
    f"POST {J}/providers/{{provider_id}}/results": ({"a": "result"}, {"x-request-hash": "{hash}"}),
    f"DELETE {J}/dead/{{task_id}}": (None, {}),
    f"POST {J}/tasks/{{task_id}}/retry": (None, {"idempotency-key": "k"}),
    "POST /console/session": ({"secret": SECRETS["admin_secret"]}, {}),
    "DELETE /console/session": (None, {"cookie": "{cookie}", "x-hub-console": "1", "x-hub-reason": "done"}),
    "DELETE /console/logins/{name}": (None, {}),
    "POST /console/links": (None, {}),
    "POST /console/leases/{slot}/end": ({"leaseToken": "{lease}", "labelKey": "gpu:a100"}, {}),
    "POST /console/stuck/{source}/reset": ({"ids": ["1"]}, {}),
}
# What cannot change anything in Redis, also in time, and why.
CHANGES_NOTHING = {
    "POST /leases/watch": "it waits",
    "POST /admin/hooks/{hook}/test": "it sends a message",
    "POST /console/stuck/{source}/reset": "what it changes is in a database; no source is declared here",
}
# What may be carried out too late unless its caller is known to have hung up, and why that does no harm.
HARMLESS = {
    "POST /console/session": "nobody has the cookie",
    "DELETE /console/session": "it ends one login, whose name is never given again",
    "DELETE /console/logins/{name}": "it ends one login, whose name is never given again",
    "POST /console/links": "nobody has the link",
}
# What makes another one when it is made twice, and why that does no harm.
MAKES_ANOTHER = {
    f"POST {J}/workers": "a worker that beats no more is removed",
    "POST /console/session": "a login of which nobody has the cookie, listed, and over in a day",
    "POST /console/links": "a link that nobody has seen, for five minutes",
}
GROWING = re.compile(r"hub:(history|audit|jobs:events|.*:events|request:|tried|hubs)|audit")


def changing() -> list[str]:
    """Return every call that is not one to read, as the router has it."""
    routes = create_app(settings_for("redis://127.0.0.1:1"), sweep=False).app.routes
    return [f"{method} {route.path}" for route in routes for method in sorted(route.methods - {"GET", "HEAD"})]


class Caller:
    """A caller who sends a request and may be gone before the hub looks at it."""

    def __init__(self, body: bytes, *, gone: bool) -> None:
        self.disconnected = gone
        self._messages = [{"type": "http.request", "body": body}]
        self.sent: list[Any] = []

    async def receive(self) -> dict[str, Any]:
        if self._messages:
            return self._messages.pop()
        if not self.disconnected:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)


class Hub:
    """A hub in this process."""

    def __init__(self, edge: Any) -> None:
        self.edge = edge
        self.hub = edge.app.state.serving.hub
        self.gone = False  # whether its callers have hung up

    async def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Return the status, 0 where there is no answer, and what is in it."""
        caller = Caller(b"" if body is None else orjson.dumps(body), gone=self.gone)
        given = {"host": "hub", "content-type": "application/json", **(headers or {})}
        if not given.keys() & {"authorization", "cookie"}:
            role = next((role for start, role in ROLES.items() if path.startswith(start)), "admin")
            given["x-hub-secret"] = SECRETS[f"{role}_secret"]
        url = httpx.URL(f"http://hub{path}")
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "path": url.path,
            "raw_path": url.raw_path, "query_string": url.query, "root_path": "", "scheme": "http",
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
            "client": ("127.0.0.1", 1), "server": ("hub", 80), "state": {},
        }  # fmt: skip
        await self.edge(scope, caller.receive, caller.send)
        if not caller.sent:
            return 0, None
        start, *rest = caller.sent
        self.cookies = [value.decode() for name, value in start["headers"] if name == b"set-cookie"]
        text = b"".join(message.get("body", b"") for message in rest)
        return start["status"], orjson.loads(text) if text[:1] in (b"{", b"[") else text

    async def made(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        status, found = await self.ask(method, path, body, headers)
        assert 200 <= status < 300, (method, path, status, found)
        return found


class Stage:
    """Two hubs on one Redis, and one of everything that a call may be about."""

    def __init__(self, first: Hub, second: Hub, redis: Any) -> None:
        self.first, self.second, self.redis = first, second, redis
        self.parts: dict[str, str] = {}
        self.waits: asyncio.Task[Any] | None = None

    async def furnish(self, call: str) -> None:
        made = self.first.made
        slots = [{"labelKey": "gpu:a100", "slotId": slot} for slot in ("s1", "s2", "s3")]
        await made("POST", "/node/register", {"nodeId": "n1", "slots": slots})
        lease = await made("POST", "/session/borrow", {"labelKey": "gpu:a100", "ttlSeconds": 60})
        worker = (await made("PUT", f"{J}/rooms/lab/jobs", ROTATE))["worker_id"]
        submit = ("POST", f"{J}/rooms/lab/tasks/{JOB}", {"payload": {}, "maxAttempts": 2, "backoffSeconds": 0})
        running = (await made(*submit))["id"]
        await made("POST", f"{J}/tasks/claim", {"worker_id": worker, "limit": 1, "start": True})
        task = (await made(*submit))["id"]
        provider = (await made("PUT", f"{J}/rooms/lab/providers", {**ROTATE, "worker_id": worker}))["id"]
        self.parts = {
            "node_id": "n1", "slot_id": "s3", "slot": lease["browserId"], "lease": lease["leaseToken"],
            "label": "gpu:a100", "worker_id": worker, "running": running, "task_id": task, "provider_id": provider,
            "room_id": "lab", "job_name": JOB, "source": "none", "hash": "", "ticket": "", "id": "", "name": "",
            "join": "", "cookie": "", "schedule": "nightly", "pattern": "gpu:*", "hook": "", "team": "ml",
            "bundle": "",
        }  # fmt: skip
        await getattr(self, f"before_{re.sub('[^a-z]+', '_', call.lower()).strip('_')}", self.nothing_more)()

    async def nothing_more(self) -> None:
        """Prepare nothing: the objects made for all calls are enough."""

    async def before_post_node_join(self) -> None:
        self.parts["join"] = (await self.first.made("POST", "/admin/tokens", {"join": "fleet"}))["token"]

    async def before_post_admin_nodes_node_id_path_undrain(self) -> None:
        await self.first.made("POST", "/admin/nodes/n1/drain")

    async def before_delete_node_node_id_path_slots_slot_id_hold(self) -> None:
        await self.first.made("POST", "/node/n1/slots/s3/hold", {"reason": "no answer"})

    async def before_delete_admin_slots_slot_hold(self) -> None:
        await self.first.made("POST", f"/admin/slots/{self.parts['slot']}/hold", {"reason": "its fan"})

    async def before_delete_admin_tokens_id(self) -> None:
        self.parts["id"] = (await self.first.made("POST", "/admin/tokens", {"user": "bob"}))["id"]

    async def before_delete_admin_hooks_hook(self) -> None:
        self.parts["hook"] = (await self.first.made("POST", "/admin/hooks", HOOK))["id"]

    before_post_admin_hooks_hook_test = before_post_admin_hooks_hook_pause = before_delete_admin_hooks_hook

    async def before_post_admin_hooks_hook_resume(self) -> None:
        await self.before_delete_admin_hooks_hook()
        await self.first.made("POST", f"/admin/hooks/{self.parts['hook']}/pause")

    async def before_post_bundles_bundle_renew(self) -> None:
        body = {"parts": [{"label": "gpu:a100", "count": 2}], "ttlSeconds": 60}
        self.parts["bundle"] = (await self.first.made("POST", "/bundles", body))["bundle"]

    before_post_bundles_bundle_return = before_post_bundles_bundle_renew

    async def before_delete_queue_ticket_path(self) -> None:
        body = {"labelKey": "gpu:a100", "maxWaitSeconds": 600}
        for _ in range(2):
            await self.first.made("POST", "/session/borrow", body)
        self.waits = asyncio.create_task(self.second.ask("POST", "/session/borrow", body, {"idempotency-key": "w"}))

        async def waiting() -> bool:
            labels = (await self.first.made("GET", "/queue"))["labels"]
            self.parts["ticket"] = labels[0]["tickets"][0]["ticket"] if labels else ""
            return bool(labels)

        await eventually(waiting)

    async def before_delete_admin_pools_pattern_path_rules(self) -> None:
        await self.first.made("PUT", "/admin/pools/gpu:*/rules", {"idleSeconds": 60})

    async def before_delete_admin_teams_team(self) -> None:
        await self.first.made("PUT", "/admin/teams/ml", {"label": "gpu:*", "ceiling": 3})
        self.parts["team"] = "ml?label=gpu:*"

    async def before_put_admin_settings_name(self) -> None:
        self.parts["name"] = "HUB_NODE_TIMEOUT"

    async def before_post_admin_sweep(self) -> None:
        age_node(self.redis, "n1", 3600)

    async def before_post_admin_brake_release(self) -> None:
        self.redis.hset(self.first.hub.store.keys.brake, "state", "engaged")

    async def before_post_v_joblib_providers_provider_id_results(self) -> None:
        await self.first.ask("GET", f"{J}/rooms/lab/providers/{JOB}?a=1", None, {"prefer": "wait=0"})
        [wanted] = self.redis.keys("*wanted*")
        self.parts["hash"] = wanted.rpartition(":")[2]

    async def before_post_v_joblib_tasks_task_id_retry(self) -> None:
        await self.first.made("PATCH", f"{J}/tasks/{self.parts['task_id']}", {"status": "cancelled"})

    async def before_delete_v_joblib_dead_task_id(self) -> None:
        await self.first.made("PATCH", f"{J}/tasks/{self.parts['task_id']}", {"status": "cancelled"})
        failed = ("PATCH", f"{J}/tasks/{self.parts['running']}", {"status": "failed", "error": "no luck"})
        await self.first.made(*failed)
        await self.first.made("POST", f"{J}/tasks/claim", {"worker_id": self.parts["worker_id"]})
        await self.first.made(*failed)
        self.parts["task_id"] = self.parts["running"]

    async def before_patch_v_joblib_rooms_room_id_schedules_schedule(self) -> None:
        nightly = {"job": JOB, "cron": "30 2 * * *"}
        await self.first.made("PUT", f"{J}/rooms/lab/schedules/nightly", nightly)

    before_delete_v_joblib_rooms_room_id_schedules_schedule = before_patch_v_joblib_rooms_room_id_schedules_schedule

    async def before_delete_console_session(self) -> None:
        made = await self.first.made("POST", "/console/session", {"secret": SECRETS["admin_secret"]})
        self.parts |= {"cookie": self.first.cookies[0].partition(";")[0], "name": made["login"]["id"]}

    before_delete_console_logins_name = before_delete_console_session

    def call(self, call: str) -> tuple[str, str, Any, dict[str, str]]:
        """Return the request of an operation."""
        method, _, path = call.partition(" ")
        body, headers = CALLS[call]
        path = re.sub(r"\{(\w+)(:\w+)?\}", lambda found: self.parts[found[1]], path)
        text = re.sub(r"\{(\w+)\}", lambda found: self.parts[found[1]], orjson.dumps(body).decode())
        return method, path, orjson.loads(text), {k: v.format(**self.parts) for k, v in headers.items()}


@pytest.fixture
async def stage(redis_server, redis):
    async with AsyncExitStack() as stack:
        hubs = []
        for _ in range(2):
            edge = create_app(settings_for(redis_server.url, **SECRETS, borrow_queue_timeout_s=600), sweep=False)
            await stack.enter_async_context(edge.app.router.lifespan_context(edge.app))
            hubs.append(Hub(edge))
        found = Stage(*hubs, redis)
        yield found
        await cancel_all([found.waits] if found.waits else [])


def test_every_operation_that_changes_something_is_in_the_table_of_late_calls():
    assert sorted(changing()) == sorted(CALLS)


async def late(hub: Hub, how: str, call: tuple[str, str, Any, dict[str, str]]) -> tuple[int, Any]:
    """Make a call that is carried out too late."""
    store = hub.hub.store
    before = store.fence, store.ticks, store.asked_at, store.heard_at
    method, path, body, headers = call
    try:
        if how == "hung up":
            hub.gone = True
        elif how == "over":  # the call arrived a minute ago, and its caller waited for one second
            store.ticks, store.heard_at, store.asked_at = True, None, time.monotonic() + 60
            headers = {**headers, "prefer": "wait=1"}
        elif how == "silent":
            store.fence = (store.generation, store.clock_ms - 3001)
        else:
            store.fence = ("another", store.clock_ms)
        return await hub.ask(method, path, body, headers)
    finally:
        hub.gone = False
        store.fence, store.ticks, store.asked_at, store.heard_at = before


def kept(redis: Redis) -> dict[str, Any]:
    """Every key with its content; of the hubs only which there are, for one that has waiters says so twice a second."""
    found = picture(redis, own=True)
    return {**found, "hub:hubs": sorted(hub for hub, _ in found.get("hub:hubs", ()))}


@pytest.mark.parametrize("name", CALLS)
async def test_a_late_call_changes_nothing_and_a_repeated_one_leaves_nothing_twice(stage, name, redis):
    await stage.furnish(name)
    await stage.first.hub.clock.tick()
    stage.first.hub.store.ticks = False
    call, before = stage.call(name), kept(redis)
    for how in ("hung up", *(() if name in HARMLESS else ("over", "silent", "another store"))):
        status, said = await late(stage.first, how, call)
        assert status == 0 or status >= 400 or name in CHANGES_NOTHING, (how, status, said)
        assert kept(redis) == before, how
    status, said = await stage.first.ask(*call)
    if name in CHANGES_NOTHING:
        assert kept(redis) == before
        return
    assert 200 <= status < 300, said
    once = kept(redis)
    assert once != before
    status, said = await stage.second.ask(*call)
    assert status < 500, said
    twice = kept(redis)
    grown = {
        key: (once.get(key), found)
        for key, found in twice.items()
        if not GROWING.search(key) and (key not in once or (not isinstance(found, str) and len(found) > len(once[key])))
    }
    assert bool(grown) == (name in MAKES_ANOTHER), grown
