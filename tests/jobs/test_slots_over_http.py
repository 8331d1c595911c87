"""Tasks with slots and limits by key at hubs in processes of their own, with their sweeps."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.world import PATIENCE_S, SECRETS, wait_until

J = "/v1/joblib"
NODE = {"x-hub-secret": SECRETS["HUB_NODE_SECRET"]}
JOB = f"{J}/rooms/lab/jobs/lab:modifiers:A"


@pytest.fixture
def hubs(start_hub):
    """Two hubs of one store."""
    secret = {"x-hub-secret": SECRETS["HUB_ADMIN_SECRET"]}
    with (
        httpx.Client(base_url=start_hub().url, headers=secret) as one,
        httpx.Client(base_url=start_hub().url, headers=secret) as other,
    ):
        yield one, other


def said(answer: httpx.Response) -> Any:
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None


def serving(hub: httpx.Client, **terms: Any) -> str:
    body = {"category": "modifiers", "name": "A", **terms}
    return str(said(hub.put(f"{J}/rooms/lab/jobs", json=body))["worker_id"])


def submit(hub: httpx.Client, *payloads: dict[str, Any], **more: Any) -> list[str]:
    body = {"payloads": list(payloads), **more}
    return list(said(hub.post(f"{J}/rooms/lab/tasks/lab:modifiers:A", json=body))["ids"])


def claim(hub: httpx.Client, worker: str, **more: Any) -> list[dict[str, Any]]:
    body = {"worker_id": worker, "limit": 100, "start": True, **more}
    return list(said(hub.post(f"{J}/tasks/claim", json=body, timeout=2 * PATIENCE_S))["tasks"])


def end(hub: httpx.Client, node: str) -> None:
    said(hub.delete(f"/node/{node}", headers=NODE))


def offer(hub: httpx.Client, *slots: str, node: str = "n1") -> None:
    body = {"nodeId": node, "policy": "reuse", "slots": [{"label": "gpu:a", "slotId": slot} for slot in slots]}
    said(hub.post("/node/register", json=body, headers=NODE))


def lent(hub: httpx.Client) -> set[str]:
    return {each["browserId"] for each in said(hub.get("/sessions"))["sessions"]}


def test_a_slot_that_is_lost_loses_the_attempt_and_frees_the_others(hubs):
    one, other = hubs
    offer(one, "g1")
    offer(one, "g2", node="n2")
    worker = serving(one, needs=[{"label": "gpu:a", "count": 2}])
    (task,) = submit(one, {}, maxAttempts=2, backoffSeconds=3600)
    (found,) = claim(other, worker)
    assert {slot["browserId"] for slot in found["slots"]} == lent(one) == {"g1", "g2"}
    end(one, "n1")
    wait_until(lambda: said(other.get(f"{J}/tasks/{task}"))["status"] == "pending")
    assert said(other.get(f"{J}/tasks/{task}"))["attempt"] == 2
    assert lent(one) == set()
    beat = said(other.patch(f"{J}/workers/{worker}", json={"tasks": [{"id": task, "claim": found["claim"]}]}))
    assert beat["lost"] == [task]


def test_a_task_without_attempts_left_says_which_slot_was_lost(hubs):
    one, _ = hubs
    offer(one, "g1")
    worker = serving(one, needs=[{"label": "gpu:a"}])
    (task,) = submit(one, {})
    claim(one, worker)
    end(one, "n1")
    wait_until(lambda: said(one.get(f"{J}/tasks/{task}"))["status"] == "failed")
    assert said(one.get(f"{J}/tasks/{task}"))["error"] == "Slot lost: g1"


def test_limits_hold_over_all_hubs(hubs):
    one, other = hubs
    limits = [{"key": "customer", "running": 3}]
    workers = [serving(one, limits=limits), serving(other, limits=limits)]
    tasks = submit(one, *[{"customer": "a"}, {"customer": "b"}] * 10)
    for _ in range(5):
        found = [claim(hub, worker, limit=1) for hub, worker in zip(hubs, workers, strict=True)]
        assert [len(each) for each in found] in ([1, 1], [0, 0])
    assert said(one.get(f"{J}/rooms/lab/tasks", params={"status": "running"}))["total"] == 6
    rows = said(other.get(JOB))["atLimit"]
    assert rows == [{"limit": 0, "value": value, "running": 3, "queued": 0, "waiting": 7} for value in "ab"]
    demand = said(one.get("/autoscale/jobs/lab:modifiers:A"))
    assert (demand["pending"], demand["putOff"], demand["held"]) == (0, 14, 6)
    assert len(tasks) == 20


def test_a_claim_that_waits_gets_the_task_that_a_rate_lets_in(hubs):
    one, other = hubs
    worker = serving(one, limits=[{"rate": "1/2s"}])
    tasks = submit(one, {}, {})
    assert [each["id"] for each in claim(one, worker)] == tasks[:1]
    assert [each["id"] for each in claim(other, worker, waitSeconds=PATIENCE_S)] == tasks[1:]
