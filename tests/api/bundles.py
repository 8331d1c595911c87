"""Nodes that publish plain slots, and borrowers of several at once over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

from tests.world import PATIENCE_S, eventually

LABEL = "gpu:a100"


async def offer(api: httpx.AsyncClient, count: int, label: str = LABEL, node: str = "n1", **headers: str) -> list[str]:
    """Register a node that publishes so many plain slots, which are lent again as they are; return their ids."""
    slots = [f"{node}-{n}" for n in range(1, count + 1)]
    body = {"nodeId": node, "policy": "reuse", "slots": [{"label": label, "slotId": slot} for slot in slots]}
    answer = await api.post("/node/register", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return slots


def wish(*parts: Any, **more: Any) -> dict[str, Any]:
    """Return the body that asks for these parts, each a label, (label, count), or as it is sent; without waiting."""
    rows = [{"label": part} if isinstance(part, str) else part for part in parts]
    rows = [dict(zip(("label", "count"), row, strict=True)) if isinstance(row, tuple) else row for row in rows]
    return {"parts": rows, "maxWaitSeconds": 0, **more}


async def ask(api: httpx.AsyncClient, *parts: Any, key: str = "", **more: Any) -> httpx.Response:
    """Ask for a bundle under the names of this hub, without waiting unless told."""
    headers = {"idempotency-key": key} if key else {}
    return await api.post("/v2/bundles", json=wish(*parts, **more), headers=headers, timeout=2 * PATIENCE_S)


async def lent(api: httpx.AsyncClient, *parts: Any, **more: Any) -> dict[str, Any]:
    """Return the answer to a bundle that is lent."""
    answer = await ask(api, *parts, **more)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def waits(api: httpx.AsyncClient, *parts: Any, key: str, **more: Any) -> asyncio.Task[httpx.Response]:
    """Return the call of a bundle that waits in the line."""
    call = asyncio.create_task(ask(api, *parts, key=key, **{"maxWaitSeconds": PATIENCE_S, **more}))

    async def in_line() -> bool:
        return call.done() or (await api.get(f"/queue/{key}")).json().get("state") == "waiting"

    await eventually(in_line)
    assert not call.done(), call.result().text
    return call


async def end(api: httpx.AsyncClient, bundle: str, act: str = "return", **body: Any) -> httpx.Response:
    """Renew or give back a bundle, under the names of this hub."""
    return await api.post(f"/v2/bundles/{bundle}/{act}", json=body)


def ids(bundle: dict[str, Any]) -> list[str]:
    """Return the slots of a bundle in their order."""
    return [slot["slotId"] for slot in bundle["slots"]]


async def single(api: httpx.AsyncClient, label: str = LABEL) -> dict[str, Any]:
    """Return a lease of one slot."""
    answer = await api.post("/session/borrow", json={"labelKey": label, "maxWaitSeconds": 0})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def give_back(api: httpx.AsyncClient, lease: dict[str, Any]) -> None:
    """Give one slot back."""
    body = {name: lease[name] for name in ("browserId", "labelKey", "leaseToken")}
    assert (await api.post("/session/return", json=body)).status_code == 200


async def sessions(api: httpx.AsyncClient) -> dict[str, dict[str, Any]]:
    """Return the live leases by slot."""
    return {each["browserId"]: each for each in (await api.get("/sessions")).json()["sessions"]}
