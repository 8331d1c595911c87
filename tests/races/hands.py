"""Workers that run until they are killed: `python -m tests.races.hands PORTS TOKEN LOG COUNT`.

One process forks COUNT workers and forks one again when it was killed. Each appends what it did to the log, one JSON
object a line: `took` when a claim was answered, `ended` when the hub took its report.
"""

from __future__ import annotations

import ctypes
import http.client
import json
import os
import random
import signal
import sys
import time
from typing import Any

from tests.notes import Notes

JOB = {"category": "modifiers", "name": "Race"}
ROOM = "race"
BATCH = 10
_PR_SET_PDEATHSIG = 1


class Hand:
    """One worker: claims some tasks, reports them with the next claim, and goes to another hub when one is away."""

    def __init__(self, ports: list[int], token: str, notes: Notes) -> None:
        self._ports, self._token, self._notes = ports, token, notes
        self._connection: http.client.HTTPConnection | None = None
        self._calls = 0

    def note(self, **facts: Any) -> None:
        self._notes.write(pid=os.getpid(), **facts)

    def ask(self, method: str, path: str, body: Any, key: str = "") -> dict[str, Any]:
        """Repeat a call, at hubs chosen at random, until it is answered; return the answer."""
        headers = {"authorization": f"Bearer {self._token}", "content-type": "application/json"}
        headers |= {"idempotency-key": key} if key else {}
        while True:
            try:
                if self._connection is None:
                    self._connection = http.client.HTTPConnection("127.0.0.1", random.choice(self._ports), timeout=15)
                self._connection.request(method, f"/v1/joblib{path}", json.dumps(body), headers)
                response = self._connection.getresponse()
                text = response.read()
                if response.status < 500:
                    return {"status": response.status, **json.loads(text or b"{}")}
            except (OSError, http.client.HTTPException):
                pass
            self._connection = None
            time.sleep(0.05)

    def run(self) -> None:
        made = self.ask("PUT", f"/rooms/{ROOM}/jobs", JOB)
        worker = made["worker_id"]
        self.note(what="registered", worker=worker)
        results: list[dict[str, str]] = []
        beaten = time.monotonic()
        while True:
            self._calls += 1
            wanted = {"worker_id": worker, "limit": BATCH, "start": True, "waitSeconds": 0.5, "results": results}
            answer = self.ask("POST", "/tasks/claim", wanted, key=f"{worker}-{self._calls}")
            if answer["status"] != 200:
                self.note(what="lost", worker=worker, status=answer["status"])
                return
            for result, said in zip(results, answer["results"], strict=True):
                self.note(
                    what="ended", worker=worker, task=result["id"], status=result["status"], outcome=said["outcome"]
                )
            tasks = [task["id"] for task in answer["tasks"]]
            if tasks:
                self.note(what="took", worker=worker, tasks=tasks)
            time.sleep(random.uniform(0, 0.4) if tasks else 0)  # they are killed in the middle of it
            results = [{"id": task, "status": random.choice(["completed"] * 9 + ["failed"])} for task in tasks]
            if time.monotonic() - beaten > 0.5:
                held = [{"id": task["id"], "claim": task["claim"]} for task in answer["tasks"]]
                beat = self.ask("PATCH", f"/workers/{worker}", {"tasks": held})
                self.note(what="beat", worker=worker, status=beat["status"])
                beaten = time.monotonic()


def main() -> None:
    ports, token, log_path, count = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
    notes = Notes(log_path)
    parent = os.getpid()
    children: set[int] = set()
    while True:
        while len(children) < count:
            child = os.fork()
            if not child:
                ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
                if os.getppid() != parent:
                    os._exit(1)
                random.seed(os.getpid())
                Hand(ports, token, notes).run()
                os._exit(0)
            children.add(child)
        pid, _ = os.waitpid(-1, 0)
        children.discard(pid)


if __name__ == "__main__":
    main()
