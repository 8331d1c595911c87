"""The memory of Redis: how much is in use, and which users and rooms hold most of it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from hub.api.inputs import Hub, Serving
from hub.api.operations import unlisted
from hub.api.shapes.answer import Answer
from hub.errors import StoreFault
from hub.jobs.names import dashed
from hub.jobs.quotas import Holding
from hub.tokens.secrets import ADMIN, RUNNER

MOST = 100  # the most owners that are shown for each kind of holding
TOKENS_MAX = 1000  # the most tokens that are read for the names of users
router = APIRouter()


@router.get("/console/memory", **unlisted(page=True, who=(RUNNER, ADMIN)))
async def holders(serving: Serving) -> Response:
    """Return the memory of the store, and the users and rooms that hold most, for each kind of holding. A user has a
    name where one of the tokens has it, else its id."""
    hub, names = serving.hub, await _names(serving)
    found = [_row(each, names) for each in await hub.quotas.holders(MOST)]
    return Answer({"store": await memory(hub), "holders": found})


async def memory(hub: Hub) -> dict[str, int]:
    """Return the bytes that Redis has in use, its limit (0: none), and the part of the limit that is reserved for
    nodes, leases and the ends of tasks."""
    try:
        found = await hub.store.read("INFO", "memory")
        used, most = found["used_memory"] - found.get("mem_not_counted_for_evict", 0), found.get("maxmemory", 0)
    except (StoreFault, KeyError, TypeError):  # fakeredis has no such statistics
        used = most = 0
    return {"usedBytes": used, "limitBytes": most, "reserveBytes": most * hub.settings.store_reserve_percent // 100}


async def _names(serving: Serving) -> dict[str, str]:
    """Return the names of users by their ids, as the tokens have them."""
    _, tokens = await serving.hub.tokens.page(0, TOKENS_MAX)
    return {token.holder.user: token.holder.name for token in (*tokens, *serving.holders.file.tokens)}


def _row(each: Holding, names: dict[str, str]) -> dict[str, Any]:
    name = each.id if each.owner == "room" else names.get(each.id) or dashed(each.id)
    return {"kind": each.kind, "owner": each.owner, "name": name, "held": each.held, "limit": each.limit}
