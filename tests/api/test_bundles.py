"""Borrows of several slots at once over HTTP: all or none."""

from __future__ import annotations

from typing import Any

import httpx


async def offer(api: httpx.AsyncClient, count: int, label: str = "gpu:a100", node: str = "n1") -> list[str]:
    """Publish so many plain slots of a node; return their ids."""
    slots = [f"{node}-{label.rpartition(':')[2]}-{n}" for n in range(1, count + 1)]
    body = {"nodeId": node, "policy": "reuse", "slots": [{"label": label, "slotId": slot} for slot in slots]}
    answer = await api.post(f"/node/{node}/slots" if await _is_there(api, node) else "/node/register", json=body)
    assert answer.status_code == 200, answer.text
    return slots


async def _is_there(api: httpx.AsyncClient, node: str) -> bool:
    return (await api.get(f"/nodes/{node}")).status_code == 200


async def ask(api: httpx.AsyncClient, *parts: Any, key: str = "", **more: Any) -> httpx.Response:
    """Ask for a bundle under the names of this hub, without waiting unless told; a part is a label or (label, count)."""
    rows = [
        part if isinstance(part, dict) else {"label": part} if isinstance(part, str) else dict(zip(("label", "count"), part, strict=True))
        for part in parts
    ]
    headers = {"idempotency-key": key} if key else {}
    return await api.post("/v2/bundles", json={"parts": rows, "maxWaitSeconds": 0, **more}, headers=headers, timeout=30)


async def test_all_slots_are_lent_at_once(api):
    await offer(api, 3)
    await offer(api, 1, "cpu:big")
    answer = await ask(api, ("gpu:a100", 2), "cpu:big")
    assert answer.status_code == 200, answer.text
    print(answer.json())
