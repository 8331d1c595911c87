"""Callers of the jobs API: each shows a token of its own, or none."""

from __future__ import annotations

from typing import Any

import httpx

J = "/v1/joblib"
TOKENS = """
[[tokens]]
token = "alice-t"
user = "alice"
[[tokens]]
token = "bob-t"
user = "bob"
[[tokens]]
token = "root-t"
user = "root"
superuser = true
[[tokens]]
token = "gone-t"
user = "gone"
active = false
[[tokens]]
token = "worker-t"
user = "alice"
scopes = ["worker"]
[[tokens]]
token = "submitter-t"
user = "alice"
scopes = ["submit"]
[[tokens]]
token = "reader-t"
user = "alice"
scopes = ["read"]
[[tokens]]
token = "admin-t"
superuser = true
user = "bob"
scopes = ["admin"]
"""
PROBLEM = "application/problem+json"
JOB = "modifiers:Rotate"


class Person:
    """A caller with a method for each kind of call. Paths are below the prefix and are sent unescaped."""

    def __init__(self, api: httpx.AsyncClient, name: str) -> None:
        self.api = api
        self._shown = {} if name == "stranger" else {"authorization": f"Bearer {name}-t"}

    async def call(
        self, method: str, path: str, json: Any = None, *, headers: dict[str, str] | None = None, content: Any = None
    ) -> httpx.Response:
        body: dict[str, Any] = {"content": content} if json is None else {"json": json}
        return await self.api.request(method, f"{J}{path}", headers={**self._shown, **(headers or {})}, **body)

    async def worker(self) -> str:
        answer = await self.call("POST", "/workers")
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    async def job(self, worker: str, room: str = "lab", **more: Any) -> httpx.Response:
        category, name = JOB.split(":")
        return await self.call(
            "PUT", f"/rooms/{room}/jobs", {"category": category, "name": name, "worker_id": worker, **more}
        )

    async def offering(self) -> str:
        """Return a worker that serves the job `lab:modifiers:Rotate`."""
        worker = await self.worker()
        answer = await self.job(worker)
        assert answer.status_code in (200, 201), answer.text
        return worker

    async def submit(self, json: Any = None, room: str = "lab", **more: Any) -> httpx.Response:
        return await self.call("POST", f"/rooms/{room}/tasks/lab:{JOB}", {} if json is None else json, **more)

    async def task(self, **payload: Any) -> str:
        answer = await self.submit({"payload": payload})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    async def claim(self, worker: str, headers: dict[str, str] | None = None, **more: Any) -> httpx.Response:
        return await self.call("POST", "/tasks/claim", {"worker_id": worker, **more}, headers=headers)

    async def move(self, task: str, status: str, **more: Any) -> httpx.Response:
        return await self.call("PATCH", f"/tasks/{task}", {"status": status, **more})

    async def look(self, task: str, prefer: str | None = None) -> httpx.Response:
        return await self.call("GET", f"/tasks/{task}", headers={"prefer": prefer} if prefer else {})


def is_problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """A problem document of the jobs API, exactly."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM), answer.text
    document: dict[str, Any] = answer.json()
    assert (document["type"], document["status"]) == (f"/v1/problems/{code}", status)
    assert set(document) <= {"type", "title", "status", "detail"}
    return document


def is_invalid(answer: httpx.Response, *places: list[Any]) -> list[str]:
    """Assert that a request does not validate at these places; return the kinds of the faults."""
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/json"), answer.text
    document = answer.json()
    assert set(document) == {"detail"}
    assert all(set(each) == {"type", "loc", "msg", "input"} for each in document["detail"]), document
    assert [each["loc"] for each in document["detail"]] == list(places), document
    return [each["type"] for each in document["detail"]]


def is_plain(answer: httpx.Response, status: int, detail: str) -> None:
    """Assert that a refusal is one of the framework itself."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json"), answer.text
    assert answer.json() == {"detail": detail}
