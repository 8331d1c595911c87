"""Limits on the tasks of a job, over HTTP: for the whole job, or for each value in their payloads."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.jobs.people import Person


async def limited(person: Person, *limits: dict[str, Any], worker: str = "") -> str:
    """Return a worker of a job with these limits."""
    worker = worker or await person.worker()
    answer = await person.job(worker, limits=list(limits))
    assert answer.status_code in (200, 201), answer.text
    assert answer.json().get("limits", []) == list(limits)
    return worker


async def claim(person: Person, worker: str, limit: int = 100) -> list[str]:
    return [each["id"] for each in (await person.claim(worker, limit=limit, start=True)).json()["tasks"]]


async def submit(person: Person, *payloads: dict[str, Any]) -> list[str]:
    ids: list[str] = (await person.submit({"payloads": list(payloads)})).json()["ids"]
    return ids


async def job(person: Person) -> dict[str, Any]:
    found: dict[str, Any] = (await person.call("GET", "/rooms/lab/jobs/lab:modifiers:Rotate")).json()
    return found


async def test_so_many_tasks_of_one_value_run_at_once(alice):
    worker = await limited(alice, {"key": "customer.id", "running": 2})
    a = await submit(alice, *[{"customer": {"id": "a"}}] * 4)
    b = await submit(alice, {"customer": {"id": "b"}})
    odd = await submit(alice, {}, {"customer": {"id": None}}, {"customer": {"id": ["a"]}}, {"customer": 7})
    assert await claim(alice, worker) == [*a[:2], *b, *odd[:2]]
    assert (await job(alice))["atLimit"] == [
        {"limit": 0, "value": "", "running": 2, "queued": 0, "waiting": 2},
        {"limit": 0, "value": "a", "running": 2, "queued": 0, "waiting": 2},
    ]
    await alice.move(a[0], "completed")
    assert await claim(alice, worker) == [a[2]]


async def test_a_rate_limit_lets_so_many_tasks_of_a_job_start_within_its_time(alice):
    worker = await limited(alice, {"rate": "3/m"})
    tasks = await submit(alice, *[{}] * 5)
    assert await claim(alice, worker) == tasks[:3]
    for task in tasks[:3]:
        await alice.move(task, "completed")
    assert await claim(alice, worker) == []
    assert (await job(alice))["atLimit"] == [{"limit": 0, "value": "", "running": 3, "queued": 0, "waiting": 2}]


@pytest.mark.parametrize(
    ("said", "shown"), [("5/30s", "5/30s"), ("5/60s", "5/m"), ("5/90s", "5/90s"), ("1/1d", "1/d"), ("9/24h", "9/d")]
)
async def test_a_rate_is_shown_in_the_largest_unit(alice, said, shown):
    answer = await alice.job(await alice.worker(), limits=[{"rate": said}])
    assert answer.json()["limits"] == (await job(alice))["limits"] == [{"rate": shown}]


async def test_a_member_that_is_null_counts_as_left_out(alice):
    answer = await alice.job(await alice.worker(), limits=[{"running": 2, "rate": None}])
    assert answer.json()["limits"] == [{"running": 2}]


async def test_the_limits_of_the_latest_registration_count(alice):
    worker = await limited(alice, {"running": 1})
    tasks = await submit(alice, *[{}] * 4)
    assert await claim(alice, worker) == tasks[:1]
    await limited(alice, {"running": 2}, worker=worker)
    assert await claim(alice, worker) == tasks[1:2]
    await limited(alice, worker=worker)
    assert "limits" not in await job(alice)
    assert await claim(alice, worker) == tasks[2:]


async def test_each_of_several_limits_holds(alice):
    worker = await limited(alice, {"running": 3}, {"key": "who", "running": 2})
    a, b = await submit(alice, *[{"who": "a"}] * 3), await submit(alice, *[{"who": "b"}] * 2)
    assert await claim(alice, worker) == [*a[:2], b[0]]
    await alice.move(b[0], "completed")
    assert await claim(alice, worker) == [b[1]]


async def test_a_task_that_a_limit_keeps_stands_in_no_queue_and_can_be_cancelled(alice):
    worker = await limited(alice, {"running": 1})
    first, _, third = await submit(alice, *[{}] * 3)
    assert await claim(alice, worker) == [first]
    assert (await alice.look(third)).json()["queue_position"] is None
    await alice.move(third, "cancelled")
    assert (await job(alice))["atLimit"] == [{"limit": 0, "value": "", "running": 1, "queued": 0, "waiting": 1}]


async def test_a_job_whose_name_looks_like_a_group_has_its_limits(alice):
    name, full = "x\tab:y", "lab:modifiers:x%09ab:y"
    body = {"category": "modifiers", "name": name, "limits": [{"running": 1}]}
    answer = await alice.call("PUT", "/rooms/lab/jobs", body)
    assert answer.status_code == 201, answer.text
    worker = answer.json()["worker_id"]
    ids = (await alice.call("POST", f"/rooms/lab/tasks/{full}", {"payloads": [{}] * 2})).json()["ids"]
    assert [t["id"] for t in (await alice.claim(worker, limit=9, start=True)).json()["tasks"]] == ids[:1]
    assert (await alice.move(ids[0], "completed")).status_code == 200
    assert [t["id"] for t in (await alice.claim(worker, limit=9, start=True)).json()["tasks"]] == ids[1:]


async def test_a_task_says_which_limit_keeps_it_as_hub_why_does(alice, people):
    worker = await limited(alice, {"key": "customer", "running": 1})
    first, second = await submit(alice, *[{"customer": "acme"}] * 2)
    assert "why" not in (await alice.look(first)).json()
    assert await claim(alice, worker) == [first]
    said = (await alice.look(second)).json()["why"]
    assert said == "the limit of 1 running for customer 'acme' keeps it: 1 running, 1 waiting"
    explained = (await people["admin"].api.get(f"/why/task/{second}")).json()["because"]
    assert explained.lower() == f"{said}."
    await alice.move(first, "completed")
    assert "why" not in (await alice.look(second)).json()
