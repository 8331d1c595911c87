"""The brake on workers over HTTP: shown and released apart from the one on nodes."""

from __future__ import annotations

import httpx
import pytest
from redis import Redis


async def test_the_brakes_of_nodes_and_workers_are_shown_and_released_separately(
    api: httpx.AsyncClient, redis: Redis
) -> None:
    redis.hset("hub:worker_brake", mapping={"state": "engaged", "stale": 4, "registered": 5, "held": 4})
    assert (await api.get("/admin/brake")).json()["state"] == "off"
    shown = (await api.get("/admin/brake", params={"of": "workers"})).json()
    assert (shown["state"], shown["stale"], shown["heldBack"]) == ("engaged", 4, 4)
    assert "workers that are alive" in shown["why"]
    refused = await api.post("/admin/brake/release", json={"by": "ann"})
    assert (refused.status_code, refused.json()["code"]) == (409, "brake-off")
    released = (await api.post("/admin/brake/release", json={"by": "ann", "of": "workers"})).json()
    assert (released["state"], released["releasedBy"]) == ("released", "ann")
    (entry,) = (await api.get("/audit", params={"action": "brake.release"})).json()
    assert (entry["actor"], entry["details"]) == ("ann", {"of": "workers"})


@pytest.mark.parametrize("of", ["slots", "", 1, ["workers"]], ids=str)
async def test_an_unknown_brake_is_refused(api: httpx.AsyncClient, of: object) -> None:
    answers = [await api.post("/admin/brake/release", json={"of": of})]
    if isinstance(of, str):
        answers.append(await api.get("/admin/brake", params={"of": of}))
    for answer in answers:
        assert (answer.status_code, answer.json()["member"]) == (400, "of")
