"""Tasks that need slots, over HTTP: a claim answers both, and each end of a task gives its slots back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.bundles import offer, sessions, single
from tests.api.jobs.people import J, Person, is_invalid, is_problem
from tests.world import PATIENCE_S, eventually

TOKENS = """
[[tokens]]
token = "alice-t"
user = "alice"
team = "ml"
[[tokens]]
token = "bob-t"
user = "bob"
[[tokens]]
token = "worker-t"
user = "alice"
scopes = ["worker", "submit"]
[[tokens]]
token = "cpus-t"
user = "alice"
scopes = ["worker", "borrow"]
labels = ["cpu:*"]
"""
GPU = "gpu:a100"


@pytest.fixture
async def api(make_api: Any, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    path = tmp_path / "tokens.toml"
    path.write_text(TOKENS)
    async with make_api(tokens_file=path) as found:
        yield found


@pytest.fixture
def alice(api: httpx.AsyncClient) -> Person:
    return Person(api, "alice")


async def serving(person: Person, *needs: dict[str, Any], worker: str = "", **more: Any) -> str:
    """Return a worker of a job whose tasks need such slots."""
    worker = worker or await person.worker()
    answer = await person.job(worker, **{"needs": list(needs)} if needs else {}, **more)
    assert answer.status_code in (200, 201), answer.text
    return worker


async def claimed(person: Person, worker: str, **more: Any) -> dict[str, Any]:
    answer = await person.claim(worker, start=True, **more)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["task"]
    assert found, "no task was claimed"
    return found


async def job(person: Person) -> dict[str, Any]:
    found: dict[str, Any] = (await person.call("GET", "/rooms/lab/jobs/lab:modifiers:Rotate")).json()
    return found


async def test_a_claim_answers_the_slots_as_a_borrow_does(api, alice):
    await offer(api, 2)
    await offer(api, 1, "cpu:big", "n2")
    worker = await serving(alice, {"label": GPU, "count": 2}, {"label": "cpu:big"})
    task = await alice.task()
    found = await claimed(alice, worker)
    assert [slot["browserId"] for slot in found["slots"]] == ["n1-1", "n1-2", "n2-1"]
    live = await sessions(api)
    assert {slot["bundle"] for slot in found["slots"]} == {each["bundle"] for each in live.values()}
    for slot in found["slots"]:
        assert (slot["runId"], slot["matchedLabel"]) == (task.replace("-", ""), slot["labelKey"])
        verified = await api.get(f"/leases/{slot['browserId']}/verify", params={"token": slot["leaseToken"]})
        assert verified.json()["valid"]
        holder = live[slot["browserId"]]["holder"]
        assert holder == {"user": "alice", "team": "ml", "name": worker, "client": "127.0.0.1"}
    assert (await alice.look(task)).json()["slots"] == ["n1-1", "n1-2", "n2-1"]
    assert (await alice.move(task, "completed")).status_code == 200
    assert "slots" not in (await alice.look(task)).json()
    assert await sessions(api) == {}


async def test_a_claim_in_neutral_names_answers_slots_in_them(api, alice):
    await api.post("/node/register", json={"nodeId": "n1", "policy": "reuse", "slots": [
        {"label": GPU, "slotId": "g1", "address": "ws://n1:9222/", "attributes": {"index": 3}}]})  # fmt: skip
    worker = await serving(alice, {"label": "gpu", "where": "index >= 2"})
    await alice.task()
    answer = await api.post(
        f"/v2{J}/tasks/claim", json={"workerId": worker}, headers={"authorization": "Bearer alice-t"}
    )
    (slot,) = answer.json()["task"]["slots"]
    assert (slot["slotId"], slot["address"], slot["attributes"]["index"]) == ("g1", "ws://n1:9222/", 3)
    assert slot["lease"]["token"]


async def test_without_slots_a_task_stays_and_tasks_of_other_jobs_go_on(api, alice):
    await offer(api, 1)
    lease = await single(api)
    worker = await serving(alice, {"label": GPU})
    first = await alice.task()
    await alice.call("PUT", "/rooms/lab/jobs", {"category": "modifiers", "name": "Other", "worker_id": worker})
    other = (await alice.call("POST", "/rooms/lab/tasks/lab:modifiers:Other", {})).json()["id"]
    found = await claimed(alice, worker)
    assert (found["id"], "slots" in found) == (other, False)
    assert (await alice.claim(worker)).json()["task"] is None
    assert (await alice.look(first)).json()["queue_position"] == 1
    body = {name: lease[name] for name in ("browserId", "labelKey", "leaseToken")}
    await api.post("/session/return", json=body)
    assert (await claimed(alice, worker))["id"] == first


async def test_a_claim_that_waits_stands_in_the_line_of_bundles(api, alice):
    await offer(api, 1)
    one, other = await serving(alice, {"label": GPU}), await serving(alice, {"label": GPU})
    first, second = await alice.task(), await alice.task()
    assert (await claimed(alice, one))["id"] == first
    waiting = asyncio.create_task(claimed(alice, other, waitSeconds=PATIENCE_S))

    async def line() -> list[Any]:
        found: list[Any] = (await api.get("/queue")).json()["bundles"]
        return found

    await eventually(line)
    (ticket,) = await line()
    assert (ticket["parts"], ticket["holder"]["name"]) == ([{"label": GPU, "where": "", "count": 1}], other)
    assert (await alice.move(first, "failed", error="no")).status_code == 200
    found = await waiting
    assert (found["id"], [slot["browserId"] for slot in found["slots"]]) == (second, ["n1-1"])
    assert (await sessions(api))["n1-1"]["holder"]["name"] == other


@pytest.mark.parametrize("end", ["given back", "cancelled", "removed"])
async def test_each_end_of_a_task_gives_its_slots_back(api, alice, end):
    await offer(api, 1)
    worker = await serving(alice, {"label": GPU})
    task = await alice.task()
    await claimed(alice, worker)
    if end == "given back":
        await alice.claim(worker, limit=0, results=[{"id": task, "status": "pending"}])
    elif end == "cancelled":
        await alice.move(task, "cancelled")
    else:
        await alice.call("DELETE", f"/workers/{worker}")
    assert await sessions(api) == {}


async def test_a_repeated_claim_answers_the_same_slots(api, alice):
    await offer(api, 2)
    worker = await serving(alice, {"label": GPU})
    await alice.task()
    one = (await alice.claim(worker, {"idempotency-key": "k"})).json()["task"]
    two = (await alice.claim(worker, {"idempotency-key": "k"})).json()["task"]
    assert (one["id"], one["slots"][0]["leaseToken"]) == (two["id"], two["slots"][0]["leaseToken"])
    assert len(await sessions(api)) == 1


async def test_a_job_says_what_its_tasks_need(alice):
    await serving(alice, {"label": GPU, "where": "vram >= 40", "count": 2}, sameNode=True)
    found = await job(alice)
    assert found["needs"] == [{"label": GPU, "where": "vram >= 40", "count": 2}]
    assert found["sameNode"] is True
    await serving(alice)  # the latest registration counts
    assert "needs" not in await job(alice)


async def test_who_may_not_borrow_registers_no_such_job(api, alice):
    narrow, cpus = Person(api, "worker"), Person(api, "cpus")
    refusal = is_problem(await narrow.job(await narrow.worker(), needs=[{"label": GPU}]), 403, "forbidden")
    assert "borrow" in refusal["detail"]
    both = [{"label": "cpu:big"}, {"label": GPU}]
    refusal = is_problem(await cpus.job(await cpus.worker(), needs=both), 403, "label")
    assert refusal["detail"].startswith("part 2: The token shown may not borrow 'gpu:a100'")
    assert (await narrow.job(await narrow.worker(), limits=[{"running": 1}])).status_code == 201


async def test_claims_of_who_may_not_borrow_skip_such_jobs(api, alice):
    await offer(api, 2)
    worker = await serving(alice, {"label": GPU})
    task = await alice.task()
    for name in ("worker", "cpus"):
        assert (await Person(api, name).claim(worker)).json()["task"] is None
    assert await sessions(api) == {}
    assert (await claimed(alice, worker))["id"] == task


async def test_a_token_with_labels_claims_what_they_cover(api, alice):
    await offer(api, 1, "cpu:big")
    cpus = Person(api, "cpus")
    worker = await serving(cpus, {"label": "cpu:big"})
    await alice.task()
    assert len((await claimed(cpus, worker))["slots"]) == 1


@pytest.mark.parametrize(
    ("needs", "status", "code", "said"),
    [
        ([{"label": "gpu"}], 400, "invalid-label", "part 1: "),
        ([{"label": GPU}, {"label": "a::b"}], 400, "invalid-label", "part 2: "),
        ([{"label": GPU, "where": "vram >"}], 400, "bad-where", "part 1: "),
    ],
)
async def test_a_refusal_names_the_part(alice, needs, status, code, said):
    refusal = is_problem(await alice.job(await alice.worker(), needs=needs), status, code)
    assert refusal["detail"].startswith(said)


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({"needs": [{"count": 1}]}, ["body", "needs", 0, "label"]),
        ({"needs": [{"label": GPU, "count": 0}]}, ["body", "needs", 0, "count"]),
        ({"needs": [{"label": GPU}] * 5}, ["body", "needs"]),
        ({"needs": [{"label": GPU, "count": 9}] * 2}, ["body"]),
        ({"sameNode": True}, ["body"]),
        ({"limits": [{"running": 1}, {}]}, ["body", "limits", 1]),
        ({"limits": [{"running": 1, "rate": "1/s"}]}, ["body", "limits", 0]),
        ({"limits": [{"running": 0}]}, ["body", "limits", 0, "running"]),
        ({"limits": [{"running": 100_001}]}, ["body", "limits", 0, "running"]),
        ({"limits": [{"rate": "10001/s"}]}, ["body", "limits", 0, "rate"]),
        ({"limits": [{"rate": "1/2d"}]}, ["body", "limits", 0, "rate"]),
        ({"limits": [{"rate": "0/s"}]}, ["body", "limits", 0, "rate"]),
        ({"limits": [{"rate": "1/w"}]}, ["body", "limits", 0, "rate"]),
        ({"limits": [{"key": "a..b", "running": 1}]}, ["body", "limits", 0, "key"]),
        ({"limits": [{"running": 1}, {"running": 2}]}, ["body"]),
        ({"limits": [{"key": "a", "rate": "1/m"}, {"key": "a", "rate": "9/60s"}]}, ["body"]),
        ({"limits": [{"running": 1}] * 5}, ["body", "limits"]),
    ],
)
async def test_a_body_that_does_not_validate_is_refused_with_the_place(alice, more, place):
    is_invalid(await alice.job(await alice.worker(), **more), place)


async def test_a_task_says_which_slots_it_waits_for_as_hub_why_does(api, alice):
    await offer(api, 1)
    await serving(alice, {"label": GPU, "count": 2})
    task = await alice.task()
    said = (await alice.look(task)).json()["why"]
    assert said == f"it needs {GPU}: 2 wanted, 1 free, 1 published"
    assert (await api.get(f"/why/task/{task}")).json()["because"].endswith(f"; {said}.")


async def test_a_task_names_the_ceiling_and_the_caps_that_keep_the_ticket_it_waits_under(api, alice):
    await offer(api, 3)
    await api.put("/admin/teams/ml", json={"label": "gpu:*", "ceiling": 2})
    await api.put(f"/admin/caps/{GPU}", json={"cap": 2})
    one, other = await serving(alice, {"label": GPU, "count": 2}), await serving(alice, {"label": GPU, "count": 2})
    first, second = await alice.task(), await alice.task()
    await claimed(alice, one)
    calls = [asyncio.create_task(alice.claim(other, waitSeconds=PATIENCE_S))]

    async def why() -> str:
        found = [(await alice.look(second)).json()["why"], (await api.get(f"/why/task/{second}")).json()["because"]]
        assert found[1].endswith(f"; {found[0]}.")
        return found[0]

    async def waits() -> bool:
        return "team" in await why()

    await eventually(waits)
    needed = f"it needs {GPU}: 2 wanted, 1 free, 3 published"
    ceiling = "team ml has 2 of the 2 slots that its ceiling under gpu:* allows, and it wants 2 more"
    assert await why() == f"{needed}; 2 of 2 leases that the cap of {GPU} allows are live; {ceiling}"
    await api.put("/admin/teams/ml", json={"label": "gpu:*", "ceiling": 1})
    assert "it wants 2 under gpu:*, and the ceiling of team ml there is 1, so it is never served" in await why()
    await api.put("/admin/teams/ml", json={"label": "gpu:*", "ceiling": 2})
    assert (await alice.move(first, "completed")).status_code == 200
    assert (await calls[0]).json()["task"]["id"] == second


async def test_the_place_of_a_task_is_not_that_of_another_job_of_its_worker(api, alice):
    await offer(api, 1)
    await single(api)
    worker = await serving(alice, {"label": GPU})
    first = await alice.task()
    call = asyncio.create_task(alice.claim(worker, waitSeconds=PATIENCE_S))

    async def line() -> list[Any]:
        found: list[Any] = (await api.get("/queue")).json()["bundles"]
        return found

    await eventually(line)
    other = {"category": "modifiers", "name": "Other", "worker_id": worker, "needs": [{"label": GPU}]}
    await alice.call("PUT", "/rooms/lab/jobs", other)
    second = (await alice.call("POST", "/rooms/lab/tasks/lab:modifiers:Other", {})).json()["id"]
    assert "before" not in (await alice.look(first)).json()["why"]
    assert (await alice.look(second)).json()["why"].endswith("; 1 bundle waits before it")
    call.cancel()
