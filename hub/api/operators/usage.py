"""Who holds how much of what takes memory, and how much of it Redis has in use."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from hub.api.callers.admission import hub_of
from hub.api.handling.context import Serving, serving
from hub.api.operations import unlisted
from hub.api.shapes.answer import Answer
from hub.core import Hub
from hub.errors import StoreFault
from hub.jobs.names import dashed
from hub.jobs.quotas import Holding
from hub.tokens.secrets import ADMIN, RUNNER

MOST = 100  # owners of a kind
NEARLY = 0.98  # of what is not reserved: a submit needs some room itself
TOKENS_MAX = 1000  # whose users are shown by name
router = APIRouter()


@router.get("/console/usage", **unlisted(page=True, who=(RUNNER, ADMIN)))
async def usage(request: Request) -> Response:
    """Show who holds most of each kind, by name where a token tells it."""
    hub, found = hub_of(request), serving(request)
    names = await _names(found)
    return Answer(
        {"store": await memory(hub), "holders": [_row(each, names) for each in await hub.quotas.holders(MOST)]}
    )


async def memory(hub: Hub) -> dict[str, int]:
    """Return what Redis has in use, its limit (0: none), and what of that is kept for nodes, leases and ends."""
    try:
        found = await hub.store.read("INFO", "memory")
        used, most = found["used_memory"] - found.get("mem_not_counted_for_evict", 0), found.get("maxmemory", 0)
    except (StoreFault, KeyError, TypeError):  # the store in memory has no server
        used = most = 0
    return {"usedBytes": used, "limitBytes": most, "reserveBytes": most * hub.settings.store_reserve_percent // 100}


def troubles_of(store: dict[str, int]) -> list[tuple[str, str, str, str, str]]:
    """Return the trouble, as the fields of one, where Redis is full but for what is kept."""
    used, most, reserve = store["usedBytes"], store["limitBytes"], store["reserveBytes"]
    if not reserve or used < NEARLY * (most - reserve):
        return []
    text = (
        f"{used:,} of {most:,} bytes are in use, and {reserve:,} are kept for nodes, leases and ends: submits and "
        "registrations are refused, or soon will be. hub usage --store says who holds how much."
    )
    return [("store-full", "critical", "Redis is full but for its reserve", text, "tasks")]


async def _names(found: Serving) -> dict[str, str]:
    """Return the names of users by their ids."""
    _, tokens = await found.hub.tokens.page(0, TOKENS_MAX)
    return {token.holder.user: token.holder.name for token in (*tokens, *found.holders.file.tokens)}


def _row(each: Holding, names: dict[str, str]) -> dict[str, Any]:
    name = each.id if each.owner == "room" else names.get(each.id) or dashed(each.id)
    return {"kind": each.kind, "owner": each.owner, "name": name, "held": each.held, "limit": each.limit}
