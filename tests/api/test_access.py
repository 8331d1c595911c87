"""Every operation of the API with every credential: what the page on security says of them is what they do."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.access import CREDENTIALS, NO, OWN, YES, compare, table

SECRETS = {f"{role}_secret": f"{role}-secret-of-the-test" for role in ("runner", "node", "admin")}
ADMIN = {"x-hub-secret": SECRETS["admin_secret"]}
NODE = {"x-hub-secret": SECRETS["node_secret"]}
J = "/v1/joblib"
ROTATE = {"category": "modifiers", "name": "Rotate"}
WISHES: dict[str, dict[str, Any]] = {
    "own-node": {"node": "rack-7"},
    "join": {"join": "fleet"},
    "user": {"user": "ann"},
    **{scope: {"user": "ann", "scopes": [scope]} for scope in ("worker", "submit", "read", "borrow")},
    "bound": {"user": "ann", "rooms": ["lab"]},
    "root": {"user": "root", "superuser": True},
}
LOOKS_LIKE_REFUSED = {"task-not-found", "provider-not-found"}  # what is beyond the walls is as if it were not there


class World:
    """Two nodes, two rooms with a job, a provider and a task each, and people with every credential."""

    def __init__(self, api: httpx.AsyncClient) -> None:
        self.api = api
        self.shown: dict[str, dict[str, str]] = {
            "stranger": {},
            **{role: {"x-hub-secret": SECRETS[f"{role}_secret"]} for role in ("runner", "node", "admin")},
        }

    async def people(self) -> None:
        for name, wanted in WISHES.items():
            made = await self.api.post("/admin/tokens", json=wanted, headers=ADMIN)
            self.shown[name] = {"authorization": f"Bearer {made.json()['token']}"}

    async def furnish(self) -> None:
        """Make again what earlier calls may have removed."""
        for node, slot in (("rack-7", "s7"), ("rack-8", "s8")):
            body = {"nodeId": node, "slots": [{"labelKey": "gpu:a100", "slotId": slot}]}
            assert (await self.api.post("/node/register", json=body, headers=NODE)).status_code == 200
        for room in ("lab", "other"):
            await self.made("PUT", f"{J}/rooms/{room}/jobs", self.shown["user"])

    async def made(self, method: str, path: str, whose: dict[str, str]) -> dict[str, Any]:
        answer = await self.api.request(method, path, json=ROTATE, headers=whose)
        assert answer.is_success, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def parts(self, name: str, path: str, room: str, node: str, slot: str) -> dict[str, str]:
        """Return values for the parameters of a path: new objects in the room, owned by the caller where possible."""
        ann, full = self.shown["user"], f"{room}:modifiers:Rotate"
        found = {
            "node_id": node, "slot": slot, "slot_id": "none", "room_id": room, "job_name": full, "name": full,
            "label": "gpu:a100", "kind": "node", "id": "0", "ticket": "t", "task_id": f"new-{name}-{node}",
            "schedule": "s", "pattern": "gpu:*", "hook": "h", "bundle": "b1",
            "team": "ml",
        }  # fmt: skip
        if "{worker_id}" in path or path.endswith(("/claim", "/progress")):
            whose = self.shown[name] if name in ("root", "admin") else ann
            found["worker_id"] = (await self.made("PUT", f"{J}/rooms/{room}/jobs", whose))["worker_id"]
        if "{task_id}" in path:
            found["task_id"] = (await self.made("POST", f"{J}/rooms/{room}/tasks/{full}", ann))["id"]
        if "{provider_id}" in path:
            found["provider_id"] = (await self.made("PUT", f"{J}/rooms/{room}/providers", ann))["id"]
        return found

    def body(self, method: str, path: str, parts: dict[str, str]) -> Any:
        if method == "GET":
            return None
        slots = {"labelKey": "gpu:a100", "browserId": parts["slot"]}
        digest = hashlib.sha256(parts["task_id"].encode()).hexdigest()
        return {
            "/node/register": {"nodeId": parts["node_id"]},
            "/node/heartbeat": {"nodeId": parts["node_id"]},
            "/node/heartbeats": {"beats": [{"nodeId": parts["node_id"]}]},
            "/node/join": {"nodeId": parts["task_id"], "sha256": digest},
            "/session/return": slots,
            f"{J}/rooms/{{room_id}}/jobs": ROTATE,
            f"{J}/rooms/{{room_id}}/providers": {**ROTATE, "name": parts["task_id"]},  # a name that is not taken
            f"{J}/tasks/claim": {"worker_id": parts.get("worker_id")},
            f"{J}/tasks/progress": {"worker_id": parts.get("worker_id"), "tasks": [{"id": "0" * 32}]},
            f"{J}/tasks/{{task_id}}": {"status": "cancelled"},
        }.get(path, {})

    async def allowed(self, name: str, method: str, path: str, where: tuple[str, str, str]) -> bool:
        parts = await self.parts(name, path, *where)
        sent = path.format(**parts)
        query = {"/events": {"after": "nonsense"}, "/nodes": {"detail": "1"}, "/leases/{slot}/verify": {"token": "1"}}
        headers = {**self.shown[name], "x-request-hash": "0" * 64, "prefer": "wait=0"}
        body = self.body(method, path, parts)
        answer = await self.api.request(method, sent, json=body, headers=headers, params=query.get(path))
        silent = answer.status_code == 500 and answer.json()["code"] == "node-silent"  # none of these nodes answers
        assert answer.status_code < 500 or answer.status_code in (503, 504) or silent, (sent, answer.text)
        if answer.status_code in (401, 403):
            return False
        document = answer.json() if answer.headers.get("content-type", "").endswith("json") else {}
        if path == "/node/heartbeats":
            return "error" not in document["beats"][0]
        if name != "bound":
            return True
        kind = str(document.get("type", "")) if isinstance(document, dict) else ""
        return kind.rpartition("/")[2] not in LOOKS_LIKE_REFUSED


@pytest.fixture
async def world(make_api) -> AsyncIterator[World]:
    settings = {"anonymous_reads": False, "provider_long_poll_default_s": 0.05, "borrow_queue_timeout_s": 0}
    async with make_api(**SECRETS, **settings) as api:
        found = World(api)
        await found.people()
        yield found


async def operations(api: httpx.AsyncClient) -> list[tuple[str, str]]:
    paths = (await api.get("/openapi.json")).json()["paths"]
    return sorted(
        ((method.upper(), path) for path, methods in paths.items() for method in methods),
        key=lambda each: (each[1].startswith(J), each[1], each[0]),
    )


async def test_the_access_page_of_the_manual_says_who_may_call_each_operation(world):
    rows = {}
    for method, path in await operations(world.api):
        await world.furnish()
        found = {}
        for name in CREDENTIALS:
            own = await world.allowed(name, method, path, ("lab", "rack-7", "s7"))
            other = await world.allowed(name, method, path, ("other", "rack-8", "s8"))
            found[name] = YES if own and other else OWN if own else NO
            assert own or not other, (method, path, name)
        rows[f"{method} {path}"] = found
    compare("operations", table(rows))


async def lent_to(world: World, name: str, slot: str, label: str) -> dict[str, Any]:
    """Lend a slot to a user of a team, as a bundle of one slot, and return the lease."""
    asked = {"parts": [{"label": label}], "maxWaitSeconds": 0, "ttlSeconds": 900, "name": f"{name}@host"}
    answer = await world.api.post("/bundles", json=asked, headers=world.shown[name])
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["slots"][0]
    assert found["browserId"] == slot
    return found


async def state_of(world: World, slot: str) -> dict[str, Any]:
    """Return a lease as operators see it, but for the time that passes by itself."""
    found: dict[str, Any] = (await world.api.get(f"/sessions/{slot}", headers=ADMIN)).json()
    return {name: value for name, value in found.items() if name != "secondsLeft"}


MAY_END = {"node", "own-node"}  # its node ends what is its own


async def test_no_operation_with_any_credential_ends_or_extends_what_users_of_two_teams_hold(world):
    """Every operation, with every credential, is aimed at leases and tickets of two users: none of them changes."""
    for name, team in (("ada", "ml"), ("bob", "web")):
        wish = {"user": name, "team": team, "scopes": ["borrow"]}
        made = await world.api.post("/admin/tokens", json=wish, headers=ADMIN)
        world.shown[name] = {"authorization": f"Bearer {made.json()['token']}"}
    listed = [{"labelKey": f"team:{name}", "slotId": f"of-{name}"} for name in ("ada", "bob")]
    body = {"nodeId": "rack-9", "policy": "reuse", "slots": listed}
    assert (await world.api.post("/node/register", json=body, headers=NODE)).status_code == 200
    leases = {name: await lent_to(world, name, f"of-{name}", f"team:{name}") for name in ("ada", "bob")}
    before = {name: await state_of(world, f"of-{name}") for name in leases}
    refused = calls = 0
    for method, path in await operations(world.api):
        if path.startswith(("/admin/", "/node/")) and not path.startswith("/admin/slots"):
            continue  # operators and nodes, whose operations have a table of their own above
        for caller in [*CREDENTIALS, "ada", "bob"]:
            for name, lease in leases.items():
                if caller == name or caller in MAY_END:
                    continue
                slot, token = lease["browserId"], lease["leaseToken"]
                parts = {"slot": slot, "slot_id": slot, "ticket": token, "label": f"team:{name}", "node_id": "rack-9"}
                parts["bundle"] = lease["bundle"]
                sent = path
                for part, value in parts.items():
                    sent = sent.replace(f"{{{part}}}", value)
                if "{" in sent:
                    continue
                for more in ({}, {"force": True, "revoke": True}, {"leaseToken": "", "onlyRun": True}):
                    asked = {"labelKey": f"team:{name}", "browserId": slot, "slotId": slot, "leaseToken": token}
                    asked |= {
                        "leases": [asked.copy()],
                        "seconds": 60,
                        "ttlSeconds": 3600,
                        "runId": lease["runId"],
                        **more,
                    }
                    answer = await world.api.request(
                        method, sent, json=None if method == "GET" else asked, headers=world.shown[caller],
                        params={"after": "nonsense"} if path == "/events" else {"token": token},
                    )  # fmt: skip
                    calls += 1
                    refused += answer.status_code == 403 and answer.json().get("code") == "not-holder"
        assert {name: await state_of(world, f"of-{name}") for name in leases} == before, (method, path)
    assert calls > 500
    assert refused >= 2 * 3 * 6  # renewals and returns by six credentials that may borrow
