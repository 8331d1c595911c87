"""Files of realms, and what is in each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

# What belongs to eu by itself.
EU: dict[str, list[str]] = {"labels": ["gpu:*:eu"], "rooms": ["lab-eu*"], "nodes": ["eu-*"]}


def write_realms(path: Path, **realms: tuple[str, dict[str, Any]]) -> Path:
    """Write a file of realms, each with its URL and its patterns."""
    parts = []
    for name, (url, patterns) in realms.items():
        lines = [f'name = "{name}"', f'url = "{url}"', *(f"{kind} = {found!r}" for kind, found in patterns.items())]
        parts.append("\n".join(["[[realms]]", *lines, ""]))
    path.write_text("\n".join(parts))
    return path


async def nodes_of(api: httpx.AsyncClient, realm: str) -> set[str]:
    """Return the nodes that a realm knows."""
    answer = await api.get("/nodes", headers={"x-hub-realm": realm})
    assert answer.status_code == 200, answer.text
    return set(answer.json())


async def offer(api: httpx.AsyncClient, node: str, label: str, *slots: str, **more: Any) -> None:
    """A node that offers slots, in the realm of its name."""
    offered = [{"labelKey": label, "slotId": slot} for slot in slots]
    answer = await api.post("/node/register", json={"nodeId": node, "slots": offered}, **more)
    assert answer.status_code == 200, answer.text
