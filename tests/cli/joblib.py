"""A worker and a submitter at a hub, for commands to look at."""

from __future__ import annotations

from typing import Any

import httpx

from tests.world import PATIENCE_S, HubProcess

PREFIX = "/v1/joblib"


class Joblib:
    """The jobs API of a hub, asked by its operator or by the holder of a token."""

    def __init__(self, hub: HubProcess, token: str = "") -> None:
        headers = {"authorization": f"Bearer {token}"} if token else {"x-hub-secret": hub.admin_secret}
        self._client = httpx.Client(base_url=hub.url + PREFIX, headers=headers, timeout=PATIENCE_S)

    def ask(self, method: str, path: str, **body: Any) -> Any:
        answer = self._client.request(method, path, json=body or None)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def register(self, room: str, name: str = "a", **more: Any) -> str:
        """A worker for room:modifiers:name."""
        job = self.ask("PUT", f"/rooms/{room}/jobs", category="modifiers", name=name, **more)
        return str(job["worker_id"])

    def submit(self, full: str, **options: Any) -> str:
        room = full.split(":")[0]
        return str(self.ask("POST", f"/rooms/{room}/tasks/{full}", payload={}, **options)["id"])

    def work(self, worker: str, status: str, error: str | None = None) -> str:
        """Claim a task and end it so; its id."""
        (task,) = self.ask("POST", "/tasks/claim", worker_id=worker, limit=1, start=True)["tasks"]
        self.ask("PATCH", f"/tasks/{task['id']}", status=status, **({"error": error} if error else {}))
        return str(task["id"])

    def task(self, task: str) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("GET", f"/tasks/{task}")
        return found

    def close(self) -> None:
        self._client.close()
