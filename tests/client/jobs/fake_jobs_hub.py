"""A hub with the jobs API, of a few dictionaries; it records what the SDK sends and can be scripted."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import httpx

from hub.client.jobs import JobManager
from tests.client.fake_hub import FakeHub, Seen

Make = Callable[..., JobManager]

PREFIX = "/v1/joblib"
CREATED = "2026-01-02T03:04:05.678901Z"
CLAIM = f"POST {PREFIX}/tasks/claim"
WORKERS = f"POST {PREFIX}/workers"


def refusal(status: int, code: str) -> httpx.Response:
    """A problem document of the jobs API: named by `type` alone."""
    body = {"type": f"/v1/problems/{code}", "title": "?", "status": status, "detail": f"told {code}"}
    return httpx.Response(status, json=body, headers={"content-type": "application/problem+json"})


def unauthorized(_: Seen) -> httpx.Response:
    return httpx.Response(401, json={"detail": "Unauthorized"})


class JobsHub(FakeHub):
    """Any number of threads and loops may speak to it."""

    def __init__(self) -> None:
        super().__init__()
        self.workers: set[str] = set()
        self.jobs: dict[str, dict[str, Any]] = {}
        self.tasks: dict[str, dict[str, Any]] = {}
        self.keys: dict[str, list[str]] = {}
        self.uploads: list[tuple[str, str, bytes]] = []
        self.reports: list[tuple[str, str]] = []
        self.holds = True  # whether it lets claims wait
        self.away = False
        self.refused_upload: httpx.Response | None = None
        self.body_limit = 1 << 30
        self._lock = threading.RLock()

    # -- what tests do ------------------------------------------------------------------------------------------------

    def add(self, job: str, *payloads: dict[str, Any]) -> list[str]:
        """Submit tasks."""
        with self._lock:
            return [self._submit(job, "r1", payload)["id"] for payload in payloads]

    def add_one(self, job: str, **payload: Any) -> str:
        """Submit a task."""
        return self.add(job, payload)[0]

    def status(self, task_id: str) -> str:
        return str(self.tasks[task_id]["status"])

    def statuses(self, ids: list[str]) -> set[str]:
        return {self.status(task_id) for task_id in ids}

    def forget_workers(self) -> None:
        """Remove all workers, as the sweeper does with silent ones."""
        with self._lock:
            self.workers.clear()
            for task in self.tasks.values():
                if task["status"] in ("claimed", "running"):
                    task.update(status="failed", error="Worker disconnected")

    def transport(self) -> httpx.MockTransport:
        def answer(request: httpx.Request) -> httpx.Response:
            until = self._wait_until(request)
            while time.monotonic() < until and self._idle(request):
                time.sleep(0.005)
            return self.answer(request)

        return httpx.MockTransport(answer)

    def async_transport(self) -> httpx.MockTransport:
        async def answer(request: httpx.Request) -> httpx.Response:
            until = self._wait_until(request)
            while time.monotonic() < until and self._idle(request):  # noqa: ASYNC110 - threads change what it waits for
                await asyncio.sleep(0.005)
            return self.answer(request)

        return httpx.MockTransport(answer)

    # -- what it answers ----------------------------------------------------------------------------------------------

    def answer(self, request: httpx.Request) -> httpx.Response:
        with self._lock:
            if self.away:
                raise httpx.ConnectError("nobody there")
            if request.url.path.endswith("/results"):
                return self._upload(request)
            if len(request.content) > self.body_limit:
                return refusal(413, "too-large")
            return super().answer(request)

    def play(self, seen: Seen) -> Any:
        match seen.method, seen.path.removeprefix(PREFIX).strip("/").split("/"):
            case "POST", ["workers"]:
                return self._response_of(201, {"id": self._new_worker(), "last_heartbeat": CREATED})
            case (("PATCH" | "DELETE"), ["workers", worker_id]):
                return self._worker(seen.method, worker_id)
            case "PUT", ["rooms", room, ("jobs" | "providers") as kind]:
                return self._register(room, kind, seen.body)
            case "DELETE", ["providers", _]:
                return httpx.Response(204)
            case "POST", ["rooms", room, "tasks", job]:
                return self._submission(job, room, seen)
            case "POST", ["tasks", "claim"]:
                return self._claim(seen)
            case "GET", ["tasks", task_id]:
                return self.tasks[task_id] if task_id in self.tasks else refusal(404, "task-not-found")
            case "PATCH", ["tasks", task_id]:
                return self._move(task_id, seen.body)
        return httpx.Response(404, json={"detail": "Not Found"})

    def _response_of(self, status: int, body: dict[str, Any]) -> httpx.Response:
        return httpx.Response(status, json=body)

    def _new_worker(self) -> str:
        worker_id = str(uuid.uuid4())
        self.workers.add(worker_id)
        return worker_id

    def _worker(self, method: str, worker_id: str) -> Any:
        if worker_id not in self.workers:
            return refusal(404, "worker-not-found")
        if method == "DELETE":
            self.workers.remove(worker_id)
            return httpx.Response(204)
        return {"id": worker_id, "last_heartbeat": CREATED}

    def _register(self, room: str, kind: str, body: dict[str, Any]) -> Any:
        worker_id = body.get("worker_id") or self._new_worker()
        if worker_id not in self.workers:
            return refusal(404, "worker-not-found")
        full_name = f"{room}:{body['category']}:{body['name']}"
        known = full_name in self.jobs
        record = {"id": str(uuid.uuid4()), "full_name": full_name, "worker_id": worker_id, **body}
        if kind == "jobs":
            self.jobs[full_name] = record
        return self._response_of(200 if known else 201, {**record, "worker_id": worker_id})

    def _submit(self, job: str, room: str, payload: dict[str, Any]) -> dict[str, Any]:
        task = {
            "id": str(uuid.uuid4()), "job_name": job, "room_id": room, "status": "pending", "created_at": CREATED,
            "started_at": None, "completed_at": None, "worker_id": None, "error": None, "payload": payload,
            "queue_position": 1,
        }  # fmt: skip
        self.tasks[task["id"]] = task
        return task

    def _submission(self, job: str, room: str, seen: Seen) -> Any:
        if job not in self.jobs:
            return refusal(404, "job-not-found")
        key = seen.headers["idempotency-key"]
        if "payloads" in seen.body:
            if key not in self.keys:
                self.keys[key] = [self._submit(job, room, payload)["id"] for payload in seen.body["payloads"]]
            return self._response_of(202, {"ids": self.keys[key]})
        if key not in self.keys:
            self.keys[key] = [self._submit(job, room, seen.body["payload"])["id"]]
        return self._response_of(202, self.tasks[self.keys[key][0]])

    def _wait_until(self, request: httpx.Request) -> float:
        if not self.holds or not request.url.path.endswith("/tasks/claim"):
            return 0.0
        body = json.loads(request.content)
        if not self.away and not self._script.get(CLAIM) and len(request.content) <= self.body_limit:
            self._hear(body, request.headers["idempotency-key"])
        known = bool(self.keys.get(request.headers["idempotency-key"]))
        return 0.0 if known else time.monotonic() + float(body.get("waitSeconds", 0))

    def _idle(self, request: httpx.Request) -> bool:
        scripted = self._script.get(CLAIM)
        return not (
            self._pending() or self.away or scripted or json.loads(request.content)["worker_id"] not in self.workers
        )

    def _pending(self) -> list[dict[str, Any]]:
        return [task for task in list(self.tasks.values()) if task["status"] == "pending"]

    def _claim(self, seen: Seen) -> Any:
        worker_id, key = seen.body["worker_id"], seen.headers["idempotency-key"]
        if worker_id not in self.workers:
            return refusal(404, "worker-not-found")
        outcomes = self._hear(seen.body, key)
        if key not in self.keys:
            self.keys[key] = []
            for task in self._pending()[: seen.body.get("limit", 1)]:
                task.update(worker_id=worker_id, status="running" if seen.body.get("start") else "claimed")
                task["claim"] = str(int(task.get("claim", 0)) + 1)
                self.keys[key].append(task["id"])
        tasks = [self.tasks[task_id] for task_id in self.keys[key]]
        return {"task": tasks[0] if tasks else None, "tasks": tasks, "results": outcomes}

    def _hear(self, body: dict[str, Any], key: str) -> list[dict[str, str]]:
        with self._lock:
            return [self._report(body["worker_id"], key, report) for report in body.get("results", ())]

    def _report(self, worker_id: str, key: str, report: dict[str, Any]) -> dict[str, str]:
        task = self.tasks.get(report["id"])
        if task is None:
            outcome = "gone"
        elif task.get("last") == key:
            outcome = "ok"
        elif task["worker_id"] != worker_id:
            outcome = "forbidden"
        elif report.get("claim") != task["claim"] or task["status"] not in ("claimed", "running"):
            outcome = "conflict"
        else:
            outcome = "ok"
            self.reports.append((report["id"], report["status"]))
            task.update(status=report["status"], error=report.get("error"), result=report.get("result"), last=key)
            task["retry"] = report.get("retry")
            if report["status"] == "pending":
                task["worker_id"] = None
        return {"id": report["id"], "outcome": outcome}

    def _move(self, task_id: str, body: dict[str, Any]) -> Any:
        allowed = {"pending": {"cancelled"}, "claimed": {"running", "failed", "cancelled"},
                   "running": {"completed", "failed", "cancelled"}}  # fmt: skip
        task = self.tasks.get(task_id)
        if task is None:
            return refusal(404, "task-not-found")
        if body.get("claim", task.get("claim")) != task.get("claim") or body["status"] not in allowed.get(
            task["status"], ()
        ):
            return refusal(409, "invalid-task-transition")
        task.update(status=body["status"], error=body.get("error"), result=body.get("result"))
        return task

    def _upload(self, request: httpx.Request) -> httpx.Response:
        if self.refused_upload is not None:
            return self.refused_upload
        self.uploads.append((request.url.path.split("/")[-2], request.headers["x-request-hash"], request.content))
        return httpx.Response(204)
