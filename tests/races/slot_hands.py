"""A worker of tasks with slots, which runs until it is killed: `python -m tests.races.slot_hands PORTS LOG FOLDER`.

It holds a lock of the system for each slot and each customer that it works for, and notes where another one has it.
"""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import random
import sys
import time
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.notes import Notes
from tests.world import SECRETS

BODY = {
    "category": "modifiers", "name": "Slots", "needs": [{"label": "gpu:a", "count": 2}],
    "limits": [{"key": "customer", "running": 1}], "maxAttempts": 50, "backoffSeconds": 0,
}  # fmt: skip


def ask(ports: list[int], method: str, path: str, body: Any, key: str = "") -> tuple[int, Any]:
    """Repeat a call, at hubs chosen at random, until it is answered; return the status and the answer."""
    headers = {"x-hub-secret": SECRETS["HUB_ADMIN_SECRET"], "content-type": "application/json"}
    headers |= {"idempotency-key": key} if key else {}
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", random.choice(ports), timeout=15)
        try:
            connection.request(method, f"/v1/joblib{path}", json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status < 500:
                return answer.status, json.loads(text or b"{}")
        except (OSError, http.client.HTTPException):
            pass
        finally:
            connection.close()
        time.sleep(0.05)


def work(notes: Notes, folder: Path, task: dict[str, Any]) -> None:
    """Hold what the task has for a moment."""
    with ExitStack() as stack:
        for name in (*(slot["browserId"] for slot in task["slots"]), task["payload"]["customer"]):
            lock = stack.enter_context((folder / name).open("w"))
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                notes.write(what="conflict", name=name, task=task["id"], pid=os.getpid())
        notes.write(what="took", task=task["id"], slots=len(task["slots"]), pid=os.getpid(), held=task["payload"])
        time.sleep(random.uniform(0, 0.03))
    notes.write(what="let go", task=task["id"], pid=os.getpid())


def main() -> None:
    ports, notes, folder = json.loads(sys.argv[1]), Notes(Path(sys.argv[2])), Path(sys.argv[3])
    worker, results = "", []
    while True:
        if not worker:  # it comes, or it was silent for too long, as while its hub was away
            _, made = ask(ports, "PUT", "/rooms/race/jobs", BODY)
            worker, results = made["worker_id"], []
            notes.write(what="registered", worker=worker, pid=os.getpid())
        ask(ports, "PATCH", f"/workers/{worker}", {})
        said = {"worker_id": worker, "limit": 1, "start": True, "waitSeconds": 1, "results": results}
        status, claimed = ask(ports, "POST", "/tasks/claim", said, uuid.uuid4().hex)
        if status == 404:
            worker = ""
            continue
        if status != 200:
            notes.write(what="refused", status=status, answer=claimed)
            return
        for result, outcome in zip(results, claimed["results"], strict=True):
            notes.write(what="ended", task=result["id"], outcome=outcome["outcome"], pid=os.getpid())
        for task in claimed["tasks"]:
            work(notes, folder, task)
        results = [{"id": task["id"], "status": "completed"} for task in claimed["tasks"]]


if __name__ == "__main__":
    main()
