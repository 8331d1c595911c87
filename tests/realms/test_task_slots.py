"""Tasks that need slots in a realm: their slots are those of the realm of their job."""

from __future__ import annotations

import pytest

from tests.realms.world import offer

J = "/v1/joblib"


@pytest.mark.parametrize("named", [True, False])
async def test_a_claim_takes_slots_of_the_realm_of_its_job(api, named):
    await offer(api, "eu-1", "gpu:a:eu", "s1")
    await offer(api, "n1", "gpu:a:eu", "s2", headers={"x-hub-realm": "default"})
    eu = {"x-hub-realm": "eu"} if named else {}
    body = {"category": "modifiers", "name": "Rotate", "needs": [{"label": "gpu:a:eu"}], "limits": [{"running": 1}]}
    worker = (await api.put(f"{J}/rooms/lab-eu-1/jobs", json=body, headers=eu)).json()["worker_id"]
    at = f"{J}/rooms/lab-eu-1/tasks/lab-eu-1:modifiers:Rotate"
    first = (await api.post(at, json={}, headers=eu)).json()["id"]
    await api.post(at, json={}, headers=eu)
    answer = await api.post(f"{J}/tasks/claim", json={"worker_id": worker, "limit": 2}, headers=eu)
    (task,) = answer.json()["tasks"]
    assert (task["id"], [slot["browserId"] for slot in task["slots"]]) == (first, ["s1"])
    assert [each["browserId"] for each in (await api.get("/realms/eu/sessions")).json()["sessions"]] == ["s1"]
    job = (await api.get(f"{J}/rooms/lab-eu-1/jobs/lab-eu-1:modifiers:Rotate", headers=eu)).json()
    assert [at["waiting"] for at in job["atLimit"]] == [1]
