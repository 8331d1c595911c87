"""Keys that few stores have: the doctor knows of what type they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
from redis import Redis

from hub.core import Hub
from hub.store.keys import TABLE
from tests.api.test_access import SECRETS
from tests.doctor.test_examine import problems

ADMIN, NODE = ({"x-hub-secret": SECRETS[f"{role}_secret"]} for role in ("admin", "node"))
J = "/v1/joblib"


async def replaced_node(api: httpx.AsyncClient) -> None:
    """A node whose second process withdraws a slot."""
    for name in ("first", "second"):
        body = {"nodeId": "n1", "incarnation": name, "slots": [{"labelKey": "gpu:a100", "slotId": "s1"}], "number": 1}
        assert (await api.post("/node/register", json=body, headers=NODE)).status_code == 200
    gone = await api.delete("/node/n1/slots/s1?incarnation=second&number=2", headers=NODE)
    assert gone.status_code == 200


async def joined_node(api: httpx.AsyncClient) -> None:
    """A node with a token that it made itself."""
    made = await api.post("/admin/tokens", json={"join": "fleet"}, headers=ADMIN)
    shown = {"authorization": f"Bearer {made.json()['token']}"}
    joined = await api.post("/node/join", json={"nodeId": "n2", "sha256": "0" * 64}, headers=shown)
    assert joined.is_success, joined.text


async def answered_question(api: httpx.AsyncClient) -> None:
    """A provider that has answered."""
    made = await api.post("/admin/tokens", json={"user": "ann"}, headers=ADMIN)
    ann = {"authorization": f"Bearer {made.json()['token']}"}
    body = {"category": "frames", "name": "Rotate"}
    found = await api.put(f"{J}/rooms/lab/providers", json=body, headers=ann)
    asked = {**ann, "prefer": "wait=0"}
    assert (await api.get(f"{J}/rooms/lab/providers/lab:frames:Rotate", headers=asked)).status_code == 504
    digest = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    path = f"{J}/providers/{found.json()['id']}/results"
    said = await api.post(path, content=b"1", headers={**ann, "x-request-hash": digest})
    assert said.status_code == 204, said.text


async def test_the_doctor_does_not_report_keys_that_are_rarely_used(
    make_api: Callable[..., Any], hub: Hub, redis: Redis
) -> None:
    async with make_api(**SECRETS) as api:
        await replaced_node(api)
        await joined_node(api)
        await answered_question(api)
        assert (await api.post("/node/register", json={"nodeId": "n3"})).status_code == 401
        there = {key.partition(":")[2].partition(":")[0] for key in redis.keys("hub:*")}
        rare = {"incarnations", "withdrawn", "node_tokens", "joined", "room_results", "room_sizes", "refusals"}
        assert rare <= there & TABLE.keys()
        assert await problems(hub) == []
