"""Users of the jobs API over HTTP: each has a token and calls any number of hubs in turn."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl
from uuid import UUID, uuid4

import httpx

from tests.world import PATIENCE_S

J = "/v1/joblib"
LONGEST_S = 8  # the longest wait of a hub of `tests.joblib.stage.CALM`: a call that ended sooner was not cut off by it
ALICE, BOB, ROOT = UUID(int=0xA11CE), UUID(int=0xB0B), UUID(int=0x7007)
TOKENS = f"""
[[tokens]]
token = "alice-t"
user = "alice"
user_id = "{ALICE}"

[[tokens]]
token = "alice-2"
user = "alice"
user_id = "{ALICE}"

[[tokens]]
token = "bob-t"
user = "bob"
user_id = "{BOB}"

[[tokens]]
token = "root-t"
user = "root"
user_id = "{ROOT}"
superuser = true

[[tokens]]
token = "gone-t"
user = "gone"
active = false
"""
PLAIN = "application/json"
PROBLEM = "application/problem+json"
TASK = {
    "id", "job_name", "room_id", "status", "created_at", "started_at", "completed_at", "worker_id", "error", "payload",
    "queue_position",
}  # fmt: skip
JOB = {"id", "room_id", "category", "name", "full_name", "schema", "workers", "worker_id"}
PROVIDER = {"id", "room_id", "category", "name", "full_name", "schema", "worker_id", "created_at"}
TITLES = {
    400: "Bad Request", 403: "Forbidden", 404: "Not Found", 409: "Conflict", 413: "Payload Too Large",
    503: "Service Unavailable", 504: "Gateway Timeout",
}  # fmt: skip
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def request_hash(query: str) -> str:
    """Return the hash by which the hub names the question of a query."""
    text = json.dumps(dict(parse_qsl(query, keep_blank_values=True)), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class Person:
    """Calls the API, each time at the next of the hubs; paths are those below its prefix."""

    def __init__(self, http: httpx.Client, hubs: Sequence[str], token: str | None) -> None:
        self.http = http
        self._hubs = hubs
        self._next = itertools.cycle(hubs)
        self.token = token

    def at(self, hub: int) -> Person:
        """Return the same user, calling one of the hubs only."""
        return Person(self.http, [self._hubs[hub]], self.token)

    def showing(self, token: str | None) -> Person:
        """Return a caller with another token at the same hubs."""
        return Person(self.http, self._hubs, token)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: dict[str, str] | None = None,
        content: bytes | None = None,
        timeout: float = PATIENCE_S + LONGEST_S,
    ) -> httpx.Response:
        """Send one request; `content` is sent unchanged."""
        shown = {"authorization": f"Bearer {self.token}"} if self.token else {}
        if body is not None:
            content, shown = json.dumps(body).encode(), {**shown, "content-type": PLAIN}
        return self.http.request(
            method,
            f"{next(self._next)}{J}{path}",
            content=content,
            headers={**shown, **(headers or {})},
            timeout=timeout,
        )

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.call("GET", path, headers=headers)

    def listed(self, path: str) -> list[Any]:
        """Return the items of a list that fits into one page."""
        document = done(self.get(path), 200)
        assert document["total"] == len(document["items"]), document
        found: list[Any] = document["items"]
        return found

    def worker(self) -> str:
        return str(done(self.call("POST", "/workers"), 201)["id"])

    def beat(self, worker: str) -> httpx.Response:
        return self.call("PATCH", f"/workers/{worker}")

    def leave(self, worker: str) -> httpx.Response:
        return self.call("DELETE", f"/workers/{worker}")

    def put_job(self, room: str, name: str = "Rotate", category: str = "modifiers", **more: Any) -> httpx.Response:
        return self.call("PUT", f"/rooms/{room}/jobs", {"category": category, "name": name, **more})

    def job(self, room: str, name: str = "Rotate", worker: str | None = None, **more: Any) -> str:
        """Serve a job with a new worker, or one more with this one; returns the worker."""
        answer = self.put_job(room, name, **({"worker_id": worker} if worker else {}), **more)
        assert answer.status_code in (200, 201), answer.text
        return str(answer.json()["worker_id"])

    def put_provider(self, room: str, name: str = "disk", category: str = "files", **more: Any) -> httpx.Response:
        return self.call("PUT", f"/rooms/{room}/providers", {"category": category, "name": name, **more})

    def provider(self, room: str, name: str = "disk", **more: Any) -> dict[str, Any]:
        answer = self.put_provider(room, name, **more)
        assert answer.status_code in (200, 201), answer.text
        found: dict[str, Any] = answer.json()
        return found

    def read(self, room: str, full: str, query: str = "", prefer: str | None = None) -> httpx.Response:
        path = f"/rooms/{room}/providers/{full}{'?' if query else ''}{query}"
        return self.call("GET", path, headers={"prefer": prefer} if prefer is not None else {})

    def upload(self, provider: str, digest: str, body: bytes, **headers: str) -> httpx.Response:
        return self.call(
            "POST", f"/providers/{provider}/results", content=body, headers={"x-request-hash": digest, **headers}
        )

    def answer(self, made: dict[str, Any], body: bytes, query: str = "", **headers: str) -> httpx.Response:
        """Ask a provider for a read, and upload its answer."""
        self.read(made["room_id"], made["full_name"], query, prefer="wait=0")
        return self.upload(made["id"], request_hash(query), body, **headers)

    def send(self, room: str, full: str, body: Any = None, **headers: str) -> httpx.Response:
        """Submit a task with any body."""
        return self.call("POST", f"/rooms/{room}/tasks/{full}", {} if body is None else body, headers=headers)

    def submit(self, full: str, room: str | None = None, payload: Any = None, **more: Any) -> str:
        """Submit a task, to the room of the job unless told another; returns its id."""
        answer = self.send(room or full.split(":")[0], full, {"payload": payload or {}, **more})
        return str(done(answer, 202)["id"])

    def ask(self, worker: str, /, headers: dict[str, str] | None = None, **more: Any) -> httpx.Response:
        """Claim with further members in the body."""
        return self.call("POST", "/tasks/claim", {"worker_id": worker, **more}, headers=headers)

    def claim(self, worker: str) -> Any:
        """Return the task a worker is given, or None."""
        document = done(self.ask(worker), 200)
        assert set(document) == {"task"}
        return document["task"]

    def claimed(self, full: str, room: str | None = None, **more: Any) -> tuple[str, str]:
        """Return a new worker of the job that has claimed a new task of it: (worker, task)."""
        worker = self.job(full.split(":")[0], full.split(":", 2)[2])
        task = self.submit(full, room, **more)
        assert self.claim(worker)["id"] == task
        return worker, task

    def move(self, task: str, status: str, **more: Any) -> httpx.Response:
        return self.call("PATCH", f"/tasks/{task}", {"status": status, **more})

    def run(self, task: str, *statuses: str) -> dict[str, Any]:
        """Take a task through these statuses; returns it as it is then."""
        for status in statuses:
            done(self.move(task, status), 200)
        return self.look(task)

    def look(self, task: str) -> dict[str, Any]:
        return done(self.get(f"/tasks/{task}"), 200)


def timed(call: Callable[..., httpx.Response], *arguments: Any) -> tuple[httpx.Response, float]:
    """Return the answer to a call, and the seconds it took."""
    start = time.monotonic()
    answer = call(*arguments)
    return answer, time.monotonic() - start


def all_at_once(call: Callable[..., httpx.Response], *arguments: Sequence[Any]) -> list[tuple[httpx.Response, float]]:
    """Run `timed` for many calls at the same time."""
    with ThreadPoolExecutor(len(arguments)) as pool:
        return [each.result() for each in [pool.submit(timed, call, *each) for each in arguments]]


def fresh(what: str = "r") -> str:
    """Return a name that no other test uses."""
    return f"{what}{uuid4().hex[:12]}"


def done(answer: httpx.Response, status: int) -> dict[str, Any]:
    """Return the document of an answer that must have this status."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, PLAIN), answer.text
    found: dict[str, Any] = answer.json()
    return found


def empty(answer: httpx.Response) -> None:
    """There was nothing to say."""
    assert (answer.status_code, answer.content) == (204, b""), answer.text


def problem(answer: httpx.Response, status: int, code: str) -> str:
    """A problem document, to the letter; returns its detail."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM), answer.text
    document = answer.json()
    detail = document.pop("detail")
    assert document == {"type": f"/v1/problems/{code}", "title": TITLES[status], "status": status}
    assert isinstance(detail, str)
    return detail


def framework(answer: httpx.Response, status: int, detail: str) -> None:
    """Assert that the answer is the framework's own refusal, which has a `detail` and no problem document."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, PLAIN), answer.text
    assert answer.json() == {"detail": detail}


def invalid(answer: httpx.Response, *place: str | int) -> None:
    """A validation failure, in the framework's manner, about this place alone."""
    assert (answer.status_code, answer.headers["content-type"]) == (422, PLAIN), answer.text
    (wrong,) = answer.json()["detail"]
    assert wrong["loc"] == list(place), wrong
    assert {"type", "loc", "msg", "input"} <= set(wrong)


def moment(text: str) -> datetime:
    """Return a time of the wire, which has microseconds and a Z."""
    assert TIME.fullmatch(text), text
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)


def is_id(text: str) -> bool:
    """Return whether the text is a random UUID in the form of the wire."""
    return str(UUID(text)) == text and UUID(text).version == 4
