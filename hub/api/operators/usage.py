"""Who holds how much of what takes memory, and how much of it Redis has in use."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from hub.api.auth import ADMIN, RUNNER
from hub.api.deps import Serving, allowed, reply, serving
from hub.api.operations import unlisted
from hub.core import Hub
from hub.errors import StoreFault
from hub.jobs.names import dashed
from hub.jobs.quotas import Holding

MOST = 100  # owners of a kind
TOKENS_MAX = 1000  # whose users are shown by name
router = APIRouter()


@router.get("/console/usage", **unlisted(page=True))
async def usage(request: Request) -> Response:
    """Show who holds most of each kind, by name where a token tells it."""
    hub, found = allowed(request, RUNNER, ADMIN), serving(request)
    names = await _names(found)
    return reply(
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


async def _names(found: Serving) -> dict[str, str]:
    """Return the names of users by their ids."""
    _, tokens = await found.hub.tokens.page(0, TOKENS_MAX)
    return {token.holder.user: token.holder.name for token in (*tokens, *found.holders.file.tokens)}


def _row(each: Holding, names: dict[str, str]) -> dict[str, Any]:
    name = each.id if each.owner == "room" else names.get(each.id) or dashed(each.id)
    return {"kind": each.kind, "owner": each.owner, "name": name, "held": each.held, "limit": each.limit}
